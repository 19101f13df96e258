"""Reads a few rows of a Delta table, to show its content.

    Sampler(world, planner).sample(table, "ann", limit=20)

The rows are in no particular order. ``planning.file_rows`` says which files are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa

from turnstile.delta.core.head import TableHead
from turnstile.delta.log.parquet import UNDECODABLE
from turnstile.planning.core.plans import Plan, ScanPlanner, TableSample
from turnstile.planning.core.shown_rows import shown_rows
from turnstile.planning.file_rows import FileRows
from turnstile.planning.read_budget import ReadBudget
from turnstile.store.core.errors import Throttled, UnsupportedTable
from turnstile.store.ports import World
from turnstile.store.shares import Shares
from turnstile_rows.definitions import Definition, check_readable
from turnstile_rows.errors import TableError

MAX_COLUMNS: Final = 100
"""Columns that are shown, the first ones of the table."""
ANSWER_BYTES: Final = 1024 * 1024
"""Of the rows as JSON; the row that passes this is the last one."""
_FILES: Final = 20
"""Files that one request looks into."""
READ_BYTES: Final = 32 * 1024 * 1024
"""That one request reads of large files and of deletion vectors."""
_AT_ONCE: Final = 4
_OF_A_PRINCIPAL: Final = 2
_RETRY_MS: Final = 500
_ENGINE: Final = "read the table with an engine"
_CHECK: Final = f"turnstile verify TABLE --files lists files that are gone or damaged; else {_ENGINE}"


class Sampler:
    """Reads some rows of tables. One per process: it counts the bytes that are read at once."""

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
            return _Reading(self._world, table, plan).sample(limit)
        finally:
            self._shares.end(principal)


class _Reading:
    """The rows of one request."""

    def __init__(self, world: World, table: TableHead, plan: Plan) -> None:
        self._table = table
        self._plan = plan
        try:
            definition = Definition.of_actions({"protocol": plan.protocol, "metaData": plan.metadata})
            check_readable(definition)
            names = definition.schema.names
            self._names = names[:MAX_COLUMNS]
            self._left_out = len(names) - len(self._names)
            budget = ReadBudget(READ_BYTES)
            self._file_rows = FileRows(world.storages, table.location, definition, self._names, budget)
        except TableError as error:
            raise UnsupportedTable(f"{table.name}: {error}", field="table_id", remedy=_ENGINE) from None

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
                yield from self._file_rows.read(file.path, file.partition_values, file.deletion_vector, size)
            except (TableError, *UNDECODABLE) as error:
                problem = f"{self._table.name}: the file {file.path[:300]!r} cannot be read: {error}"
                raise UnsupportedTable(problem, field="location", remedy=_CHECK) from None
