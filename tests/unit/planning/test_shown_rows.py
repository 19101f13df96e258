"""Values as JSON: exact where they are shown whole, and short. tests/unit/ingest/test_properties.py
has that rows are taken back as they were."""

from __future__ import annotations

from typing import Any

import msgspec
import pyarrow as pa
import pytest

from turnstile.planning.core.shown_rows import NESTED_BYTES, TEXT_CHARACTERS, json_values, shown_rows


@pytest.mark.parametrize(
    ("type", "value", "shown"),
    [
        (pa.int64(), 2**53 - 1, 2**53 - 1),
        (pa.int64(), 2**53, "9007199254740992"),
        (pa.int64(), -(2**53), "-9007199254740992"),
        (pa.float32(), 0.1, 0.1),
        (pa.float64(), float("nan"), "NaN"),
        (pa.float32(), float("-inf"), "-Infinity"),
        (pa.decimal128(38, 18), "0.000000000000000001", "0.000000000000000001"),
        (pa.date32(), 3_650_000, "11963-05-13"),
        (pa.timestamp("us", "UTC"), 500, "1970-01-01T00:00:00.0005Z"),
        (pa.timestamp("us", "UTC"), 0, "1970-01-01T00:00:00Z"),
        (pa.timestamp("us"), 10_000_000, "1970-01-01T00:00:10"),
        (pa.binary(), b"\0\xff", "AP8="),
        (pa.map_(pa.int64(), pa.string()), [(1, "a")], {"1": "a"}),
        (pa.map_(pa.bool_(), pa.string()), [(True, None)], {"true": None}),
        (pa.map_(pa.list_(pa.int64()), pa.int64()), [([1], 2)], [{"key": [1], "value": 2}]),
        (pa.struct([]), {}, {}),
        (pa.list_(pa.int64()), [2**53], ["9007199254740992"]),
        (pa.struct([("x", pa.float64())]), {"x": float("nan")}, {"x": "NaN"}),
    ],
)
def test_values(type: pa.DataType, value: Any, shown: Any) -> None:
    given = pa.array([value], pa.string()).cast(type) if pa.types.is_decimal(type) else pa.array([value, None], type)
    assert json_values(given)[0] == shown
    assert msgspec.json.decode(msgspec.json.encode(json_values(given)))[0] == shown
    assert json_values(given)[1:] in ([], [None])


def test_a_long_text_is_cut_and_a_large_list_is_its_size() -> None:
    texts = pa.array(["x" * TEXT_CHARACTERS, "x" * (TEXT_CHARACTERS + 1), None])
    lists = pa.array([list(range(10)), list(range(NESTED_BYTES)), None])
    found = shown_rows(["t", "l"], [texts, lists])
    assert [row.cut for row in found] == [0, 2, 0]
    very_long = shown_rows(["t"], [pa.array(["x" * (NESTED_BYTES + 1)])])
    assert very_long[0].values == {"t": "x" * TEXT_CHARACTERS + "…"}
    lists = [pa.array([[*range(count)]], pa.list_(pa.int32())) for count in (NESTED_BYTES // 4 - 1, NESTED_BYTES // 4)]
    assert [one.nbytes for one in lists] == [NESTED_BYTES, NESTED_BYTES + 4]
    assert [shown_rows(["l"], [one])[0].cut for one in lists] == [0, 1]
    assert [row.values["t"] for row in found] == ["x" * TEXT_CHARACTERS, "x" * TEXT_CHARACTERS + "…", None]
    assert [row.values["l"] for row in found] == [[*range(10)], "(32 KiB)", None]
