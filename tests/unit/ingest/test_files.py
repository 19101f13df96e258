"""The data files of rows: partitions, statistics, names and ids of columns, and their Parquet."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.support.fakes.rows import (
    ARROW,
    JSON,
    arrow_body,
    column,
    definition_of,
    list_of,
    map_of,
    mapped_column,
    struct_of,
)
from turnstile.ingest.core.bodies import rows_of
from turnstile.ingest.core.files import PARTITIONS, EncodedFile, encode_parts, parts_of
from turnstile.store.core.errors import TooLarge
from turnstile_rows.definitions import Definition
from turnstile_rows.errors import DataMismatch, Unsupported
from turnstile_rows.layouts import Layout
from turnstile_rows.partitions import partition_text, partition_value


def encode(batches: list[pa.RecordBatch], definition: Definition) -> list[EncodedFile]:
    return encode_parts([parts_of(batches, definition)], definition)


def files(definition: Definition, *rows: Any) -> list[EncodedFile]:
    return encode(rows_of(json.dumps(rows).encode(), JSON, definition), definition)


def content(file: EncodedFile) -> pa.Table:
    return pyarrow.parquet.read_table(pa.BufferReader(file.content), partitioning=None)


def stats(file: EncodedFile) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(file.stats, parse_float=Decimal)
    return found


def test_rows_without_partitions_are_one_file_in_their_order() -> None:
    table = definition_of(column("id", "long"))
    (file,) = files(table, *({"id": number} for number in (3, 1, 2)))
    assert content(file).to_pydict() == {"id": [3, 1, 2]}
    assert (file.rows, file.partition_values) == (3, {})


def test_batches_of_one_partition_are_one_file() -> None:
    table = definition_of(column("p", "long"), column("id", "long"), partitions=["p"])
    batches = rows_of(arrow_body(pa.table({"p": [1, 2], "id": [1, 2]})), ARROW, table)
    found = encode([*batches, *batches], table)
    assert [(file.partition_values["p"], content(file)["id"].to_pylist()) for file in found] == [
        ("1", [1, 1]),
        ("2", [2, 2]),
    ]


PARTITIONED = [
    ("boolean", True, "true"),
    ("double", "NaN", "NaN"),
    ("double", "-Infinity", "-Infinity"),
    ("decimal(10,2)", "1e5", "100000.00"),
    ("date", "2026-01-31", "2026-01-31"),
    ("timestamp", "2026-01-31T10:20:30+01:00", "2026-01-31T09:20:30.000000Z"),
    ("timestamp_ntz", "2026-01-31T10:20:30.5", "2026-01-31 10:20:30.500000"),
    ("string", " a/b=c\n%", " a/b=c\n%"),
    ("binary", "YcOp", "aé"),
]


@pytest.mark.parametrize(("type", "value", "text"), PARTITIONED)
def test_a_partition_value_is_the_text_that_readers_take(type: str, value: Any, text: str) -> None:
    table = definition_of(column("p", type), column("id", "long"), partitions=["p"])
    (file,) = files(table, {"p": value, "id": 1})
    assert file.partition_values == {"p": text}
    assert content(file).column_names == ["id"]
    arrow = table.schema.field("p").type
    (batch,) = rows_of(json.dumps([{"p": value}]).encode(), JSON, table)
    assert str(partition_value(text, arrow, "p")) == str(batch.column(0)[0])
    (nothing,) = files(table, {"id": 1})
    assert nothing.partition_values == {"p": None}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([""]), "an empty text is null"),
        (pa.array([b""]), "an empty text is null"),
        (pa.array([b"\xff"]), "no text in UTF-8"),
        (pa.array([10_000_000], pa.date32()), "before the year 1, or after 9999"),
        (pa.array([2**62], pa.timestamp("us", "UTC")), "before the year 1, or after 9999"),
        (pa.array([-(2**60)], pa.timestamp("us")), "before the year 1, or after 9999"),
    ],
)
def test_a_partition_value_that_no_reader_takes_is_refused(values: pa.Array, message: str) -> None:
    names = {pa.string(): "string", pa.binary(): "binary", pa.date32(): "date", pa.timestamp("us"): "timestamp_ntz"}
    table = definition_of(column("p", names.get(values.type, "timestamp")), column("id", "long"), partitions=["p"])
    rows = rows_of(arrow_body(pa.table({"p": values, "id": [1]})), ARROW, table)
    with pytest.raises(DataMismatch, match=message):
        encode(rows, table)


def test_a_text_of_bytes_is_read_back_as_these_bytes() -> None:
    text = partition_text(b"a\x00\xc3\xa9", "p")
    assert partition_value(text, pa.binary(), "p").as_py() == b"a\x00\xc3\xa9"


def test_rows_of_more_partitions_than_files_may_be_written_are_refused() -> None:
    table = definition_of(column("p", "long"), column("q", "string"), column("id", "long"), partitions=["p", "q"])
    rows = [{"p": number % 8, "q": str(number // 8), "id": number} for number in range(PARTITIONS)]
    assert len(files(table, *rows)) == PARTITIONS
    with pytest.raises(TooLarge, match="more than 64 partitions"):
        files(table, *rows, {"p": 9})


# -- statistics --------------------------------------------------------------------------------------------------------


def test_statistics_have_bounds_that_are_never_too_narrow() -> None:
    table = definition_of(
        column("i", "long"),
        column("x", "double"),
        column("f", "double"),
        column("s", "string"),
        column("t", "timestamp"),
        column("d", "decimal(38,2)"),
        column("b", "boolean"),
        column("l", list_of("long")),
        column("st", struct_of(column("y", "date"), column("m", map_of("string", "long")))),
    )
    rows = [
        {
            "i": 2**63 - 1,
            "x": 1.5,
            "f": "NaN",
            "s": "é" * 40,
            "t": "2026-01-31T00:00:00.000001Z",
            "d": "9" * 36,
            "b": True,
        },
        {
            "i": -(2**63),
            "x": "Infinity",
            "f": 1,
            "s": "a",
            "t": "2026-01-31T00:00:00.9999Z",
            "l": [1],
            "st": {"y": "2026-01-31"},
        },
    ]
    (file,) = files(table, *rows)
    found = stats(file)
    assert found["numRecords"] == 2
    assert found["minValues"] == {
        "i": -(2**63),
        "s": "a",
        "t": "2026-01-31T00:00:00.000Z",
        "d": 10**36 - 1,
        "st": {"y": "2026-01-31"},
    }
    assert found["maxValues"] == {
        "i": 2**63 - 1,
        "s": "é" * 32 + "\U0010ffff",
        "t": "2026-01-31T00:00:01.000Z",
        "d": 10**36 - 1,
        "st": {"y": "2026-01-31"},
    }
    assert found["nullCount"] == {
        "i": 0, "x": 0, "f": 0, "s": 0, "t": 0, "d": 1, "b": 1, "l": 1, "st": {"y": 1, "m": 2}
    }  # fmt: skip


def test_statistics_are_of_the_columns_that_the_table_names() -> None:
    columns = column("a", "long"), column("b", "long"), column("c", struct_of(column("d", "long"), column("e", "long")))
    row = {"a": 1, "b": 2, "c": {"d": 3, "e": 4}}
    (few,) = files(definition_of(*columns, dataSkippingNumIndexedCols="2"), row)
    assert stats(few)["minValues"] == {"a": 1, "b": 2}
    (named,) = files(definition_of(*columns, dataSkippingStatsColumns="b, c.`e`"), row)
    assert stats(named)["minValues"] == {"b": 2, "c": {"e": 4}}
    (none,) = files(definition_of(*columns, dataSkippingNumIndexedCols="0"), row)
    assert stats(none) == {"numRecords": 1, "minValues": {}, "maxValues": {}, "nullCount": {}}


# -- column mapping ----------------------------------------------------------------------------------------------------

INNER = struct_of(mapped_column("first name", "string", 4, "col-4"), mapped_column("n", "long", 5, "col-5"))
LISTED = struct_of(mapped_column("first name", "string", 8, "col-8"))
KEYED = struct_of(mapped_column("first name", "string", 10, "col-10"))
COLUMNS = (
    mapped_column("the id", "long", 1, "col-1"),
    mapped_column("p=q", "date", 2, "col-2"),
    mapped_column("who", INNER, 3, "col-3"),
    mapped_column("all", list_of(LISTED), 7, "col-7"),
    mapped_column("by", map_of("string", KEYED), 9, "col-9"),
)


def ids_of(schema: Any) -> dict[str, str]:
    """Names of all fields that have an id, and their ids."""
    found = {}
    for field in schema:
        id = (field.metadata or {}).get(b"PARQUET:field_id")
        if id is not None:
            found[field.name] = id.decode()
        if pa.types.is_nested(field.type):
            found |= ids_of([field.type.field(at) for at in range(field.type.num_fields)])
    return found


@pytest.mark.parametrize("mode", ["name", "id"])
def test_files_of_mapped_columns_have_physical_names_and_ids(mode: str) -> None:
    table = definition_of(
        *COLUMNS, partitions=["p=q"], **{"columnMapping.mode": mode, "dataSkippingStatsColumns": "`the id`,who.n"}
    )
    row = {
        "The ID": 7,
        "p=q": "2026-01-31",
        "who": {"First Name": "Ada", "n": 3},
        "all": [{"first name": "Bob"}, None],
        "by": {"k": {"first name": "Eve"}},
    }
    (file,) = files(table, row)
    assert file.partition_values == {"col-2": "2026-01-31"}
    stored = content(file)
    assert stored.to_pylist() == [
        {
            "col-1": 7,
            "col-3": {"col-4": "Ada", "col-5": 3},
            "col-7": [{"col-8": "Bob"}, None],
            "col-9": [("k", {"col-10": "Eve"})],
        }
    ]
    assert stats(file)["maxValues"] == {"col-1": 7, "col-3": {"col-5": 3}}
    ids = ids_of(pyarrow.parquet.ParquetFile(pa.BufferReader(file.content)).schema_arrow)
    assert {name: id for name, id in ids.items() if name.startswith("col-")} == {
        name: name.removeprefix("col-")
        for name in ("col-1", "col-3", "col-4", "col-5", "col-7", "col-8", "col-9", "col-10")
    }


def test_columns_without_their_ids_are_refused_by_name() -> None:
    table = definition_of(mapped_column("a", "long", 1, "col-1"), column("b", "long"), **{"columnMapping.mode": "id"})
    with pytest.raises(Unsupported, match="its column 'b' has no"):
        Layout(table)


def test_columns_that_take_no_nulls_are_optional_in_files() -> None:
    table = definition_of(
        column("a", "long", nullable=False), column("s", struct_of(column("x", "long", nullable=False)))
    )
    (file,) = files(table, {"a": 1})
    schema = pyarrow.parquet.ParquetFile(pa.BufferReader(file.content)).schema_arrow
    assert schema.field("a").nullable
