"""Ratified commits, head, outcome, and Unity's preview endpoint, over the real handler."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.lake import LOCATION, ORDERS, UNKNOWN, Lake, make_lake
from turnstile.store.core.errors import StorageFault

PREVIEW = "/api/2.1/unity-catalog/delta/preview/commits"


@pytest.fixture
def lake() -> Lake:
    """Version 1 published inline, 2 staged, 3 inline in the row, 4 a ticket."""
    made = make_lake()
    made.append(1, "t1")
    made.publish()
    made.propose({"version": 2, "staged": made.stage(2, delta.append("t2", made.now()))})
    made.append(3, "t3")
    made.append(None, "t4", base=3)
    made.forget_requests()
    return made


def versions(found: Any) -> list[int]:
    return [commit["version"] for commit in found["commits"]]


def test_i1_commits_are_contiguous_ascending_and_always_with_latest_floor_and_etag(lake: Lake) -> None:
    found = lake.get("commits").json
    assert versions(found) == [1, 2, 3, 4]
    assert (found["latest"], found["floor"], found["etag"]) == (4, 1, lake.head.metadata)
    assert [commit["published"] for commit in found["commits"]] == [True, False, False, False]
    assert not any("principal" in commit for commit in found["commits"]), "the operator is not named"
    stamps = [commit["timestamp"] for commit in found["commits"]]
    assert stamps == sorted(set(stamps))  # I7


@pytest.mark.parametrize(
    ("start", "end", "expected"), [(2, 3, [2, 3]), (4, 99, [4]), (0, 0, []), (5, 9, []), (3, 3, [3])]
)
def test_a_range_includes_both_ends_and_never_hides_latest(
    lake: Lake, start: int, end: int, expected: list[int]
) -> None:
    found = lake.get("commits", start=start, end=end).json
    assert (versions(found), found["latest"]) == (expected, 4)


def test_every_unpublished_inline_commit_has_its_file_before_it_is_listed(lake: Lake) -> None:
    contents = {commit["version"]: commit for commit in lake.get("commits", content="true").json["commits"]}
    assert lake.staged(contents[3]["name"]) is None
    for commit in lake.get("commits").json["commits"]:
        assert "content" not in commit
        if commit["version"] in (3, 4):
            stored = lake.staged(commit["name"])
            assert stored == contents[commit["version"]]["content"].encode()
            assert commit["size"] == len(stored)


def test_files_are_written_once_and_only_in_the_range_asked_for(lake: Lake) -> None:
    lake.get("commits", start=4)
    assert lake.world.storages.requests == ["put"]
    lake.get("commits", start=4)
    assert lake.world.storages.requests == ["put"]
    lake.get("commits")
    assert lake.world.storages.requests == ["put", "put"]


def test_content_true_returns_inline_content_and_writes_nothing(lake: Lake) -> None:
    files = dict(lake.world.storages.files)
    found = lake.get("commits", content="true").json["commits"]
    assert ["content" in commit for commit in found] == [False, False, True, True]
    assert lake.world.storages.files == files
    assert lake.world.refs.requests == ["read"]


def test_content_beyond_the_limit_of_an_answer_gets_files_instead(lake: Lake) -> None:
    import random

    for version in range(5, 11):
        noise = random.Random(version).randbytes(110_000).hex()
        lake.inline(version, delta.lines(delta.info(f"t{version}", lake.now()), delta.add(noise)))
    found = lake.get("commits", start=3, content="true")
    assert len(found.text) < 6_000_000
    for commit in found.json["commits"]:
        assert ("content" in commit) == (commit["version"] > 6), commit["version"]
        assert "content" in commit or lake.staged(commit["name"]) is not None


def test_i6_what_was_acknowledged_is_listed_at_once(lake: Lake) -> None:
    for version in range(5, 9):
        lake.append(version, f"t{version}")
        assert lake.get("commits", start=version).json["commits"][0]["txn_id"] == f"t{version}"


def test_a_published_tickets_size_is_not_claimed(lake: Lake) -> None:
    lake.publish()
    sizes = {commit["version"]: "size" in commit for commit in lake.get("commits").json["commits"]}
    assert sizes == {2: True, 3: True, 4: False}


def test_a_file_that_cannot_be_written_is_a_fault_to_be_tried_again_not_a_short_list(lake: Lake) -> None:
    def broken(location: str) -> Any:
        raise StorageFault("no space", remedy="make some")

    lake.world.storages.open = broken  # type: ignore[method-assign]
    answer = lake.get("commits")
    assert (answer.status, answer.error["type"]) == (503, "StorageFault")
    assert lake.get("commits", content="true").status == 503  # the storage is opened for the staged one, too


def test_a_name_that_holds_other_bytes_is_not_given_out(lake: Lake) -> None:
    name = lake.get("head").json["tail"][2]["name"]
    lake.world.storages.open(LOCATION).put_if_absent(f"_delta_log/_staged_commits/{name}", b"something else")
    assert lake.get("commits").error["type"] == "StorageFault"
    lake.publish()
    assert versions(lake.get("commits").json)[-1] == 4


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"start": -1}, "start"),
        ({"start": "x"}, "start"),
        ({"end": 2**53}, "end"),
        ({"start": 5, "end": 4}, "end"),
        ({"content": "yes"}, "content"),
        ({"starts": 1}, "starts"),
    ],
)
def test_a_bad_query_is_refused_and_named(lake: Lake, query: dict[str, Any], field: str) -> None:
    error = lake.get("commits", **query).error
    assert (error["type"], error["field"], error["code"]) == ("InvalidRequest", field, 400)
    assert error["remedy"]


def test_the_head_is_shown_as_it_is_and_nothing_is_written(lake: Lake) -> None:
    before = lake.state()
    found = lake.get("head").json
    assert lake.state() == before
    assert (found["table_id"], found["name"], found["state"], found["location"]) == (
        ORDERS,
        "main.sales.orders",
        "active",
        LOCATION,
    )
    assert (found["latest"], found["floor"], found["timestamp"]) == (4, 1, lake.head.last_ict)
    assert [commit["version"] for commit in found["tail"]] == [1, 2, 3, 4]
    assert (found["bytes"], found["row_id_high_water_mark"]) == (lake.head.bytes, None)
    assert lake.world.refs.requests == ["read"]
    assert lake.http.get(f"/v1/tables/{ORDERS}/head", x=1).error["field"] == "x"


@pytest.mark.parametrize("operation", ["head", "commits", "outcome"])
def test_an_unknown_table_is_404_and_a_bad_uuid_400(lake: Lake, operation: str) -> None:
    query = {"txn_id": "t"} if operation == "outcome" else {}
    unknown = lake.http.get(f"/v1/tables/{UNKNOWN}/{operation}", **query)
    assert (unknown.error["type"], unknown.error["field"]) == ("NoSuchTable", "table_id")
    assert lake.http.get(f"/v1/tables/nonsense/{operation}", **query).error["field"] == "table_id"


def test_i10_nothing_is_written_into_a_dropped_tables_folder(lake: Lake) -> None:
    lake.set(state="dropped")
    before = lake.state()
    assert lake.get("commits").error["type"] == "NoSuchTable"
    assert lake.http.get(PREVIEW, table_id=ORDERS, start_version=0).status == 404
    assert lake.get("head").json["state"] == "dropped"
    assert lake.state() == before


def test_i6_a_recovering_table_is_not_shown_since_its_latest_may_be_behind(lake: Lake) -> None:
    lake.set(state="recovering")
    error = lake.get("commits").error
    assert (error["type"], error["state"], error["code"]) == ("TableNotActive", "recovering", 409)


@pytest.mark.parametrize("state", ["leaving", "stuck"])
def test_a_table_that_takes_no_commits_can_still_be_read(lake: Lake, state: str) -> None:
    lake.set(state=state)
    assert versions(lake.get("commits").json) == [1, 2, 3, 4]


def test_i3_the_outcome_of_an_identity_is_known_in_the_tail_and_long_after(lake: Lake) -> None:
    staged = lake.head.tail[1]
    name = f"{2:020d}.{staged.unique}.json"
    for _ in range(2):
        for query in ({"txn_id": "t2"}, {"name": name}, {"txn_id": "t2", "version": 7}, {"name": name, "version": 2}):
            found = lake.get("outcome", **query).json
            assert (found["outcome"], found["version"]) == ("ratified", 2)
        for version in range(5, 9):
            lake.append(lake.head.latest + 1, f"later{version}{lake.now()}")
        lake.publish()
        assert lake.head.tail_from > 2


def test_an_outcome_is_never_open_once_another_commit_is_that_version(lake: Lake) -> None:
    assert lake.get("outcome", txn_id="x", version=4).json == {"outcome": "never", "latest": 4}
    assert lake.get("outcome", txn_id="x", version=5).json == {"outcome": "open", "latest": 4}
    assert lake.get("outcome", txn_id="x").json == {"outcome": "open", "latest": 4}
    assert lake.get("outcome", name=f"{4:020d}.x.json").json["outcome"] == "never"
    assert lake.get("outcome", name=f"{5:020d}.x.json").json["outcome"] == "open"


def test_i3_nothing_is_open_at_a_dropped_table_once_it_cannot_come_back(lake: Lake) -> None:
    """Until then a catalog that is reset brings it back, and an attempt that is on its way may
    land."""
    lake.set(state="dropped")
    assert lake.get("outcome", txn_id="x", version=4).json["outcome"] == "never"
    assert lake.get("outcome", txn_id="x", version=5).json["outcome"] == "open"
    assert lake.get("outcome", txn_id="x").json["outcome"] == "open"
    assert lake.get("outcome", txn_id="t3").json["outcome"] == "ratified"
    for reason in ("purging", "purged", "exported"):
        lake.set(reason=reason)
        assert lake.get("outcome", txn_id="x", version=5).json["outcome"] == "never"
        assert lake.get("outcome", txn_id="x").json["outcome"] == "never"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "txn_id"),
        ({"txn_id": "a", "name": f"{4:020d}.x.json"}, "txn_id"),
        ({"name": "../x"}, "name"),
        ({"name": f"{4:020d}.x.json", "version": 5}, "version"),
        ({"txn_id": "a", "version": 0}, "version"),
        ({"id": "a"}, "id"),
    ],
)
def test_a_bad_question_about_an_outcome_is_refused(lake: Lake, query: dict[str, Any], field: str) -> None:
    error = lake.get("outcome", **query).error
    assert (error["type"], error["field"]) == ("InvalidRequest", field)


ASKED = {"table_id": ORDERS, "table_uri": LOCATION, "start_version": 0}


def test_unitys_preview_takes_a_json_body_in_the_get_or_the_same_members_in_the_query(lake: Lake) -> None:
    in_body = lake.http.call("GET", PREVIEW, json_body=ASKED)
    in_query = lake.http.call("GET", PREVIEW, query=ASKED)
    assert in_body.json == in_query.json
    assert in_body.json["latest_table_version"] == 4
    assert [commit["version"] for commit in in_body.json["commits"]] == [2, 3, 4]
    for commit in in_body.json["commits"]:
        stored = lake.staged(commit["file_name"])
        assert stored is not None
        assert commit["file_size"] == len(stored)
        assert set(commit) == {"version", "timestamp", "file_name", "file_size", "file_modification_timestamp"}


def test_unitys_preview_knows_ranges_and_ignores_members_it_does_not_know(lake: Lake) -> None:
    found = lake.http.call("GET", PREVIEW, json_body={**ASKED, "start_version": 3, "end_version": 3, "new": [1]}).json
    assert [commit["version"] for commit in found["commits"]] == [3]
    assert found["latest_table_version"] == 4
    assert lake.http.call("GET", PREVIEW, query={**ASKED, "start_version": 4, "extra": "x"}).json["commits"]


def test_unitys_preview_of_a_fresh_table_is_empty() -> None:
    assert make_lake().http.call("GET", PREVIEW, query=ASKED).json == {"commits": [], "latest_table_version": 0}


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({**ASKED, "table_id": UNKNOWN}, 404),
        ({**ASKED, "table_id": "x"}, 400),
        ({**ASKED, "start_version": -1}, 400),
        ({**ASKED, "start_version": "0"}, 400),
        ({**ASKED, "start_version": 2, "end_version": 1}, 400),
        ({**ASKED, "end_version": 2**60}, 400),
        ({"table_id": ORDERS}, 400),
        ([], 400),
    ],
)
def test_unitys_preview_refuses_in_unitys_error_shape(lake: Lake, asked: Any, status: int) -> None:
    answer = lake.http.call("GET", PREVIEW, body=json.dumps(asked))
    assert answer.status == status
    assert set(answer.json) == {"error_code", "message", "details"}
    assert answer.json["error_code"] == {400: "INVALID_ARGUMENT", 404: "TABLE_NOT_FOUND"}[status]


def test_unitys_preview_without_body_and_query_says_what_is_missing(lake: Lake) -> None:
    assert "table_id" in lake.http.get(PREVIEW).json["message"]
    assert "start_version" in lake.http.get(PREVIEW, table_id=ORDERS).json["message"]
