"""Checks the expectations of one table as of a version.

every row       of some files (``row_check``)
whole table     numbers of rows and of nulls, and the newest value, by the statistics of all its
                files; keys by their values
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from turnstile.delta.core.actions import Add
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.log.parquet import UNDECODABLE
from turnstile.expectations.core.conditions import Condition, EveryRow, Freshness, NullFraction, RowCount, Unique
from turnstile.expectations.core.row_outcomes import NotEvaluated
from turnstile.expectations.row_check import EXAMPLES, RowCheck, example_text
from turnstile.maintenance.state import TableState, open_state
from turnstile.planning.core.predicates import Predicate, TypedColumn
from turnstile.planning.core.shown_rows import shown_rows
from turnstile.planning.core.sql import predicate_parser
from turnstile.planning.file_rows import ReadBudget
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.ports import Storages
from turnstile_predicates.file_stats import Field
from turnstile_predicates.predicates import Column
from turnstile_rows.errors import TableError

FILES_MAX: Final = 200_000
"""Files of a table whose statistics are added up."""
UNIQUE_ROWS: Final = 2_000_000
"""Rows of a table whose keys are compared."""
UNCHECKED: Final = (InvalidRequest, NotEvaluated, TableError, *UNDECODABLE)
"""The exceptions of a condition that is not checked: a column or predicate that the table cannot
have, a bound of the work, a feature or type that is not read here, a file that cannot be read."""
_DAY_US: Final = 86_400_000_000
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")


class TableCheck:
    """One table while its expectations are checked. Its log is opened at most once."""

    def __init__(
        self, storages: Storages, budget: ReadBudget, head: TableHead, metadata: DeltaMetadata, now_ms: int
    ) -> None:
        self._storages = storages
        self._head = head
        self._now_ms = now_ms
        self._rows = RowCheck(storages, budget, head.location, metadata)

    @cached_property
    def _state(self) -> TableState:
        return open_state(self._storages.open(self._head.location), self._head.latest)

    def problem(self, condition: Condition, added: list[dict[str, Any]] | None) -> str | None:
        """Returns how the table breaks a condition, with the files that were added to it (None: all
        of its files); None if it satisfies it. Raises one of ``UNCHECKED``."""
        (outcome,) = self.problems([condition], added)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def problems(
        self, conditions: Sequence[Condition], added: list[dict[str, Any]] | None
    ) -> list[str | Exception | None]:
        """Returns for each condition the result of ``problem``, or its exception. A file is read
        once for all predicates."""
        found: dict[int, str | Exception | None] = {}
        predicates: dict[int, Predicate] = {}
        for at, condition in enumerate(conditions):
            try:
                assert self._rows.definition is not None  # raises TableError
                if isinstance(condition, EveryRow):
                    predicates[at] = predicate_parser(condition.predicate)(self._rows.columns)
                else:
                    found[at] = self._of_whole_table(condition)
            except UNCHECKED as error:
                found[at] = error
        try:
            outcomes = self._of_rows([*predicates.values()], added)
        except UNCHECKED as error:
            outcomes = [error] * len(predicates)
        found |= zip(predicates, outcomes, strict=True)
        return [found[at] for at in range(len(conditions))]

    def _of_rows(
        self, predicates: Sequence[Predicate], added: list[dict[str, Any]] | None
    ) -> list[str | Exception | None]:
        if not predicates:
            return []
        files = [msgspec.to_builtins(file) for file in self._files()] if added is None else added
        return self._rows.problems(predicates, files)

    def _of_whole_table(self, condition: RowCount | NullFraction | Freshness | Unique) -> str | None:
        columns = self._rows.columns
        match condition:
            case RowCount():
                rows = sum(_rows_of(file) for file in self._files())
                return None if condition.holds(rows) else f"the table has {rows} rows"
            case NullFraction(column=name):
                return self._null_fraction(condition, columns.find_column(name))
            case Freshness(column=name):
                return self._freshness(condition, columns.find_column(name))
            case Unique(columns=names):
                return self._unique([columns.find_column(name).name for name in names])

    def _files(self) -> Iterator[Add]:
        for number, file in enumerate(self._state.files()):
            if number >= FILES_MAX:
                raise NotEvaluated(f"the table has more than {FILES_MAX} files")
            yield file

    def _null_fraction(self, condition: NullFraction, column: TypedColumn) -> str | None:
        if column.field is None:
            raise NotEvaluated(f"column {column.display_name} has a type without statistics")
        rows = 0
        nulls = 0
        for file in self._files():
            count = _rows_of(file)
            rows += count
            nulls += self._nulls_of(file, column.field, count)
        return None if condition.holds(nulls, rows) else f"it is null in {nulls} of {rows} rows"

    def _nulls_of(self, file: Add, field: Field, rows: int) -> int:
        if field.physical[0] in self._rows.definition.partitions or field.physical[0] in file.partitionValues:
            return rows if file.partitionValues.get(field.physical[0]) in (None, "") else 0
        nulls: Any = _stats(file).get("nullCount")
        for name in field.physical:
            nulls = nulls.get(name) if isinstance(nulls, dict) else None
        if type(nulls) is not int or (nulls and file.deletionVector is not None):
            raise NotEvaluated(f"the statistics of {file.path[:200]!r} do not say how many nulls it has")
        return nulls

    def _freshness(self, condition: Freshness, column: TypedColumn) -> str | None:
        """The age of the newest value, as of the server's clock. A value of a file with deleted
        rows counts only if the file is not newer than the others: the row may be deleted."""
        field = column.field
        if field is None or field.kind not in _TIMES:
            problem = f"freshness needs a date or time, and {column.display_name} has another type"
            raise InvalidRequest(problem, field="properties", remedy="name a column of dates or times")
        newest: int | None = None
        unsure: int | None = None
        for file in self._files():
            ranges = self._rows.columns.schema.ranges_of(msgspec.to_builtins(file))
            found = None if ranges is None else ranges(column.name)
            if found is None or not found.has_values:
                continue
            if found.high is None:
                raise NotEvaluated(f"the statistics of {file.path[:200]!r} do not say which value is its newest")
            if column.name[0] in self._rows.columns.schema.partitions and found.low != found.high:
                raise NotEvaluated(f"the partition value of {file.path[:200]!r} has no zone")
            moment_us = found.high * _DAY_US if field.kind == "date" else found.high
            if file.deletionVector is None:
                newest = moment_us if newest is None else max(newest, moment_us)
            else:
                unsure = moment_us if unsure is None else max(unsure, moment_us)
        if newest is not None and condition.holds(self._age_ms(newest)):
            return None
        if unsure is not None and condition.holds(self._age_ms(unsure)):
            raise NotEvaluated("the newest value is in a file with deleted rows, and may be one of them")
        if newest is None and unsure is None:
            return f"{column.display_name} has no value"
        age_s = self._age_ms(max(moment for moment in (newest, unsure) if moment is not None)) / 1000
        return f"the newest value of {column.display_name} is {age_s:.0f} s old"

    def _age_ms(self, moment_us: int) -> float:
        return self._now_ms - moment_us / 1000

    def _unique(self, columns: list[Column]) -> str | None:
        names = list(dict.fromkeys(column[0] for column in columns))
        labels = [".".join(column) for column in columns]
        parts: list[pa.Table] = []
        rows = 0
        for file in self._files():
            for found in self._rows.read(file, names):
                by_name = dict(zip(names, found, strict=True))
                keys = [pc.struct_field(by_name[at[0]], at[1:]) if at[1:] else by_name[at[0]] for at in columns]
                parts.append(pa.table(keys, labels).drop_null())
                rows += parts[-1].num_rows
                if rows > UNIQUE_ROWS:
                    raise NotEvaluated(f"the table has more than {UNIQUE_ROWS} rows with keys")
        if not parts:
            return None
        counted = pa.concat_tables(parts).group_by(labels).aggregate([([], "count_all")])
        twice = counted.filter(pc.greater(counted["count_all"], 1)).select(labels)
        if not twice.num_rows:
            return None
        first = twice.slice(0, EXAMPLES).combine_chunks()
        examples = [row.values for row in shown_rows(labels, [column.combine_chunks() for column in first.columns])]
        return f"{twice.num_rows} keys occur more than once, such as {example_text(examples)}"


def _stats(file: Add) -> dict[str, Any]:
    try:
        found = json.loads(file.stats) if file.stats else {}
    except ValueError:
        found = {}
    return found if isinstance(found, dict) else {}


def _rows_of(file: Add) -> int:
    rows = _stats(file).get("numRecords")
    if type(rows) is not int:
        raise NotEvaluated(f"the statistics of {file.path[:200]!r} do not say how many rows it has")
    return rows - (file.deletionVector.cardinality if file.deletionVector is not None else 0)
