"""Reading the files of a plan. Arrow's datasets read most of them, several at once. Files with a
deletion vector, and files with other names of columns than the table's metadata gives, are read one
by one.

Arrow skips row groups by ``Filter.pruning``; ``Filter.expression`` alone decides on rows, so that
it is the same for every file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from turnstile_client.core.filters import Filter, Where
from turnstile_client.failures import failures_at
from turnstile_client.storage import Storage
from turnstile_rows.definitions import Definition
from turnstile_rows.errors import DataMismatch
from turnstile_rows.partitions import partition_value
from turnstile_rows.reading import File, StoredRows, partition_columns, stored_columns, stored_rows
from turnstile_rows.shapes import is_named_alike, place_of, shape
from turnstile_rows.tracking import RowTracking
from turnstile_rows.vectors import deleted_rows, vector_path, vector_range

#: Spark writes times as INT96, which are nanoseconds where nothing else is said.
_FORMAT: Final = ds.ParquetFileFormat(read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))
_ROWS: Final = 131_072
_FOOTERS_AT_ONCE: Final = 16


class FileReader:
    """Reads rows of files of a table: the columns ``names`` of the rows for which ``filter`` is
    true. With ``tracking`` two of them are those of the row ids
    (:func:`turnstile_rows.tracking.with_row_ids`)."""

    def __init__(
        self,
        storage: Storage,
        definition: Definition,
        names: Sequence[str],
        filter: Filter | None,
        tracking: RowTracking | None = None,
    ) -> None:
        self._tracking = tracking
        self._storage = storage
        self._filter = filter
        # A partition column is no part of the files. Columns take null: a file may be older than a
        # column.
        columns = [column.with_nullable(nullable=True) for column in definition.schema]
        self._stored = stored_columns(definition)
        self._whole = pa.schema([*self._stored.values()])
        self._partitions = {self._stored[name].name: self._stored[name] for name in definition.partitions}
        self._names = list(names)
        self.schema = pa.schema([columns[definition.schema.get_field_index(name)] for name in names])
        needed = {*names, *(() if filter is None else filter.columns)}
        self._needed = pa.schema([column for column in columns if column.name in needed])
        self._needed_stored = pa.schema([self._stored[name] for name in self._needed.names])

    def rows(self, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        """The rows of files, in no particular order. Raises
        :class:`turnstile_client.errors.Unsupported` for a file that cannot be read rightly, and
        :class:`turnstile_client.errors.StorageFailure`.
        """
        found = self._rows(files)
        while True:
            with failures_at(self._storage.location):  # and not while the caller has the rows
                batch = next(found, None)
            if batch is None:
                return
            yield batch

    def _rows(self, files: Sequence[File]) -> Iterator[pa.RecordBatch]:
        if self._tracking is not None:  # ids follow from positions
            for file in files:
                yield from self._one_by_one(file)
            return
        fragments, others = self._fragments([file for file in files if not file.get("deletionVector")])
        if fragments:
            dataset = ds.FileSystemDataset(fragments, self._whole, _FORMAT, self._storage.system())
            pruning = None if self._filter is None else self._filter.pruning
            columns = self._needed_stored.names
            for batch in dataset.to_batches(columns=columns, filter=pruning, batch_size=_ROWS):
                yield from self._wanted_batches(batch.columns)
        for file in [*others, *(file for file in files if file.get("deletionVector"))]:
            yield from self._one_by_one(file)

    def _fragments(self, files: Sequence[File]) -> tuple[list[Any], list[File]]:
        """The files that Arrow's dataset reads as fragments, and the files in which it would not
        find the columns. Their footers are read at once."""
        stored = [column for column in self._needed_stored if column.name not in self._partitions]
        fragments = [self._fragment(file) for file in files]
        with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
            schemas = list(pool.map(lambda fragment: fragment.physical_schema, fragments))
        alike = [all(is_named_alike(schema, column) for column in stored) for schema in schemas]
        whole = [fragment for fragment, is_alike in zip(fragments, alike, strict=True) if is_alike]
        return whole, [file for file, is_alike in zip(files, alike, strict=True) if not is_alike]

    def _wanted_batches(self, columns: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
        """The wanted rows and columns of ``columns``, which are those of ``_needed_stored``."""
        named = [
            shape(values, column.type, by_position=True) for values, column in zip(columns, self._needed, strict=True)
        ]
        rows = pa.Table.from_batches([pa.RecordBatch.from_arrays(named, schema=self._needed)])
        if self._filter is not None:
            rows = rows.filter(self._filter.expression)
        for part in rows.select(self._names).to_batches():
            if part.num_rows:
                yield pa.RecordBatch.from_arrays(part.columns, schema=self.schema)

    def _fragment(self, file: File) -> Any:
        condition: pc.Expression | None = None
        for name, value in partition_columns(self._partitions, file).items():
            part = pc.field(name) == value if value.is_valid else pc.field(name).is_null()
            condition = part if condition is None else condition & part
        # with the size no request asks for it
        path = self._storage.path_of_uri(file["path"])
        size = int(file["size"])
        return _FORMAT.make_fragment(path, self._storage.system(), partition_expression=condition, file_size=size)

    def _one_by_one(self, file: File) -> Iterator[pa.RecordBatch]:
        """The rows of one file without the rows in its deletion vector."""
        deleted = self._vector(file["deletionVector"]) if file.get("deletionVector") else None
        values = partition_columns(self._partitions, file)
        path = self._storage.path_of_uri(file["path"])
        with self._storage.system().open_input_file(path) as source:
            parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
            for found in stored_rows(parquet, self._needed_stored, values, deleted, _ROWS):
                if self._tracking is not None:
                    self._fill_ids(file, found)
                yield from self._wanted_batches(found.columns)

    def _fill_ids(self, file: File, found: StoredRows) -> None:
        """Puts row ids and row commit versions into the columns."""
        assert self._tracking is not None
        positions = found.positions()
        for name in (self._tracking.ids, self._tracking.versions):
            place = place_of(found.rows.schema, self._stored[name])
            stored = None if place is None else found.rows.column(place)
            at = self._needed_stored.get_field_index(name)
            found.columns[at] = self._tracking.column(name, file, stored, positions)

    def _vector(self, vector: Mapping[str, Any]) -> Any:
        path = vector_path(vector)
        if path is None:
            return deleted_rows(vector, None)
        stored = self._storage.read(self._storage.path_of_uri(path), *vector_range(vector))
        return deleted_rows(vector, stored)


def columns_of(columns: Sequence[str] | None, definition: Definition) -> list[str]:
    """The names of columns as the table has them. Raises :class:`DataMismatch` for one that it has
    not."""
    names = {name.lower(): name for name in definition.schema.names}
    if columns is None:
        return list(names.values())
    unknown = [name for name in columns if name.lower() not in names]
    if unknown:
        raise DataMismatch(
            f"columns: the table has no {', '.join(map(repr, unknown))}; it has {', '.join(names.values())}"
        )
    return [names[name.lower()] for name in columns]


def partition_filter(where: Where | None, definition: Definition, consequence: str) -> Filter | None:
    """Returns the filter of conditions on partition columns; None without conditions. Raises
    :class:`DataMismatch`, with its consequence, for a condition on another column."""
    if where is None:
        return None
    filter = Filter(where, definition.fields, definition.schema)
    if not filter.columns <= set(definition.partitions):
        others = ", ".join(sorted(filter.columns - set(definition.partitions)))
        raise DataMismatch(f"where: {others} is no partition column; {consequence}")
    return filter


def is_within(file: Mapping[str, Any], filter: Filter, definition: Definition) -> bool:
    """Whether the filter, on partition columns, is true of the rows of a file: a plan may show
    more."""
    stored = dict(zip(definition.schema.names, definition.stored_schema.names, strict=True))
    columns = {}
    for name in filter.columns:
        type = definition.schema.field(name).type
        value = partition_value(file["partitionValues"].get(stored[name]), type, name)
        columns[name] = pa.array([value.as_py()], type)
    return bool(pa.table(columns).filter(filter.expression).num_rows)
