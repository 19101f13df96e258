"""The benefit of rewriting a table, from its file index: without its checkpoint, and summed up in
Arrow's columns (``maintenance.survey``).

    source = IndexedSurvey(planner)
    files = source(head, head.floor)          # None: there is no usable index
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import compute

from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.head import TableHead
from turnstile.maintenance.core.candidates import PartitionColumn, Sums, Survey
from turnstile.maintenance.survey import partition_key
from turnstile.planning.leaves import Leaf
from turnstile.planning.planner import IndexedVersion, Planner
from turnstile.planning.totals import partition_texts

_VECTOR: Final = msgspec.json.Decoder(DeletionVector)
_NONE: Final = pa.scalar(0, pa.int64())


class IndexedFiles:
    """The files of one version (``maintenance.survey.SurveyedFiles``)."""

    def __init__(self, version: IndexedVersion) -> None:
        self._version = version
        self.metadata = version.metadata

    def add_files(self, survey: Survey, columns: Sequence[PartitionColumn]) -> Iterator[None]:
        """Adds the files, one leaf with each step. Raises StorageFault."""
        for leaf, alive in self._version.leaves():
            rows = leaf.table.filter(alive)
            if len(rows):
                _add(survey, columns, leaf, rows)
            yield


class IndexedSurvey:
    """Finds the files of a table's version in its index."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    def __call__(self, head: TableHead, version: int) -> IndexedFiles | None:
        """Returns the indexed files of a version; None if no index serves."""
        indexed = self._planner.leaves_of(head, version)
        return None if indexed is None else IndexedFiles(indexed)


def _add(survey: Survey, columns: Sequence[PartitionColumn], leaf: Leaf, rows: pa.Table) -> None:
    """Adds the rows of a leaf, summed up by partition."""
    sizes = rows["size"]
    vectors = rows["vector"]
    is_below = compute.less(sizes, survey.target_bytes)
    has_vector = compute.is_valid(vectors)
    is_known = compute.and_(compute.is_valid(vectors), compute.is_valid(rows["records"]))
    deleted = pa.array([text and _VECTOR.decode(text).cardinality for text in vectors.to_pylist()], pa.int64())
    is_new = compute.greater(rows["modification_ms"], survey.since_ms)
    members = {
        "files": compute.cast(compute.is_valid(sizes), pa.int64()),
        "bytes": sizes,
        "small_files": compute.cast(compute.less(compute.multiply(sizes, 2), survey.target_bytes), pa.int64()),
        "below_files": compute.cast(is_below, pa.int64()),
        "below_bytes": compute.if_else(is_below, sizes, _NONE),
        "vector_files": compute.cast(has_vector, pa.int64()),
        "vector_bytes": compute.if_else(has_vector, sizes, _NONE),
        "vector_rows": compute.if_else(is_known, rows["records"], _NONE),
        "deleted_rows": compute.if_else(is_known, deleted, _NONE),
        "new_bytes": compute.if_else(is_new, sizes, _NONE),
    }
    names = list(members)
    table = pa.table({**members, "at": pa.array(range(len(rows)), pa.int64()), "partition": partition_texts(rows)})
    sums = table.group_by("partition").aggregate([("at", "min"), *((name, "sum") for name in names)])
    values = rows["partition"].take(sums["at_min"]).to_pylist()
    by_name: list[list[Any]] = [sums[f"{name}_sum"].to_pylist() for name in names]
    for of_partition, *counts in zip(values, *by_name, strict=True):
        key = partition_key(columns, dict(zip(leaf.partitions, of_partition or (), strict=True)))
        *counted, new_bytes = counts
        survey.add_sums(key, Sums(*counted), new_bytes)
