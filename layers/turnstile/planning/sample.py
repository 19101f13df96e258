"""Reads a few rows of a Delta table, to show its content.

    Sampler(world, planner).sample(table, "ann", limit=20)

The rows are in no particular order. Only files below the table's own location are read: the
server's rights go further than a principal's, and a log may name any file (I12).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from turnstile.delta.core.actions import DeletionVector
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.named_files import is_absolute
from turnstile.delta.log.parquet import UNDECODABLE, Ranges
from turnstile.planning.core.plans import Plan, PlannedFile, ScanPlanner, TableSample
from turnstile.planning.core.shown_rows import shown_rows
from turnstile.store.core.errors import Throttled, UnsupportedTable
from turnstile.store.ports import LogStorage, Stat, World
from turnstile.store.shares import Shares
from turnstile_rows.definitions import Definition, check_readable
from turnstile_rows.errors import TableError
from turnstile_rows.reading import partition_columns, stored_columns, stored_rows
from turnstile_rows.shapes import shape
from turnstile_rows.vectors import deleted_rows, vector_path, vector_range

if TYPE_CHECKING:
    from pyroaring import BitMap64

MAX_COLUMNS: Final = 100
"""Columns that are shown, the first ones of the table."""
ANSWER_BYTES: Final = 1024 * 1024
"""Of the rows as JSON; the row that passes this is the last one."""
_FILES: Final = 20
"""Files that one request looks into."""
_WHOLE_BYTES: Final = 1024 * 1024
"""A file up to this size is read in one request."""
_READ_BYTES: Final = 32 * 1024 * 1024
"""That one request reads of large files and of deletion vectors."""
_PIECE_BYTES: Final = 256 * 1024
_AT_ONCE: Final = 4
_OF_A_PRINCIPAL: Final = 2
_RETRY_MS: Final = 500
_OUTSIDE: Final = "it lies outside of the table's folder"
_ENGINE: Final = "read the table with an engine"
_CHECK: Final = f"turnstile verify TABLE --files lists files that are gone or damaged; else {_ENGINE}"
_SCHEME: Final = re.compile(r"\A(?:s3[an]?://|file:/+)")


class Sampler:
    """Reads some rows of tables. One per process: it counts what is read at once."""

    def __init__(self, world: World, planner: ScanPlanner) -> None:
        self._world = world
        self._planner = planner
        self._shares = Shares(_AT_ONCE, _OF_A_PRINCIPAL)

    def sample(
        self, table: TableHead, principal: str, *, limit: int, version: int | None = None, at_ms: int | None = None
    ) -> TableSample:
        """Returns up to ``limit`` rows of a version, by default the latest.

        Raises:
            UnsupportedTable: the table has a feature or type that is not read here, or a file of it
                is gone, damaged or outside of its folder.
            Throttled: the principal, or all principals, have too many samples read at once.
            NotFound, InvalidRequest, StorageFault: as for ``ScanPlanner.plan``.
        """
        if not self._shares.begin(principal):
            raise Throttled("as many samples as the server takes at once are being read", retry_after_ms=_RETRY_MS)
        try:
            plan = self._planner.plan(table, version=version, at_ms=at_ms, limit=_FILES)
            return _Reading(self._world.storages.open(table.location), table, plan).sample(limit)
        finally:
            self._shares.end(principal)


class _Reading:
    """The rows of one request."""

    def __init__(self, storage: LogStorage, table: TableHead, plan: Plan) -> None:
        self._storage = storage
        self._table = table
        self._plan = plan
        self._left_bytes = _READ_BYTES
        try:
            definition = Definition.of_actions({"protocol": plan.protocol, "metaData": plan.metadata})
            check_readable(definition)
            stored = stored_columns(definition)
        except TableError as error:
            raise UnsupportedTable(f"{table.name}: {error}", field="table_id", remedy=_ENGINE) from None
        names = definition.schema.names
        self._names = names[:MAX_COLUMNS]
        self._left_out = len(names) - len(self._names)
        self._wanted = pa.schema([stored[name] for name in self._names])
        self._types = definition.schema.types[:MAX_COLUMNS]
        self._partitions = {stored[name].name: stored[name] for name in definition.partitions}

    def sample(self, limit: int) -> TableSample:
        rows: list[dict[str, Any]] = []
        cut = 0
        left = ANSWER_BYTES
        is_complete = self._plan.next_page is None
        for columns in self._all_rows(limit + 1):
            for row in shown_rows(self._names, columns):
                if len(rows) == limit or left <= 0:
                    return self._answer(rows, cut, complete=False)
                rows.append(row.values)
                cut += row.cut
                left -= len(msgspec.json.encode(row.values))
        return self._answer(rows, cut, complete=is_complete)

    def _answer(self, rows: list[dict[str, Any]], cut: int, *, complete: bool) -> TableSample:
        at = self._table.table_id, self._plan.version
        return TableSample(*at, self._names, rows, complete, cut, self._left_out)

    def _all_rows(self, size: int) -> Iterator[list[pa.Array]]:
        """Columns of some rows of each file after the other, ``size`` rows at a time."""
        for file in self._plan.files:
            try:
                yield from self._rows(file, size)
            except (TableError, *UNDECODABLE) as error:
                problem = f"{self._table.name}: the file {file.path[:300]!r} cannot be read: {error}"
                raise UnsupportedTable(problem, field="location", remedy=_CHECK) from None

    def _rows(self, file: PlannedFile, size: int) -> Iterator[list[pa.Array]]:
        values = partition_columns(self._partitions, {"partitionValues": file.partition_values})
        deleted = None if file.deletion_vector is None else self._read_vector(file.deletion_vector)
        source, options = self._open(self._place(file.path))
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us", **options) as parquet:
            for found in stored_rows(parquet, self._wanted, values, deleted, size):
                named = zip(found.columns, self._types, strict=True)
                yield [shape(column, type, by_position=True) for column, type in named]

    def _open(self, path: str) -> tuple[Any, dict[str, Any]]:
        """A file for Parquet's reader, and the reader's options: a large file is read piece by
        piece."""
        content, stat = self._read(path, _WHOLE_BYTES)
        if stat.size <= len(content):
            return pa.BufferReader(content), {}
        pieces = io.BufferedReader(_Pieces(self._storage, stat, self._count), _PIECE_BYTES)
        return pieces, {"buffer_size": _PIECE_BYTES, "pre_buffer": False}

    def _read_vector(self, vector: DeletionVector) -> BitMap64:
        members = msgspec.structs.asdict(vector)
        path = vector_path(members)
        if path is None:
            return deleted_rows(members, None)
        offset, size = vector_range(members)
        self._count(size)
        content, _ = self._read(self._place(path), size, offset)
        return deleted_rows(members, content)

    def _read(self, path: str, limit: int, offset: int = 0) -> tuple[bytes, Stat]:
        found = self._storage.read(path, limit, offset)
        if found is None:
            raise TableError("it is gone")
        return found

    def _place(self, path: str) -> str:
        """The path below the table's location of a file that the log names."""
        place = unquote(path)
        if is_absolute(path):
            folder = _SCHEME.sub("", self._table.location) + "/"
            place = _SCHEME.sub("", place)
            if not place.startswith(folder):
                raise TableError(_OUTSIDE)
            place = place.removeprefix(folder)
        if ".." in place.split("/"):
            raise TableError(_OUTSIDE)
        return place

    def _count(self, size: int) -> None:
        """Counts bytes that are read. Raises TableError where they are too many."""
        self._left_bytes -= size
        if self._left_bytes < 0:
            raise TableError(f"more than {_READ_BYTES} bytes would be read for a few rows")


class _Pieces(Ranges):
    """A file of a storage; ``count`` is called with the bytes of each piece before it is read."""

    def __init__(self, storage: LogStorage, stat: Stat, count: Callable[[int], None]) -> None:
        super().__init__(storage, stat)
        self._count = count

    def readinto(self, buffer: Any) -> int:
        self._count(len(buffer))
        return super().readinto(buffer)
