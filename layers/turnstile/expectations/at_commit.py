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

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from turnstile.delta.core.content import expectation_properties
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.log.parquet import UNDECODABLE, has_parquet
from turnstile.delta.prepare import NewRows, Refusal
from turnstile.expectations.core.by_statistics import is_broken, undecided_predicates
from turnstile.expectations.core.conditions import EveryRow, Expectation, expectations_of
from turnstile.expectations.core.validity import check_of_table
from turnstile.expectations.delta_source import DeltaFile, DeltaSource
from turnstile.expectations.table_check import NOT_READ
from turnstile.planning.core.predicates import Predicate, TableColumns
from turnstile.planning.core.sql import predicate_parser
from turnstile.planning.read_budget import ReadBudget
from turnstile.store.cache import Lru
from turnstile.store.core.errors import ExpectationBroken, InvalidRequest, StorageFault, Throttled, first_of
from turnstile.store.ports import Storages
from turnstile.store.shares import Shares
from turnstile_rows.errors import TableError

READ_BYTES: Final = 32 * 1024 * 1024
"""Of the files of one commit."""
FILES_MAX: Final = 10_000
"""New files of a commit whose statistics are looked at."""
_TABLES: Final = 1_000
_AT_ONCE: Final = 4
_OF_A_PRINCIPAL: Final = 2
_RETRY_MS: Final = 500


class Unchecked(msgspec.Struct, frozen=True):
    """An expectation is not checked, with the reason and the remedy."""

    reason: str
    remedy: str = "write files with statistics, in smaller commits; or set the property .unchecked to allow"


_Outcome = str | Unchecked | None


class _TableExpectations(msgspec.Struct, frozen=True):
    """The expectations of the commits of a table, with their predicates, or why one has none."""

    columns: TableColumns
    predicates: list[tuple[Expectation, Predicate | InvalidRequest]]


class CommitCheck:
    """Checks commits. One per process: it keeps the predicates of tables, and counts the bytes that
    are read at once. Safe for threads."""

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

    def refusal(self, rows: NewRows) -> Refusal | None:
        """Returns why a commit with these rows is refused; None if it is not. Throttled: the
        principal, or all principals, have too many files read at once; StorageFault: a file could
        not be read this time."""
        try:
            table = self._expectations(rows)
        except InvalidRequest as error:
            problem = f"{error.public_message} (table '{rows.name}')"
            return ExpectationBroken(problem, field="metaData.configuration", remedy=error.remedy)
        check = _Check(self._storages, rows, table.columns, self._shares)
        try:
            outcomes = check.outcomes([predicate for _, predicate in table.predicates])
        except (Throttled, StorageFault) as error:
            return error
        finally:
            check.close()
        problems: list[str] = []
        remedy: str | None = None
        for (expectation, _), outcome in zip(table.predicates, outcomes, strict=True):
            said = f"expectation '{expectation.name}' ({expectation.text[:200]}) of '{rows.name}'"
            if isinstance(outcome, str):
                problems.append(f"{said} is broken: {outcome}")
            elif outcome is None:
                continue
            elif expectation.unchecked == "refuse":
                problems.append(f"{said} could not be checked: {outcome.reason}")
                remedy = outcome.remedy
            else:
                self._on_unchecked(rows.location, f"{said} was not checked: {outcome.reason}")
        if not problems:
            return None
        return ExpectationBroken(first_of(problems), field="add", remedy=remedy)

    def _expectations(self, rows: NewRows) -> _TableExpectations:
        """The expectations of a table. Raises InvalidRequest for a property that is none."""
        if not rows.metadata:
            check_of_table(expectation_properties(rows.table.metadata), TableColumns(rows.table.metadata))
            return _expectations_of(rows.table)
        found = self._tables.get(rows.metadata)
        if found is None:
            found = _expectations_of(rows.table)
            self._tables.put(rows.metadata, found)
        return found


class _Check:
    """One commit while its expectations are checked."""

    def __init__(self, storages: Storages, rows: NewRows, columns: TableColumns, shares: Shares) -> None:
        self._rows = rows
        budget = ReadBudget(READ_BYTES, small_files=True)
        self._source = DeltaSource(storages, budget, rows.location, rows.table, columns=columns)
        self._shares = shares
        self._has_share = False

    def outcomes(self, predicates: Sequence[Predicate | InvalidRequest]) -> list[_Outcome]:
        """Returns for each predicate how the rows break it; None if all satisfy it; or why it is
        not checked. Raises Throttled and StorageFault."""
        uses = self._rows.uses
        if not uses.whole or len(uses.files) > FILES_MAX:
            return [Unchecked(f"the commit has more than {FILES_MAX} new files") for _ in predicates]
        files = [self._source.file(file) for file in uses.files]
        left = [predicate for predicate in predicates if not isinstance(predicate, InvalidRequest)]
        open_ones: list[Predicate] = []
        for file in files:
            found = undecided_predicates(left, file.ranges())
            open_ones += found
            left = [predicate for predicate in left if predicate not in found]
            if not left:
                break
        read = dict(zip(open_ones, self._read(open_ones, files), strict=True)) if open_ones else {}
        return [
            Unchecked(predicate.public_message, predicate.remedy or Unchecked.remedy)
            if isinstance(predicate, InvalidRequest)
            else self._sure(predicate, files, read.get(predicate))
            for predicate in predicates
        ]

    def _sure(self, predicate: Predicate, files: Sequence[DeltaFile], outcome: _Outcome) -> _Outcome:
        """The outcome; for a predicate that is not checked, that it is broken where statistics show
        it."""
        if not isinstance(outcome, Unchecked):
            return outcome
        schema = self._source.columns.schema
        broken = sum(is_broken(predicate, schema, msgspec.to_builtins(file.add)) for file in files)
        return f"by the statistics of {broken} of {len(files)} files" if broken else outcome

    def close(self) -> None:
        """Ends the share of the principal."""
        if self._has_share:
            self._shares.end(self._rows.principal)

    def _read(self, predicates: Sequence[Predicate], files: Sequence[DeltaFile]) -> list[_Outcome]:
        if not has_parquet():
            return [Unchecked(NOT_READ) for _ in predicates]
        from turnstile.expectations.row_check import RowCheck

        self._has_share = self._shares.begin(self._rows.principal)
        if not self._has_share:
            problem = "as many commits as are read at once are being checked by expectations"
            raise Throttled(problem, retry_after_ms=_RETRY_MS)
        try:
            self._source.require_readable()
            found = RowCheck(self._source).problems(predicates, files)
        except (InvalidRequest, TableError, *UNDECODABLE) as error:
            return [Unchecked(str(error)[:300]) for _ in predicates]
        return [Unchecked(str(each)[:300]) if isinstance(each, Exception) else each for each in found]


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
