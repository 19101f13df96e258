"""Rows over HTTP: each request is one version of the table, all rows or none, at most once
(I26)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.support.fakes import delta
from tests.support.fakes.rows import (
    ARROW,
    CSV,
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
from tests.support.lake import LOCATION, ORDERS
from tests.support.v1 import refused

ROWS = [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]
KEY = "0197c9a0-0000-7000-8000-000000000001"


@pytest.fixture
def lake() -> RowLake:
    return row_lake()


def produce(lake: RowLake, sequence: int, rows: Any = None, producer: str = "till-1") -> Any:
    headers = {"Turnstile_Producer": producer, "Turnstile_Sequence": str(sequence)}
    return lake.send(rows or [{"id": sequence}], **headers)


# -- one version -------------------------------------------------------------------------------------------------------


def test_i26_the_rows_of_a_request_are_one_version_with_readable_files_and_right_statistics(lake: RowLake) -> None:
    answer = lake.send(ROWS)
    assert answer.status == 200, answer.text
    assert answer.json == {"table_id": ORDERS, "outcome": "added", "version": 1, "rows": 2}
    assert lake.versions() == [(1, ROWS)]
    (add,) = lake.adds()[1]
    assert json.loads(add["stats"]) == {
        "numRecords": 2,
        "minValues": {"id": 1, "name": "Ada"},
        "maxValues": {"id": 2, "name": "Ada"},
        "nullCount": {"id": 0, "name": 1},
    }
    info = lake.actions()[1][0]["commitInfo"]
    assert (info["operation"], info["isBlindAppend"], info["readVersion"]) == ("WRITE", True, 0)
    assert info["operationMetrics"]["numOutputRows"] == "2"
    assert info["engineInfo"].startswith("turnstile-rows/")


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b'{"id": 1, "name": "Ada"}\n{"id": 2}\n', LINES),
        (b'{"id": 1, "name": "Ada"}\n{"id": 2}\n', "application/json"),
        (b"id,name\n1,Ada\n2,\n", CSV),
        (arrow_body(pa.Table.from_pylist(ROWS)), ARROW),
        (parquet_body(pa.Table.from_pylist(ROWS)), PARQUET),
        (b"ID,Name\r\n1,Ada\r\n2,\r\n", "TEXT/CSV; charset=utf-8"),
    ],
    ids=["lines", "objects", "csv", "arrow", "parquet", "csv-with-charset"],
)
@pytest.mark.parametrize("encoding", ["", "gzip", "zstd"])
def test_rows_come_in_every_format_and_compressed(lake: RowLake, body: bytes, media: str, encoding: str) -> None:
    headers = {"Content_Encoding": encoding} if encoding else {}
    match encoding:
        case "gzip":
            body = gzip.compress(body)
        case "zstd":
            body = pa.compress(body, "zstd", asbytes=True)
    assert lake.send(body, media, **headers).status == 200
    assert lake.rows() == ROWS


def test_a_table_is_found_by_its_name_as_well(lake: RowLake) -> None:
    by_name = "/v1/catalogs/main/namespaces/sales/tables/orders/rows"
    assert lake.send(ROWS, table=by_name).json["version"] == 1
    refused(lake.send(ROWS, table=by_name.replace("orders", "nothing")), 404, "NoSuchTable")


def test_requests_without_identity_are_added_each_time(lake: RowLake) -> None:
    assert [lake.send(ROWS).json["version"] for _ in range(2)] == [1, 2]
    assert lake.rows() == ROWS * 2


# -- the same request again --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_evicted", [False, True])
@pytest.mark.parametrize("is_new_sandbox", [False, True])
def test_i26_the_same_key_gives_the_version_of_the_first_request_also_long_after(
    lake: RowLake, is_evicted: bool, is_new_sandbox: bool
) -> None:
    assert lake.send(ROWS, Idempotency_Key=KEY).json["outcome"] == "added"
    lake.lake.publish()
    if is_evicted:
        lake.evict(1)
    before = lake.lake.state()
    if is_new_sandbox:
        lake.open()
    answer = lake.send(ROWS, Idempotency_Key=KEY.upper())
    assert answer.json == {"table_id": ORDERS, "outcome": "replayed", "version": 1}
    assert lake.lake.state() == before


def test_i26_the_same_key_gives_the_first_version_whatever_became_of_the_table(lake: RowLake) -> None:
    lake.send(ROWS, Idempotency_Key=KEY)
    changed = delta.metadata()
    changed["metaData"]["schemaString"] = json.dumps(struct_of(column("other", "date")))
    assert lake.lake.inline(2, delta.lines(delta.info("m", lake.lake.now()), changed)).status == 200
    assert lake.send(ROWS, Idempotency_Key=KEY).json["version"] == 1
    for state in ("stuck", "leaving", "pinned"):
        lake.lake.set(state=state)
        assert lake.send(ROWS, Idempotency_Key=KEY).json["version"] == 1


def test_i26_a_request_that_came_between_is_found_by_the_proposal(lake: RowLake) -> None:
    first = []
    before_next_write(lake.world, lambda: first.append(lake.send(ROWS, Idempotency_Key=KEY).json))
    answer = lake.send(ROWS, Idempotency_Key=KEY).json
    assert (answer["outcome"], answer["version"]) == ("replayed", 1)
    assert first[0]["outcome"] == "added"
    assert lake.rows() == ROWS


def test_i26_a_request_that_came_between_and_left_the_tail_is_found_by_the_proposal(lake: RowLake) -> None:
    def act() -> None:
        assert lake.send(ROWS, Idempotency_Key=KEY).json["version"] == 1
        lake.lake.publish()
        lake.evict(1)

    before_next_write(lake.world, act)
    answer = lake.send(ROWS, Idempotency_Key=KEY).json
    assert (answer["outcome"], answer["version"]) == ("replayed", 1)
    assert len(lake.files()) == 2, "the second request's file has no commit"


def test_other_appends_at_the_same_time_are_no_conflict(lake: RowLake) -> None:
    before_next_write(lake.world, lambda: lake.send([{"id": 7}]))
    assert lake.send(ROWS, Idempotency_Key=KEY).json["version"] == 2
    assert [row["id"] for row in lake.rows()] == [7, 1, 2]


@pytest.mark.parametrize("key", ["", "nonsense", "1"])
def test_a_key_that_is_no_uuid_is_refused(lake: RowLake, key: str) -> None:
    before = lake.lake.state()
    refused(lake.send(ROWS, Idempotency_Key=key), 400, "InvalidRequest", "Idempotency-Key")
    assert lake.lake.state() == before


# -- producers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_evicted", [False, True])
def test_i26_a_producers_request_that_is_sent_again_gets_its_version(lake: RowLake, is_evicted: bool) -> None:
    assert [produce(lake, sequence).json["version"] for sequence in (3, 5)] == [1, 2]
    lake.lake.publish()
    if is_evicted:
        lake.evict(1)
    for sequence, version in ((3, 1), (5, 2)):
        answer = produce(lake, sequence).json
        assert (answer["outcome"], answer["version"]) == ("replayed", version)
    latest = lake.lake.head.latest
    assert produce(lake, 6).json["version"] == latest + 1
    assert produce(lake, 5, producer="till-2").json["version"] == latest + 2
    txn = lake.actions()[latest + 1][1]["txn"]
    assert (txn["appId"], txn["version"]) == ("turnstile.rows/till-1", 6)


def test_i26_other_rows_under_the_identity_of_a_request_are_refused(lake: RowLake) -> None:
    produce(lake, 1)
    before = lake.lake.state()
    refused(produce(lake, 1, [{"id": 9}]), 422, "KeyReused", "Idempotency-Key")
    assert lake.lake.state() == before


def test_i26_a_producers_request_that_is_sent_twice_at_once_is_added_once(lake: RowLake) -> None:
    before_next_write(lake.world, lambda: produce(lake, 1))
    answer = produce(lake, 1).json
    assert (answer["outcome"], answer["version"]) == ("replayed", 1)
    assert [row["id"] for row in lake.rows()] == [1]


def test_a_producer_that_sends_two_requests_at_once_has_both_added(lake: RowLake) -> None:
    before_next_write(lake.world, lambda: produce(lake, 1))
    assert produce(lake, 2).json["version"] == 2
    assert [row["id"] for row in lake.rows()] == [1, 2]
    assert len(lake.files()) == 2


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"Turnstile_Producer": "p"}, "Turnstile-Sequence"),
        ({"Turnstile_Sequence": "1"}, "Turnstile-Producer"),
        ({"Turnstile_Producer": "", "Turnstile_Sequence": "1"}, "Turnstile-Producer"),
        ({"Turnstile_Producer": "p" * 201, "Turnstile_Sequence": "1"}, "Turnstile-Producer"),
        ({"Turnstile_Producer": "p", "Turnstile_Sequence": "-1"}, "Turnstile-Sequence"),
        ({"Turnstile_Producer": "p", "Turnstile_Sequence": str(2**63)}, "Turnstile-Sequence"),
        ({"Turnstile_Producer": "p", "Turnstile_Sequence": "1", "Idempotency_Key": KEY}, "Idempotency-Key"),
    ],
)
def test_headers_that_are_no_identity_are_refused(lake: RowLake, headers: dict[str, str], field: str) -> None:
    before = lake.lake.state()
    refused(lake.send(ROWS, **headers), 400, "InvalidRequest", field)
    assert lake.lake.state() == before


# -- changes of the table meanwhile ------------------------------------------------------------------------------------


def change_schema(lake: RowLake, *fields: dict[str, Any], **properties: str) -> Callable[[], None]:
    def act() -> None:
        changed = delta.metadata(**properties)
        changed["metaData"]["schemaString"] = json.dumps(struct_of(*fields))
        version = lake.lake.head.latest + 1
        answer = lake.lake.inline(version, delta.lines(delta.info(f"m{version}", lake.lake.now()), changed))
        assert answer.status == 200, answer.text

    return act


@pytest.mark.parametrize("headers", [{}, {"Idempotency_Key": KEY}], ids=["without", "with-key"])
def test_i26_rows_are_judged_again_by_a_definition_that_came_between(lake: RowLake, headers: dict[str, str]) -> None:
    before_next_write(lake.world, change_schema(lake, column("id", "string"), column("name", "string")))
    assert lake.send([{"id": "7", "name": "Ada"}], **headers).json["version"] == 2
    assert lake.versions() == [(2, [{"id": "7", "name": "Ada"}])]


def test_i26_rows_that_do_not_fit_a_definition_that_came_between_are_refused(lake: RowLake) -> None:
    before_next_write(lake.world, change_schema(lake, column("id", "string")))
    error = refused(lake.send(ROWS), 400, "InvalidRows", "name")
    assert "row 1: the table has no column 'name'" in error["message"]
    assert lake.rows() == []


def test_i26_a_constraint_that_came_between_is_not_ignored() -> None:
    lake = row_lake(features=["checkConstraints"])
    fields = column("id", "long"), column("name", "string")
    before_next_write(lake.world, change_schema(lake, *fields, **{"delta.constraints.few": "id < 2"}))
    error = refused(lake.send(ROWS), 400, "UnsupportedTable")
    assert "CHECK constraint 'few'" in error["message"]
    assert lake.rows() == []


def test_a_table_that_changes_during_every_attempt_is_a_conflict_without_rows(lake: RowLake) -> None:
    fields = column("id", "long"), column("name", "string")

    def again() -> None:
        change_schema(lake, *fields, **{"delta.round": str(lake.lake.head.latest)})()
        before_next_write(lake.world, again)

    before_next_write(lake.world, again)
    error = refused(lake.send(ROWS), 409, "ConcurrentChange")
    assert error["retry_after_ms"] > 0 and "rebase" not in error["remedy"]
    assert lake.rows() == []


# -- refused -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ([{"id": 1}, {"id": "x"}], "row 2: column 'id': the text 'x' is no whole number"),
        ([{"id": 1, "nope": 2}], "the table has no column 'nope'; it has id, name"),
        ([{"id": 1, "ID": 2}], "are the same column"),
        ([], "the body has no rows"),
        ([1], "is no JSON array of objects"),
        ({"rows": []}, "the table has no column 'rows'"),
    ],
)
def test_i26_refused_rows_write_nothing_and_name_their_place(lake: RowLake, body: Any, message: str) -> None:
    before = lake.lake.state()
    error = refused(lake.send(body), 400, "InvalidRows")
    assert message in error["message"]
    assert error["remedy"]
    assert lake.lake.state() == before
    assert "put" not in lake.world.storages.requests


@pytest.mark.parametrize("media", ["", "text/plain", "application/x-www-form-urlencoded", "application/xml"])
def test_other_media_types_are_refused_and_the_known_ones_are_named(lake: RowLake, media: str) -> None:
    error = refused(lake.send(ROWS, media), 415, "UnsupportedMediaType", "Content-Type")
    assert "text/csv" in error["message"]


def test_a_request_without_body_is_refused(lake: RowLake) -> None:
    refused(lake.send(b""), 400, "InvalidRows")


@pytest.mark.parametrize(
    ("query", "field"), [("wait=true", "wait"), ("wait=publish&wait=publish", "wait"), ("nope=1", "nope")]
)
def test_a_bad_query_is_refused_before_anything_is_written(lake: RowLake, query: str, field: str) -> None:
    before = lake.lake.state()
    refused(lake.send(ROWS, query=query), 400, "InvalidRequest", field)
    assert lake.lake.state() == before


def test_bodies_over_the_limits_are_refused_raw_and_after_decompression(lake: RowLake) -> None:
    before = lake.lake.state()
    refused(lake.send(b" " * (4 * 1024 * 1024 + 1)), 413, "TooLarge", "body")
    bomb = gzip.compress(b" " * (16 * 1024 * 1024 + 1))
    error = refused(lake.send(bomb, Content_Encoding="gzip"), 413, "TooLarge", "body")
    assert error["limit"] == 16 * 1024 * 1024
    refused(lake.send(ROWS, Content_Encoding="br"), 400, "InvalidRows", "Content-Encoding")
    refused(lake.send(ROWS, Content_Encoding="gzip"), 400, "InvalidRows", "body")
    assert lake.lake.state() == before


def test_i26_a_commit_over_the_limit_of_an_inline_one_writes_no_files() -> None:
    fields = [column(f"c{at}{'x' * 200}", "string") for at in range(32)]
    lake = row_lake(column("p", "long"), *fields, partitions=["p"])
    before = lake.lake.state()
    rows = [{"p": p, **{field["name"]: "v" * 40 for field in fields}} for p in range(64)]
    error = refused(lake.send(rows), 413, "TooLarge", "body")
    assert "fewer partitions" in error["remedy"]
    assert lake.lake.state() == before


def test_rows_of_too_many_partitions_are_refused(lake: RowLake) -> None:
    lake = row_lake(column("p", "long"), column("id", "long"), partitions=["p"])
    before = lake.lake.state()
    refused(lake.send([{"p": p} for p in range(65)]), 413, "TooLarge", "body")
    assert lake.lake.state() == before
    assert lake.send([{"p": p} for p in range(64)]).status == 200
    assert len(lake.files()) == 64


@pytest.mark.parametrize("state", ["stuck", "leaving", "pinned", "recovering"])
def test_a_table_that_takes_no_commits_is_refused_before_a_file_is_written(lake: RowLake, state: str) -> None:
    lake.lake.set(state=state)
    before = lake.lake.state()
    error = refused(lake.send(ROWS), 409, "TableNotActive")
    assert error["state"] == state
    assert lake.lake.state() == before


def test_i10_nothing_is_written_into_a_dropped_tables_folder(lake: RowLake) -> None:
    lake.lake.set(state="dropped")
    before = lake.lake.state()
    refused(lake.send(ROWS), 404, "NoSuchTable")
    refused(lake.send(ROWS, table=str(uuid4())), 404, "NoSuchTable")
    refused(lake.send(ROWS, table="/v1/tables/nonsense/rows"), 400, "InvalidRequest", "table_id")
    assert lake.lake.state() == before


UNSUPPORTED: dict[str, tuple[Callable[[], RowLake], str]] = {
    "check": (
        lambda: row_lake(features=["checkConstraints"], **{"delta.constraints.few": "id < 2"}),
        "CHECK constraint 'few'",
    ),
    "generated": (
        lambda: row_lake(
            column("id", "long"),
            column("g", "long", **{"delta.generationExpression": "id + 1"}),
            features=["generatedColumns"],
        ),
        "'g' is generated",
    ),
    "identity": (
        lambda: row_lake(
            column(
                "i",
                "long",
                **{
                    "delta.identity.start": 1,
                    "delta.identity.step": 1,
                    "delta.identity.allowExplicitInsert": True,
                },
            ),
            features=["identityColumns"],
        ),
        "'i' is an identity column",
    ),
    "nested": (
        lambda: row_lake(column("s", struct_of(column("x", "long", **{"delta.invariants": "{}"})))),
        "'s.x' has an invariant",
    ),
    "feature": (lambda: row_lake(features=["icebergCompatV2"]), "icebergCompatV2"),
    "type": (
        lambda: row_lake(column("v", "variant"), features=["variantType"]),
        "'v' has the type variant",
    ),
}


@pytest.mark.parametrize("kind", UNSUPPORTED)
def test_a_table_that_needs_an_engine_is_refused_by_the_name_of_the_reason(kind: str) -> None:
    make, message = UNSUPPORTED[kind]
    lake = make()
    before = lake.lake.state()
    error = refused(lake.send([{"id": 1}]), 400, "UnsupportedTable")
    assert message in error["message"]
    assert "engine" in error["remedy"]
    assert lake.lake.state() == before


# -- kinds of tables ---------------------------------------------------------------------------------------------------


def test_rows_of_a_table_that_tracks_them_get_ids() -> None:
    lake = row_lake(features=["rowTracking"])
    lake.send(ROWS)
    lake.send(ROWS)
    found = [(add["baseRowId"], add["defaultRowCommitVersion"]) for adds in lake.adds().values() for add in adds]
    assert found == [(0, 1), (2, 2)]
    assert lake.lake.head.row_hwm == 3
    marks = [
        json.loads(one["domainMetadata"]["configuration"])["rowIdHighWaterMark"]
        for one in lake.actions()[2]
        if "domainMetadata" in one
    ]
    assert marks == [3]


def test_each_partition_is_a_file_without_the_partition_columns() -> None:
    lake = row_lake(column("day", "date"), column("id", "long"), column("city", "string"), partitions=["day", "city"])
    rows = [
        {"day": "2026-01-01", "id": 1, "city": "Bern"},
        {"day": "2026-01-01", "id": 2, "city": "Bern"},
        {"day": "2026-01-02", "id": 3, "city": "Bern"},
        {"day": None, "id": 4, "city": "Züri=1/%"},
    ]
    assert lake.send(rows).json["rows"] == 4
    found = {tuple(add["partitionValues"].items()): lake.rows_of(add) for add in lake.adds()[1]}
    assert found == {
        (("day", "2026-01-01"), ("city", "Bern")): [{"id": 1}, {"id": 2}],
        (("day", "2026-01-02"), ("city", "Bern")): [{"id": 3}],
        (("day", None), ("city", "Züri=1/%")): [{"id": 4}],
    }


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_table_that_maps_its_columns_has_the_names_and_ids_of_its_files(mode: str) -> None:
    inner = struct_of(mapped_column("first name", "string", 4, "col-4"))
    other = struct_of(mapped_column("first name", "string", 6, "col-6"))
    lake = row_lake(
        mapped_column("the id", "long", 1, "col-1"),
        mapped_column("p", "string", 2, "col-2"),
        mapped_column("who", inner, 3, "col-3"),
        mapped_column("all", list_of(other), 5, "col-5"),
        partitions=["p"],
        features=["columnMapping"],
        **{"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "6"},
    )
    row = {"The Id": 7, "p": "x", "who": {"first name": "Ada"}, "all": [{"first name": "Bob"}, None]}
    assert lake.send([row]).status == 200
    (add,) = lake.adds()[1]
    assert add["partitionValues"] == {"col-2": "x"}
    assert json.loads(add["stats"])["minValues"] == {"col-1": 7, "col-3": {"col-4": "Ada"}}
    stored = {"col-1": 7, "col-3": {"col-4": "Ada"}, "col-5": [{"col-6": "Bob"}, None]}
    assert lake.rows_of(add) == [stored]
    content, _ = lake.world.storages.files[f"{LOCATION}/{add['path']}"]
    schema = pyarrow.parquet.ParquetFile(pa.BufferReader(content)).schema_arrow
    ids = [schema.field("col-1"), schema.field("col-3"), schema.field("col-3").type[0], schema.field("col-5")]
    ids.append(schema.field("col-5").type.value_type[0])
    assert [field.metadata[b"PARQUET:field_id"] for field in ids] == [b"1", b"3", b"4", b"5", b"6"]


# -- waiting for publication -------------------------------------------------------------------------------------------


def test_a_request_may_wait_until_its_version_is_published(lake: RowLake, monkeypatch: pytest.MonkeyPatch) -> None:
    paused = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        lake.lake.publish()

    monkeypatch.setattr("turnstile.api.v1.rows.pause", pause)
    assert lake.send(ROWS, query="wait=publish").json["published"] is True
    assert len(paused) == 1
    monkeypatch.setattr("turnstile.api.v1.rows.pause", paused.append)
    answer = lake.send(ROWS, query="wait=publish").json
    assert (answer["outcome"], answer["version"], answer["published"]) == ("added", 2, False)


def test_a_failure_while_waiting_does_not_hide_that_the_rows_were_added(
    lake: RowLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from turnstile.store.core.errors import Throttled

    def pause(_: float) -> None:
        def throttled(*_: Any, **__: Any) -> Any:
            raise Throttled

        monkeypatch.setattr(lake.world.refs, "read", throttled)

    monkeypatch.setattr("turnstile.api.v1.rows.pause", pause)
    answer = lake.send(ROWS, query="wait=publish")
    assert (answer.status, answer.json["version"], answer.json["published"]) == (200, 1, False)


# -- cost --------------------------------------------------------------------------------------------------------------


def requests(lake: RowLake) -> tuple[list[str], list[str], list[str]]:
    world = lake.world
    return list(world.refs.requests), list(world.objs.requests), list(world.storages.requests)


def test_a_warm_append_with_a_key_is_two_reads_a_transaction_and_a_request_for_each_file(lake: RowLake) -> None:
    lake.send(ROWS)
    lake.lake.forget_requests()
    lake.send(ROWS, Idempotency_Key=KEY)
    assert requests(lake) == (["read_many", "transact", "read_many"], [], ["put"])


def test_a_warm_append_without_an_identity_is_a_read_a_write_and_a_request_for_each_file(lake: RowLake) -> None:
    lake.send(ROWS)
    lake.lake.forget_requests()
    lake.send(ROWS)
    assert requests(lake) == (["read_many", "write"], [], ["put"])


def test_a_request_that_is_sent_again_is_one_read_and_one_of_the_index_where_its_version_has_left_the_tail(
    lake: RowLake,
) -> None:
    lake.send(ROWS, Idempotency_Key=KEY)
    lake.lake.forget_requests()
    lake.send(ROWS, Idempotency_Key=KEY)
    assert requests(lake) == (["read_many"], [], [])
    lake.evict(1)
    lake.lake.forget_requests()
    lake.send(ROWS, Idempotency_Key=KEY)
    assert requests(lake)[1:] == (["get_many"], [])
