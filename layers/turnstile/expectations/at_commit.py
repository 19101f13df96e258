"""Checks the new rows of a commit before it is ratified, by the expectations of its table with
``on = commit`` (I29).

    statistics   of the new files, where they decide: nothing is read
    files        otherwise, up to ``READ_BYTES`` a commit; needs pyarrow
    neither      the commit is refused, or let through where the expectation is ``unchecked = allow``

Rows count as new if their file does: a deletion vector or a rewrite without change of data brings
none. The write of the commit asserts the metadata that has the expectations, so one that is added
meanwhile is checked (I2).

Delta Spark checks its own CHECK constraints in the engine. These hold for every writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.log.parquet import UNDECODABLE, has_parquet
from turnstile.delta.prepare import NewRows
from turnstile.expectations.core.by_statistics import undecided_files
from turnstile.expectations.core.conditions import EveryRow, Expectation, expectations_of
from turnstile.planning.core.predicates import Predicate, TableColumns
from turnstile.planning.core.sql import predicate_parser
from turnstile.store.cache import Lru
from turnstile.store.core.errors import ExpectationBroken, InvalidRequest, StorageFault, Throttled
from turnstile.store.ports import Storages
from turnstile.store.shares import Shares

if TYPE_CHECKING:
    from turnstile.expectations.row_check import RowCheck

READ_BYTES: Final = 32 * 1024 * 1024
"""Of the files of one commit."""
FILES_MAX: Final = 10_000
"""New files of a commit whose statistics are looked at."""
_TABLES: Final = 1_000
_AT_ONCE: Final = 4
_OF_A_PRINCIPAL: Final = 2
_RETRY_MS: Final = 500


class _Unchecked(Exception):
    """An expectation cannot be checked. The text says why."""


class _TableExpectations(msgspec.Struct, frozen=True):
    """The expectations of the commits of a table, with their predicates, or why one has none."""

    columns: TableColumns
    predicates: list[tuple[Expectation, Predicate | InvalidRequest]]


class CommitCheck:
    """Checks commits. One per process: it keeps the predicates of tables, and counts what is read
    at once. Safe for threads."""

    def __init__(self, storages: Storages, on_unchecked: Callable[[str, str], None]) -> None:
        """
        Args:
            on_unchecked: called with the location of a table and the reason when a commit is let
                through unchecked.
        """
        self._storages = storages
        self._on_unchecked = on_unchecked
        self._tables = Lru[str, _TableExpectations](_TABLES)
        self._shares = Shares(_AT_ONCE, _OF_A_PRINCIPAL)

    def refusal(self, rows: NewRows) -> ExpectationBroken | Throttled | None:
        """Returns why a commit with these rows is refused; None if it is not. Throttled: the
        principal, or all principals, have too many files read at once."""
        try:
            table = self._expectations(rows)
        except InvalidRequest as error:
            return ExpectationBroken(error.public_message, field="metaData", remedy=error.remedy)
        check = _Check(self._storages, rows, table.columns, self._shares)
        try:
            for expectation, predicate in table.predicates:
                said = f"expectation '{expectation.name}' ({expectation.text[:200]})"
                try:
                    problem = check.problem(predicate)
                except _Unchecked as error:
                    if expectation.unchecked == "refuse":
                        return ExpectationBroken(f"{said} could not be checked: {error}", field="add")
                    self._on_unchecked(rows.location, f"{said} was not checked: {error}")
                    continue
                if problem is not None:
                    return ExpectationBroken(f"{said} is broken: {problem}", field="add")
        except Throttled as error:
            return error
        finally:
            check.close()
        return None

    def _expectations(self, rows: NewRows) -> _TableExpectations:
        """The expectations of a table. Raises InvalidRequest for a property that is none."""
        found = self._tables.get(rows.metadata) if rows.metadata else None
        if found is None:
            found = _expectations_of(rows.table)
            if rows.metadata:
                self._tables.put(rows.metadata, found)
        return found


class _Check:
    """One commit while its expectations are checked."""

    def __init__(self, storages: Storages, rows: NewRows, columns: TableColumns, shares: Shares) -> None:
        self._storages = storages
        self._rows = rows
        self._columns = columns
        self._shares = shares
        self._reader: RowCheck | None = None
        self._files: list[Mapping[str, Any]] | None = None

    def problem(self, predicate: Predicate | InvalidRequest) -> str | None:
        """Returns how the rows break a predicate; None if all satisfy it. Raises _Unchecked,
        Throttled."""
        uses = self._rows.uses
        if isinstance(predicate, InvalidRequest):
            raise _Unchecked(predicate.public_message)
        if not uses.whole or len(uses.files) > FILES_MAX:
            raise _Unchecked(f"the commit has more than {FILES_MAX} new files")
        if self._files is None:
            self._files = [msgspec.to_builtins(file) for file in uses.files]
        undecided = list(undecided_files(predicate, self._columns.schema, self._files))
        return self._read(predicate, undecided, len(self._files)) if undecided else None

    def close(self) -> None:
        """Ends the share of the principal."""
        if self._reader is not None:
            self._shares.end(self._rows.principal)

    def _read(self, predicate: Predicate, files: Sequence[Mapping[str, Any]], total: int) -> str | None:
        if not has_parquet():
            raise _Unchecked("the statistics of its files do not decide, and no files are read here")
        from turnstile.expectations.core.row_outcomes import NotEvaluated
        from turnstile.expectations.row_check import RowCheck
        from turnstile.planning.file_rows import ReadBudget
        from turnstile_rows.errors import TableError

        rows = self._rows
        if self._reader is None:
            if not self._shares.begin(rows.principal):
                problem = "as many files as are read at once are being checked by expectations"
                raise Throttled(problem, retry_after_ms=_RETRY_MS)
            budget = ReadBudget(READ_BYTES, small_files=True)
            self._reader = RowCheck(self._storages, budget, rows.location, rows.table)
        try:
            return self._reader.problem(predicate, files, total)
        except (InvalidRequest, NotEvaluated, TableError, StorageFault, *UNDECODABLE) as error:
            raise _Unchecked(str(error)[:300]) from None


def _expectations_of(table: DeltaMetadata) -> _TableExpectations:
    configuration = table.metadata.get("configuration") or {}
    columns = TableColumns(table.metadata)
    predicates: list[tuple[Expectation, Predicate | InvalidRequest]] = []
    for expectation in expectations_of(configuration):
        if expectation.at_commit and isinstance(expectation.condition, EveryRow):
            try:
                predicate = predicate_parser(expectation.condition.predicate)(columns)
            except InvalidRequest as error:
                predicates.append((expectation, error))
            else:
                predicates.append((expectation, predicate))
    return _TableExpectations(columns, predicates)
