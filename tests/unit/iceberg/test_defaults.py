"""I9: default values are written as readers want them. The table of what fits was made by asking
Java's (1.11.0), which reads more forms than PyIceberg's."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from pyiceberg.schema import Schema as PyIcebergSchema

from turnstile.iceberg.core.schema import Field, ListType, Schema, StructType, Type, check, fits
from turnstile.store.core.errors import InvalidRequest

UUID = "f79c3e09-677c-4bbd-a479-3f349cb785e7"
FIT: list[tuple[str, list[Any]]] = [
    ("boolean", [True, False]),
    ("int", [1, -(2**31)]),
    ("long", [2**63 - 1]),
    ("float", [1.5]),
    ("double", [-1.5]),
    ("decimal(9, 2)", ["1.25", "-1.25", "0.00", "1234567.89"]),
    ("decimal(9,0)", ["1", "-1"]),
    ("date", ["2026-01-01", "2024-02-29"]),
    ("time", ["10:20:30", "10:20:30.123456"]),
    ("timestamp", ["2026-01-01T10:20:30", "2026-01-01T10:20:30.123456"]),
    ("timestamptz", ["2026-01-01T10:20:30+00:00", "2026-01-01T10:20:30.123456+00:00"]),
    ("timestamp_ns", ["2026-01-01T10:20:30.123456789"]),
    ("timestamptz_ns", ["2026-01-01T10:20:30.123456789+00:00"]),
    ("string", ["", "x"]),
    ("uuid", [UUID, UUID.upper()]),
    ("fixed[2]", ["00ff", "00FF"]),
    ("binary", ["", "00ff"]),
]
UNFIT: list[tuple[str, list[Any]]] = [
    ("boolean", [1, "true"]),
    ("int", [2**31, 1.0, "1", True]),
    ("long", [2**63, 1.5, "1"]),
    ("float", [1, "1.5"]),
    ("double", [1, "NaN"]),
    ("decimal(9, 2)", ["1.2", "1", 1.25, "12345678.90", "x", "1E+2", "1٣.25"]),
    ("decimal(9,0)", ["1.", "", "0x1"]),
    ("date", ["2026-1-1", 1, "2026-02-30", "20260101"]),
    ("time", ["25:00:00", "10:20:30Z", 1]),
    ("timestamp", ["2026-01-01 10:20:30", "2026-01-01T10:20:30+00:00", "2026-13-01T10:20:30"]),
    ("timestamptz", ["2026-01-01T10:20:30", "2026-01-01T10:20:30+01:00", "2026-01-01T10:20:30Z"]),
    ("timestamp_ns", ["2026-01-01T10:20:30.1234567890"]),
    ("string", [1]),
    ("uuid", ["1-1-1-1-1", "x", UUID + "0"]),
    ("fixed[2]", ["0", "000000", "zzzz", 1]),
    ("binary", ["0", "zz"]),
    ("unknown", [1, "x"]),
    ("variant", [1, "x"]),
    ("geometry", ["POINT (1 1)"]),
]


@pytest.mark.parametrize(("type", "value"), [(type, value) for type, values in FIT for value in values])
def test_a_default_value_as_its_type_wants_it_fits(type: str, value: Any) -> None:
    assert fits(type, value)
    schema = Schema((Field(1, "a", type, False, initial_default=value, write_default=value),))
    check(schema, 3)
    if "_ns" not in type:  # PyIceberg 0.12 knows no default values of these
        PyIcebergSchema.model_validate_json(msgspec.json.encode(schema))


@pytest.mark.parametrize(("type", "value"), [(type, value) for type, values in UNFIT for value in values])
def test_i9_any_other_default_value_is_refused_before_it_is_written(type: str, value: Any) -> None:
    assert not fits(type, value)
    with pytest.raises(InvalidRequest, match="default value"):
        check(Schema((Field(1, "a", type, False, write_default=value),)), 3)


@pytest.mark.parametrize("type", [StructType((Field(2, "x", "int", False),)), ListType(2, "int", False)])
def test_i9_what_is_nested_has_no_default_value_but_null(type: Type) -> None:
    with pytest.raises(InvalidRequest, match="default value"):
        check(Schema((Field(1, "a", type, False, initial_default={}),)), 3)
