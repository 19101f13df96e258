"""Values of JSON in the types of columns: accepted as they are, or refused with their place."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.support.fakes.rows import JSON, column, definition_of, list_of, map_of, struct_of
from turnstile.ingest.core.bodies import rows_of
from turnstile.ingest.core.errors import InvalidRows
from turnstile.ingest.core.values import BadValue, column_of, converter


def value_of(type: Any, value: Any) -> Any:
    """The value in a column of a table, by way of a body of JSON where it is a text of JSON
    (bytes)."""
    definition = definition_of(column("v", type))
    if isinstance(value, bytes):
        (batch,) = rows_of(b'[{"v": ' + value + b"}]", JSON, definition)
        return batch.column(0)[0].as_py()
    return column_of([value], definition.schema.field(0), lambda at: f"row {at + 1}")[0].as_py()


UTC = dt.UTC

ACCEPTED: list[tuple[Any, bytes, Any]] = [
    ("byte", b"-128", -128),
    ("byte", b"127", 127),
    ("byte", b'" +7 "', 7),
    ("short", b"-32768", -32768),
    ("integer", b"2147483647", 2147483647),
    ("long", b"-9223372036854775808", -(2**63)),
    ("long", b'"9223372036854775807"', 2**63 - 1),
    ("long", b"2.0", 2),
    ("long", b"1e3", 1000),
    ("long", b"-0.0", 0),
    ("double", b"1", 1.0),
    ("double", b"0.1", 0.1),
    ("double", b'"1e-400"', 0.0),
    ("double", b'" -1.5E2 "', -150.0),
    ("double", b'"Infinity"', math.inf),
    ("double", b'"-inf"', -math.inf),
    ("double", b"1.7976931348623157e308", 1.7976931348623157e308),
    ("float", b"0.5", 0.5),
    ("float", b"3.4028234663852886e38", 3.4028234663852886e38),
    ("float", b'"-Infinity"', -math.inf),
    ("decimal(10,2)", b"12345678.91", Decimal("12345678.91")),
    ("decimal(10,2)", b'"-0.10"', Decimal("-0.10")),
    ("decimal(10,2)", b"1e5", Decimal("100000.00")),
    ("decimal(10,2)", b"0e999999", Decimal("0.00")),
    ("decimal(10,2)", b'"1.1000000000000000000000"', Decimal("1.10")),
    ("decimal(38,0)", b"9" * 38, Decimal("9" * 38)),
    ("decimal(38,38)", b"0." + b"9" * 38, Decimal("0." + "9" * 38)),
    ("decimal(20,0)", b"18446744073709551615", Decimal(2**64 - 1)),
    ("boolean", b"true", True),
    ("boolean", b'"N"', False),
    ("boolean", b'" yes "', True),
    ("string", b'""', ""),
    ("string", b'"\\u0000\\ud83d\\ude00"', "\0😀"),
    ("binary", b'""', b""),
    ("binary", b'"AP8="', b"\x00\xff"),
    ("date", b'"0001-01-01"', dt.date(1, 1, 1)),
    ("date", b'"9999-12-31"', dt.date(9999, 12, 31)),
    ("date", b'" 2024-2-29 "', dt.date(2024, 2, 29)),
    ("timestamp", b'"2026-01-31"', dt.datetime(2026, 1, 31, tzinfo=UTC)),
    ("timestamp", b'"2026-01-31 10:20"', dt.datetime(2026, 1, 31, 10, 20, tzinfo=UTC)),
    ("timestamp", b'"2026-01-31T10:20:30.5Z"', dt.datetime(2026, 1, 31, 10, 20, 30, 500_000, UTC)),
    ("timestamp", b'"2026-01-31T10:20:30.123456789+01:30"', dt.datetime(2026, 1, 31, 8, 50, 30, 123_456, UTC)),
    ("timestamp", b'"2026-01-31T00:20:30 -0100"', dt.datetime(2026, 1, 31, 1, 20, 30, tzinfo=UTC)),
    ("timestamp", b'"2026-01-31T00:20:30+01"', dt.datetime(2026, 1, 30, 23, 20, 30, tzinfo=UTC)),
    ("timestamp", b'"2026-01-31T00:20:30 UTC"', dt.datetime(2026, 1, 31, 0, 20, 30, tzinfo=UTC)),
    ("timestamp_ntz", b'"2026-01-31T10:20:30.000001"', dt.datetime(2026, 1, 31, 10, 20, 30, 1)),
    (list_of("integer"), b"[1, null, 2.0]", [1, None, 2]),
    (list_of(list_of("string")), b'[[], null, ["x"]]', [[], None, ["x"]]),
    (struct_of(column("A", "long"), column("b", "date")), b'{"a": 1}', {"A": 1, "b": None}),
    (map_of("string", "long"), b'{"x": 1, "y": null}', [("x", 1), ("y", None)]),
    (map_of("date", "long"), b'{"2026-01-31": 1}', [(dt.date(2026, 1, 31), 1)]),
    (map_of("string", struct_of(column("x", "long"))), b'{"k": {"X": 2}}', [("k", {"x": 2})]),
]


@pytest.mark.parametrize(("type", "text", "expected"), ACCEPTED)
def test_a_value_that_fits_its_column_is_taken_as_it_is(type: Any, text: bytes, expected: Any) -> None:
    assert value_of(type, text) == expected
    assert value_of(type, b"null") is None


@pytest.mark.parametrize("text", ["NaN", " nan ", "NAN"])
@pytest.mark.parametrize("type", ["float", "double"])
def test_the_text_nan_is_no_number_as_a_number(type: str, text: str) -> None:
    assert math.isnan(value_of(type, text))


REFUSED: list[tuple[Any, bytes, str]] = [
    ("byte", b"128", "128 is outside of -128 to 127"),
    ("byte", b"-129", "outside"),
    ("byte", b"true", "true is a boolean".replace("true", "True", 1)),
    ("short", b"32768", "outside"),
    ("integer", b'"2147483648"', "outside"),
    ("long", b"9223372036854775808", "outside"),
    ("long", b"2.5", "2.5 is a number, and the column takes a whole number"),
    ("long", b"9007199254740994.0", "whole number"),
    ("long", b'"1.0"', "no whole number"),
    ("long", b'"1_0"', "no whole number"),
    ("long", b'"0x10"', "no whole number"),
    ("long", b'""', "no whole number"),
    ("long", '"١"'.encode(), "no whole number"),
    ("long", b"[1]", "an array"),
    ("long", b'"' + b"9" * 1000 + b'"', "no whole number"),
    ("double", b"1" + b"0" * 309, "too great"),
    ("double", b'"1e400"', "too great"),
    ("double", b'"1,5"', "no number"),
    ("double", b'"0x1p3"', "no number"),
    ("double", b'"1e999999"', "no number"),
    ("double", b"true", "a boolean"),
    ("float", b"3.5e38", "too great"),
    ("decimal(10,2)", b"123456789", "more than 8 digits before the point"),
    ("decimal(10,2)", b"0.001", "more than 2 digits after the point"),
    ("decimal(10,2)", b"1e99999999", "too many digits"),
    ("decimal(10,2)", b"1e-99999999", "too many digits"),
    ("decimal(10,2)", b"0." + b"1" * 1000, "too many digits"),
    ("decimal(10,2)", b'"NaN"', "no number"),
    ("decimal(10,2)", b'"Infinity"', "no number"),
    ("decimal(10,2)", b'"1 2"', "no number"),
    ("decimal(10,2)", b"false", "a boolean"),
    ("decimal(38,38)", b"1", "more than 0 digits before"),
    ("boolean", b"1", "true or false"),
    ("boolean", b'"maybe"', "true or false"),
    ("string", b"1", "put it in quotation marks"),
    ("string", b'{"a": 1}', "an object"),
    ("binary", b'"AP8"', "no base64"),
    ("binary", b'"A P8="', "no base64"),
    ("binary", '"é==="'.encode(), "no base64"),
    ("binary", b"1", "base64"),
    ("date", b'"2026-02-30"', "no day of the calendar"),
    ("date", b'"0000-01-01"', "no day of the calendar"),
    ("date", b'"10000-01-01"', "a date, as"),
    ("date", b'"2026-01-31T00:00:00Z"', "a date, as"),
    ("date", b"20260131", "a date, as"),
    ("timestamp", b'"2026-02-30T00:00:00Z"', "no time of the calendar"),
    ("timestamp", b'"2026-01-31T24:00:00Z"', "no time of the calendar"),
    ("timestamp", b'"2026-01-31T10:20:60Z"', "no time of the calendar"),
    ("timestamp", b'"2026-01-31T10:20.5Z"', "a time, as"),
    ("timestamp", b'"2026-01-31T10Z"', "a time, as"),
    ("timestamp", b'"2026-01-31T10:20:30 Europe/Bern"', "a time, as"),
    ("timestamp", b'"2026-01-31T10:20:30+25:00"', "no time of the calendar"),
    ("timestamp", b'"0001-01-01T00:00:00+01:00"', "before the year 1"),
    ("timestamp", b'"9999-12-31T23:59:59-01:00"', "after 9999"),
    ("timestamp", b"1769853600", "a time, as"),
    ("timestamp_ntz", b'"2026-01-31T10:20:30Z"', "has a zone"),
    (list_of("integer"), b'"[1]"', "an array"),
    (list_of("integer"), b'[1, "x"]', "column 'v[1]'"),
    (struct_of(column("a", "long")), b"[1]", "an object"),
    (struct_of(column("a", "long")), b'{"b": 1}', "the field 'b' is not in the table"),
    (struct_of(column("a", "long")), b'{"a": 1, "A": 2}', "a field is there twice"),
    (struct_of(column("a", list_of("long"))), b'{"a": [1, "x"]}', "column 'v.a[1]'"),
    (map_of("integer", "long"), b'{"x": 1}', "column 'v.key'"),
    (map_of("integer", "long"), b'{"1": 1, "01": 2}', "two keys of the map are the same"),
    (map_of("string", "long"), b'{"x": "y"}', "column \"v['x']\""),
    (map_of("string", "long"), b"[]", "an object"),
]


@pytest.mark.parametrize(("type", "text", "message"), REFUSED)
def test_a_value_that_does_not_fit_is_refused_with_its_row_and_column(type: Any, text: bytes, message: str) -> None:
    with pytest.raises(InvalidRows) as caught:
        value_of(type, text)
    assert message in str(caught.value)
    assert str(caught.value).startswith("row 1: column ")
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", [b"1" * 5000, b"1e999999999999999999999", b"NaN", b'"\\ud800"', b"'x'"])
def test_what_json_does_not_have_is_refused(text: bytes) -> None:
    for type in ("long", "double", "decimal(10,2)", "string"):
        with pytest.raises(InvalidRows):
            value_of(type, text)


@pytest.mark.parametrize("type", ["double", "decimal(10,2)", "long", "date", "timestamp", "boolean", "binary"])
def test_a_text_of_a_million_characters_is_refused_in_one_pass(type: str) -> None:
    for text in (
        "1" * 1_000_000 + "x",
        "1." + "1" * 1_000_000 + "x",
        " " * 1_000_000 + "x",
        "2026-01-31T" + "1" * 1_000_000,
    ):
        with pytest.raises(InvalidRows):
            value_of(type, text)


def test_a_text_with_half_of_a_pair_of_surrogates_is_refused() -> None:
    with pytest.raises(InvalidRows, match="half of a pair"):
        value_of("string", "x\ud800")


@pytest.mark.parametrize(
    ("type", "text", "message"),
    [
        (list_of("long", nullable=False), b"[1, null]", "column 'v[1]': it takes no nulls"),
        (map_of("string", "long", nullable=False), b'{"x": null}', "takes no nulls"),
        (struct_of(column("a", "long", nullable=False)), b"{}", "column 'v.a': it takes no nulls"),
        (struct_of(column("a", "long", nullable=False)), b'{"a": null}', "column 'v.a': it takes no nulls"),
    ],
)
def test_a_null_is_refused_where_the_type_takes_none(type: Any, text: bytes, message: str) -> None:
    with pytest.raises(InvalidRows, match="no nulls") as caught:
        value_of(type, text)
    assert message in str(caught.value)
    assert value_of(type, b"null") is None


@pytest.mark.parametrize("body", [b'[{"v": 1}, {"v": null}]', b'[{"v": 1}, {}]'])
def test_a_column_that_takes_no_nulls_refuses_them_and_rows_without_it(body: bytes) -> None:
    definition = definition_of(column("v", "long", nullable=False), column("w", "long"))
    with pytest.raises(InvalidRows, match="row 2: column 'v' takes no nulls"):
        rows_of(body, JSON, definition)
    with pytest.raises(InvalidRows, match="row 1: column 'v' takes no nulls"):
        rows_of(b'[{"w": 1}]', JSON, definition)


def test_the_first_bad_value_of_many_is_named() -> None:
    values = [*range(1000), "x", *range(10), 2**70]
    field = pa.field("v", pa.int64())
    with pytest.raises(InvalidRows, match="line 1001: column 'v'"):
        column_of(values, field, lambda at: f"line {at + 1}")
    with pytest.raises(InvalidRows, match="line 3: column 'v'"):
        column_of([1, 2, 2**63], field, lambda at: f"line {at + 1}")


def test_a_bad_value_has_its_place_below_the_column() -> None:
    convert = converter(pa.list_(pa.struct([("x", pa.map_(pa.string(), pa.int8()))])))
    with pytest.raises(BadValue) as caught:
        convert([{"x": {"k": 1000}}])
    assert caught.value.path == "[0].x['k']"
