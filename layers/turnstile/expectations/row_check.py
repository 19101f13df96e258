"""Checks that every row of some files of a table satisfies predicates: by the statistics of a file
where they decide, otherwise by its rows.

Statistics are the word of the engine that wrote the file, as they are for its readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from turnstile.delta.log.parquet import UNDECODABLE
from turnstile.expectations.core.by_statistics import undecided_predicates
from turnstile.expectations.core.conditions import NotEvaluated
from turnstile.expectations.core.measures import keys_problem
from turnstile.expectations.core.row_outcomes import evaluate
from turnstile.expectations.sources import CheckedFile, TableSource
from turnstile.planning.core.predicates import Predicate, columns_of
from turnstile.planning.core.shown_rows import shown_rows
from turnstile_predicates.predicates import Column, Kind
from turnstile_rows.errors import TableError

EXAMPLES: Final = 5
"""Rows that a refusal shows."""
_SHOWN_COLUMNS: Final = 3
"""Columns of an example beside those of the predicate."""


class _Found:
    """The rows that do not satisfy a predicate, so far."""

    def __init__(self, predicate: Predicate) -> None:
        self.predicate = predicate
        self.rows = 0
        self.files = 0
        self.examples: list[dict[str, Any]] = []
        self.failure: Exception | None = None

    @property
    def is_open(self) -> bool:
        """Whether rows are evaluated."""
        return self.failure is None

    def problem(self, total: int) -> str | Exception | None:
        """The outcome for ``total`` files. Rows that were found count, also before a failure."""
        if not self.rows:
            return self.failure
        return f"{self.rows} rows in {self.files} of {total} files, such as {example_text(self.examples)}"


class RowCheck:
    """The rows of a table's files while expectations are checked."""

    def __init__(self, source: TableSource) -> None:
        self._source = source

    def problems(self, predicates: Sequence[Predicate], files: Iterable[CheckedFile]) -> list[str | Exception | None]:
        """Returns for each predicate how many rows of ``files`` do not satisfy it, with examples;
        None if all do; or the exception for a predicate that cannot be evaluated or a file that
        cannot be read. A file is read once for all predicates. Raises TableError.
        """
        found = [_Found(predicate) for predicate in predicates]
        total = 0
        for file in files:
            total += 1
            left = undecided_predicates([one.predicate for one in found if one.is_open], file.ranges())
            if left:
                self._look_into(file, [one for one in found if one.predicate in left])
        return [one.problem(total) for one in found]

    def _look_into(self, file: CheckedFile, found: Sequence[_Found]) -> None:
        own = sorted({column[0] for one in found for column in columns_of(one.predicate)})
        names = list(dict.fromkeys([*own, *self._source.shown_names[:_SHOWN_COLUMNS]]))
        before = [one.rows for one in found]
        try:
            for columns in self.read(file, names):
                for one in found:
                    if one.is_open:
                        self._count(one, names, columns)
        except (NotEvaluated, TableError, *UNDECODABLE) as error:  # says nothing of predicates that need no file
            for one in found:
                one.failure = error
        for one, rows in zip(found, before, strict=True):
            one.files += one.rows > rows

    def _count(self, one: _Found, names: Sequence[str], columns: Sequence[pa.Array]) -> None:
        """Adds the rows of a batch that do not satisfy the predicate."""
        try:
            broken = self._broken_rows(one.predicate, names, columns)
        except NotEvaluated as error:
            one.failure = error
            return
        one.rows += len(broken)
        wanted = {column[0] for column in columns_of(one.predicate)} | {*self._source.shown_names[:_SHOWN_COLUMNS]}
        shown = [at for at, name in enumerate(names) if name in wanted]
        places = broken[: EXAMPLES - len(one.examples)]
        rows = shown_rows([names[at] for at in shown], [columns[at].take(places) for at in shown])
        one.examples += [row.values for row in rows]

    def read(self, file: CheckedFile, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Yields the columns ``names`` of the rows of a file."""
        return self._source.read(file, names)

    def _broken_rows(self, predicate: Predicate, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
        """The places of the rows that do not satisfy the predicate."""
        by_name = dict(zip(names, columns, strict=True))

        def column_of(column: Column) -> tuple[Kind | None, pa.Array]:
            field = self._source.columns.schema.fields.get(column)
            values = by_name[column[0]]
            return (field.kind if field else None), (pc.struct_field(values, column[1:]) if column[1:] else values)

        count = len(columns[0])
        satisfied = pc.fill_null(evaluate(predicate, column_of, count), fill_value=False)
        return pc.indices_nonzero(pc.invert(satisfied))


def example_text(examples: Iterable[dict[str, Any]]) -> str:
    """Returns rows as a message shows them."""
    return ", ".join(json.dumps(example, default=str)[:200] for example in examples)


def repeated_keys(source: TableSource, columns: Sequence[Column], rows_max: int) -> str | None:
    """Returns how many keys, values of ``columns`` without nulls, occur more than once in a table,
    with examples; None if none does. Raises NotEvaluated for more than ``rows_max`` rows with
    keys, and as ``TableSource.read``."""
    names = list(dict.fromkeys(column[0] for column in columns))
    labels = [".".join(column) for column in columns]
    parts: list[pa.Table] = []
    rows = 0
    for file in source.files():
        for found in source.read(file, names):
            by_name = dict(zip(names, found, strict=True))
            keys = [pc.struct_field(by_name[at[0]], at[1:]) if at[1:] else by_name[at[0]] for at in columns]
            parts.append(pa.table(keys, labels).drop_null())
            rows += parts[-1].num_rows
            if rows > rows_max:
                raise NotEvaluated(f"the table has more than {rows_max} rows with keys")
    if not parts:
        return None
    counted = pa.concat_tables(parts).group_by(labels).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted["count_all"], 1)).select(labels)
    if not twice.num_rows:
        return None
    first = twice.slice(0, EXAMPLES).combine_chunks()
    examples = [row.values for row in shown_rows(labels, [column.combine_chunks() for column in first.columns])]
    return keys_problem(twice.num_rows, example_text(examples))
