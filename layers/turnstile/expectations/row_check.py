"""Checks that every row of some files of a table satisfies a predicate: by the statistics of a file
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
from turnstile.expectations.core.by_statistics import undecided_files
from turnstile.expectations.core.row_outcomes import evaluate
from turnstile.planning.core.predicates import Predicate, TableColumns, columns_of
from turnstile.planning.core.shown_rows import shown_rows
from turnstile.planning.file_rows import FileRows, ReadBudget
from turnstile.store.ports import Storages
from turnstile_predicates.predicates import Column, Kind
from turnstile_rows.definitions import Definition, check_readable

EXAMPLES: Final = 5
"""Rows that a refusal shows."""
_BATCH: Final = 65_536
_SHOWN_COLUMNS: Final = 3
"""Columns of an example beside those of the predicate."""


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

    def problem(self, predicate: Predicate, files: Sequence[Mapping[str, Any]], total: int) -> str | None:
        """Returns how many rows of ``files``, actions ``add``, do not satisfy a predicate, with
        examples; None if all do. ``total``: the number of files that the message names. Raises
        NotEvaluated, TableError, and pyarrow's exceptions for a file that cannot be read."""
        own = [column[0] for column in sorted(columns_of(predicate))]
        names = list(dict.fromkeys([*own, *self.definition.schema.names[:_SHOWN_COLUMNS]]))
        rows = 0
        broken_files = 0
        examples: list[dict[str, Any]] = []
        for body in undecided_files(predicate, self.columns.schema, files):
            before = rows
            for columns in self.read(msgspec.convert(body, Add), names):
                broken = self._broken_rows(predicate, names, columns)
                rows += len(broken)
                shown = broken[: EXAMPLES - len(examples)]
                examples += [row.values for row in shown_rows(names, [column.take(shown) for column in columns])]
            broken_files += rows > before
        if not rows:
            return None
        return f"{rows} rows in {broken_files} of {total} files, such as {example_text(examples)}"

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
