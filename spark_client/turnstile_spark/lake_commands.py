"""OPTIMIZE, VACUUM, REORG and DROP FEATURE of a lake's table, as SQL and as methods of Delta's
``DeltaTable``: the lake's own upkeep.

Arguments are checked by Delta's own rules, with Delta's own errors, and results have the columns of
Delta's commands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from turnstile_http.errors import ApiError
from turnstile_spark import refusals
from turnstile_spark.context import LakeContext
from turnstile_spark.delta.table import DELTA, scala_seq
from turnstile_spark.jvm import JavaObject, Proxy, items, throw
from turnstile_spark.maintenance.optimize_metrics import OptimizeMetrics
from turnstile_spark.maintenance.rewrites import Operation, rewrite
from turnstile_spark.maintenance.vacuum import HOUR_MS, LISTED, vacuum
from turnstile_spark.names import quoted_table

_SIZES: Final = "spark.databricks.delta.optimize."
_ALL_PATHS: Final = 2**31 - 1


class LakeCommands(Proxy):
    """``UDF2`` of a command of Delta, planned for a table of the lake, and the JVM session that
    executes it; returns its rows.

    ``python_session``: the PySpark session of a JVM session.
    """

    def __init__(self, lake: LakeContext, python_session: Callable[[JavaObject], Any]) -> None:
        self.lake = lake
        self.jvm = lake.jvm
        self._python_session = python_session

    def call(self, command: JavaObject, session: JavaObject) -> JavaObject:
        kind = str(command.getClass().getSimpleName())
        try:
            if kind == "OptimizeTableCommand":
                return self._optimize(command, session)
            if kind == "DeltaReorgTableCommand":
                return self._reorg(command, session)
            if kind == "AlterTableDropFeatureDeltaCommand":
                return self._drop_feature(command, session)
            return self._vacuum(command, session)
        except ValueError as e:
            raise self.lake.throw.unsupported_operation(f"[TURNSTILE_REFUSED] {e}") from None

    def _optimize(self, command: JavaObject, session: JavaObject) -> JavaObject:
        table = command.child().table()
        context = command.optimizeContext()
        predicates = [str(p) for p in items(command.userPartitionPredicates())]
        columns = [str(c.name()) for c in items(command.zOrderBy())]
        snapshot = table.update()
        errors = self.jvm.module(DELTA + "DeltaErrors")
        clustered = self.jvm.module(DELTA + "skipping.clustering.ClusteredTableUtils").isSupported(snapshot.protocol())
        if clustered and predicates:
            raise throw(errors.clusteringWithPartitionPredicatesException(command.userPartitionPredicates()))
        if clustered and columns:
            raise throw(errors.clusteringWithZOrderByException(command.zOrderBy()))
        if context.isFull() and not clustered:
            raise throw(errors.optimizeFullNotSupportedException())
        command.validateZorderByColumns(session, snapshot, command.zOrderBy())
        return self._rewritten(session, table, "optimize", predicates, columns=columns, full=bool(context.isFull()))

    def _reorg(self, command: JavaObject, session: JavaObject) -> JavaObject:
        mode = str(command.reorgTableSpec().reorgTableMode().toString())
        if mode != "PURGE":
            text = (
                f"REORG TABLE ... APPLY ({mode}): the lake makes Iceberg metadata of a Delta table itself, without a "
                f"rewrite (docs/iceberg.md);"
                " APPLY (PURGE) rewrites files"
            )
            raise self.lake.throw.unsupported_operation(text)
        predicates = [str(p) for p in items(command.predicates())]
        return self._rewritten(session, command.target().table(), "reorg", predicates)

    def _drop_feature(self, command: JavaObject, session: JavaObject) -> JavaObject:
        """By ``DeltaTable.dropFeatureSupport``; as SQL it reaches the catalog."""
        schema = str(command.table().update().metadata().schemaString())
        if reason := refusals.dropped_feature(self.lake.name, str(command.featureName()), schema):
            raise self.lake.throw.unsupported_operation(reason)
        return command.run(session)

    def _rewritten(
        self,
        session: JavaObject,
        table: JavaObject,
        operation: Operation,
        predicates: list[str],
        *,
        columns: Sequence[str] = (),
        full: bool = False,
    ) -> JavaObject:
        conf = session.sessionState().conf()
        metrics = OptimizeMetrics(self.jvm)
        target = int(conf.getConfString(_SIZES + "maxFileSize", str(1024**3)))
        rewrite(
            self.lake,
            self._python_session(session),
            self._name(table),
            operation,
            where=" AND ".join(f"({p})" for p in predicates) or None,
            z_order_by=columns,
            target_bytes=target,
            small_bytes=int(conf.getConfString(_SIZES + "minFileSize", str(1024**3))),
            full=full,
            metrics=metrics,
        )
        return scala_seq(self.jvm, [metrics.row()])

    def _vacuum(self, command: JavaObject, session: JavaObject) -> JavaObject:
        table = command.child().table()
        spark = self._python_session(session)
        hours = command.horizonHours().get() if command.horizonHours().isDefined() else None
        retention = self.jvm.module("scala.None") if hours is None else self.jvm.some_long(int(hours * HOUR_MS))
        configured = self.jvm.module(DELTA + "DeltaLog").tombstoneRetentionMillis(table.update().metadata())
        self.jvm.module(DELTA + "commands.VacuumCommand").checkRetentionPeriodSafety(session, retention, configured)
        kind = str(command.vacuumType().get()).upper() if command.vacuumType().isDefined() else "FULL"
        levels, name = self._split(table)
        dry_run = bool(command.dryRun())
        try:
            done = vacuum(
                self.lake,
                spark,
                self._name(table),
                self.lake.load(levels, name).table_id,
                retention_hours=None if hours is None else float(hours),
                dry_run=dry_run,
                lite=kind == "LITE",
                inventory=self._inventory(command, session, spark),
                allow_short=True,  # judged above, as Delta does
                listed=_ALL_PATHS if dry_run else LISTED,
            )
        except ApiError as e:
            raise self.lake.throw.table_error(e, self.lake.name, *levels.split("."), name) from None
        base = str(table.deltaLog().dataPath().toString())
        paths = [f"{base}/{path}" for path in done.paths] if done.dry_run else [base]
        factory = self.jvm.cls("org.apache.spark.sql.RowFactory")
        return scala_seq(self.jvm, [factory.create(self.jvm.array("java.lang.Object", [path])) for path in paths])

    def _inventory(self, command: JavaObject, session: JavaObject, spark: Any) -> Any:
        """The DataFrame of USING INVENTORY; None without."""
        if command.inventoryQuery().isDefined():
            return spark.sql(str(command.inventoryQuery().get()))
        if not command.inventoryTable().isDefined():
            return None
        from pyspark.sql.classic.dataframe import DataFrame

        resolved = session.sessionState().analyzer().execute(command.inventoryTable().get())
        return DataFrame(command.getDeltaTable(resolved, "VACUUM").toDf(session), spark)

    def _split(self, table: JavaObject) -> tuple[str, str]:
        """Namespace (levels joined by dots) and name of Delta's table."""
        identifier = table.catalogTable().get().identifier()
        return str(identifier.database().get()), str(identifier.table())

    def _name(self, table: JavaObject) -> str:
        return quoted_table(self.lake.name, *self._split(table))

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.api.java.UDF2"]
