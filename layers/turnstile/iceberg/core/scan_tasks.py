"""Files of a Delta table as tasks of an Iceberg scan. Pure.

A deletion vector of Delta is, byte for byte, a blob ``deletion-vector-v1`` of Iceberg: a length,
the same magic number, the same roaring bitmap, a checksum. Delta's offset is that of the length,
and its size leaves out length and checksum, four bytes each. Only the file around it is another
one, without Puffin's footer: readers that go by offset and size, as Java's does, need none.

Sources: REST specification, ``FileScanTask``, ``DataFile``, ``PositionDeleteFile``; table
specification, "Deletion Vectors"; Puffin specification, ``deletion-vector-v1``; Delta protocol,
"Deletion Vector Format".
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import msgspec

from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.named_files import FRAME_BYTES, is_absolute, vector_file
from turnstile.iceberg.core.delta_tables import READ_BY_DELTA, PartitionColumn, partition_value
from turnstile.iceberg.core.expressions import Filter
from turnstile.planning.core.plans import PlannedFile
from turnstile.planning.core.predicates import TRUE, TableColumns, outcomes
from turnstile.store.core.errors import UnsupportedTable


class ScanTasks(msgspec.Struct, frozen=True):
    """Tasks, and the deletion vectors that they name by position."""

    file_scan_tasks: list[dict[str, Any]]
    delete_files: list[dict[str, Any]]


class TaskWriter:
    """Writes the tasks of one scan.

    Args:
        location: of the table.
        columns, partitions: of the table at the version that is planned.
        filters: the scan's filter, None for none, and ``expression``, the same in JSON: the filter
            that is left to a reader of a file in which not every row surely matches.
    """

    def __init__(
        self,
        location: str,
        columns: TableColumns,
        partitions: Sequence[PartitionColumn],
        filters: Filter | None,
        expression: Any,
    ) -> None:
        self._location = location
        self._columns = columns
        self._partitions = partitions
        self._filters = filters
        self._expression = expression

    def tasks(self, files: Sequence[PlannedFile]) -> ScanTasks:
        """Returns the tasks of these files. Raises UnsupportedTable, naming the file, for one that
        Iceberg's JSON cannot describe."""
        tasks: list[dict[str, Any]] = []
        deletes: list[dict[str, Any]] = []
        for file in files:
            data_file = self._data_file(file)
            task = {"data-file": data_file, "residual-filter": self._residual(file)}
            if file.deletion_vector is not None:
                task["delete-file-references"] = [len(deletes)]
                deletes.append(self._delete_file(file.deletion_vector, data_file))
            tasks.append(task)
        return ScanTasks(tasks, deletes)

    def _data_file(self, file: PlannedFile) -> dict[str, Any]:
        if file.records is None:
            problem = f"the statistics of {file.path[:200]!r} do not say how many rows it has"
            raise _unserved_error(
                problem, f"{READ_BY_DELTA}, or write its statistics (ANALYZE TABLE ... COMPUTE DELTA STATISTICS)"
            )
        values = [partition_value(file.partition_values.get(column.physical), column) for column in self._partitions]
        return {
            "spec-id": 0,
            "content": "data",
            "file-path": path_of(self._location, file.path),
            "file-format": "parquet",
            "partition": values,
            "file-size-in-bytes": file.size,
            "record-count": file.records,
        }

    def _residual(self, file: PlannedFile) -> Any:
        """The filter that is left to a reader."""
        if self._filters is None:
            return True
        range_of = self._columns.schema.ranges_of({"stats": file.stats, "partitionValues": file.partition_values})
        every = range_of is None or outcomes(self._filters.strict, range_of) == TRUE
        return True if every else self._expression

    def _delete_file(self, vector: DeletionVector, data_file: dict[str, Any]) -> dict[str, Any]:
        offset = vector.offset or 0
        size = vector.sizeInBytes + FRAME_BYTES
        return {
            "spec-id": 0,
            "content": "position-deletes",
            "file-path": vector_path(self._location, vector),
            "file-format": "puffin",
            "partition": data_file["partition"],
            "file-size-in-bytes": offset + size,
            "record-count": vector.cardinality,
            "referenced-data-file": data_file["file-path"],
            "content-offset": offset,
            "content-size-in-bytes": size,
        }


def path_of(location: str, path: str) -> str:
    """Returns the place of a file that a log names: below the table's location unless the path is
    absolute; without escapes, which Iceberg's paths do not have (Delta protocol, "Add File")."""
    return _place_of(location, unquote(path), absolute=is_absolute(path))


def vector_path(location: str, vector: DeletionVector) -> str:
    """Returns the file of a deletion vector (Delta protocol, "Derived Fields"). Raises
    UnsupportedTable for one inside the log."""
    path = vector_file(vector)
    if path is None:
        raise _unserved_error(
            "a deletion vector is in the log itself, where Iceberg's readers cannot find it", READ_BY_DELTA
        )
    return _place_of(location, path, absolute=vector.storageType == "p")


def _place_of(location: str, path: str, *, absolute: bool) -> str:
    if absolute:
        return path
    scheme, separator, folder = location.rstrip("/").partition("://")
    place = f"{folder}/{path}"
    return f"{scheme}{separator}{posixpath.normpath(place) if '..' in path else place}"


def _unserved_error(problem: str, remedy: str) -> UnsupportedTable:
    return UnsupportedTable(f"Iceberg's clients cannot read this Delta table: {problem}", field="table", remedy=remedy)
