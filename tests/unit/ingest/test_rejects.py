"""Rows of a body that do not fit are set apart, each with its place and the problem, and the others
are those that would be added without them."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes.rows import (
    ARROW,
    CSV,
    JSON,
    LINES,
    PARQUET,
    arrow_body,
    column,
    definition_of,
    parquet_body,
    struct_of,
)
from turnstile.ingest.core import bodies
from turnstile.ingest.core.bodies import rows_of, split_rows
from turnstile.ingest.core.errors import InvalidRows
from turnstile.ingest.core.files import parts_of
from turnstile.ingest.core.rejects import SCHEMA, Misfits, Reject, Rejects, batch_of, definition_to_be, text_of
from turnstile.store.core.errors import TooLarge
from turnstile_rows.errors import DataMismatch

TABLE = definition_of(column("id", "long", nullable=False), column("ratio", "float"), column("text", "string"))
FITTING = st.fixed_dictionaries({
    "id": st.integers(-9, 9),
    "ratio": st.sampled_from([None, 0.5, 2.0]),
    "text": st.sampled_from([None, "a", "x,y", 'q"']),
})  # fmt: skip
MISFITS: list[dict[str, Any]] = [
    {"id": None, "ratio": 0.5, "text": "no id"},
    {"id": 2**63, "ratio": None, "text": "too great"},
    {"id": 1, "ratio": 1e300, "text": "too great for a float"},
]
"""Rows of which each format can hold all, and that fit in none. Arrow and Parquet have whole
numbers without a sign."""


def body_of(rows: list[dict[str, Any]], media: str) -> bytes:
    if media == JSON:
        return json.dumps(rows).encode()
    if media == LINES:
        return b"\n".join(json.dumps(row).encode() for row in rows)
    if media == CSV:
        sink = io.StringIO()
        writer = csv.DictWriter(sink, ["id", "ratio", "text"], lineterminator="\n")
        writer.writeheader()
        writer.writerows([{name: "" if value is None else value for name, value in row.items()} for row in rows])
        return sink.getvalue().encode()
    schema = pa.schema([("id", pa.uint64()), ("ratio", pa.float32()), ("text", pa.string())])
    table = pa.Table.from_pylist([{**row, "id": _unsigned(row["id"])} for row in rows], schema)
    return arrow_body(table) if media == ARROW else parquet_body(table)


def _unsigned(id: int | None) -> int | None:
    return None if id is None else abs(id)


@pytest.mark.parametrize("media", [JSON, LINES, CSV, ARROW, PARQUET])
@given(rows=st.lists(st.one_of(FITTING, st.sampled_from(MISFITS)), min_size=1, max_size=12))
def test_i26_each_row_is_added_as_it_would_be_alone_or_set_apart_with_its_place(
    media: str, rows: list[dict[str, Any]]
) -> None:
    if media in (ARROW, PARQUET):
        rows = [row for row in rows if row["ratio"] != 1e300] or [dict(MISFITS[0])]
    batches, rejects = split_rows(body_of(rows, media), media, TABLE)
    fitting = [row for row in rows if row not in MISFITS]
    alone = rows_of(body_of(fitting, media), media, TABLE) if fitting else []
    assert pa.Table.from_batches(batches, TABLE.schema).equals(pa.Table.from_batches(alone, TABLE.schema))
    numbers = [number for number, row in enumerate(rows, start=1) if row in MISFITS]
    word = "line" if media == LINES and len(rows) > 1 else "row"
    assert [reject.place for reject in rejects] == [f"{word} {number}" for number in numbers]
    assert [json.loads(reject.row)["text"] for reject in rejects] == [rows[number - 1]["text"] for number in numbers]
    assert all(reject.problem and not reject.problem.startswith(reject.place) for reject in rejects)


@pytest.mark.parametrize(
    ("row", "at", "problem"),
    [
        (b'{"id": 1, "text": 5}', "text", "the column takes a text"),
        (b'{"id": 1, "other": 5}', "other", "the table has no column 'other'"),
        (b'{"id": 1, "Id": 5}', "", "are the same column"),
        (b'{"ratio": 1}', "id", "takes no nulls"),
        (b"5", "", "is no JSON object"),
        (b'{"id": 1, "s": {"x": "y"}}', "s.x", "no whole number"),
    ],
)
def test_a_rejected_row_names_its_column_and_its_problem(row: bytes, at: str, problem: str) -> None:
    table = definition_of(*TABLE.fields, column("s", struct_of(column("x", "long"))))
    batches, [reject] = split_rows(b'{"id": 1}\n' + row, LINES, table)
    assert [batch.num_rows for batch in batches] == [1]
    assert (reject.place, reject.column, reject.row) == ("line 2", at, row.decode())
    assert problem in reject.problem


def test_a_row_with_several_problems_is_set_apart_once_with_the_first() -> None:
    _, [reject] = split_rows(b'[{"id": "x", "ratio": "y", "other": 1}]', JSON, TABLE)
    assert reject.column == "other"


def test_columns_with_a_default_set_apart_the_rows_without_a_value() -> None:
    table = definition_of(column("id", "long"), column("day", "date", CURRENT_DEFAULT="current_date()"))
    batches, [reject] = split_rows(b'[{"id": 1, "day": "2026-01-01"}, {"id": 2}]', JSON, table)
    assert (sum(batch.num_rows for batch in batches), reject.place, reject.column) == (1, "row 2", "day")


def test_values_that_json_has_not_are_texts_in_a_rejected_row() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    rows = pa.table({"id": pa.array([None], pa.int64()), "ratio": pa.array([float("nan")], pa.float32())})
    [reject] = split_rows(arrow_body(rows), ARROW, TABLE)[1]
    assert json.loads(reject.row)["id"] is None
    assert json.loads(text_of({"at": moment, "raw": b"x"})) == {"at": str(moment), "raw": "b'x'"}
    assert text_of({"text": "ä"}) == '{"text":"ä"}'


def test_times_that_python_has_not_are_shown_by_arrow() -> None:
    table = definition_of(column("id", "long", nullable=False), column("at", "timestamp_ntz"))
    far = pa.array([2**60], pa.timestamp("us"))
    [reject] = split_rows(arrow_body(pa.table({"id": pa.array([None], pa.int64()), "at": far})), ARROW, table)[1]
    assert set(json.loads(reject.row)) == {"id", "at"}


def test_a_body_without_a_row_is_refused_also_where_rows_are_set_apart() -> None:
    for body, media in ((b"[]", JSON), (b"\n", LINES), (b"id\n", CSV), (arrow_body(pa.table({"id": [1]})[:0]), ARROW)):
        with pytest.raises(InvalidRows, match="no rows"):
            split_rows(body, media, TABLE)


def test_the_limit_of_rejected_rows_names_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.ingest.core.rejects.ROWS_MAX", 2)
    misfits = Misfits()
    for at in (0, 0, 7):
        misfits.add(at, InvalidRows(f"first of {at}"))
    with pytest.raises(TooLarge, match="more than 2 rows do not fit the table; one of them: third") as caught:
        misfits.add(8, InvalidRows("third"))
    assert (caught.value.details, caught.value.field) == ({"limit": 2}, "body")


def test_the_texts_of_rejected_rows_are_bounded_by_the_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSON of a row of CSV repeats the names of all columns."""
    monkeypatch.setattr("turnstile.ingest.core.rejects.BYTES_MORE", 0)
    names = [f"column_with_a_long_name_{at}" for at in range(20)]
    table = definition_of(*(column(name, "long") for name in names))
    row = "x" + "," * 19 + "\n"
    header = ",".join(names) + "\n"
    with pytest.raises(TooLarge, match="take too many bytes"):
        split_rows((header + row * 10).encode(), CSV, table)
    assert len(split_rows((header + row).encode(), CSV, table)[1]) == 1
    rejects = Rejects(2)
    rejects.add("row 1", InvalidRows("bad"), "12ä")
    with pytest.raises(TooLarge):
        rejects.add("row 2", InvalidRows("bad"), "5")


def test_a_row_of_arrow_is_measured_before_its_text_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile.ingest.core.rejects.BYTES_MORE", 0)
    monkeypatch.setattr(bodies, "_text_of_row", lambda _: pytest.fail("the text is made"))
    value = pa.array(["x" * 100_000], pa.string()).dictionary_encode()
    rows = pa.table({"id": pa.array([None], pa.int64()), "text": value.take(pa.array([0]))})
    with pytest.raises(TooLarge, match="take too many bytes"):
        split_rows(parquet_body(rows, compression="zstd"), PARQUET, TABLE)


def test_a_row_with_a_million_unknown_names_costs_one_problem() -> None:
    names = ",".join(f'"n{at}":1' for at in range(20_000))
    body = b'{"id": 1}\n' * 20_000 + f"{{{names}}}".encode()
    _, [reject] = split_rows(body, LINES, TABLE)
    assert (reject.place, reject.column) == ("line 20001", "n0")


def test_a_column_in_too_many_spellings_refuses_the_body() -> None:
    names = ["TEXT", "Text", "tEXT", "teXT", "texT", "TExt", "TEXt", "text", "tExt"]
    with pytest.raises(InvalidRows, match="spelled in more than 8 ways"):
        split_rows(b"\n".join(f'{{"id": 1, "{name}": "a"}}'.encode() for name in names), LINES, TABLE)
    assert split_rows(b"\n".join(f'{{"id": 1, "{name}": "a"}}'.encode() for name in names[:8]), LINES, TABLE)[1] == []


@pytest.mark.parametrize("media", [JSON, LINES, CSV, ARROW, PARQUET])
def test_a_value_that_no_partition_can_have_sets_its_row_apart(media: str) -> None:
    table = definition_of(*TABLE.fields, partitions=["text"])
    rows = [{"id": 1, "ratio": None, "text": "a"}, {"id": 2, "ratio": None, "text": ""}]
    body = b'id,ratio,text\n1,,a\n2,,""\n' if media == CSV else body_of(rows, media)
    batches, [reject] = split_rows(body, media, table)
    assert (sum(batch.num_rows for batch in batches), reject.column) == (1, "text")
    assert "an empty text is null" in reject.problem
    with pytest.raises(InvalidRows if media not in (ARROW, PARQUET) else DataMismatch, match="an empty text is null"):
        parts_of(rows_of(body, media, table), table)


@pytest.mark.parametrize("media", [ARROW, PARQUET])
def test_a_row_of_arrow_or_parquet_names_its_first_column_that_does_not_fit(media: str) -> None:
    rows = pa.table({"ID": pa.array([1, None, None, 4], pa.int64()), "ratio": pa.array([0.5, 2.0, 1.5, 1.0])})
    table = definition_of(column("id", "long", nullable=False), column("ratio", "float", nullable=False))
    schema = rows.set_column(1, "ratio", pa.array([0.5, None, 1.5, None], pa.float32()))
    batches, rejects = split_rows(arrow_body(schema) if media == ARROW else parquet_body(schema), media, table)
    assert pa.Table.from_batches(batches).to_pylist() == [{"id": 1, "ratio": 0.5}]
    assert [(reject.place, reject.column) for reject in rejects] == [
        ("row 2", "id"),
        ("row 3", "id"),
        ("row 4", "ratio"),
    ]


def test_a_problem_is_cut_where_it_is_long() -> None:
    rejects = Rejects(1)
    rejects.add("row 1", InvalidRows("row 1: " + "x" * 3_000), "")
    assert rejects.rows[0].problem == "x" * 2_000


# -- rows of their table -----------------------------------------------------------------------------------------------

FEATURES = ("catalogManaged", "inCommitTimestamp")
PROPERTIES = {"delta.enableInCommitTimestamps": "true"}


def test_the_table_to_be_has_the_features_that_the_catalog_requires() -> None:
    made = definition_to_be(FEATURES, PROPERTIES)
    assert made.properties == PROPERTIES
    assert made.writer_features >= set(FEATURES)
    assert made.schema == SCHEMA


def test_rejected_rows_become_rows_in_the_columns_of_their_table() -> None:
    rejects = Rejects(0)
    rejects.add("row 3", InvalidRows("row 3: bad", field="id"), "{}")
    rejects.add("row 4", InvalidRows("no object", field="body"), "5")
    made = definition_to_be(FEATURES, PROPERTIES)
    batch = batch_of(rejects.rows, made, now_ms=1_700_000_000_000, principal="ann", request="key/k")
    shared = {"rejected_at": datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), "principal": "ann", "request": "key/k"}
    assert batch.to_pylist() == [
        {**shared, "place": "row 3", "column": "id", "problem": "bad", "row": "{}"},
        {**shared, "place": "row 4", "column": "", "problem": "no object", "row": "5"},
    ]


def test_a_table_with_further_columns_takes_rejected_rows_and_one_without_theirs_does_not() -> None:
    fields = [dict(field) for field in definition_to_be(FEATURES, PROPERTIES).fields]
    more = definition_of(*fields, column("note", "string"))
    reject = Reject("row 1", "", "bad", "{}")
    [row] = batch_of([reject], more, now_ms=1, principal="", request="").to_pylist()
    assert (row["note"], row["problem"]) == (None, "bad")
    with pytest.raises(DataMismatch, match="'row'"):
        batch_of([reject], definition_of(*fields[:-1]), now_ms=1, principal="", request="")
