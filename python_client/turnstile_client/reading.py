"""Reading the files of a plan: whole ones by Arrow's datasets, several at once; those with a deletion vector one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from turnstile_client.core.definitions import Definition
from turnstile_client.core.filters import Filter
from turnstile_client.core.partitions import partition_value
from turnstile_client.core.vectors import deleted_rows, kept_rows, vector_path
from turnstile_client.storage import Storage

File = Mapping[str, Any]
#: Spark writes times as INT96, which are nanoseconds where nothing else is said.
_FORMAT: Final = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
_ROWS: Final = 131_072


class FileReader:
    """Reads rows of files of a table: the columns ``names``, those that ``filter`` is true of."""

    def __init__(self, storage: Storage, definition: Definition, names: Sequence[str], filter: Filter | None) -> None:
        self._storage, self._filter = storage, filter
        # A partition column is no part of the files. Columns take null: a file may be older than a column.
        self._whole = pa.schema([column.with_nullable(nullable=True) for column in definition.schema])
        self._partitions = {name: definition.schema.field(name) for name in definition.partitions}
        self._names = list(names)
        self.schema = pa.schema([self._whole.field(name) for name in names])

    def rows(self, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        """The rows of files, in no particular order. Raises :class:`turnstile_client.errors.Unsupported` for a file that cannot be read rightly, and
        :class:`OSError`."""
        whole = [file for file in files if not file.get("deletionVector")]
        if whole:
            fragments = [self._fragment(file) for file in whole]
            dataset = ds.FileSystemDataset(fragments, self._whole, _FORMAT, self._storage.system())
            expression = None if self._filter is None else self._filter.expression
            for batch in dataset.to_batches(columns=self._names, filter=expression, batch_size=_ROWS):
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        for file in files:
            if file.get("deletionVector"):
                yield from self._without_deleted(file)

    def _values(self, file: File) -> dict[str, pa.Scalar]:
        given = file["partitionValues"]
        return {name: partition_value(given.get(name), column.type, name) for name, column in self._partitions.items()}

    def _fragment(self, file: File) -> Any:
        condition: pc.Expression | None = None
        for name, value in self._values(file).items():
            part = pc.field(name) == value if value.is_valid else pc.field(name).is_null()
            condition = part if condition is None else condition & part
        path = self._storage.path_of_uri(file["path"])
        return _FORMAT.make_fragment(path, self._storage.system(), partition_expression=condition)

    def _without_deleted(self, file: File) -> Iterator[pa.RecordBatch]:
        deleted = self._vector(file["deletionVector"])
        values, first = self._values(file), 0
        needed = {*self._names, *(() if self._filter is None else self._filter.columns)}
        schema = pa.schema([column for column in self._whole if column.name in needed])
        path = self._storage.path_of_uri(file["path"])
        with self._storage.system().open_input_file(path) as source:
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            stored = [name for name in parquet.schema_arrow.names if name in needed and name not in values]
            for batch in parquet.iter_batches(_ROWS, columns=stored):
                kept = kept_rows(deleted, first, batch.num_rows)
                first += batch.num_rows
                rows = pa.table([self._column(batch, kept, column, values) for column in schema], schema=schema)
                if self._filter is not None:
                    rows = rows.filter(self._filter.expression)
                for part in rows.select(self._names).to_batches():
                    if part.num_rows:
                        yield part

    @staticmethod
    def _column(batch: pa.RecordBatch, kept: pa.Array, column: pa.Field, values: Mapping[str, pa.Scalar]) -> pa.Array:
        if column.name in values:
            return pa.repeat(values[column.name], len(kept))
        if column.name not in batch.schema.names:
            return pa.nulls(len(kept), column.type)
        return batch.column(column.name).take(kept).cast(column.type)

    def _vector(self, vector: Mapping[str, Any]) -> Any:
        path = vector_path(vector)
        if path is None:
            return deleted_rows(vector, None)
        stored = self._storage.read(
            self._storage.path_of_uri(path), int(vector.get("offset") or 0), int(vector["sizeInBytes"]) + 8
        )
        return deleted_rows(vector, stored)
