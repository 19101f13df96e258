"""Rewriting the data files of a table: compaction, Z-order, clustering, and purging deletion
vectors.

Delta refuses OPTIMIZE and REORG of catalog-managed tables. The code below these commands does not:
Delta's own code chooses and rewrites the files (``OptimizeExecutor``, ``DeltaPurgeOperation``), and
the commit is ratified like any other. This module has the part between: files are rewritten in
bins, each bin is one commit (``dataChange`` false), and a bin that lost to another commit is
planned anew (docs/decisions/0027-optimize.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Literal

from delta import exceptions
from pyspark import inheritable_thread_target

from turnstile_http.maintenance import Progress, Rewrite
from turnstile_spark.context import LakeContext
from turnstile_spark.delta.table import DELTA, DeltaTable, activate, check_features, scala_seq
from turnstile_spark.errors import turnstile_error
from turnstile_spark.jvm import JavaObject, Jvm, items
from turnstile_spark.maintenance.optimize_metrics import OptimizeMetrics

log = logging.getLogger("turnstile_spark")
#: Size of the files that are written, as Delta has it.
TARGET_BYTES: Final = 1024**3
#: How often bins are planned anew because of other commits.
ATTEMPTS: Final = 5
#: Bins that are committed before the snapshot that they start from is taken anew: every commit is
#: compared with those after it.
_BINS_A_SNAPSHOT: Final = 16
#: Delta's setting for how many bins are rewritten at once, and its default.
_THREADS: Final = ("spark.databricks.delta.optimize.maxThreads", "15")
Operation = Literal["optimize", "reorg"]
#: How Delta says that another commit is in the way.
_CONFLICTS: Final = (
    exceptions.ConcurrentAppendException,
    exceptions.ConcurrentDeleteDeleteException,
    exceptions.ConcurrentDeleteReadException,
    exceptions.ConcurrentTransactionException,
    exceptions.ConcurrentWriteException,
    exceptions.DeltaConcurrentModificationException,
    exceptions.MetadataChangedException,
    exceptions.ProtocolChangedException,
)


@dataclass(frozen=True, slots=True)
class _Bin:
    """Files that are rewritten together: Delta's ``Bin``, its ``AddFile`` objects, and the values
    of their partition."""

    delta: JavaObject
    partition: JavaObject
    files: JavaObject
    paths: frozenset[str]
    size: int


def rewrite(
    context: LakeContext,
    spark: Any,
    name: str,
    operation: Operation,
    *,
    where: str | None = None,
    z_order_by: Sequence[str] = (),
    target_bytes: int = TARGET_BYTES,
    small_bytes: int | None = None,
    full: bool = False,
    attempts: int = ATTEMPTS,
    progress: Callable[[Progress], None] | None = None,
    metrics: OptimizeMetrics | None = None,
) -> Rewrite:
    """Rewrites files of the table ``name`` (quoted, with its catalog). See
    :meth:`turnstile_spark.lake.Table.optimize`.

    ``small_bytes``: files of this size are not put together with others; default: ``target_bytes``.
    ``metrics``: counts the committed bins. Raises ``ValueError`` for arguments,
    ``TURNSTILE_REFUSED`` inside of a transaction and for tables with features that are not in
    :data:`turnstile_spark.delta.table.FEATURES`, and Delta's errors. Bins that were committed
    before an exception stay.
    """
    if isinstance(z_order_by, str):
        raise TypeError(f"z_order_by={z_order_by!r}: a sequence of column names, as in [{z_order_by!r}]")
    for what, number in (("target_bytes", target_bytes), ("attempts", attempts)):
        if number < 1:
            raise ValueError(f"{what}={number!r}: a whole number, at least 1")
    if context.scopes.current(spark._jsparkSession) is not None:
        text = f"{operation} of {name} inside of a transaction or snapshot: run it before or after it"
        raise turnstile_error("TURNSTILE_REFUSED", text)
    return _Run(
        context.jvm,
        spark,
        name,
        operation,
        where=where,
        z_order_by=tuple(z_order_by),
        target_bytes=target_bytes,
        small_bytes=small_bytes or target_bytes,
        full=full,
        progress=progress,
        metrics=metrics,
    ).run(attempts)


class _Run:
    """One rewrite of a table."""

    def __init__(
        self,
        jvm: Jvm,
        spark: Any,
        name: str,
        operation: Operation,
        *,
        where: str | None,
        z_order_by: tuple[str, ...],
        target_bytes: int,
        small_bytes: int,
        full: bool,
        progress: Callable[[Progress], None] | None,
        metrics: OptimizeMetrics | None,
    ) -> None:
        self._small_bytes = small_bytes
        self._full = full
        self._metrics = metrics
        self._jvm = jvm
        self._spark = spark
        self._name = name
        self._operation = operation
        self._where = where
        self._z_order_by = z_order_by
        self._target_bytes = target_bytes
        self._report = progress or (lambda _: None)
        self._none = jvm.module("scala.None")
        self._nil = jvm.module("scala.collection.immutable.Nil")

    def run(self, attempts: int) -> Rewrite:
        plan = self._plan(None)
        result = Rewrite(plan.version, len(plan.candidates), _size(plan.candidates))
        pending = {path for one_bin in plan.bins for path in one_bin.paths}
        result.skipped_files = len(plan.candidates) - len(pending)
        if self._metrics is not None:
            self._metrics.note_plan(plan.path, plan.snapshot, len(plan.candidates), plan.strategy())
        self._report(Progress("planned", len(plan.bins), len(pending), sum(b.size for b in plan.bins)))
        while plan.bins:
            lost = 0
            with closing(self._rewritten(plan, plan.bins[:_BINS_A_SNAPSHOT])) as rewritten:
                for each, txn, actions in rewritten:
                    if self._commit(plan, each, txn, actions, result):
                        pending -= each.paths
                    else:
                        lost += 1
            result.lost_bins += lost
            attempts -= lost > 0
            plan = self._plan(pending)
            if not attempts:
                break
        result.latest_version = plan.version
        result.files_after = len(plan.candidates)
        result.bytes_after = _size(plan.candidates)
        result.left_files += sum(len(b.paths) for b in plan.bins)
        return result

    def _plan(self, pending: set[str] | None) -> _Plan:
        """The files to rewrite in the table as it is now. ``pending``: only of these files; None:
        of all."""
        return _Plan(
            self._jvm,
            self._spark,
            self._name,
            executor_of=self._executor_of,
            chosen=self._choose_files,
            pending=pending,
        )

    def _executor_of(self, snapshot: JavaObject, catalog_table: JavaObject) -> tuple[JavaObject, JavaObject]:
        """Delta's executor, and the partition predicates."""
        jvm = self._jvm
        session = self._spark._jsparkSession
        self._check(snapshot)

        def executor(predicates: JavaObject) -> JavaObject:
            return jvm.new(
                DELTA + "commands.OptimizeExecutor",
                session,
                snapshot,
                catalog_table,
                predicates,
                scala_seq(jvm, self._z_order_by),
                False,
                self._context(),
            )

        if self._where is None:
            return executor(self._nil), self._nil
        parser = executor(self._nil)
        predicates = parser.parsePredicates(session, self._where)
        parser.verifyPartitionPredicates(session, snapshot.metadata().partitionColumns(), predicates)
        return executor(predicates), predicates

    def _context(self) -> JavaObject:
        """``DeltaOptimizeContext(reorg, minFileSize, maxFileSize, maxDeletedRowsRatio,
        isFull)``."""
        jvm = self._jvm
        name = DELTA + "commands.DeltaOptimizeContext"
        target = jvm.some_long(self._target_bytes)
        if self._operation == "optimize":
            return jvm.new(name, self._none, jvm.some_long(self._small_bytes), target, self._none, self._full)
        ratio = jvm.cls("scala.jdk.javaapi.OptionConverters").toScala(jvm.cls("java.util.OptionalDouble").of(0.0))
        purge = jvm.some(jvm.new(DELTA + "commands.DeltaPurgeOperation"))
        return jvm.new(name, purge, jvm.some_long(0), target, ratio, False)

    def _check(self, snapshot: JavaObject) -> None:
        metadata = snapshot.metadata()
        features = check_features(self._jvm, snapshot, self._name, self._operation)
        partitions = {str(c).lower() for c in items(metadata.partitionColumns())}
        columns = {str(c).lower() for c in metadata.schema().fieldNames()} - partitions
        if wrong := [c for c in self._z_order_by if c.lower() not in columns]:
            raise ValueError(
                f"z_order_by={wrong}: columns of {self._name} that it is not partitioned by: {sorted(columns)}"
            )
        if "clustering" in features and (self._z_order_by or self._where):
            raise ValueError(
                f"{self._name} is clustered: z_order_by and where are for tables that are not (ALTER TABLE ... CLUSTER "
                f"BY)"
            )

    def _choose_files(self, plan: _Plan, files: JavaObject) -> JavaObject:
        """The files to rewrite, by Delta's rules."""
        if self._operation == "reorg":
            purge = self._jvm.new(DELTA + "commands.DeltaPurgeOperation")
            return purge.filterFilesToReorg(self._spark._jsparkSession, plan.snapshot, files)
        ratio = (
            self._spark._jsparkSession.sessionState()
            .conf()
            .getConfString("spark.databricks.delta.optimize.maxDeletedRowsRatio", "0.05")
        )
        return plan.call("filterCandidateFileList", self._small_bytes, float(ratio), files)

    def _rewritten(self, plan: _Plan, bins: Sequence[_Bin]) -> Generator[tuple[_Bin, JavaObject, JavaObject]]:
        """Rewrites bins side by side; each comes when its files are written, with its transaction
        and the actions to commit. When it is closed, or a bin fails, bins that have not begun are
        left.
        """
        threads = int(self._spark.conf.get(*_THREADS))
        with ThreadPoolExecutor(threads, thread_name_prefix="turnstile-rewrite") as pool:
            rewrite_bin = inheritable_thread_target(self._spark)(self._rewrite_bin)
            tasks = {pool.submit(rewrite_bin, plan, each): each for each in bins}
            try:
                for task in as_completed(tasks):
                    yield tasks[task], *task.result()
            finally:
                pool.shutdown(cancel_futures=True)

    def _rewrite_bin(self, plan: _Plan, each: _Bin) -> tuple[JavaObject, JavaObject]:
        """Writes the new files of a bin, in this thread; they are not visible. Returns the
        transaction and its actions."""
        activate(self._jvm, self._spark)
        txn = plan.log.startTransaction(plan.catalog_table, self._jvm.some(plan.snapshot))
        txn.trackFilesRead(each.files)
        # Not ``where``: it would be evaluated unresolved when the next bin is compared with this
        # one. What was read is the files.
        txn.trackReadPredicates(self._nil, False, False)
        return txn, plan.call("runOptimizeBinJob", txn, each.partition, each.files, self._target_bytes)

    def _commit(self, plan: _Plan, each: _Bin, txn: JavaObject, actions: JavaObject, result: Rewrite) -> bool:
        """Whether the bin is done: it was committed, or no row is left in its files. False: another
        commit changed a file of it."""
        jvm = self._jvm
        activate(jvm, self._spark)
        kinds: dict[str, list[JavaObject]] = {"AddFile": [], "RemoveFile": []}
        for action in items(actions):
            kinds[str(action.getClass().getSimpleName())].append(action)
        adds = kinds["AddFile"]
        removes = kinds["RemoveFile"]
        written = sum(int(add.size()) for add in adds)
        self._report(Progress("rewritten", 1, len(adds), written))
        if not adds:
            log.info("turnstile_spark: %s: no row is left in %d files; they stay", self._name, len(removes))
            result.left_files += len(each.paths)
            return True
        vectors = [f.deletionVector() for f in items(each.files) if f.deletionVector() is not None]
        metrics = plan.call(
            "createMetrics",
            self._spark._jsparkSession.sparkContext(),
            *(scala_seq(jvm, values) for values in (adds, removes, vectors)),
        )
        txn.registerSQLMetrics(self._spark._jsparkSession, metrics)
        tracking = jvm.module(DELTA + "RowTracking")
        tags = tracking.addPreservedRowTrackingTagIfNotSet(
            plan.snapshot, getattr(tracking, "addPreservedRowTrackingTagIfNotSet$default$2")()
        )
        try:
            version = int(txn.commit(actions, plan.call("getOperation"), tags))
        except _CONFLICTS:  # none of them is an unknown outcome
            log.info("turnstile_spark: %s: %d files lost to another commit", self._name, len(each.paths))
            self._report(Progress("lost", 1, len(each.paths), each.size))
            return False
        result.versions.append(version)
        result.rewritten_files += len(each.paths)
        result.rewritten_bytes += each.size
        result.written_files += len(adds)
        result.written_bytes += written
        if self._metrics is not None:
            self._metrics.count_bin(each.delta, adds, removes, vectors)
        self._report(Progress("committed", 1, len(each.paths), each.size, version))
        return True


class _Plan:
    """The bins of a table as it is now."""

    def __init__(
        self,
        jvm: Jvm,
        spark: Any,
        name: str,
        *,
        executor_of: Callable[[JavaObject, JavaObject], tuple[JavaObject, JavaObject]],
        chosen: Callable[[_Plan, JavaObject], JavaObject],
        pending: set[str] | None,
    ) -> None:
        self._jvm = jvm
        table = DeltaTable(jvm, spark, name)
        self.log = table.log
        self.catalog_table = table.catalog_table
        self.snapshot = table.snapshot
        self.version = table.version
        self.path = str(table.log.dataPath().toString())
        self._executor, self.predicates = executor_of(self.snapshot, self.catalog_table)
        self.candidates = list(items(self.snapshot.filesForScan(self.predicates, True).files()))
        files = [f for f in self.candidates if pending is None or str(f.path()) in pending]
        self.bins = list(self._bins(chosen(self, scala_seq(jvm, files)))) if files else []

    def call(self, method: str, *args: Any) -> JavaObject:
        """A private method of the executor."""
        for candidate in self._executor.getClass().getDeclaredMethods():
            if candidate.getName() == method:
                candidate.setAccessible(True)
                return candidate.invoke(self._executor, self._jvm.array("java.lang.Object", list(args)))
        raise turnstile_error("TURNSTILE_SELF_TEST", f"OptimizeExecutor.{method} is not there: this is for Delta 4.4.0")

    def strategy(self) -> JavaObject:
        """Delta's ``OptimizeTableStrategy``, a private member of the executor: compaction, Z-order
        or clustering."""
        for member in self._executor.getClass().getDeclaredFields():
            if str(member.getName()).endswith("optimizeStrategy"):
                member.setAccessible(True)
                return member.get(self._executor)
        raise turnstile_error("TURNSTILE_SELF_TEST", "OptimizeExecutor has no strategy: this is for Delta 4.4.0")

    def _bins(self, files: JavaObject) -> Iterator[_Bin]:
        jvm = self._jvm
        partitions = jvm.new("java.util.LinkedHashMap")
        for file in items(files):
            key = file.partitionValues()
            if not partitions.containsKey(key):
                partitions.put(key, jvm.new("java.util.ArrayList"))
            partitions.get(key).add(file)
        groups = [
            jvm.new("scala.Tuple2", g[0].partitionValues(), scala_seq(jvm, list(g)))
            for g in jvm.new("java.util.ArrayList", partitions.values())
        ]
        for each in items(self.call("groupFilesIntoBins", scala_seq(jvm, groups))):
            members = list(items(each.files()))
            if members:
                paths = frozenset(str(f.path()) for f in members)
                yield _Bin(each, each.partitionValues(), each.files(), paths, _size(members))


def _size(files: Sequence[JavaObject]) -> int:
    return sum(int(f.size()) for f in files)
