"""How the data files of a table hold its rows: names and ids of columns, partition values,
statistics. Source: Delta protocol, "Writer Requirements for Column Mapping"."""

from __future__ import annotations

import pyarrow as pa

from turnstile_rows.definitions import Definition
from turnstile_rows.partitions import Texts
from turnstile_rows.schemas import UNMAPPED, arrow_schema
from turnstile_rows.shapes import shape
from turnstile_rows.statistics import indexed_columns


class Layout:
    """The files of tables with ``definition``. ``schema``: the columns of a file; ``indexed``: the
    columns with statistics. Raises :class:`turnstile_rows.errors.Unsupported` for columns without
    their ids.
    """

    def __init__(self, definition: Definition) -> None:
        is_mapped = definition.mapping != UNMAPPED
        stored = arrow_schema({"fields": definition.fields}, "id") if is_mapped else definition.schema
        names = dict(zip(definition.schema.names, stored.names, strict=True))
        self._is_mapped = is_mapped
        self._partitions = [names[name] for name in definition.partitions]
        # Nullable in the file, whatever the table says: readers take a column of the log's schema
        # from either.
        data = [column for column in stored if column.name not in self._partitions]
        self.schema = pa.schema([column.with_nullable(nullable=True) for column in data])
        self.indexed = indexed_columns(definition, pa.schema(data))

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns rows of a partition, without its columns, as a file has them."""
        columns = batch.columns
        if self._is_mapped:
            columns = [
                shape(values, column.type, by_position=True)
                for values, column in zip(columns, self.schema, strict=True)
            ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def partition_values(self, texts: Texts) -> dict[str, str | None]:
        """Returns the partition values of an action, by the names that actions have."""
        return dict(zip(self._partitions, texts, strict=True))
