"""Checks that every row of some files of a table satisfies predicates: by the statistics of a file
where they decide, otherwise by its rows.

Statistics are the word of the engine that wrote the file, as they are for its readers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from turnstile.delta.core.actions import Add
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.log.parquet import UNDECODABLE
from turnstile.expectations.core.by_statistics import undecided_predicates
from turnstile.expectations.core.row_outcomes import NotEvaluated, evaluate
from turnstile.planning.core.predicates import Predicate, TableColumns, columns_of
from turnstile.planning.core.shown_rows import shown_rows
from turnstile.planning.file_rows import FileRows, ReadBudget
from turnstile.store.ports import Storages
from turnstile_predicates.predicates import Column, Kind
from turnstile_rows.definitions import Definition, check_readable
from turnstile_rows.errors import TableError

EXAMPLES: Final = 5
"""Rows that a refusal shows."""
_BATCH: Final = 8_192
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
    """The rows of a table's files while expectations are checked. Raises TableError for a table
    with a feature that is not read here."""

    def __init__(self, storages: Storages, budget: ReadBudget, location: str, metadata: DeltaMetadata) -> None:
        self._storages = storages
        self._budget = budget
        self._location = location
        self._metadata = metadata

    @cached_property
    def definition(self) -> Definition:
        """The table's columns and features."""
        actions = {"protocol": self._metadata.protocol, "metaData": self._metadata.metadata}
        definition = Definition.of_actions(actions)
        check_readable(definition)
        return definition

    @cached_property
    def columns(self) -> TableColumns:
        """The table's columns as predicates name them."""
        return TableColumns(self._metadata.metadata)

    def problems(
        self, predicates: Sequence[Predicate], files: Sequence[Mapping[str, Any]]
    ) -> list[str | Exception | None]:
        """Returns for each predicate how many rows of ``files``, actions ``add``, do not satisfy
        it, with examples; None if all do; or the exception for a predicate that cannot be evaluated
        or a file that cannot be read. A file is read once for all predicates. Raises TableError.
        """
        found = [_Found(predicate) for predicate in predicates]
        for body in files:
            left = undecided_predicates([one.predicate for one in found if one.is_open], self.columns.schema, body)
            if left:
                self._look_into(msgspec.convert(body, Add), [one for one in found if one.predicate in left])
        return [one.problem(len(files)) for one in found]

    def _look_into(self, file: Add, found: Sequence[_Found]) -> None:
        own = sorted({column[0] for one in found for column in columns_of(one.predicate)})
        names = list(dict.fromkeys([*own, *self.definition.schema.names[:_SHOWN_COLUMNS]]))
        before = [one.rows for one in found]
        try:
            for columns in self.read(file, names):
                for one in found:
                    if one.is_open:
                        self._count(one, names, columns)
        except (TableError, *UNDECODABLE) as error:  # says nothing of predicates that do not need the file
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
        wanted = {column[0] for column in columns_of(one.predicate)} | {*self.definition.schema.names[:_SHOWN_COLUMNS]}
        shown = [at for at, name in enumerate(names) if name in wanted]
        places = broken[: EXAMPLES - len(one.examples)]
        rows = shown_rows([names[at] for at in shown], [columns[at].take(places) for at in shown])
        one.examples += [row.values for row in rows]

    def read(self, file: Add, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Yields the columns ``names`` of the rows of a file."""
        reader = FileRows(self._storages, self._location, self.definition, names, self._budget)
        return reader.read(file.path, file.partitionValues, file.deletionVector, _BATCH)

    def _broken_rows(self, predicate: Predicate, names: Sequence[str], columns: Sequence[pa.Array]) -> pa.Array:
        """The places of the rows that do not satisfy the predicate."""
        by_name = dict(zip(names, columns, strict=True))

        def column_of(column: Column) -> tuple[Kind | None, pa.Array]:
            field = self.columns.schema.fields.get(column)
            values = by_name[column[0]]
            return (field.kind if field else None), (pc.struct_field(values, column[1:]) if column[1:] else values)

        count = len(columns[0])
        satisfied = pc.fill_null(evaluate(predicate, column_of, count), fill_value=False)
        return pc.indices_nonzero(pc.invert(satisfied))


def example_text(examples: Iterable[dict[str, Any]]) -> str:
    """Returns rows as a message shows them."""
    return ", ".join(json.dumps(example, default=str)[:200] for example in examples)
