"""Totals of a table's files, as rows of an index are read: files, bytes, rows and partitions.

    totals = Totals()
    totals.add(leaf, alive)      # for each leaf, once; ``alive``: which of its rows are files
                                 (``Leaf.alive``)
    totals.files, totals.partitions

Deleted rows are rows in deletion vectors; rows of files without statistics are unknown, and such
files are counted.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa
from pyarrow import compute

from turnstile.delta.core.actions import DeletionVector
from turnstile.planning.core.roots import TableTotals
from turnstile.planning.leaves import Leaf

MAX_PARTITIONS: Final = 100_000
"""The limit of distinct partitions in memory. The number of partitions of a table with more is
unknown."""
_VECTOR: Final = msgspec.json.Decoder(DeletionVector)


class Totals:
    """Sums over leaves.

    Attributes:
        files, bytes: of all files.
        records: rows of the files with statistics, deleted ones included; ``without_records``:
            files without.
        deleted_rows: rows in deletion vectors.
    """

    def __init__(self) -> None:
        self.files = self.bytes = self.records = self.without_records = self.deleted_rows = 0
        self._partitions: set[str] | None = set()

    @property
    def partitions(self) -> int | None:
        """How many different partition values files have; 1 for a table without partition columns
        that has files; None: too many to tell."""
        return None if self._partitions is None else len(self._partitions)

    def of_version(self, version: int) -> TableTotals:
        """The sums as a value."""
        return TableTotals(
            version, self.files, self.bytes, self.records, self.without_records, self.deleted_rows, self.partitions
        )

    def add(self, leaf: Leaf, alive: Any) -> None:
        """Adds the rows of a leaf that are files."""
        rows = leaf.table.filter(alive)
        self.files += len(rows)
        self.bytes += compute.sum(rows["size"]).as_py() or 0
        self.records += compute.sum(rows["records"]).as_py() or 0
        self.without_records += rows["records"].null_count
        vectors = rows["vector"].drop_null().to_pylist()
        self.deleted_rows += sum(_VECTOR.decode(vector).cardinality for vector in vectors)
        if self._partitions is not None:
            self._partitions |= set(compute.unique(partition_texts(rows)).to_pylist())
            if len(self._partitions) > MAX_PARTITIONS:
                self._partitions = None


def partition_texts(rows: pa.Table) -> pa.Array:
    """Returns a text for each row that names its partition: its values, each after its length, so
    that no two partitions have the same."""
    lists = rows["partition"].combine_chunks()
    values = lists.flatten()
    lengths = compute.cast(compute.utf8_length(values), pa.string())
    texts = compute.fill_null(compute.binary_join_element_wise(lengths, values, ":"), "-")
    offsets = pa.concat_arrays(
        [pa.array([0], pa.int64()), compute.cumulative_sum(compute.cast(compute.list_value_length(lists), pa.int64()))]
    )
    return compute.binary_join(pa.LargeListArray.from_arrays(offsets, texts), "")
