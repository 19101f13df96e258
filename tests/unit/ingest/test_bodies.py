"""Bodies of requests with rows: formats, compression, columns by name, limits, damage."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import struct
from typing import Any

import pyarrow as pa
import pytest

from tests.support.fakes.rows import (
    ARROW,
    CSV,
    JSON,
    LINES,
    PARQUET,
    arrow_body,
    column,
    definition_of,
    list_of,
    map_of,
    parquet_body,
    struct_of,
)
from turnstile.api.v1.rows import BODIES, MEDIA
from turnstile.ingest.core import bodies
from turnstile.ingest.core.bodies import BODY_BYTES, FORMATS, rows_of
from turnstile.ingest.core.compression import PLAIN_BYTES, plain_body
from turnstile.ingest.core.errors import InvalidRows
from turnstile.store.core.errors import TooLarge
from turnstile_rows.definitions import Definition

TABLE = definition_of(column("id", "long"), column("Name", "string"))


def rows(body: bytes, media: str = JSON, definition: Definition = TABLE) -> list[dict[str, Any]]:
    return [row for batch in rows_of(body, media, definition) for row in batch.to_pylist()]


def refusal(body: bytes, media: str = JSON, definition: Definition = TABLE) -> str:
    with pytest.raises(InvalidRows) as caught:
        rows(body, media, definition)
    return str(caught.value)


def test_the_view_knows_the_same_formats_and_the_same_limit() -> None:
    assert frozenset(FORMATS) == MEDIA
    assert BODIES.bytes == BODY_BYTES


# -- compression -------------------------------------------------------------------------------------------------------


def zstd(raw: bytes) -> bytes:
    return pa.compress(raw, "zstd", asbytes=True)


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        (b"rows" * 10, ""),
        (b"rows" * 10, "identity"),
        (gzip.compress(b"rows" * 10, mtime=0), "gzip"),
        (gzip.compress(b"rows" * 10, mtime=0), " X-GZIP "),
        (
            gzip.compress(b"rows" * 4, mtime=0) + gzip.compress(b"", mtime=0) + gzip.compress(b"rows" * 6, mtime=0),
            "gzip",
        ),
        (gzip.compress(b"rows" * 10, mtime=0) + b"\0" * 7, "gzip"),
        (zstd(b"rows" * 10), "zstd"),
        (zstd(b"rows" * 4) + zstd(b"rows" * 6), "Zstd"),
    ],
    ids=["none", "identity", "gzip", "x-gzip", "members", "zeros", "zstd", "frames"],
)
def test_a_body_is_decompressed_whole(raw: bytes, encoding: str) -> None:
    assert plain_body(raw, encoding) == b"rows" * 10


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_body_that_is_cut_or_no_such_thing_is_refused(encoding: str) -> None:
    raw = {"gzip": gzip.compress, "zstd": zstd}[encoding](b"rows" * 1000)
    for bad in (raw[:-1], raw[:9], raw[:1], b"rows", raw + b"more", raw[:-9] + b"\xff" * 9):
        with pytest.raises(InvalidRows, match=f"no {encoding}"):
            plain_body(bad, encoding)


@pytest.mark.parametrize("encoding", ["br", "deflate", "gzip, gzip", "x" * 500])
def test_an_unknown_encoding_is_refused(encoding: str) -> None:
    with pytest.raises(InvalidRows, match="not known") as caught:
        plain_body(b"", encoding)
    assert len(str(caught.value)) < 120


@pytest.mark.parametrize("compress", [gzip.compress, zstd])
def test_a_body_over_the_limit_after_decompression_is_refused(compress: Any) -> None:
    encoding = "zstd" if compress is zstd else "gzip"
    assert len(plain_body(compress(b"\0" * PLAIN_BYTES), encoding)) == PLAIN_BYTES
    for bomb in (compress(b"\0" * (PLAIN_BYTES + 1)), compress(b"\0" * PLAIN_BYTES) + compress(b"x")):
        with pytest.raises(TooLarge):
            plain_body(bomb, encoding)
    with pytest.raises(TooLarge):
        plain_body(b"\0" * (PLAIN_BYTES + 1), "")


def test_many_members_of_gzip_are_read_one_after_the_other() -> None:
    assert plain_body(gzip.compress(b"x", mtime=0) * 50_000, "gzip") == b"x" * 50_000


# -- JSON --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b'[{"id": 1, "Name": "a"}, {"NAME": "b"}]', JSON),
        (b' \n[{"id": 1, "name": "a"}, {"id": null, "nAmE": "b"}] ', JSON),
        (b'{"id": 1, "Name": "a"}\r\n\n  \n{"Name": "b"}', JSON),
        (b'{"id": 1, "Name": "a"}\n{"Name": "b"}\n', LINES),
        (b'{"id": 1, "Name": "a"}\n{"Name": "b"}\n', "application/jsonl"),
    ],
)
def test_columns_are_found_without_regard_to_case_and_a_missing_one_is_null(body: bytes, media: str) -> None:
    assert rows(body, media) == [{"id": 1, "Name": "a"}, {"id": None, "Name": "b"}]


def test_one_object_may_have_many_lines() -> None:
    assert rows(b'{\n  "id": 1,\n  "Name": "a"\n}\n') == [{"id": 1, "Name": "a"}]


@pytest.mark.parametrize(
    ("body", "media", "message"),
    [
        (b"", JSON, "no rows"),
        (b" \n\n ", LINES, "no rows"),
        (b"[]", JSON, "no rows"),
        (b"[{}, 1]", JSON, "no JSON array of objects"),
        (b'[{"id": 1}', JSON, "no JSON array of objects"),
        (b'[{"id": 1}] x', JSON, "no JSON array of objects"),
        (b'[{"id": 1}]', LINES, "line 1 is no JSON object"),
        (b'{"id": 1}\n{"id": 2', LINES, "line 2 is no JSON object"),
        (b'{"id": 1}\n\n[2]', LINES, "line 3 is no JSON object"),
        (b'{"id": 1} {"id": 2}', LINES, "line 1 is no JSON object"),
        (b'{"id": 1}\n\n{"id": "x"}', LINES, "line 3: column 'id'"),
        (b'[{"id": 1}, {"idd": 1}]', JSON, "row 2: the table has no column 'idd'; it has id, Name"),
        (b'[{"id": 1}, {"id": 1, "ID": 1}]', JSON, "row 2: 'ID' and 'id' are the same column"),
        (b'\xff{"id": 1}', LINES, "line 1 is no JSON object"),
        (b'[{"Name": "\xff"}]', JSON, "no JSON array"),
        (b"[" * 100_000, JSON, "no JSON array"),
        (b'{"id":' * 100_000, LINES, "line 1 is no JSON object"),
    ],
)
def test_json_that_is_no_rows_is_refused_with_its_place(body: bytes, media: str, message: str) -> None:
    found = refusal(body, media)
    assert message in found
    assert len(found) < 400


def test_json_with_more_objects_or_values_than_memory_is_for_is_refused() -> None:
    with pytest.raises(TooLarge):
        rows(b"[" + b"{}," * 1_000_001 + b"{}]")
    with pytest.raises(TooLarge):
        rows(b'[{"id":[' + b"1," * 4_000_001 + b"1]}]")


@pytest.mark.parametrize("media", [JSON, LINES, CSV, ARROW, PARQUET])
def test_more_rows_than_a_request_may_have_are_refused(media: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "ROWS", 3)

    def body(count: int) -> bytes:
        match media:
            case "text/csv":
                return b'id,Name\n1,"a\nb"\n' + b"1,x\n" * (count - 1)
            case "application/json":
                return b"[" + b",".join([b'{"id": 1}'] * count) + b"]"
            case "application/x-ndjson":
                return b'{"id": 1}\n' * count
        table = pa.table({"id": [1] * count})
        return arrow_body(table) if media == ARROW else parquet_body(table)

    assert len(rows(body(3), media)) == 3
    with pytest.raises(TooLarge, match="over the limit of 3"):
        rows(body(4), media)


@pytest.mark.parametrize("media", [JSON, LINES, CSV, ARROW, PARQUET])
def test_few_rows_of_many_columns_are_refused_before_their_nulls_take_memory(media: str) -> None:
    table = definition_of(*(column(f"c{number}", "long") for number in range(1_000)))
    values = pa.table({"c0": [1] * 20_000})
    body = {
        JSON: b"[" + b",".join([b"{}"] * 20_000) + b"]",
        LINES: b"{}\n" * 20_000,
        CSV: b"c0\n" + b"1\n" * 20_000,
        ARROW: arrow_body(values),
        PARQUET: parquet_body(values),
    }[media]
    with pytest.raises(TooLarge, match="rows of 1000 columns are over the limit"):
        rows(body, media, table)


# -- CSV ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"id,name\n1,a\n", [(1, "a")]),
        (b"\xef\xbb\xbfid,name\r\n1,a\r\n", [(1, "a")]),
        (b"NAME,ID\na,1\nb,2", [(1, "a"), (2, "b")]),
        (b'id,name\n1,\n2,""\n', [(1, None), (2, "")]),
        (b'"id","Name"\n"1","a,""b""\r\nc"\n', [(1, 'a,"b"\r\nc')]),
        (b"id,name\r1,a\r2,b\r", [(1, "a"), (2, "b")]),
        (b"name\nnull\nNULL\nNaN\n007\ntrue\n", [(None, text) for text in ("null", "NULL", "NaN", "007", "true")]),
        (b"name\n a \n", [(None, " a ")]),
        ("name\n€\n".encode(), [(None, "€")]),
    ],
)
def test_csv_is_read_as_texts_and_only_an_empty_value_without_quotes_is_null(
    body: bytes, expected: list[tuple[Any, ...]]
) -> None:
    assert [tuple(row.values()) for row in rows(body, CSV)] == expected


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no CSV"),
        (b"\n", "no CSV"),
        (b"id,name\n", "no rows"),
        (b"id,name", "no"),
        (b"id,name\n1,a\n2\n", "row 2: 1 values, and the header has 2"),
        (b"id,name\n1,a,x\n", "row 1: 3 values, and the header has 2"),
        (b"id,other\n1,a\n", "header: the table has no column 'other'"),
        (b"id,\n1,a\n", "header: the table has no column ''"),
        (b"id,ID\n1,2\n", "a column twice"),
        (b"id,name\nx,a\n", "row 1: column 'id': the text 'x'"),
        (b'id,name\n1,"a\n', "a quotation mark has no partner"),
        (b"\xff,name\n1,a\n", "no CSV"),
        (b"id,name\n1,\xff\n", "no CSV"),
        (b"," * 2_000 + b"\n", "the header has 2001 columns"),
        (b'"a\n"' + b"," * 2_000 + b"\n", "the header has 2001 columns"),
        (b"x" * 200_000 + b"\n1\n", "no CSV"),
    ],
)
def test_csv_that_is_no_rows_is_refused_with_its_place(body: bytes, message: str) -> None:
    assert message in refusal(body, CSV)


def test_csv_has_all_flat_types_and_no_others() -> None:
    table = definition_of(
        column("d", "decimal(5,2)"), column("t", "timestamp"), column("b", "boolean"), column("x", "binary")
    )
    body = b"d,t,b,x\n1.10,2026-01-31T00:00:00Z,true,AP8=\n"
    (row,) = rows(body, CSV, table)
    assert (str(row["d"]), row["t"].day, row["b"], row["x"]) == ("1.10", 31, True, b"\x00\xff")
    nested = definition_of(column("id", "long"), column("l", list_of("long")))
    assert "which CSV does not hold" in refusal(b"id,l\n1,[1]\n", CSV, nested)
    assert rows(b"id\n1\n", CSV, nested) == [{"id": 1, "l": None}]


def test_a_name_of_a_column_may_have_a_line_break_where_the_table_maps_its_columns() -> None:
    table = definition_of(column("a\nb", "string"), column("c,d", "string"))
    assert rows(b'"a\nb","c,d"\n007,1.10\n', CSV, table) == [{"a\nb": "007", "c,d": "1.10"}]


# -- columns with a default --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b'[{"id": 1, "c": "x"}, {"id": 2}]', JSON),
        (b'[{"id": 1}]', JSON),
        (b"id\n1\n", CSV),
        (arrow_body(pa.table({"id": [1]})), ARROW),
        (parquet_body(pa.table({"id": [1]})), PARQUET),
    ],
    ids=["one of two", "json", "csv", "arrow", "parquet"],
)
def test_a_row_without_a_value_for_a_column_with_a_default_is_refused(body: bytes, media: str) -> None:
    table = definition_of(column("id", "long"), column("C", "string", CURRENT_DEFAULT="'x'"))
    assert "column 'C' has a default value, which is not computed here" in refusal(body, media, table)
    assert rows(b'[{"id": 1, "c": null}]', JSON, table) == [{"id": 1, "C": None}]


# -- Arrow and Parquet -------------------------------------------------------------------------------------------------

DAY = dt.date(2026, 1, 31)
MANY = definition_of(
    column("i", "integer"),
    column("s", "string"),
    column("d", "date"),
    column("l", list_of("string")),
    column("m", map_of("string", "long")),
    column("st", struct_of(column("x", "long"), column("y", "string"))),
)
VALUES = {
    "i": pa.array([1, None, 3], pa.int64()),
    "s": pa.array(["a", "b", None]).dictionary_encode(),
    "d": pa.array([DAY, None, DAY]),
    "l": pa.array([["x", None], [], None], pa.large_list(pa.large_string())),
    "m": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
    "st": pa.array(
        [{"x": 1, "y": "u"}, None, {"x": None, "y": None}], pa.struct([("y", pa.string()), ("x", pa.int8())])
    ),
}
EXPECTED = [
    {"i": 1, "s": "a", "d": DAY, "l": ["x", None], "m": [("k", 1)], "st": {"x": 1, "y": "u"}},
    {"i": None, "s": "b", "d": None, "l": [], "m": None, "st": None},
    {"i": 3, "s": None, "d": DAY, "l": None, "m": [], "st": {"x": None, "y": None}},
]


@pytest.mark.parametrize(("make", "media"), [(arrow_body, ARROW), (parquet_body, PARQUET)])
def test_columns_of_other_layouts_are_given_the_types_of_the_table(make: Any, media: str) -> None:
    assert rows(make(pa.table(VALUES)), media, MANY) == EXPECTED


def test_views_are_given_the_types_of_the_table() -> None:
    views = pa.table(
        {
            "s": pa.array(["a", "long enough to be elsewhere", None], pa.string_view()),
            "l": pa.array([["x", None], [], None], pa.list_view(pa.string())),
        }
    )
    assert [(row["s"], row["l"]) for row in rows(arrow_body(views), ARROW, MANY)] == [
        ("a", ["x", None]),
        ("long enough to be elsewhere", []),
        (None, None),
    ]


@pytest.mark.parametrize(("make", "media"), [(arrow_body, ARROW), (parquet_body, PARQUET)])
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"nope": [1]}, "columns that the table has not: 'nope'"),
        ({"i": ["x"]}, "column 'i' is string"),
        ({"i": [2**40]}, "column 'i' holds values"),
        ({"i": [1], "I": [2]}, "twice"),
        ({"st": [{"z": 1}]}, "fields that the table's has not: z"),
        ({"i": pa.array([], pa.int32())}, "no rows"),
    ],
)
def test_data_of_other_types_is_refused_with_its_column(
    make: Any, media: str, table: dict[str, Any], message: str
) -> None:
    assert message in refusal(make(pa.table(table)), media, MANY)


@pytest.mark.parametrize(("make", "media"), [(arrow_body, ARROW), (parquet_body, PARQUET)])
def test_nulls_are_refused_where_the_table_takes_none_also_within_a_struct(make: Any, media: str) -> None:
    table = definition_of(
        column("a", "long", nullable=False), column("s", struct_of(column("x", "long", nullable=False)))
    )
    assert "column 'a' takes no nulls" in refusal(make(pa.table({"a": pa.array([None], pa.int64())})), media, table)
    assert "column 'a' takes no nulls" in refusal(make(pa.table({"s": [{"x": 1}]})), media, table)
    assert "column 's.x' takes no nulls" in refusal(make(pa.table({"a": [1], "s": [{"x": None}]})), media, table)


@pytest.mark.parametrize(
    ("make", "media", "what"), [(arrow_body, ARROW, "Arrow stream"), (parquet_body, PARQUET, "Parquet file")]
)
def test_damaged_bytes_are_refused(make: Any, media: str, what: str) -> None:
    whole = make(pa.table(VALUES))
    for bad in (b"", b"rows", whole[: len(whole) // 2], whole[:7], b"\xff" * 100):
        assert f"the body is no {what}" in refusal(bad, media, MANY)


def test_a_stream_of_arrow_whose_buffers_are_compressed_is_refused() -> None:
    table = pa.table({"id": list(range(10_000))})
    for codec in ("zstd", "lz4"):
        body = arrow_body(table, options=pa.ipc.IpcWriteOptions(compression=codec))
        assert "compressed buffers" in refusal(body, ARROW)
    encoded = pa.table({"Name": pa.array(["x" * 1000] * 100).dictionary_encode()})
    body = arrow_body(encoded, options=pa.ipc.IpcWriteOptions(compression="zstd"))
    assert "compressed buffers" in refusal(body, ARROW)
    assert len(rows(arrow_body(encoded), ARROW)) == 100


@pytest.mark.parametrize(
    "values",
    [
        pa.array([bytes([at]) * 16 for at in range(200)] * 400, pa.binary(16)),
        pa.array([b"x" * (at % 7) for at in range(200)] * 400, pa.large_binary()),
        pa.array([b"longer than twelve" * (at % 7) for at in range(200)] * 400, pa.binary_view()),
    ],
    ids=["fixed", "large", "view"],
)
def test_dictionaries_of_bytes_take_what_their_values_take(values: pa.Array) -> None:
    table = definition_of(column("b", "binary"))
    plain = values.cast(pa.binary())
    encoded = plain.dictionary_encode()
    wider = pa.DictionaryArray.from_arrays(encoded.indices, encoded.dictionary.cast(values.type))
    for given in (values, wider):
        (batch,) = rows_of(arrow_body(pa.table({"b": given})), ARROW, table)
        assert batch.column(0).equals(plain)


LONG = "x" * 1_000_000


def repeated_in_arrow() -> bytes:
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array([LONG]))
    return arrow_body(pa.table({"Name": values}))


def repeated_in_lists() -> bytes:
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array([LONG]))
    return arrow_body(pa.table({"l": pa.ListArray.from_arrays(pa.array([0, 10_000], pa.int32()), values)}))


def repeated_in_views() -> bytes:
    view = struct.pack("<i4sii", len(LONG), b"xxxx", 0, 0)
    views = pa.py_buffer(view * 10_000)
    values = pa.Array.from_buffers(pa.string_view(), 10_000, [None, views, pa.py_buffer(LONG.encode())])
    return arrow_body(pa.table({"Name": values}))


def repeated_in_parquet() -> bytes:
    values = pa.DictionaryArray.from_arrays(pa.array([0] * 10_000, pa.int32()), pa.array([LONG]))
    return parquet_body(pa.table({"Name": values}), compression="zstd", dictionary_pagesize_limit=2 * len(LONG))


def nulls_in_a_list() -> bytes:
    offsets = pa.array([0, 2**31 - 1], pa.int32())
    return arrow_body(pa.table({"l": pa.ListArray.from_arrays(offsets, pa.nulls(2**31 - 1))}))


@pytest.mark.parametrize(
    ("make", "media"),
    [
        (nulls_in_a_list, ARROW),
        (repeated_in_arrow, ARROW),
        (repeated_in_lists, ARROW),
        (repeated_in_views, ARROW),
        (repeated_in_parquet, PARQUET),
    ],
)
def test_few_bytes_that_stand_for_many_are_refused_before_they_take_memory(make: Any, media: str) -> None:
    table = definition_of(column("id", "long"), column("Name", "string"), column("l", list_of("string")))
    body = make()
    assert len(body) < PLAIN_BYTES
    before = pa.total_allocated_bytes()
    pool = pa.default_memory_pool()
    with pytest.raises(TooLarge):
        rows(body, media, table)
    assert pa.total_allocated_bytes() - before < 8 * PLAIN_BYTES, pool.backend_name


def test_lists_that_share_their_elements_are_refused() -> None:
    offsets = pa.array([0] * 1_000, pa.int32())
    sizes = pa.array([1_000] * 1_000, pa.int32())
    values = pa.ListViewArray.from_arrays(offsets, sizes, pa.array(["x"] * 1_000))
    table = definition_of(column("l", list_of("string")))
    assert "share their elements" in refusal(arrow_body(pa.table({"l": values})), ARROW, table)


def test_rows_that_say_that_they_take_too_much_memory_are_refused() -> None:
    huge = pa.table({"Name": ["x" * 4_096] * 20_000})
    body = parquet_body(huge, compression="zstd", use_dictionary=False)
    assert len(body) < BODY_BYTES
    with pytest.raises(TooLarge):
        rows(body, PARQUET)
    with pytest.raises(TooLarge):
        rows(arrow_body(huge), ARROW)


def test_a_stream_without_batches_has_no_rows() -> None:
    sink = io.BytesIO()
    pa.ipc.new_stream(sink, pa.schema([("id", pa.int64())])).close()
    assert "no rows" in refusal(sink.getvalue(), ARROW)
