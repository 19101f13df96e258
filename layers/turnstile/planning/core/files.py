"""Facts of a data file itself, as columns that predicates may name beside the table's.

A query for files (``/main/sales/orders/files[day = '2026-11-01' and size < 16mb]``) has one
predicate over both. For the table's columns it decides which files may have rows that satisfy it; a
fact of the file is one value, so it is decided exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnstile.planning.core.predicates import Column, TableColumns, TypedColumn
from turnstile_predicates.file_stats import Field, kind_of

_FILE: Final = "\0"
"""Where these columns are, which no column of a table can be named like."""

FILE_FIELDS: Final = {"size": "long", "records": "long", "modified": "long", "path": "string"}
"""By name the type: bytes; rows by the file's statistics, deleted ones included, null where they do
not say it; modification time in ms; the path, as the log has it."""


def file_field(column: Column) -> str | None:
    """Returns which of ``FILE_FIELDS`` a predicate's column is; None for a column of the table."""
    return column[1] if column[:1] == (_FILE,) else None


def path_column() -> Column:
    """Returns the column of files' paths."""
    return (_FILE, "path")


class FileColumns(TableColumns):
    """The columns of a table, after the columns of its files. A name in backquotes, or of
    several parts, is the table's."""

    def __init__(self, columns: TableColumns) -> None:
        self._columns = columns
        self.schema = columns.schema
        self.generated = columns.generated

    def find_column(self, name: str | Sequence[str], *, case_sensitive: bool = False) -> TypedColumn:
        return self._columns.find_column(name, case_sensitive=case_sensitive)

    def physical(self, name: str) -> list[Column]:
        return self._columns.physical(name)

    def find_written_column(self, names: Sequence[tuple[str, bool]]) -> TypedColumn:
        (name, quoted), *rest = names
        kind = FILE_FIELDS.get(name.lower())
        if kind is None or quoted or rest:
            return self._columns.find_written_column(names)
        column = (_FILE, name.lower())
        return TypedColumn(column, Field(column, kind, kind_of(kind), widened=False))


class AnyColumns(TableColumns):
    """The columns of no table: each name is one, and takes every value. A predicate that cannot be
    made of these can be made of no table's."""

    def __init__(self) -> None:
        """No schema: nothing is judged by it."""

    def find_column(self, name: str | Sequence[str], *, case_sensitive: bool = False) -> TypedColumn:
        column = (name,) if isinstance(name, str) else tuple(name)
        return TypedColumn(column, Field(column, "string", None, widened=False))
