"""The files and rows that checks of expectations read: of a Delta table (``delta_source``) or of an
Iceberg table (``iceberg.expectations.source``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from turnstile.planning.core.predicates import TableColumns, TypedColumn
from turnstile_predicates.predicates import Column, Range

if TYPE_CHECKING:
    import pyarrow as pa

DAY_US = 86_400_000_000
TIMES = ("date", "timestamp", "timestamp_ntz")
"""Kinds of columns whose values have an age."""


class CheckedFile(Protocol):
    """A data file of a table, by its statistics."""

    @property
    def path(self) -> str:
        """Its place, as the table's log or manifest has it."""

    @property
    def has_deleted_rows(self) -> bool:
        """Whether some of its rows may be deleted."""

    def ranges(self) -> Callable[[Column], Range] | None:
        """Returns the ranges of the columns; None if it has no rows."""

    def rows(self) -> int:
        """Returns the number of rows that are not deleted. Raises NotEvaluated."""

    def nulls(self, column: TypedColumn) -> int:
        """Returns the number of rows that are not deleted and null in a column. Raises
        NotEvaluated."""

    def newest_us(self, column: TypedColumn) -> int | None:
        """Returns the newest value of a column of dates or times, deleted rows among them, in
        microseconds since 1970; None if it has no values. Raises NotEvaluated."""


class TableSource(Protocol):
    """A table as of one version."""

    @property
    def columns(self) -> TableColumns:
        """The columns as predicates name them."""

    @property
    def shown_names(self) -> Sequence[str]:
        """The columns that an example may show, in their order."""

    def require_readable(self) -> None:
        """Raises TableError for a table with a feature that is not read here."""

    def files(self) -> Iterator[CheckedFile]:
        """Yields all files. Raises NotEvaluated, for more than a bound too."""

    def read(self, file: CheckedFile, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Yields the columns ``names`` of the rows of a file that are not deleted. Raises one of
        ``table_check.UNCHECKED``, and StorageFault."""
