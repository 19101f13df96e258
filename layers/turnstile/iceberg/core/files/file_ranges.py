"""Bounds on the values of an Iceberg table's columns, from manifests and data files. Pure.

    columns = ScanColumns(metadata, schema)
    filters = parse(expression, columns.table, case_sensitive=True)                      #
    iceberg.core.expressions
    outcomes(filters.inclusive, columns.ranges_of_file(file, spec)) & TRUE               # some row
    may satisfy the filter

A value that is missing, or of another form than the column's type has, gives no bound: any value
may be there. Numbers of nulls in structs' fields are not used, since writers count rows without the
struct differently.

Sources: table specification, "Partition Transforms", "Scan Planning", appendix D "Binary
single-value serialization" and "Schema Evolution"; Java's ``InclusiveMetricsEvaluator`` and
``ProjectionUtil``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Context, Decimal
from typing import Any, Final

import msgspec

from turnstile.iceberg.core.files import manifests
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.core.schema import Field, Schema, StructType
from turnstile.planning.core.predicates import Column, TableColumns
from turnstile_predicates.predicates import ANYTHING, Kind, Range

Record = Mapping[int, Any]

_KINDS: Final[dict[str, Kind]] = {
    "boolean": "boolean",
    "int": "integer",
    "long": "integer",
    "float": "float",
    "double": "float",
    "decimal": "decimal",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
"""How values of a type compare; of other types nothing is known."""

_DELTA_TYPES: Final = {"int": "integer", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}
"""Types with other names in Delta, which ``TableColumns`` reads."""

#: As many digits as a decimal can have. Python's usual 28 would round a bound.
_DIGITS: Final = Context(prec=40)
_DAY_US: Final = 24 * 3600 * 1_000_000
_HOUR_US: Final = 3600 * 1_000_000
_EPOCH: Final = date(1970, 1, 1)


class _Column(msgspec.Struct, frozen=True):
    id: int
    kind: Kind | None
    type: str
    nested: bool


class ScanColumns:
    """The columns of ``schema``, a schema of the table, that the filter of a scan may name.

    A name that another schema of the table gives to another column is left out, and excludes
    nothing: clients bind a filter to the snapshot's schema or to the present one, and do not always
    say which.
    """

    def __init__(self, metadata: TableMetadata, schema: Schema) -> None:
        ids: dict[Column, set[int]] = {}
        for other in metadata.schemas:
            for path, field in _named_columns(other.fields, ()):
                ids.setdefault(_fold_column(path), set()).add(field.id)
        certain = {path for path, all_ids in ids.items() if len(all_ids) == 1}
        self._columns: dict[Column, _Column] = {}
        for path, field in _named_columns(schema.fields, ()):
            if _fold_column(path) in certain and isinstance(field.type, str):
                kind = _KINDS.get(field.type.partition("(")[0])
                self._columns[path] = _Column(field.id, kind, field.type, len(path) > 1)
        shown = {
            "type": "struct",
            "fields": [_delta(field, (), certain) for field in schema.fields if _fold_column((field.name,)) in certain],
        }
        self.table = TableColumns({"schemaString": msgspec.json.encode(shown).decode()})

    def id_of(self, name: Column) -> int | None:
        """Returns the id of a column's field; None for a column of no primitive type."""
        column = self._columns.get(name)
        return None if column is None else column.id

    def ranges_of_file(self, file: Record, spec: PartitionSpec) -> Callable[[Column], Range]:
        """The ranges of the columns in a data file, by its record in a manifest of partition spec
        ``spec``."""
        lower = map_of(file, manifests.LOWER_BOUNDS)
        upper = map_of(file, manifests.UPPER_BOUNDS)
        values = map_of(file, manifests.VALUE_COUNTS)
        nulls = map_of(file, manifests.NULL_COUNTS)
        nans = map_of(file, manifests.NAN_COUNTS)
        partition = file.get(manifests.PARTITION) or {}

        def range_of(name: Column) -> Range:
            column = self._columns.get(name)
            if column is None:
                return ANYTHING
            id = column.id
            low = _bound_value(column, lower.get(id))
            high = _bound_value(column, upper.get(id))
            has_nulls = column.nested or nulls.get(id) != 0
            has_values = column.nested or id not in nulls or nulls[id] != values.get(id)
            has_nan = column.kind == "float" and nans.get(id) != 0
            column_range = Range(column.kind, low, high, has_nulls, has_values, has_nan)
            for field in spec.fields:
                if field.source_id == id and field.field_id in partition:
                    value = partition[field.field_id]
                    column_range = _both(
                        column_range, _of_transform(column, field.transform, value, value, has_nulls=value is None)
                    )
            return column_range

        return range_of

    def ranges_of_manifest(self, entry: Record, spec: PartitionSpec) -> Callable[[Column], Range]:
        """The ranges of the columns in all files of a manifest, by its record in the manifest
        list."""
        summaries = entry.get(manifests.PARTITIONS) or ()

        def range_of(name: Column) -> Range:
            column = self._columns.get(name)
            column_range = ANYTHING
            if column is None or len(summaries) != len(spec.fields):
                return ANYTHING
            for field, summary in zip(spec.fields, summaries, strict=True):
                if field.source_id == column.id:
                    column_range = _both(column_range, _of_summary(column, field.transform, summary))
            return column_range

        return range_of


def current_columns(metadata: TableMetadata) -> ScanColumns:
    """Returns the columns of the current schema alone, whatever earlier ones have had the names."""
    return ScanColumns(msgspec.structs.replace(metadata, schemas=(metadata.schema,)), metadata.schema)


def map_of(file: Record, member: int) -> dict[int, Any]:
    """A map of a file's record, by the id of the column; empty where there is none."""
    key, value = manifests.MAP_IDS[member]
    return {each[key]: each[value] for each in file.get(member) or ()}


def single_value(type: str, raw: bytes) -> Any:
    """Returns a value of a primitive type from its binary form, as Avro has it or longer: an
    integer that was widened since. None for one of another form. Dates are days, times
    microseconds.
    """
    base = type.partition("(")[0]
    match base:
        case "boolean" if len(raw) == 1:
            return raw != b"\x00"
        case "int" | "long" if len(raw) in (4, 8):
            return int.from_bytes(raw, "little", signed=True)
        case "float" | "double" if len(raw) in (4, 8):
            number = struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
            return number if math.isfinite(number) else None
        case "date" if len(raw) == 4:
            return int.from_bytes(raw, "little", signed=True)
        case "timestamp" | "timestamptz" if len(raw) == 8:
            return int.from_bytes(raw, "little", signed=True)
        case "decimal" if 0 < len(raw) <= 16:
            return decimal_of(type, raw)
        case "string":
            try:
                return raw.decode()
            except UnicodeDecodeError:
                return None
    return None


def decimal_of(type: str, raw: bytes) -> Decimal:
    """Returns a decimal from its unscaled value (two's complement, big-endian)."""
    scale = int(type.rstrip(")").rpartition(",")[2])
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _DIGITS)


def _named_columns(fields: Sequence[Field], above: Column) -> Iterator[tuple[Column, Field]]:
    """Columns and fields of structs, by the names from the outside in; nothing inside lists and
    maps."""
    for field in fields:
        path = (*above, field.name)
        yield path, field
        if isinstance(field.type, StructType):
            yield from _named_columns(field.type.fields, path)


def _fold_column(path: Column) -> Column:
    return tuple(part.lower() for part in path)


def _delta(field: Field, above: Column, certain: set[Column]) -> dict[str, Any]:
    """A field in the form that ``TableColumns`` reads. Types without an order there become binary,
    which compares with nothing."""
    path = (*above, field.name)
    kind: Any = {"type": "array", "elementType": "binary", "containsNull": True}
    if isinstance(field.type, StructType):
        inside = [
            _delta(each, path, certain) for each in field.type.fields if _fold_column((*path, each.name)) in certain
        ]
        kind = {"type": "struct", "fields": inside}
    elif isinstance(field.type, str):
        base = field.type.partition("(")[0]
        kind = _DELTA_TYPES.get(base, field.type.replace(" ", "")) if base in _KINDS else "binary"
    return {"name": field.name, "type": kind, "nullable": True, "metadata": {}}


def _bound_value(column: _Column, raw: Any) -> Any:
    return single_value(column.type, raw) if isinstance(raw, bytes) else None


def _of_summary(column: _Column, transform: str, summary: Record) -> Range:
    """The bounds on a partition field's source, from the field's summary."""
    type = column.type if transform == "identity" else "int"
    low, high = (
        single_value(type, raw) if isinstance(raw, bytes) else None
        for raw in (summary.get(manifests.LOWER_BOUND), summary.get(manifests.UPPER_BOUND))
    )
    if low is None or high is None:
        return ANYTHING
    has_nan = column.kind == "float" and summary.get(manifests.CONTAINS_NAN) is not False
    has_nulls = summary.get(manifests.CONTAINS_NULL) is not False
    return _of_transform(column, transform, low, high, has_nulls=has_nulls, has_nan=has_nan)


def _of_transform(
    column: _Column, transform: str, low: Any, high: Any, *, has_nulls: bool, has_nan: bool = False
) -> Range:
    """The bounds on the source of partition values from ``low`` to ``high``; None for null. Times
    of an identity partition give no bound: a column that was once a date has days there."""
    kind = column.kind
    if low is None:
        is_injective = transform == "identity" or (
            transform in _SPANS and kind in ("date", "timestamp", "timestamp_ntz")
        )
        return Range(kind, has_values=False) if is_injective else ANYTHING
    if transform == "identity":
        low, high = (
            decimal_of(column.type, v) if kind == "decimal" and isinstance(v, bytes) else v for v in (low, high)
        )
        fits = all(_is_of(kind, value) for value in (low, high))
        return Range(kind, low, high, has_nulls, has_nan=has_nan) if fits else ANYTHING
    span = _SPANS.get(transform)
    if span is None or kind not in ("date", "timestamp", "timestamp_ntz") or type(low) is not int:
        return ANYTHING
    try:
        # Writers once rounded times before 1970 towards it: they are in the period after their own.
        first = span(low - 1 if low <= 0 else low)
        last = span(high + 1) - 1
    except (ValueError, OverflowError):
        return ANYTHING
    if kind == "date":
        first = first // _DAY_US
        last = last // _DAY_US
    return Range(kind, first, last, has_nulls)


def _months(months: int) -> int:
    """Microseconds since 1970 at which a month begins."""
    year, month = divmod(months, 12)
    return (date(1970 + year, month + 1, 1) - _EPOCH).days * _DAY_US


_SPANS: Final[dict[str, Callable[[int], int]]] = {
    "year": lambda years: _months(12 * years),
    "month": _months,
    "day": lambda days: days * _DAY_US,
    "hour": lambda hours: hours * _HOUR_US,
}
"""Microseconds since 1970 at which a period begins, by its number."""


def _is_of(kind: Kind | None, value: Any) -> bool:
    match kind:
        case "boolean":
            return isinstance(value, bool)
        case "integer" | "date":
            return type(value) is int
        case "float":
            return isinstance(value, float) and math.isfinite(value)
        case "decimal":
            return isinstance(value, Decimal)
        case "string":
            return isinstance(value, str)
        case _:  # times, and what has no order
            return False


def _both(first: Range, second: Range) -> Range:
    """The intersection of two ranges of the same values; no bound if they contradict each other."""
    if first is ANYTHING:
        return second
    low = max((each.low for each in (first, second) if each.low is not None), default=None)
    high = min((each.high for each in (first, second) if each.high is not None), default=None)
    has_nulls = first.has_nulls and second.has_nulls
    has_values = first.has_values and second.has_values
    if (low is not None and high is not None and low > high) or not (has_nulls or has_values):
        return ANYTHING
    return Range(first.kind, low, high, has_nulls, has_values, first.has_nan or second.has_nan)
