"""Reads rows of a Delta table's data files, some of its columns, as the table has them.

    rows = FileRows(world.storages, table.location, definition, names, budget)
    for columns in rows.read(path, partition_values, vector, 1_000):
        ...

Only files below the table's own location are read, and for a branch's table files of the table that
it is a branch of: the server's rights go further than a principal's, and a log may name any file
(I12).
"""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.named_files import is_absolute
from turnstile.delta.log.parquet import Ranges
from turnstile.planning.read_budget import ReadBudget
from turnstile.store.core.locations import split_location
from turnstile.store.ports import LogStorage, Stat, Storages
from turnstile_rows.definitions import Definition
from turnstile_rows.errors import TableError
from turnstile_rows.reading import partition_columns, stored_columns, stored_rows
from turnstile_rows.shapes import shape
from turnstile_rows.vectors import deleted_rows, vector_path, vector_range

if TYPE_CHECKING:
    from pyroaring import BitMap64

_WHOLE_BYTES: Final = 1024 * 1024
"""A file up to this size is read in one request."""
_PIECE_BYTES: Final = 256 * 1024
_OUTSIDE: Final = "it lies outside of the table's folder"
_SCHEME: Final = re.compile(r"\A(?:s3[an]?://|file:/+)")


class TableFiles:
    """Opens files of one table for Parquet's reader. ``location`` of the table: no file outside of
    its folder in the lake is read."""

    def __init__(self, storages: Storages, location: str, budget: ReadBudget) -> None:
        self._budget = budget
        self._root, self._folder = split_location(location)
        self._storage = storages.open(self._root)

    @contextmanager
    def parquet(self, path: str, columns: Collection[str] = ()) -> Iterator[pq.ParquetFile]:
        """Opens a file to read ``columns`` of it (none: they are counted with ``count_columns``).
        Raises TableError, and pyarrow's exceptions for a file that is damaged.
        """
        source, options = self._open(self._place(path))
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us", **options) as parquet:
            self.count_columns(parquet.metadata, columns)
            yield parquet

    def count_columns(self, footer: pq.FileMetaData, columns: Collection[str]) -> None:
        """Counts the bytes of columns after decompression. Raises TableError."""
        names = tuple(f"{name}." for name in columns)
        if not names or not self._budget.small_files:
            return
        parts = (
            footer.row_group(group).column(at)
            for group in range(footer.num_row_groups)
            for at in range(footer.num_columns)
        )
        self._budget.count_expanded(
            sum(part.total_uncompressed_size for part in parts if f"{part.path_in_schema}.".startswith(names))
        )

    def read_range(self, path: str, size: int, offset: int) -> bytes:
        """Returns a part of a file, such as a deletion vector. Raises TableError."""
        self._budget.count(size)
        return self._read(self._place(path), size, offset)[0]

    def _open(self, path: str) -> tuple[Any, dict[str, Any]]:
        """A file for Parquet's reader, and the reader's options: a large file is read piece by
        piece."""
        content, stat = self._read(path, _WHOLE_BYTES)
        if self._budget.small_files:
            self._budget.count(len(content))
        if stat.size <= len(content):
            return pa.BufferReader(content), {}
        pieces = io.BufferedReader(_Pieces(self._storage, stat, self._budget.count), _PIECE_BYTES)
        return pieces, {"buffer_size": _PIECE_BYTES, "pre_buffer": False}

    def _read(self, path: str, limit: int, offset: int = 0) -> tuple[bytes, Stat]:
        found = self._storage.read(path, limit, offset)
        if found is None:
            raise TableError("it is gone")
        return found

    def _place(self, path: str) -> str:
        """The path below the root of a file that the log names."""
        place = unquote(path)
        if is_absolute(path):
            folder = _SCHEME.sub("", self._root) + "/"
            place = _SCHEME.sub("", place)
            if not place.startswith(folder):
                raise TableError(_OUTSIDE)
            place = place.removeprefix(folder)
        elif self._folder:
            place = posixpath.normpath(f"{self._folder}/{place}")
        if ".." in place.split("/"):
            raise TableError(_OUTSIDE)
        return place


class FileRows:
    """Reads rows of the files of one Delta table, the columns ``names``. Raises
    :class:`turnstile_rows.errors.Unsupported` for a column of a type that is not read."""

    def __init__(
        self, storages: Storages, location: str, definition: Definition, names: Sequence[str], budget: ReadBudget
    ) -> None:
        stored = stored_columns(definition)
        self._wanted = pa.schema([stored[name] for name in names])
        self._types = [definition.schema.field(name).type for name in names]
        self._partitions = {stored[name].name: stored[name] for name in definition.partitions}
        self._files = TableFiles(storages, location, budget)

    def read(
        self, path: str, partition_values: Mapping[str, str | None], vector: DeletionVector | None, size: int
    ) -> Iterator[list[pa.Array]]:
        """Yields the columns of the rows of a file that are not deleted, ``size`` looked at at a
        time. Raises TableError, and pyarrow's exceptions for a file that is damaged."""
        values = partition_columns(self._partitions, {"partitionValues": dict(partition_values)})
        deleted = None if vector is None else self._read_vector(vector)
        with self._files.parquet(path, self._wanted.names) as parquet:
            for found in stored_rows(parquet, self._wanted, values, deleted, size):
                named = zip(found.columns, self._types, strict=True)
                yield [shape(column, type, by_position=True) for column, type in named]

    def _read_vector(self, vector: DeletionVector) -> BitMap64:
        members = msgspec.structs.asdict(vector)
        path = vector_path(members)
        if path is None:
            return deleted_rows(members, None)
        offset, size = vector_range(members)
        return deleted_rows(members, self._files.read_range(path, size, offset))


class _Pieces(Ranges):
    """A file of a storage; ``count`` is called with the bytes of each piece before it is read."""

    def __init__(self, storage: LogStorage, stat: Stat, count: Callable[[int], None]) -> None:
        super().__init__(storage, stat)
        self._count = count

    def readinto(self, buffer: Any) -> int:
        self._count(len(buffer))
        return super().readinto(buffer)
