"""The result of Delta's OPTIMIZE, for a rewrite by the lake: a row of path and metrics, counted by
Delta's own classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from turnstile_spark.delta.table import DELTA, scala_seq
from turnstile_spark.jvm import JavaObject, Jvm

if TYPE_CHECKING:
    from collections.abc import Sequence

_STATS: Final = DELTA + "commands.optimize.OptimizeStats"
_MEMBERS: Final = 20


class OptimizeMetrics:
    """Counts the bins of a rewrite."""

    def __init__(self, jvm: Jvm) -> None:
        self._jvm = jvm
        defaults = jvm.module(_STATS)
        values = [getattr(defaults, f"apply$default${at}")() for at in range(1, _MEMBERS + 1)]
        self._stats = defaults.apply(*values)
        self._partitions = jvm.new("java.util.HashSet")
        self._removed: list[JavaObject] = []
        self._bins: list[JavaObject] = []
        self._vectors = 0
        self._vector_rows = 0

    def count_bin(
        self, one_bin: JavaObject, adds: Sequence[JavaObject], removes: Sequence[JavaObject], vectors: Sequence[Any]
    ) -> None:
        """Counts a bin that was committed: Delta's ``Bin``, its ``AddFile`` and ``RemoveFile``
        objects, and the deletion vectors that are gone."""
        self._stats.addedFilesSizeStats().merge(scala_seq(self._jvm, adds))
        self._stats.removedFilesSizeStats().merge(scala_seq(self._jvm, removes))
        self._partitions.add(one_bin.partitionValues())
        self._removed += removes
        self._bins.append(one_bin)
        self._vectors += len(vectors)
        self._vector_rows += sum(int(vector.cardinality()) for vector in vectors)

    def note_plan(self, path: str, snapshot: JavaObject, considered: int, strategy: JavaObject) -> None:
        """Takes note of the first plan: of which path, of which snapshot, how many files it looked
        at, by which of Delta's strategies."""
        self._path = path
        self._snapshot = snapshot
        self._considered = considered
        self._strategy = strategy

    def row(self) -> JavaObject:
        """Delta's ``Row``, after the rewrite."""
        stats = self._stats
        metadata = self._snapshot.metadata()
        self._set("numPartitionsOptimized", self._partitions.size())
        self._set("numBins", len(self._bins))
        self._set("numBatches", 1)
        self._set("totalConsideredFiles", self._considered)
        self._set("totalFilesSkipped", self._considered - len(self._removed))
        self._set("totalClusterParallelism", self._strategy.sparkSession().sparkContext().defaultParallelism())
        columns = int(metadata.schema().size())
        indexed = int(self._jvm.module(DELTA + "DeltaConfigs").DATA_SKIPPING_NUM_INDEXED_COLS().fromMetaData(metadata))
        self._set("numTableColumns", columns)
        self._set("numTableColumnsWithStats", min(columns, indexed))
        if self._vectors:
            removed = self._jvm.new(DELTA + "commands.optimize.DeletionVectorStats", self._vectors, self._vector_rows)
            self._set("deletionVectorStats", self._jvm.some(removed))
        removes = scala_seq(self._jvm, self._removed)
        self._strategy.updateOptimizeStats(stats, removes, scala_seq(self._jvm, self._bins))
        values = [self._path, stats.toOptimizeMetrics()]
        return self._jvm.cls("org.apache.spark.sql.RowFactory").create(self._jvm.array("java.lang.Object", values))

    def _set(self, member: str, value: Any) -> None:
        getattr(self._stats, f"{member}_$eq")(value)
