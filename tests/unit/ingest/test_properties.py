"""The same rows in every format are the same rows in the columns of the table; and no bytes at all
are more than a refusal."""

from __future__ import annotations

import base64
import datetime as dt
import functools
import json
import math
import random
from contextlib import suppress
from decimal import Context, Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes.rows import (
    ARROW,
    CSV,
    JSON,
    LINES,
    PARQUET,
    arrow_body,
    column,
    csv_body,
    definition_of,
    list_of,
    map_of,
    parquet_body,
    struct_of,
)
from turnstile.ingest.core.bodies import rows_of
from turnstile.ingest.core.compression import plain_body
from turnstile.ingest.core.errors import InvalidRows
from turnstile.ingest.core.files import encode_parts, parts_of
from turnstile.planning.core.shown_rows import shown_rows
from turnstile.store.core.errors import TooLarge
from turnstile_rows.definitions import Definition
from turnstile_rows.errors import DataMismatch

_WIDE = Context(prec=60)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_NAIVE = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
_FLAT: dict[str, st.SearchStrategy[Any]] = {
    "byte": st.integers(-128, 127),
    "short": st.integers(-(2**15), 2**15 - 1),
    "integer": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "decimal(7,3)": st.decimals(-9999, 9999, places=3),
    "decimal(38,10)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda number: Decimal(number).scaleb(-10, _WIDE)),
    "boolean": st.booleans(),
    "string": _TEXTS,
    "binary": st.binary(max_size=8),
    "date": st.dates(),
    "timestamp": _NAIVE.map(lambda moment: moment.replace(tzinfo=dt.UTC)),
    "timestamp_ntz": _NAIVE,
}

_NESTED = {
    "list": (list_of("long"), st.lists(st.none() | _FLAT["long"], max_size=3)),
    "lists": (list_of(list_of("string")), st.lists(st.lists(_TEXTS, max_size=2), max_size=2)),
    "struct": (
        struct_of(column("x", "decimal(7,3)"), column("Y", list_of("date"))),
        st.fixed_dictionaries(
            {"x": st.none() | _FLAT["decimal(7,3)"], "Y": st.none() | st.lists(st.dates(), max_size=2)}
        ),
    ),
    "map": (
        map_of("string", struct_of(column("b", "binary"))),
        st.dictionaries(_TEXTS, st.fixed_dictionaries({"b": _FLAT["binary"]}), max_size=3),
    ),
}


@st.composite
def tables(draw: st.DrawFn, *, nested: bool) -> tuple[Definition, list[dict[str, Any]]]:
    """A definition, and one to six rows as Python has them."""
    kinds: list[tuple[Any, st.SearchStrategy[Any]]] = list(_FLAT.items()) + (list(_NESTED.values()) if nested else [])
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=5))
    nullable = draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
    columns = [column(f"c{at}", type, nullable=nullable[at]) for at, (type, _) in enumerate(chosen)]
    row = {f"c{at}": (values if not nullable[at] else st.none() | values) for at, (_, values) in enumerate(chosen)}
    return definition_of(*columns), draw(st.lists(st.fixed_dictionaries(row), min_size=1, max_size=6))


def to_json(value: Any, type: pa.DataType) -> Any:
    """The value as JSON has it."""
    if value is None:
        return None
    if pa.types.is_struct(type):
        return {member.name: to_json(value[member.name], member.type) for member in type}
    if pa.types.is_list(type):
        return [to_json(each, type.value_type) for each in value]
    if pa.types.is_map(type):
        return {key: to_json(each, type.item_type) for key, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value.isoformat() if isinstance(value, dt.date) else value


def arrow_table(definition: Definition, rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(
        [{name: _entries(value) for name, value in row.items()} for row in rows], definition.schema
    )


def _entries(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) and "Y" not in value else value


def decode(body: bytes, media: str, definition: Definition) -> str:
    return str(pa.Table.from_batches(rows_of(body, media, definition), definition.schema).to_pylist())


@settings(max_examples=examples(60))
@given(tables(nested=True))
def test_rows_of_all_types_are_the_same_in_json_arrow_and_parquet(
    table: tuple[Definition, list[dict[str, Any]]],
) -> None:
    definition, rows = table
    arrow = arrow_table(definition, rows)
    expected = str(arrow.to_pylist())
    texts = [
        json.dumps({field.name: to_json(row[field.name], field.type) for field in definition.schema}) for row in rows
    ]
    assert decode(f"[{','.join(texts)}]".encode(), JSON, definition) == expected
    assert decode("\n".join(texts).encode(), LINES, definition) == expected
    assert decode(arrow_body(arrow), ARROW, definition) == expected
    assert decode(parquet_body(arrow), PARQUET, definition) == expected


@settings(max_examples=examples(60))
@given(tables(nested=True))
def test_rows_of_a_sample_are_taken_back_as_they_were(table: tuple[Definition, list[dict[str, Any]]]) -> None:
    definition, rows = table
    arrow = arrow_table(definition, rows)
    columns = [values.combine_chunks() for values in arrow.columns]
    shown = shown_rows(definition.schema.names, columns)
    assert [row.cut for row in shown] == [0] * len(rows)
    sent = msgspec.json.encode([row.values for row in shown])
    assert decode(sent, JSON, definition) == str(arrow.to_pylist())


@settings(max_examples=examples(60))
@given(tables(nested=False))
def test_rows_of_flat_types_are_the_same_in_csv(table: tuple[Definition, list[dict[str, Any]]]) -> None:
    definition, rows = table
    texts = [{field.name: _text(to_json(row[field.name], field.type)) for field in definition.schema} for row in rows]
    body = csv_body(texts, definition.schema.names)
    has_line = any(value is not None for row in texts for value in row.values()) or len(definition.schema) > 1
    if not has_line:  # rows of one column without a value are lines without a character
        with pytest.raises(InvalidRows, match="no rows"):
            decode(body, CSV, definition)
        return
    kept = [row for row in rows if len(row) > 1 or next(iter(row.values())) is not None]
    assert decode(body, CSV, definition) == str(arrow_table(definition, kept).to_pylist())


def _text(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


# -- fuzzing -----------------------------------------------------------------------------------------------------------

FUZZED = definition_of(
    column("i", "long"),
    column("d", "decimal(10,2)"),
    column("s", "string"),
    column("t", "timestamp"),
    column("b", "binary"),
    column("l", list_of("string")),
    column("m", map_of("string", "integer")),
    column("st", struct_of(column("x", "date"))),
    partitions=["t"],
)


@functools.cache
def _seeds() -> dict[str, list[bytes]]:
    moment = dt.datetime(2026, 1, 31, 10, 20, 30, tzinfo=dt.UTC)
    rows: list[dict[str, Any]] = [
        {"i": 1, "d": Decimal("1.10"), "s": "text", "t": moment, "b": b"\x00\xff", "l": ["x", None], "m": [("k", 1)],
         "st": {"x": dt.date(2026, 1, 31)}},
        {"i": None, "d": None, "s": "", "t": None, "b": None, "l": None, "m": None, "st": None},
    ] * 3  # fmt: skip
    table = pa.Table.from_pylist(rows, FUZZED.schema)
    encoded = table.set_column(2, "s", table["s"].combine_chunks().dictionary_encode())
    text = json.dumps(
        {"i": 1, "d": 1.10, "s": "text", "t": "2026-01-31T10:20:30.5+01:00", "b": "AP8=", "l": ["x", None],
         "m": {"k": 1}, "st": {"x": "2026-01-31"}}
    ).encode()  # fmt: skip
    flat = b'i,d,s,t,b\n1,1.10,"te""xt\n",2026-01-31T10:20:30Z,AP8=\n,,,,\n'
    return {
        JSON: [b"[" + text + b"," + text + b"]", text],
        LINES: [text + b"\n" + text],
        CSV: [flat],
        ARROW: [arrow_body(table), arrow_body(encoded)],
        PARQUET: [parquet_body(table), parquet_body(table, compression="none", use_dictionary=False)],
    }


def mutate(body: bytes, numbers: random.Random) -> bytes:
    """The body with some bytes changed, removed, doubled or cut off."""
    raw = bytearray(body)
    for _ in range(numbers.randint(1, 4)):
        at = numbers.randrange(len(raw) + 1)
        match numbers.randrange(6):
            case 0:
                raw[at : at + 1] = numbers.randbytes(1)
            case 1:
                del raw[at : at + numbers.randint(1, 8)]
            case 2:
                raw[at:at] = raw[at : at + numbers.randint(1, 40)]
            case 3:
                raw[at : at + 4] = numbers.choice([b"\xff" * 4, b"\0" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80"])
            case 4:
                raw = raw[:at] if numbers.randrange(4) == 0 else raw
            case _:
                raw[at:at] = numbers.choice([b'"', b"{", b"[", b",", b"\n", b"1e99", b"\\ud800", b"\xc3", b"-"])
    return bytes(raw)


@pytest.mark.parametrize("media", [JSON, LINES, CSV, ARROW, PARQUET])
@settings(max_examples=examples(150))
@given(seed=st.integers(0, 2**32))
@example(seed=689)
@example(seed=1931)
@example(seed=3599)
def test_bytes_of_any_kind_are_rows_or_refused(media: str, seed: int) -> None:
    numbers = random.Random(seed)
    body = mutate(numbers.choice(_seeds()[media]), numbers)
    if numbers.randrange(10) == 0:
        body = numbers.randbytes(numbers.randint(0, 200))
    with suppress(InvalidRows, TooLarge, DataMismatch):
        encode_parts([parts_of(rows_of(body, media, FUZZED), FUZZED)], FUZZED)


@settings(max_examples=examples(100))
@given(seed=st.integers(0, 2**32), encoding=st.sampled_from(["gzip", "zstd", ""]))
def test_compressed_bytes_of_any_kind_are_a_body_or_refused(seed: int, encoding: str) -> None:
    import gzip

    numbers = random.Random(seed)
    whole = gzip.compress(b"rows" * 50) if encoding == "gzip" else pa.compress(b"rows" * 50, "zstd", asbytes=True)
    with suppress(InvalidRows, TooLarge):
        plain_body(mutate(whole, numbers), encoding)
