"""The internals of Spark and Delta that this package depends on, checked when a lake is attached.

Each entry is a private or undocumented member, with its use. A release that changes one of them is
reported by name at once, not by an unrelated failure in the middle of a job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnstile_spark.catalogs.lake_catalog import IS_UNITY, V1
from turnstile_spark.delta.checksums import WRITER
from turnstile_spark.errors import turnstile_error
from turnstile_spark.java_classes import COMPILER, java_class
from turnstile_spark.jvm import Jvm

_DELTA = "org.apache.spark.sql.delta."


def _method(jvm: Jvm, owner: str, name: str, arguments: int) -> bool:
    methods = jvm.class_for_name(owner).getMethods()
    return any(m.getName() == name and m.getParameterCount() == arguments for m in methods)


def _field(jvm: Jvm, owner: str, name: str, type_name: str | None = None) -> bool:
    for field in jvm.class_for_name(owner).getDeclaredFields():
        if field.getName() == name:
            return type_name is None or field.getType().getName() == type_name
    return False


#: name -> (what it is for, check). The check returns False or raises when the thing is not as
#: expected.
CHECKS: dict[str, tuple[str, Callable[[Jvm, Any], bool]]] = {
    "classic session": (
        "Spark Connect has no JVM gateway; connect through the Unity Catalog API instead",
        lambda jvm, spark: spark._jsparkSession.getClass().getName() == "org.apache.spark.sql.classic.SparkSession",
    ),
    "CatalogManager.catalogs": (
        "putting a Python catalog into a session",
        lambda jvm, spark: _field(
            jvm, spark._jsparkSession.sessionState().catalogManager().getClass().getName(), "catalogs"
        ),
    ),
    "AbstractDeltaCatalog.isUnityCatalog": (
        "Delta's own CREATE and REPLACE for catalog-managed tables",
        lambda jvm, spark: (
            _field(jvm, _DELTA + "catalog.AbstractDeltaCatalog", IS_UNITY, "boolean")
            and _method(jvm, _DELTA + "catalog.AbstractDeltaCatalog", IS_UNITY, 0)
        ),
    ),
    "AbstractDeltaCatalog.deltaCatalogClient": (
        "keeping Delta from making a Unity Catalog REST client",
        lambda jvm, spark: _method(jvm, _DELTA + "catalog.AbstractDeltaCatalog", "deltaCatalogClient", 0),
    ),
    "AbstractDeltaCatalog.catalog": (
        "keeping tables of the session's own catalog apart from a lake's",
        lambda jvm, spark: (
            _field(jvm, _DELTA + "catalog.AbstractDeltaCatalog", "catalog", V1 + "SessionCatalog")
            and _method(jvm, _DELTA + "catalog.AbstractDeltaCatalog", "catalog", 0)
        ),
    ),
    "RelationCatalog": (
        "tables and views in one catalog",
        lambda jvm, spark: (
            spark.version < "4.2"
            or (
                _method(jvm, "org.apache.spark.sql.connector.catalog.RelationCatalog", "loadRelation", 1)
                and _method(jvm, "org.apache.spark.sql.connector.catalog.View$Builder", "withQueryColumnNames", 1)
            )
        ),
    ),
    "CatalogOwnedCommitCoordinatorProvider.registerBuilder": (
        "commits going to the server",
        lambda jvm, spark: _method(
            jvm, _DELTA + "coordinatedcommits.CatalogOwnedCommitCoordinatorProvider", "registerBuilder", 2
        ),
    ),
    "CommitCoordinatorClient": (
        "the five methods of a commit coordinator",
        lambda jvm, spark: (
            {m.getName() for m in jvm.class_for_name("io.delta.storage.commit.CommitCoordinatorClient").getMethods()}
            == {"registerTable", "commit", "getCommits", "backfillToVersion", "semanticEquals"}
        ),
    ),
    "CatalogTable": (
        "describing a table to Delta (a case class of 22 members, before Spark 4.2 of 21)",
        lambda jvm, spark: _method(
            jvm, "org.apache.spark.sql.catalyst.catalog.CatalogTable", "copy", 21 if spark.version < "4.2" else 22
        ),
    ),
    "SQLExecution.getQueryExecution": (
        "answering an INSERT's second look from its first",
        lambda jvm, spark: (
            _method(jvm, "org.apache.spark.sql.execution.SQLExecution", "getQueryExecution", 1)
            and bool(jvm.class_for_name("org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand"))
        ),
    ),
    "DeltaLog.installSnapshot": (
        "telling Delta that its snapshot is the current one",
        lambda jvm, spark: (
            _method(jvm, _DELTA + "DeltaLog", "installSnapshot", 2)
            and _method(jvm, _DELTA + "DeltaLog", "snapshotLock", 0)
            and _method(jvm, _DELTA + "DeltaLog", "unsafeVolatileSnapshot", 0)
            and _method(jvm, _DELTA + "catalog.DeltaTableV2", "deltaLog", 0)
        ),
    ),
    "DeltaLog.store": (
        "keeping versions after a transaction's cut out of its listings",
        lambda jvm, spark: (
            _field(jvm, _DELTA + "DeltaLog", "store", _DELTA + "storage.LogStore")
            and _method(jvm, _DELTA + "DeltaLog", "store", 0)
            and _method(jvm, _DELTA + "DeltaLog", "getSnapshotAt", 4)
        ),
    ),
    "Snapshot": (
        "scopes that share the state of a version",
        lambda jvm, spark: (
            _method(jvm, _DELTA + "Snapshot", "uncache", 0)
            and _method(jvm, _DELTA + "Snapshot", "checksumOpt", 0)
            and bool(java_class(jvm, "SharedSnapshot"))
        ),
    ),
    "DeltaHistoryManager": (
        "the versions of tables at a time",
        lambda jvm, spark: (
            _method(jvm, _DELTA + "DeltaHistoryManager", "getActiveCommitAtTime", 5)
            and _method(jvm, _DELTA + "DeltaLog", "history", 0)
            and _method(jvm, _DELTA + "catalog.DeltaTableV2", "catalogTable", 0)
        ),
    ),
    "DeltaLogCacheKey": (
        "dropping a transaction's logs, and no others",
        lambda jvm, spark: (
            _method(jvm, _DELTA + "DeltaLog$DeltaLogCacheKey", "fsOptions", 0)
            and _method(jvm, _DELTA + "DeltaLog$", "getOrCreateCache", 1)
            and _method(jvm, _DELTA + "DeltaLog", "options", 0)
        ),
    ),
    "ChecksumHook.WriteChecksum": (
        "writing checksums in the background",
        lambda jvm, spark: (
            bool(jvm.class_for_name(WRITER))
            and _method(jvm, _DELTA + "Snapshot", "computeChecksum", 0)
            and _method(jvm, _DELTA + "util.JsonUtils$", "mapper", 0)
        ),
    ),
    "UCCredentialHadoopConfs": (
        "storage credentials from the server",
        lambda jvm, spark: _method(jvm, "io.unitycatalog.hadoop.UCCredentialHadoopConfs", "builder", 2),
    ),
    "PythonStreamingQueryListenerWrapper": (
        "streams keeping the catalog",
        lambda jvm, spark: (
            bool(jvm.class_for_name("org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper"))
            and _method(
                jvm,
                "org.apache.spark.sql.execution.streaming."
                + ("" if spark.version < "4.1" else "runtime.")
                + "StreamExecution",
                "sparkSessionForStream",
                0,
            )
        ),
    ),
    "OptimizeTableCommand": (
        "OPTIMIZE, VACUUM and REORG of a lake's tables (the planner's strategies, and Janino for one of them)",
        lambda jvm, spark: (
            bool(jvm.class_for_name(COMPILER))
            and _method(jvm, _DELTA + "commands.OptimizeTableCommand", "zOrderBy", 0)
            and _method(jvm, _DELTA + "commands.OptimizeTableCommand", "userPartitionPredicates", 0)
            and _method(jvm, _DELTA + "commands.DeltaReorgTableCommand", "predicates", 0)
            and _method(jvm, "io.delta.tables.execution.VacuumTableCommand", "horizonHours", 0)
            and _method(jvm, "org.apache.spark.sql.ExperimentalMethods", "extraStrategies", 0)
        ),
    ),
    "StringUtils.join": (
        "fetching a commit's content in one round trip",
        lambda jvm, spark: bool(jvm.class_for_name("org.apache.commons.lang3.StringUtils")),
    ),
}


def failures(jvm: Jvm, spark: Any) -> list[str]:
    """The names of the checks that do not hold, each with its use."""
    problems = []
    for name, (purpose, holds) in CHECKS.items():
        try:
            if holds(jvm, spark):
                continue
            reason = "not as expected"
        except Exception as e:
            reason = str(e).splitlines()[0][:200] if str(e) else type(e).__name__
        problems.append(f"{name} ({purpose}): {reason}")
    return problems


def check(jvm: Jvm, spark: Any) -> None:
    """Raises ``TURNSTILE_SELF_TEST`` naming every internal that is not as expected."""
    if problems := failures(jvm, spark):
        text = "this package is built for Spark 4.0 to 4.2 and Delta 4.4.0; not as expected here: " + "; ".join(
            problems
        )
        raise turnstile_error("TURNSTILE_SELF_TEST", text)
