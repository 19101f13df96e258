"""Checks the expectations of one table as of a version.

every row       of some files (``row_check``)
whole table     numbers of rows and of nulls, and the newest value, by the statistics of all its
                files; keys by their values

Without pyarrow statistics alone decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from turnstile.delta.log.parquet import UNDECODABLE, has_parquet
from turnstile.expectations.core.by_statistics import undecided_predicates
from turnstile.expectations.core.conditions import (
    Condition,
    EveryRow,
    Freshness,
    NotEvaluated,
    NullFraction,
    RowCount,
    Unique,
)
from turnstile.expectations.core.measures import age_of, age_problem, count_problem, nulls_problem
from turnstile.expectations.sources import TIMES, CheckedFile, TableSource
from turnstile.planning.core.predicates import Predicate, TypedColumn
from turnstile.planning.core.sql import predicate_parser
from turnstile.store.core.errors import InvalidRequest
from turnstile_rows.errors import TableError

UNIQUE_ROWS: Final = 2_000_000
"""Rows of a table whose keys are compared."""
UNCHECKED: Final = (InvalidRequest, NotEvaluated, TableError, *UNDECODABLE)
"""The exceptions of a condition that is not checked: a column or predicate that the table cannot
have, a bound of the work, a feature or type that is not read here, a file that cannot be read."""
NOT_READ: Final = "the statistics of its files do not decide, and no files are read here"

Outcome = str | Exception | None
"""How a condition is broken; None if it is satisfied; the exception if it is not checked."""


class TableCheck:
    """One table while its expectations are checked."""

    def __init__(self, source: TableSource, now_ms: int) -> None:
        self._source = source
        self._now_ms = now_ms

    def problem(self, condition: Condition, added: Callable[[], Iterable[CheckedFile]] | None) -> str | None:
        """Returns how the table breaks a condition; None if it satisfies it. Raises one of
        ``UNCHECKED``.

        Args:
            added: yields the files with the rows to check, which were added to the table; None: all
                of its files.
        """
        (outcome,) = self.problems([condition], added)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def problems(
        self, conditions: Sequence[Condition], added: Callable[[], Iterable[CheckedFile]] | None
    ) -> list[Outcome]:
        """Returns for each condition the result of ``problem``, or its exception. A file is read
        once for all predicates."""
        found: dict[int, Outcome] = {}
        predicates: dict[int, Predicate] = {}
        for at, condition in enumerate(conditions):
            try:
                if has_parquet():
                    self._source.require_readable()
                if isinstance(condition, EveryRow):
                    predicates[at] = predicate_parser(condition.predicate)(self._source.columns)
                else:
                    found[at] = self._of_whole_table(condition)
            except UNCHECKED as error:
                found[at] = error
        try:
            outcomes = self._of_rows([*predicates.values()], added or self._source.files)
        except UNCHECKED as error:
            outcomes = [error] * len(predicates)
        found |= zip(predicates, outcomes, strict=True)
        return [found[at] for at in range(len(conditions))]

    def _of_rows(self, predicates: Sequence[Predicate], files: Callable[[], Iterable[CheckedFile]]) -> list[Outcome]:
        if not predicates:
            return []
        if has_parquet():
            from turnstile.expectations.row_check import RowCheck

            return RowCheck(self._source).problems(predicates, files())
        left = set(predicates)
        for file in files():
            left -= {*undecided_predicates(left, file.ranges())}
        return [None if predicate in left else NotEvaluated(NOT_READ) for predicate in predicates]

    def _of_whole_table(self, condition: RowCount | NullFraction | Freshness | Unique) -> str | None:
        columns = self._source.columns
        match condition:
            case RowCount():
                return count_problem(condition, sum(file.rows() for file in self._source.files()))
            case NullFraction(column=name):
                return self._null_fraction(condition, columns.find_column(name))
            case Freshness(column=name):
                return self._freshness(condition, columns.find_column(name))
            case Unique(columns=names):
                return self._unique([columns.find_column(name) for name in names])

    def _null_fraction(self, condition: NullFraction, column: TypedColumn) -> str | None:
        if column.field is None:
            raise NotEvaluated(f"column {column.display_name} has a type without statistics")
        rows = 0
        nulls = 0
        for file in self._source.files():
            rows += file.rows()
            nulls += file.nulls(column)
        return nulls_problem(condition, nulls, rows)

    def _freshness(self, condition: Freshness, column: TypedColumn) -> str | None:
        """The age of the newest value, as of the server's clock. A value of a file with deleted
        rows counts only if the file is not newer than the others: the row may be deleted."""
        if column.field is None or column.field.kind not in TIMES:
            problem = f"freshness needs a date or time, and {column.display_name} has another type"
            raise InvalidRequest(problem, field="properties", remedy="name a column of dates or times")
        newest: int | None = None
        unsure: int | None = None
        for file in self._source.files():
            moment_us = file.newest_us(column)
            if moment_us is None:
                continue
            if file.has_deleted_rows:
                unsure = moment_us if unsure is None else max(unsure, moment_us)
            else:
                newest = moment_us if newest is None else max(newest, moment_us)
        if newest is not None and condition.holds(age_of(newest, self._now_ms)):
            return None
        if unsure is not None and condition.holds(age_of(unsure, self._now_ms)):
            raise NotEvaluated("the newest value is in a file with deleted rows, and may be one of them")
        newest_us = max((moment for moment in (newest, unsure) if moment is not None), default=None)
        return age_problem(condition, column.display_name, newest_us, self._now_ms)

    def _unique(self, columns: list[TypedColumn]) -> str | None:
        if not has_parquet():
            raise NotEvaluated("keys are compared by their values, and no files are read here")
        from turnstile.expectations.row_check import repeated_keys

        return repeated_keys(self._source, [column.name for column in columns], UNIQUE_ROWS)
