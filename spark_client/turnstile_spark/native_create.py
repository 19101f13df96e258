"""Delta's own CREATE, CTAS, REPLACE and RTAS for tables of a lake.

Delta writes version 0 itself (so identity, generated and default columns, clustering and everything else it knows are
there), and replaces a table as one commit that keeps its history. It does so for managed tables of a catalog that it
takes for Unity Catalog, which it concludes from the class name of the catalog below: we set that conclusion.
"""

from __future__ import annotations

from typing import Any

from turnstile_spark.jvm import JavaObject, Jvm

_ABSTRACT = "org.apache.spark.sql.delta.catalog.AbstractDeltaCatalog"
#: Private ``lazy val isUnityCatalog`` of AbstractDeltaCatalog: its field and its accessor have this expanded name.
IS_UNITY = "org$apache$spark$sql$delta$catalog$AbstractDeltaCatalog$$isUnityCatalog"

#: Set unless the user says otherwise; Delta's defaults for catalog-managed tables are richer. Row tracking makes a
#: one-row INSERT several times slower (every writer then needs the whole state of the table); v2 checkpoints cost no
#: measurable time, but shut out readers that do not know them.
LEAN = {"delta.enableRowTracking": "false", "delta.checkpointPolicy": "classic"}
_DEFAULTS = "spark.databricks.delta.properties.defaults."


def delta_catalog(jvm: Jvm, session: JavaObject, name: str, delegate: Any) -> JavaObject:
    """A ``DeltaCatalog`` above ``delegate`` that works for ``session`` (a JVM ``SparkSession``)."""
    sessions = jvm.cls("org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session)  # DeltaCatalog keeps the session that is active when it is made
    try:
        inner = jvm.new("org.apache.spark.sql.delta.catalog.DeltaCatalog")
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
    no_options = jvm.new("org.apache.spark.sql.util.CaseInsensitiveStringMap", jvm.new("java.util.HashMap"))
    inner.initialize(name, no_options)
    inner.setDelegateCatalog(delegate)
    # Both lazy values are computed with the truth first: no Unity Catalog REST client is made.
    if inner.deltaCatalogClient().isDefined() or getattr(inner, IS_UNITY)():
        raise RuntimeError("DeltaCatalog takes a Python catalog for Unity Catalog by itself")
    field = jvm.class_for_name(_ABSTRACT).getDeclaredField(IS_UNITY)
    field.setAccessible(True)
    field.setBoolean(inner, True)
    return inner


def lean(properties: JavaObject, session: JavaObject) -> None:
    """Adds :data:`LEAN` to the properties of a new or replaced table, where neither user nor session has an opinion."""
    conf = session.conf()
    for key, value in LEAN.items():
        feature = "rowTracking" if "RowTracking" in key else "v2Checkpoint"
        asked = properties.containsKey(key) or properties.containsKey(f"delta.feature.{feature}")
        if not asked and not conf.getOption(_DEFAULTS + key.removeprefix("delta.")).isDefined():
            properties.put(key, value)
