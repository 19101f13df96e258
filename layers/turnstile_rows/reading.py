"""Reading one data file of a table: its columns in the table's types, the partition columns by the
log, without the rows in its deletion vector.

Columns are found as in :mod:`turnstile_rows.shapes`. Source: Delta protocol, "Partition Value
Serialization", "Deletion Vectors", "Reader Requirements for Column Mapping".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from turnstile_rows.definitions import Definition
from turnstile_rows.partitions import partition_value
from turnstile_rows.shapes import place_of, shape
from turnstile_rows.vectors import kept_rows

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile
    from pyroaring import BitMap64

File = Mapping[str, Any]
"""A file as its ``add`` action has it."""


@dataclass(frozen=True)
class StoredRows:
    """Some rows of a file that are not deleted. ``rows``: columns as the file has them;
    ``columns``: the wanted ones, as the table has them; ``first``, ``count``: which rows of the
    file were looked at; ``kept``: positions of ``rows`` among them, None for all."""

    rows: pa.RecordBatch
    columns: list[pa.Array]
    first: int
    count: int
    kept: pa.Array | None

    def positions(self) -> pa.Array:
        """The positions of the rows in the file."""
        all_rows = pa.array(range(self.first, self.first + self.count), pa.int64())
        return all_rows if self.kept is None else all_rows.take(self.kept)


def stored_columns(definition: Definition) -> dict[str, pa.Field]:
    """The columns as files have them, partition columns as the log has them, by their names in the
    table. They take null: a file may be older than a column. Raises
    :class:`turnstile_rows.errors.Unsupported`."""
    stored = zip(definition.schema.names, definition.stored_schema, strict=True)
    return {name: column.with_nullable(nullable=True) for name, column in stored}


def partition_columns(names: Mapping[str, pa.Field], file: File) -> dict[str, pa.Scalar]:
    """The values of the partition columns ``names`` in all rows of a file. Raises
    :class:`turnstile_rows.errors.DataMismatch`."""
    given = file["partitionValues"]
    return {name: partition_value(given.get(name), column.type, name) for name, column in names.items()}


def stored_rows(
    parquet: ParquetFile, wanted: pa.Schema, values: Mapping[str, pa.Scalar], deleted: BitMap64 | None, size: int
) -> Iterator[StoredRows]:
    """The rows of a file that are not deleted, ``size`` looked at at a time.

    Args:
        wanted: the columns, under the names that files have.
        values: of the partition columns.
        deleted: the numbers of the deleted rows.

    Raises pyarrow's exceptions for a file that is damaged, or whose values are not of the table's
    types.
    """
    places = {place_of(parquet.schema_arrow, column) for column in wanted if column.name not in values}
    stored = [name for at, name in enumerate(parquet.schema_arrow.names) if at in places]
    first = 0
    for batch in parquet.iter_batches(size, columns=stored):
        kept = None if deleted is None else kept_rows(deleted, first, batch.num_rows)
        rows = batch if kept is None else batch.take(kept)
        columns = [_column(rows, column, values) for column in wanted]
        yield StoredRows(rows, columns, first, batch.num_rows, kept)
        first += batch.num_rows


def _column(rows: pa.RecordBatch, column: pa.Field, values: Mapping[str, pa.Scalar]) -> pa.Array:
    if column.name in values:
        return pa.repeat(values[column.name], rows.num_rows)
    place = place_of(rows.schema, column)
    return pa.nulls(rows.num_rows, column.type) if place is None else shape(rows.column(place), column.type)
