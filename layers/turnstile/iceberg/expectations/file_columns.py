"""Reads columns of a Parquet file as an Iceberg table has them: they are found by the ids of
fields, and get the types of the table's schema. Needs pyarrow.

Source: table specification, "Column Projection": a column that a file lacks has the value of an
identity partition, or its initial default, or is null. Only the last is read here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from turnstile.expectations.core.conditions import NotEvaluated
from turnstile.iceberg.core.schema import Field, StructType, Type
from turnstile.planning.file_rows import TableFiles
from turnstile_rows.schemas import FIELD_ID
from turnstile_rows.shapes import place_of, shape
from turnstile_rows.vectors import kept_rows

if TYPE_CHECKING:
    from pyroaring import BitMap64

_BATCH: Final = 8_192
_TYPES: Final = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), "binary": pa.binary(),
}  # fmt: skip
"""Types that files of other versions of the schema may have in narrower ones. A column of any other
type stays as the file has it."""
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")


def read_columns(
    files: TableFiles,
    path: str,
    fields: Sequence[Field],
    partitioned: Collection[int],
    *,
    deleted: BitMap64 | None = None,
) -> Iterator[list[pa.Array]]:
    """Yields the columns ``fields`` of the rows of a file, some at a time.

    Args:
        partitioned: ids of columns of which the file's partition has the value.
        deleted: the numbers of the rows that are left out.

    Raises NotEvaluated for a file without ids of fields, or without a column that has a value all
    the same; TableError; and pyarrow's exceptions for a file that is damaged.
    """
    with files.parquet(path) as parquet:
        schema = parquet.schema_arrow
        if not all(FIELD_ID in (field.metadata or {}) for field in schema):
            raise NotEvaluated(f"{path[-200:]!r} has columns without ids of fields")
        places = [place_of(schema, _arrow_field(field)) for field in fields]
        for field, place in zip(fields, places, strict=True):
            inside = field.type.fields if isinstance(field.type, StructType) else ()
            if any(_has_default(member) for member in inside) or (
                place is None and (_has_default(field) or field.id in partitioned)
            ):
                raise NotEvaluated(f"{path[-200:]!r} may have values of '{field.name}' that are elsewhere")
        stored = list(dict.fromkeys(schema.names[place] for place in places if place is not None))
        files.count_columns(parquet.metadata, stored)
        first = 0
        for batch in parquet.iter_batches(_BATCH, columns=stored):
            kept = None if deleted is None else kept_rows(deleted, first, batch.num_rows)
            first += batch.num_rows
            columns = [_column(batch, _arrow_field(field)) for field in fields]
            yield columns if kept is None else [column.take(kept) for column in columns]


def _has_default(field: Field) -> bool:
    inside = field.type.fields if isinstance(field.type, StructType) else ()
    return field.initial_default is not None or any(_has_default(member) for member in inside)


def _column(rows: pa.RecordBatch, wanted: pa.Field) -> pa.Array:
    place = place_of(rows.schema, wanted)
    if place is None:
        return pa.nulls(rows.num_rows, wanted.type)
    return rows.column(place) if pa.types.is_null(wanted.type) else shape(rows.column(place), wanted.type)


def _arrow_field(field: Field) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.type) or pa.null(), metadata={FIELD_ID: str(field.id)})


def _arrow_type(type: Type) -> pa.DataType | None:
    """The type that values are cast to; None for one that stays as the file has it."""
    if isinstance(type, StructType):
        return pa.struct([_arrow_field(field) for field in type.fields if _arrow_type(field.type) is not None])
    if not isinstance(type, str):
        return None
    found = _DECIMAL.fullmatch(type)
    return pa.decimal128(int(found[1]), int(found[2])) if found else _TYPES.get(type)
