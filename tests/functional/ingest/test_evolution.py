"""``schema=evolve``: columns that rows have and the table lacks are added, in a commit before that
of the rows (I26)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.support.fakes import delta
from tests.support.fakes.rows import (
    ARROW,
    CSV,
    JSON,
    LINES,
    PARQUET,
    RowLake,
    arrow_body,
    column,
    list_of,
    mapped_column,
    parquet_body,
    row_lake,
    struct_of,
)
from tests.support.faults import before_next_write
from tests.support.v1 import refused
from turnstile.ingest import evolution

EVOLVE = "schema=evolve"


@pytest.fixture
def lake() -> RowLake:
    return row_lake()


def fields(lake: RowLake) -> dict[str, Any]:
    """The columns of the newest metadata, by name."""
    metadata = [one["metaData"] for actions in lake.actions().values() for one in actions if "metaData" in one]
    return {field["name"]: field for field in json.loads(metadata[-1]["schemaString"])["fields"]}


def types(lake: RowLake) -> dict[str, Any]:
    return {name: field["type"] for name, field in fields(lake).items()}


def test_without_it_an_unknown_column_is_refused(lake: RowLake) -> None:
    assert "no column 'more'" in refused(lake.send([{"id": 1, "more": 2}]), 400, "InvalidRows")["message"]
    assert refused(lake.send([{"id": 1}], query="schema=evolves"), 400, "InvalidRequest")["field"] == "schema"
    assert lake.lake.head.latest == 0


def test_new_columns_of_json_get_the_types_of_their_values(lake: RowLake) -> None:
    first = {
        "id": 1,
        "flag": True,
        "count": 3,
        "ratio": 1,
        "text": "a",
        "tags": [],
        "at": {"x": None, "y": [1]},
    }
    second = {"id": 2, "ratio": 0.5, "count": 4, "flag": None, "tags": ["b"], "at": {"x": 2.5}}
    answer = lake.send([first, second], query=EVOLVE)
    assert (answer.status, answer.json["version"], answer.json["rows"]) == (200, 2, 2), answer.text
    assert types(lake) == {
        "id": "long",
        "name": "string",
        "flag": "boolean",
        "count": "long",
        "ratio": "double",
        "text": "string",
        "tags": list_of("string"),
        "at": struct_of(column("x", "double"), column("y", list_of("long"))),
    }
    assert all(field["nullable"] for field in fields(lake).values())
    one, two = lake.rows()
    assert (one["ratio"], one["tags"], one["at"]) == (1.0, [], {"x": None, "y": [1]})
    assert (two["flag"], two["tags"], two["at"]) == (None, ["b"], {"x": 2.5, "y": None})
    info = lake.actions()[1][0]["commitInfo"]
    assert (info["operation"], info["isBlindAppend"]) == ("ADD COLUMNS", False)


@pytest.mark.parametrize(
    ("body", "media", "type"),
    [
        (b"id,more\n1,2\n", CSV, "string"),
        (b'{"id": 1, "more": 2}\n', LINES, "long"),
        (arrow_body(pa.table({"id": [1], "more": pa.array([2], pa.int16())})), ARROW, "short"),
        (parquet_body(pa.table({"id": [1], "more": pa.array([b"x"], pa.binary())})), PARQUET, "binary"),
        (
            arrow_body(
                pa.table({"id": [1], "more": pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
            ),
            ARROW,
            "timestamp",
        ),
    ],
    ids=["csv", "lines", "arrow", "parquet", "timestamp"],
)
def test_each_format_brings_its_types(lake: RowLake, body: bytes, media: str, type: str) -> None:
    answer = lake.send(body, media, query=EVOLVE)
    assert answer.status == 200, answer.text
    assert types(lake)["more"] == type
    assert [row["id"] for row in lake.rows()] == [1]


def test_a_column_that_differs_in_case_only_is_the_tables_own(lake: RowLake) -> None:
    answer = lake.send([{"ID": 1, "NAME": "a"}], query=EVOLVE)
    assert (answer.status, answer.json["version"]) == (200, 1), answer.text
    assert list(types(lake)) == ["id", "name"]


def test_columns_of_a_table_that_maps_them_get_ids_and_names_of_their_own() -> None:
    own = mapped_column("id", "long", 1, "col-a"), mapped_column("name", "string", 2, "col-b")
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "2"}
    lake = row_lake(*own, features=["columnMapping"], **configuration)
    answer = lake.send([{"id": 1, "at": {"x": 1}, "list": [{"y": 2}]}], query=EVOLVE)
    assert answer.status == 200, answer.text
    added = fields(lake)["at"]
    inner = added["type"]["fields"][0]
    listed = fields(lake)["list"]
    element = listed["type"]["elementType"]["fields"][0]
    every = (added, inner, listed, element)
    ids = [one["metadata"]["delta.columnMapping.id"] for one in every]
    names = {one["metadata"]["delta.columnMapping.physicalName"] for one in every}
    assert ids == [3, 4, 5, 6] and len(names) == 4 and not names & {"at", "x", "list", "y"}
    configured = next(one["metaData"] for one in lake.actions()[1] if "metaData" in one)["configuration"]
    assert configured["delta.columnMapping.maxColumnId"] == "6"
    (row,) = lake.rows()
    assert row[added["metadata"]["delta.columnMapping.physicalName"]] == {
        inner["metadata"]["delta.columnMapping.physicalName"]: 1
    }


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"id": 1, "more": 1}, {"id": 2, "more": "a"}], "row 2: column 'more': it is long in one row and string"),
        ([{"more": 1}, {"more": {"a": 1}}], "it is long in one row and struct in another"),
        ([{"more": {"a": 1}}, {"more": "a"}], "it is struct in one row and string in another"),
        ([{"more": [1]}, {"more": {"a": 1}}], "it is array in one row and struct in another"),
        ([{"more": [1, "a"]}], "it is long in one row and string in another"),
        ([{"id": 1, "more": 2**70}], "row 1: column 'more': a whole number has more than 64 bits"),
        ([{"id": 1, "more": 2**63}], "a whole number has more than 64 bits"),
        ([{"id": 1, "more": {}}], "column 'more': it has objects without members"),
        ([{"id": 1, "more": None}], "column 'more': it has only nulls"),
        ([{"id": 1, "more": [[]]}], "column 'more': it has only nulls, or empty arrays"),
        ([{"id": 1, "more": 2**53 + 1}, {"id": 1, "more": 0.5}], "more digits than a double holds"),
        ([{"id": 1, "more": 0.5}, {"id": 1, "more": 2**53 + 1}], "more digits than a double holds"),
        ([{"id": 1, "m" * 256: 1}], "255 at most"),
        ([{"id": 1, "m\u0000": 1}], "printable characters"),
        ([{"id": 1, "a b": 1}], "column 'a b'"),
        ([{"id": 1, "more": 1, "MORE": 2}], "'MORE' is there twice"),
        ([{"id": 1, "more": {"a": 1, "A": 2}}], "'A' is there twice"),
        ([{"id": "x", "name": "a"}], "row 1: column 'id'"),
    ],
)
def test_what_has_no_type_is_refused_and_changes_nothing(lake: RowLake, rows: list[Any], words: str) -> None:
    assert words in refused(lake.send(rows, query=EVOLVE), 400, "InvalidRows")["message"]
    assert lake.lake.head.latest == 0


@pytest.mark.parametrize(
    ("body", "media", "words"),
    [
        (b'[{"id": "x", "more": 1}]', JSON, "row 1: column 'id'"),
        (b'{"id": 1, "more": 1}\n{"id": [1]}\n', LINES, "line 2: column 'id'"),
        (b'[{"id": 1, "ID": 2, "more": 3}]', JSON, "are the same column"),
        (b"id,more\n", CSV, "the body has no rows"),
        (b"id,more\nx,1\n", CSV, "column 'id'"),
        (arrow_body(pa.table({"id": ["x"], "more": [1]})), ARROW, "id"),
    ],
    ids=["json", "lines", "twice", "no rows", "csv", "arrow"],
)
def test_rows_that_do_not_fit_add_no_column(lake: RowLake, body: bytes, media: str, words: str) -> None:
    assert words in refused(lake.send(body, media, query=EVOLVE), 400, "InvalidRows")["message"]
    assert lake.lake.head.latest == 0


def test_fields_of_new_columns_are_bounded_before_they_are_put_together(lake: RowLake) -> None:
    rows = [{"id": n, "more": {f"k{n}": n}} for n in range(3_000)]
    assert "more than 1000 fields" in refused(lake.send(rows, query=EVOLVE), 400, "InvalidRows")["message"]
    assert lake.lake.head.latest == 0


def test_a_request_may_have_as_many_fields_as_the_limit_and_names_of_its_length(lake: RowLake) -> None:
    name = "n" * 255
    assert lake.send([{"id": 1, name: {f"k{n}": n for n in range(1_000)}}], query=EVOLVE).status == 200
    assert len(types(lake)[name]["fields"]) == 1_000


def test_large_whole_numbers_are_long_and_a_fraction_makes_them_double_while_they_stay_exact(lake: RowLake) -> None:
    rows = [{"id": 1, "large": 2**63 - 1, "exact": 2**53}, {"id": 2, "large": -(2**63), "exact": 0.5}]
    assert lake.send(rows, query=EVOLVE).status == 200
    assert (types(lake)["large"], types(lake)["exact"]) == ("long", "double")
    assert lake.rows()[0]["exact"] == 2**53


def test_a_definition_that_is_too_large_says_so() -> None:
    lake = row_lake(column("id", "long", comment="x" * 190_000))
    row = {"id": 1, "more": {f"key_number_{n}": n for n in range(999)}}
    error = refused(lake.send([row], query=EVOLVE), 413, "TooLarge")
    assert "definition with the new columns" in error["message"] and "stage" not in error["remedy"]


def test_too_many_columns_are_refused(lake: RowLake) -> None:
    row = {"id": 1, **{f"c{n}": n for n in range(101)}}
    assert refused(lake.send([row], query=EVOLVE), 413, "TooLarge")["limit"] == 100
    assert lake.lake.head.latest == 0
    nulls = dict.fromkeys(row)
    assert refused(lake.send([nulls, row], query=EVOLVE), 413, "TooLarge")["size"] == 101, "at the first row"
    del row["c0"]
    assert lake.send([row], query=EVOLVE).status == 200
    assert len(types(lake)) == 102


def test_a_wide_table_gets_no_more_columns_and_still_says_what_is_wrong_with_a_row() -> None:
    lake = row_lake(column("id", "long"), *(column(f"c{n}", "long") for n in range(1_999)))
    assert refused(lake.send([{"id": 1, "more": 1}], query=EVOLVE), 413, "TooLarge")["limit"] == 2_000
    assert "column 'id'" in refused(lake.send([{"id": "x"}], query=EVOLVE), 400, "InvalidRows")["message"]
    wider = row_lake(column("id", "long"), *(column(f"c{n}", "long") for n in range(2_000)))
    assert "column 'id'" in refused(wider.send([{"id": "x"}], query=EVOLVE), 400, "InvalidRows")["message"]


def test_times_without_a_zone_need_the_feature() -> None:
    body = arrow_body(pa.table({"id": [1], "at": pa.array([datetime(2026, 1, 1)], pa.timestamp("us"))}))
    assert "timestampNtz" in refused(row_lake().send(body, ARROW, query=EVOLVE), 400, "InvalidRows")["message"]
    lake = row_lake(features=["timestampNtz"])
    assert lake.send(body, ARROW, query=EVOLVE).status == 200
    assert types(lake)["at"] == "timestamp_ntz"


def test_i26_the_same_request_again_is_a_replay_and_adds_no_column(lake: RowLake) -> None:
    key = {"Idempotency_Key": str(uuid4())}
    assert lake.send([{"id": 1, "more": 2}], query=EVOLVE, **key).json["version"] == 2
    again = lake.send([{"id": 1, "more": 2}], query=EVOLVE, **key).json
    assert (again["outcome"], again["version"]) == ("replayed", 2)
    assert lake.lake.head.latest == 2


def test_a_column_that_another_added_in_between_is_used_as_it_is(lake: RowLake) -> None:
    def other() -> None:
        assert lake.send([{"id": 2, "more": 2.5}], query=EVOLVE).status == 200

    before_next_write(lake.world, other)
    answer = lake.send([{"id": 1, "more": 1}], query=EVOLVE)
    assert (answer.status, answer.json["version"]) == (200, 3), answer.text
    assert types(lake)["more"] == "double"
    assert [row["more"] for row in lake.rows()] == [2.5, 1.0]


def test_a_column_that_another_added_after_the_first_attempt_is_used(
    lake: RowLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt saw the table without it, and the columns are derived from one with it."""
    derive = evolution.evolve

    def late(*given: Any) -> Any:
        monkeypatch.setattr(evolution, "evolve", derive)
        assert lake.send([{"id": 2, "more": 2}], query=EVOLVE).status == 200
        return derive(*given)

    monkeypatch.setattr(evolution, "evolve", late)
    answer = lake.send([{"id": 1, "more": 1}], query=EVOLVE)
    assert (answer.status, answer.json["version"]) == (200, 3), answer.text
    assert lake.rows() == [{"id": 2, "name": None, "more": 2}, {"id": 1, "name": None, "more": 1}]


def test_members_that_an_arrow_column_never_leaves_out_may_be_null_in_the_table(lake: RowLake) -> None:
    type = pa.struct([pa.field("x", pa.int64(), nullable=False)])
    list_type = pa.list_(pa.field("element", type, nullable=False))
    map_type = pa.map_(pa.string(), pa.field("value", type, nullable=False))
    columns = {
        "id": [1],
        "at": pa.array([{"x": 1}], type),
        "list": pa.array([[{"x": 1}]], list_type),
        "map": pa.array([[("a", {"x": 1})]], map_type),
    }
    assert lake.send(arrow_body(pa.table(columns)), ARROW, query=EVOLVE).status == 200
    found = types(lake)
    inner = struct_of(column("x", "long"))
    assert (found["at"], found["list"]) == (inner, list_of(inner))
    assert found["map"] == {"type": "map", "keyType": "string", "valueType": inner, "valueContainsNull": True}


def test_a_table_that_changes_at_every_attempt_is_refused_with_a_time_to_wait(lake: RowLake) -> None:
    def again() -> None:
        stamp = max(lake.world.clock.now_ms(), lake.lake.now()) + lake.lake.head.latest
        content = delta.lines(delta.info(str(uuid4()), stamp), delta.add(f"{uuid4()}.parquet"))
        assert lake.lake.inline(lake.lake.head.latest + 1, content).status == 200
        before_next_write(lake.world, again)

    before_next_write(lake.world, again)
    error = refused(lake.send([{"id": 1, "more": 1}], query=EVOLVE), 409, "ConcurrentChange")
    assert error["retry_after_ms"] > 0
    assert "more" not in types(lake)


def test_a_table_that_needs_an_engine_gets_no_columns() -> None:
    lake = row_lake(features=["checkConstraints"], **{"delta.constraints.few": "id < 2"})
    refused(lake.send([{"id": 1, "more": 1}], JSON, query=EVOLVE), 400, "UnsupportedTable")
    assert lake.lake.head.latest == 0
