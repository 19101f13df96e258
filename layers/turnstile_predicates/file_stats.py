"""Bounds on the rows of a data file, from its partition values and statistics. Pure.

Source: Delta's protocol, *Per-file Statistics*, *Partition Value Serialization*, *Column Mapping*;
Delta 4.4's ``StatisticsCollection`` and ``DataSkippingReader``. A value that is missing, of another
type than expected, or known to be unreliable gives no bound: the file may then have any row.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Self

from turnstile_predicates.predicates import ANYTHING, KINDS, Column, Kind, Range

Action = Mapping[str, Any]
_INTEGERS: Final = frozenset(("byte", "short", "integer", "long"))
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*-?\d+\)")
#: Members of a field's metadata with which values may compare in another way than their stored
#: form.
_OTHER_ORDER: Final = ("__COLLATIONS", "__CHAR_VARCHAR_TYPE_STRING")
_TYPE_CHANGES: Final = "delta.typeChanges"
_PHYSICAL: Final = "delta.columnMapping.physicalName"
#: Characters. Delta truncates strings in statistics here by default, rounding maxima up; not
#: everybody rounds.
_TRUNCATED: Final = 32
_MS: Final = 1000  # µs. Timestamps in statistics are cut to milliseconds.
_ZONES: Final = 18 * 3600 * 1_000_000  # µs. No zone is further from UTC.
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00")
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_MOMENT: Final = re.compile(r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}:\d{2})(\.\d{1,6})?(Z|[+-]\d{2}:\d{2})?")


@dataclass(frozen=True, slots=True)
class Field:
    """A column by its stored name. ``kind`` None: nothing is known of its order. ``widened``: its
    type was widened (Delta protocol, *Type Widening*), so older files have statistics in the old
    one.
    """

    physical: Column
    type: str
    kind: Kind | None
    widened: bool


class TableSchema:
    """The columns of a table as its log names them.

    ``schema``: the parsed ``schemaString``; ``partition_columns``: ``partitionColumns``;
    ``column_mapping``: the property ``delta.columnMapping.mode`` (``none``, ``name``, ``id``).
    """

    def __init__(
        self, schema: Mapping[str, Any], partition_columns: Sequence[str] = (), column_mapping: str = "none"
    ) -> None:
        self._fields: dict[Column, Field] = {}
        self._partitions = frozenset(partition_columns)
        self._collect(schema, (), (), mapped=column_mapping != "none")

    @classmethod
    def of(cls, metadata: Action) -> Self:
        """Of a ``metaData`` action."""
        mode = (metadata.get("configuration") or {}).get("delta.columnMapping.mode", "none")
        return cls(json.loads(metadata["schemaString"]), metadata.get("partitionColumns") or (), mode)

    @classmethod
    def of_loaded(cls, metadata: Mapping[str, Any]) -> Self:
        """Of the ``metadata`` of a table that the server has loaded."""
        mode = (metadata.get("properties") or {}).get("delta.columnMapping.mode", "none")
        return cls(metadata["schema"], metadata.get("partition_columns") or (), mode)

    def _collect(self, schema: Mapping[str, Any], logical: Column, stored: Column, *, mapped: bool) -> None:
        for field in schema.get("fields", ()):
            metadata = field.get("metadata") or {}
            name = (*logical, field["name"])
            physical = (*stored, metadata.get(_PHYSICAL, field["name"]) if mapped else field["name"])
            if isinstance(field["type"], Mapping):
                if field["type"].get("type") == "struct":
                    self._collect(field["type"], name, physical, mapped=mapped)
                continue
            kind = None if any(key in metadata for key in _OTHER_ORDER) else kind_of(field["type"])
            self._fields[name] = Field(physical, field["type"], kind, _TYPE_CHANGES in metadata)

    @property
    def fields(self) -> Mapping[Column, Field]:
        """Columns of a primitive type, and fields of structs, by the names that a query uses."""
        return self._fields

    @property
    def partitions(self) -> frozenset[str]:
        """Names of the partition columns."""
        return self._partitions

    def ranges_of(self, file: Action) -> Callable[[Column], Range] | None:
        """The ranges of the columns in a file, by an ``add`` or ``remove``; None if it has no
        rows."""
        stats = _stats(file.get("stats"))
        rows = stats.get("numRecords")
        rows = rows if type(rows) is int else None
        if rows == 0:
            return None
        partition_values = file.get("partitionValues")

        def range_of(column: Column) -> Range:
            field = self._fields.get(column)
            if field is None:
                return ANYTHING
            if column[0] in self._partitions and len(column) == 1:
                return _of_partition(field, partition_values)
            return _of_stats(field, stats, rows)

        return range_of


def kind_of(type_name: str) -> Kind | None:
    """Returns how values of a type compare; None where nothing is known of that."""
    if type_name in _INTEGERS:
        return "integer"
    return "decimal" if _DECIMAL.fullmatch(type_name) else KINDS.get(type_name)


def _stats(text: Any) -> dict[str, Any]:
    if not isinstance(text, str):
        return {}
    try:
        stats = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return {}
    return stats if isinstance(stats, dict) else {}


def _of_partition(field: Field, values: Any) -> Range:
    """A partition value: a text, or null. Spark writes the empty string as null."""
    if not isinstance(values, Mapping) or field.physical[-1] not in values:
        return ANYTHING
    text = values[field.physical[-1]]
    if text is None:
        return Range(field.kind, has_values=False)
    if field.kind is None and field.type == "string" and text:
        return Range(has_nulls=False)
    if text == "" or field.kind is None or (field.widened and field.kind != "integer"):
        return ANYTHING
    bounds = _partition_bounds(field, text)
    if bounds is None:
        return ANYTHING  # Spark reads what it cannot parse as null
    low, high = bounds
    return Range(field.kind, low, high, has_nulls=False)


def _partition_bounds(field: Field, text: str) -> tuple[Any, Any] | None:
    try:
        match field.kind:
            case "boolean" if text in ("true", "false"):
                return text == "true", text == "true"
            case "integer" if re.fullmatch(r"-?\d+", text):
                return int(text), int(text)
            case "decimal":
                return Decimal(text), Decimal(text)
            case "float":
                value = _float(field.type, text)
                return None if value is None else (value, value)
            case "string":
                return text, text
            case "date":
                days = _days(text)
                return None if days is None else (days, days)
            case "timestamp" | "timestamp_ntz":
                moment = _micros(text)
                if moment is None:
                    return None
                micros, zoned = moment
                if field.kind == "timestamp_ntz":
                    return None if zoned else (micros, micros)
                # Without a zone it is the writer's, which the log does not name.
                return (micros, micros) if zoned else (micros - _ZONES, micros + _ZONES)
    except (ValueError, InvalidOperation, OverflowError):
        return None
    return None


def _of_stats(field: Field, stats: Mapping[str, Any], rows: int | None) -> Range:
    nulls = _at(stats.get("nullCount"), field.physical)
    has_nulls = not (type(nulls) is int and nulls == 0)
    has_values = not (type(nulls) is int and rows is not None and nulls == rows)
    low = _at(stats.get("minValues"), field.physical)
    high = _at(stats.get("maxValues"), field.physical)
    is_prefix = field.kind == "string" and isinstance(high, str) and len(high) >= _TRUNCATED
    low = _bound_of(field, low, -1)
    high = _bound_of(field, high, +1)
    if low is not None and high is not None and low > high:
        low = high = None
    return Range(field.kind, low, high, has_nulls, has_values, field.kind == "float", is_prefix and high is not None)


def _at(values: Any, column: Column) -> Any:
    for name in column:
        if not isinstance(values, dict):  # of parsed JSON; a check for Mapping takes ten times as long
            return None
        values = values.get(name)
    return values


def _bound_of(field: Field, value: Any, side: int) -> Any:
    """A minimum (``side`` -1) or maximum (+1) of the statistics as a bound of the values; None if
    it says nothing.

    Statistics from before a type was widened are in the old type: of the types compared here only
    integers are then exact.
    """
    if value is None or isinstance(value, bool) or (field.widened and field.kind != "integer"):
        return None
    try:
        match field.kind:
            case "integer":
                return value if type(value) is int else None
            case "decimal":
                return _decimal_bound(field, value, side)
            case "float":
                return _float(field.type, value)
            case "string":
                return value if isinstance(value, str) and not _has_surrogates(value) else None
            case "date":
                return _days(value)
            case "timestamp" | "timestamp_ntz":
                moment = _micros(value)
                if moment is None or moment[1] != (field.kind == "timestamp"):
                    return None
                return moment[0] + side * _MS
    except (ValueError, InvalidOperation, OverflowError):
        return None
    return None


def _decimal_bound(field: Field, value: Any, side: int) -> Decimal | None:
    if not isinstance(value, (int, Decimal)):
        return None
    number = Decimal(value)
    precision = _DECIMAL.fullmatch(field.type)
    if not number.is_finite() or precision is None:
        return None
    # Some writers pass decimals through a double, which holds 15 digits.
    slack = abs(number) * Decimal("1e-15") if int(precision[1]) > 15 else Decimal(0)
    return number + side * slack


def round_number(type_name: str, number: float) -> float:
    """Returns the number as a column of the type, ``float`` or ``double``, holds it. The shortest
    text of a ``float`` is not the same number as a ``double``, so both sides of a comparison have
    to be rounded.
    """
    return float(struct.unpack("f", struct.pack("f", number))[0]) if type_name == "float" else number


def _float(type_name: str, value: Any) -> float | None:
    """A finite number of the type."""
    number = round_number(type_name, float(value))
    return number if math.isfinite(number) else None


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


def _days(text: Any) -> int | None:
    if not isinstance(text, str) or not _DATE.fullmatch(text):
        return None
    return (date.fromisoformat(text) - date(1970, 1, 1)).days


def _micros(text: Any) -> tuple[int, bool] | None:
    """Microseconds since 1970, and whether the text says in which zone."""
    parts = _MOMENT.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        return None
    day, clock, fraction, zone = parts.groups()
    moment = datetime.fromisoformat(f"{day}T{clock}{(fraction or '.0').ljust(7, '0')}")
    micros = (moment - _EPOCH) // timedelta(microseconds=1)
    if zone and zone != "Z":
        offset = datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").utcoffset() or timedelta()
        micros -= offset // timedelta(microseconds=1)
    return micros, zone is not None
