"""``on_error=quarantine``: rows that fit are added, and the others are in the table of rejected
rows beside it, by one commit of both (I26)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

from tests.support.fakes import delta
from tests.support.fakes.rows import (
    ARROW,
    CSV,
    JSON,
    LINES,
    PARQUET,
    RejectedRows,
    RowLake,
    arrow_body,
    column,
    parquet_body,
    row_lake,
)
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, before_next_write
from tests.support.functions import function
from tests.support.lake import ORDERS
from tests.support.v1 import refused
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.ingest import appends, turns
from turnstile.ingest.core import bodies, rejects
from turnstile.ingest.core.identity import Identity
from turnstile.ingest.rejected import RejectedTables
from turnstile.ingest.turns import Appended, RowsRequest, convert
from turnstile.store.core.errors import NotFound, TooLarge, TurnstileError

QUARANTINE = "on_error=quarantine"
KEY = "0197c9a0-0000-7000-8000-000000000001"
BAD = {"id": "no number", "name": "Ada"}
GOOD = {"id": 2, "name": "Bea"}


@pytest.fixture
def lake() -> RowLake:
    return row_lake(column("id", "long", nullable=False), column("name", "string"))


def rejected_table(lake: RowLake) -> RejectedRows:
    return RejectedRows(lake)


def test_i26_rows_that_fit_are_added_and_the_others_are_beside_them_with_the_reason(lake: RowLake) -> None:
    answer = lake.send([BAD, GOOD], query=QUARANTINE, Idempotency_Key=KEY)
    assert answer.status == 200, answer.text
    table = rejected_table(lake)
    problem = "the text 'no number' is no whole number"
    assert answer.json == {
        "table_id": ORDERS,
        "outcome": "added",
        "version": 1,
        "rows": 1,
        "rejected": {
            "rows": 1,
            "table_id": table.id,
            "problems": [{"place": "row 1", "column": "id", "problem": f"column 'id': {problem}"}],
        },
    }
    assert lake.rows() == [GOOD]
    [row] = table.rows()
    assert json.loads(row.pop("row")) == BAD
    assert row.pop("rejected_at").timestamp() * 1000 == pytest.approx(lake.lake.now(), abs=60_000)
    assert row == {
        "principal": "operator",
        "request": f"key/{KEY}",
        "place": "row 1",
        "column": "id",
        "problem": f"column 'id': {problem}",
    }
    assert table.head["latest"] == 1


def test_a_request_whose_rows_all_fit_makes_no_table(lake: RowLake) -> None:
    answer = lake.send([GOOD], query=QUARANTINE)
    assert answer.json == {"table_id": ORDERS, "outcome": "added", "version": 1, "rows": 1}
    assert not rejected_table(lake).is_there


def test_i26_a_request_of_which_no_row_fits_is_a_version_without_rows(lake: RowLake) -> None:
    answer = lake.send([BAD, BAD], query=QUARANTINE, Idempotency_Key=KEY).json
    assert (answer["version"], answer["rows"], answer["rejected"]["rows"]) == (1, 0, 2)
    assert (lake.rows(), len(rejected_table(lake).rows())) == ([], 2)
    assert lake.adds()[1] == [], "no file without rows"
    again = lake.send([BAD, BAD], query=QUARANTINE, Idempotency_Key=KEY).json
    assert again == {"table_id": ORDERS, "outcome": "replayed", "version": 1, "rejected": {"rows": 2}}
    assert len(rejected_table(lake).rows()) == 2


@pytest.fixture
def conversions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each conversion of a request's rows, by the table of rejected rows that it has."""
    found = list[str]()

    def noting(request: RowsRequest, definition: Any) -> Any:
        found.append(request.rejected_id)
        return convert(request, definition)

    for module in (appends, turns):
        monkeypatch.setattr(module, "convert", noting)
    return found


def test_rows_of_which_some_do_not_fit_are_converted_twice(lake: RowLake, conversions: list[str]) -> None:
    assert lake.send([BAD, GOOD], query=QUARANTINE).json["rejected"]["rows"] == 1
    assert conversions == ["", ORDERS], "until one does not fit, and then each of them"
    assert lake.rows() == [GOOD]


def test_rows_are_converted_again_where_the_table_was_defined_anew_meanwhile(
    lake: RowLake, conversions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = RejectedTables.table_of

    def late(*given: Any, **named: Any) -> str:
        changed = delta.metadata()
        columns = [column("id", "long"), column("name", "string"), column("more", "string")]
        changed["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": columns})
        content = delta.lines(delta.info("m", lake.lake.now()), changed)
        assert lake.lake.inline(lake.lake.head.latest + 1, content).status == 200
        return find(*given, **named)

    monkeypatch.setattr(RejectedTables, "table_of", late)
    answer = lake.send([BAD, GOOD], query=QUARANTINE).json
    assert (answer["version"], answer["rows"], answer["rejected"]["rows"]) == (2, 1, 1)
    assert conversions == ["", ORDERS, rejected_table(lake).id]
    assert lake.rows() == [{**GOOD, "more": None}]


def test_later_rows_that_do_not_fit_come_into_the_same_table(lake: RowLake) -> None:
    for _ in range(3):
        assert lake.send([BAD, GOOD], query=QUARANTINE).status == 200
    assert (len(lake.rows()), len(rejected_table(lake).rows())) == (3, 3)
    assert lake.send([GOOD], query=QUARANTINE).json["rows"] == 1
    assert rejected_table(lake).head["latest"] == 3


def test_a_table_is_found_by_its_name_as_well(lake: RowLake) -> None:
    path = "/v1/catalogs/main/namespaces/sales/tables/orders/rows"
    answer = lake.send([BAD], table=path, query=QUARANTINE)
    assert answer.json["rejected"]["table_id"] == rejected_table(lake).id


ROWS = [{"id": 1, "name": "a"}, {"id": None, "name": "b"}, {"id": 3, "name": "c"}]


@pytest.mark.parametrize(
    ("body", "media", "places"),
    [
        (ROWS, JSON, ["row 2"]),
        ([*ROWS, 5, None, "x"], JSON, ["row 2", "row 4", "row 5", "row 6"]),
        ([*ROWS, {"id": 4, "more": 1}, {"id": 5, "ID": 5}], JSON, ["row 2", "row 4", "row 5"]),
        (b'{"id": 1, "name": "a"}\n\n{"id": 1.5}\n{"id": \n{"id": 3, "name": "c"}\n', LINES, ["line 3", "line 4"]),
        (b'{"id": 1, "name": "a"}\n{"id": 3, "name": "c"}\n\xff\xfe\n', LINES, ["line 3"]),
        (b"id,name\n1,a\n,b\n3,c\nx,d\n", CSV, ["row 2", "row 4"]),
        (b"id,name\n1,a\n2,b,more\n9\n3,c\ny,e\n", CSV, ["row 2", "row 3", "row 5"]),
        (arrow_body(pa.Table.from_pylist(ROWS)), ARROW, ["row 2"]),
        (parquet_body(pa.Table.from_pylist(ROWS)), PARQUET, ["row 2"]),
    ],
    ids=["json", "elements", "columns", "lines", "bytes", "csv", "torn-csv", "arrow", "parquet"],
)
def test_every_format_has_its_rows_split(lake: RowLake, body: Any, media: str, places: list[str]) -> None:
    answer = lake.send(body, media, query=QUARANTINE)
    assert answer.status == 200, answer.text
    assert lake.rows() == [ROWS[0], ROWS[2]]
    found = rejected_table(lake).rows()
    assert [row["place"] for row in found] == places
    assert all(row["problem"] and row["row"] for row in found)
    assert [one["place"] for one in answer.json["rejected"]["problems"]] == places


def test_rows_are_kept_as_they_were_sent() -> None:
    lake = row_lake(column("id", "long"), column("price", "decimal(4,1)"))
    body = b'[{"id": 1, "price": 1.25}, {"id":2,"price":1.5},\n {"id": 3, "price":  100000.0, "x": "\xc3\xa4"}]'
    assert lake.send(body, query=QUARANTINE).json["rows"] == 1
    texts = [row["row"] for row in rejected_table(lake).rows()]
    assert texts == ['{"id": 1, "price": 1.25}', '{"id": 3, "price":  100000.0, "x": "ä"}']


@pytest.mark.parametrize(
    ("body", "media", "text"),
    [
        (b"[{]", JSON, "no JSON array"),
        (b"", LINES, "no rows"),
        (b"other\n1\n", CSV, "no column 'other'"),
        (arrow_body(pa.table({"other": [1]})), ARROW, "'other'"),
        (arrow_body(pa.table({"id": ["x"]})), ARROW, "cast it"),
        (b"PAR1", PARQUET, "no Parquet"),
    ],
)
def test_a_body_that_fits_no_row_is_refused_as_a_whole(lake: RowLake, body: bytes, media: str, text: str) -> None:
    assert text in refused(lake.send(body, media, query=QUARANTINE), 400, "InvalidRows")["message"]
    assert lake.lake.head.latest == 0
    assert not rejected_table(lake).is_there


def test_more_rows_that_do_not_fit_than_the_limit_are_refused(lake: RowLake, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (rejects, bodies):
        monkeypatch.setattr(module, "ROWS_MAX", 3)
    columns = pa.table({"id": pa.array([None] * 4, pa.int64())})
    for body, media in (
        ([BAD] * 4, JSON),
        (b"id,name\n" + b"x,y\n" * 4, CSV),
        (b"id,name\n" + b"1,2,3\n" * 4, CSV),
        (b"id,name\n" + b"1,2,3\n" * 2 + b"x,y\n" * 2, CSV),
        (arrow_body(columns), ARROW),
    ):
        message = refused(lake.send(body, media, query=QUARANTINE), 413, "TooLarge")["message"]
        assert "more than 3 rows do not fit" in message
    assert lake.lake.head.latest == 0
    assert not rejected_table(lake).is_there
    assert lake.send([BAD] * 3, query=QUARANTINE).json["rejected"]["rows"] == 3


def test_it_is_refused_together_with_new_columns_and_with_other_values(lake: RowLake) -> None:
    answer = lake.send([BAD], query="schema=evolve&on_error=quarantine")
    assert refused(answer, 400, "InvalidRequest")["field"] == "on_error"
    assert refused(lake.send([BAD], query="on_error=skip"), 400, "InvalidRequest")["field"] == "on_error"


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i26_a_request_is_in_both_tables_or_in_none_whichever_write_fails(how: Any) -> None:
    """With all writes counted: the staging table, its version 0, its registration, the files of
    both tables and the commit."""
    for at in range(1, 40):
        lake = row_lake()
        faulty = Faulty(lake.world, at, how)
        lake.open(faulty.world)
        with suppress(Crash):
            lake.send([BAD, GOOD], query=QUARANTINE, Idempotency_Key=KEY)
        done = lake.lake.head.latest
        table = rejected_table(lake)
        assert (len(lake.rows()), len(table.rows()) if table.is_there else 0) == (done, done), (how, at)
        if len(faulty.writes) < at:
            assert at > 8, faulty.writes
            return
        lake.open()
        answer = lake.send([BAD, GOOD], query=QUARANTINE, Idempotency_Key=KEY).json
        assert (answer["version"], answer["rejected"]["rows"]) == (1, 1), (how, at)
        assert (lake.rows(), len(rejected_table(lake).rows())) == ([GOOD], 1), (how, at)
    raise AssertionError("the request has no end")


def test_two_first_requests_make_one_table(lake: RowLake) -> None:
    before_next_write(lake.world, lambda: lake.send([BAD], query=QUARANTINE))
    assert lake.send([BAD], query=QUARANTINE).json["rejected"]["table_id"] == rejected_table(lake).id
    assert len(rejected_table(lake).rows()) == 2


def test_a_table_that_changes_while_rows_are_written_gets_them_after_the_change(lake: RowLake) -> None:
    lake.send([BAD], query=QUARANTINE)
    table = rejected_table(lake)
    changed = delta.metadata()
    changed["metaData"]["schemaString"] = table.schema_with(column("more", "string"))
    before_next_write(lake.world, lambda: table.commit(delta.lines(delta.info("m", lake.lake.now()), changed)))
    assert lake.send([BAD, GOOD], query=QUARANTINE).status == 200
    assert len(table.rows()) == 2
    assert (table.rows()[-1]["more"], table.head["latest"]) == (None, 3)


def test_a_table_with_other_columns_takes_no_rejected_rows_and_nothing_is_added(lake: RowLake) -> None:
    lake.send([BAD], query=QUARANTINE)
    table = rejected_table(lake)
    changed = delta.metadata()
    changed["metaData"]["schemaString"] = json.dumps({"type": "struct", "fields": [column("id", "long")]})
    assert table.commit(delta.lines(delta.info("m", lake.lake.now()), changed)).status == 200
    before = lake.lake.state()
    error = refused(lake.send([BAD, GOOD], query=QUARANTINE), 400, "UnsupportedTable")
    assert "orders_rejected is no table of rejected rows" in error["message"]
    assert "on_error=quarantine" in error["remedy"]
    assert lake.lake.state() == before
    assert lake.send([GOOD], query=QUARANTINE).status == 200


@pytest.mark.parametrize(
    ("state", "type", "message"),
    [
        ("dropped", "ConcurrentChange", "the table of rejected rows was dropped meanwhile"),
        ("stuck", "TableNotActive", "the table of rejected rows main.sales.orders_rejected is stuck"),
    ],
)
def test_a_table_of_rejected_rows_that_takes_no_commits_refuses_only_its_own_requests(
    lake: RowLake, state: str, type: str, message: str
) -> None:
    lake.send([BAD], query=QUARANTINE)
    table = rejected_table(lake)
    table.set(state=state)
    answer = lake.send([BAD, GOOD], query=QUARANTINE)
    assert refused(answer, 409, type)["message"] == message
    assert lake.rows() == []
    assert lake.send([GOOD], query=QUARANTINE).json["version"] == 2


def test_a_value_that_no_partition_can_have_sets_its_row_apart() -> None:
    lake = row_lake(column("id", "long"), column("region", "string"), partitions=["region"])
    answer = lake.send([{"id": 1, "region": "a"}, {"id": 2, "region": ""}], query=QUARANTINE)
    assert (answer.json["rows"], answer.json["rejected"]["problems"][0]["column"]) == (1, "region")
    assert [row["id"] for row in lake.rows()] == [1]
    message = refused(lake.send([{"id": 2, "region": ""}]), 400, "InvalidRows")["message"]
    assert message.startswith("row 1: partition column 'region'")


def test_a_commit_of_rejected_rows_that_is_too_large_refuses_only_requests_with_such_rows(
    lake: RowLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.send([BAD], query=QUARANTINE)

    def too_large(*_: Any) -> Any:
        raise TooLarge("planted", limit=1)

    monkeypatch.setattr("turnstile.ingest.rejected.require_inline", too_large)
    assert refused(lake.send([BAD, GOOD], query=QUARANTINE), 413, "TooLarge")["message"] == "planted"
    assert lake.send([GOOD], query=QUARANTINE).json["rows"] == 1


@pytest.mark.parametrize("error", [NotFound("table", "x"), TooLarge("planted", field="content")])
def test_an_error_of_the_group_about_the_table_of_rejected_rows_refuses_only_its_requests(
    lake: RowLake, monkeypatch: pytest.MonkeyPatch, error: TurnstileError
) -> None:
    lake.send([BAD], query=QUARANTINE)
    commit = GroupRatifier.commit

    def failing(self: Any, group: Any) -> Any:
        if len(group.commits) == 1:
            return commit(self, group)
        error.field = "commits[1].content"
        error.member = 1
        raise error

    appender = function("ingest").services.row_appender
    bad, good = (RowsRequest(ORDERS, json.dumps(rows).encode(), JSON, Identity("ann")) for rows in ([BAD], [GOOD]))
    bad = structs.replace(bad, rejected_id=rejected_table(lake).id)
    monkeypatch.setattr(GroupRatifier, "commit", failing)
    answers = appender.append_many("main", [bad, good], lake.lake.now() + 60_000)
    assert type(answers[0]) is type(error)
    assert isinstance(answers[1], Appended)
    assert answers[1].rows == 1
