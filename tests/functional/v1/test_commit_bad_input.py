"""Bad input to the commit operation: a clear error that names field and remedy, and nothing
changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.lake import LOCATION, ORDERS, START, UNKNOWN, Lake, check_refused, make_lake
from turnstile.api.http.request import MAX_BODY


@pytest.fixture
def lake() -> Lake:
    made = make_lake()
    assert made.append(1, "t1").status == 200
    assert made.append(2, "t2").status == 200
    return made


NAME = f"{3:020d}.aaaa.json"
LINE = delta.append("t3", START + 60_000).decode()

BODIES: list[tuple[str, Any, int, str, str]] = [
    ("malformed JSON", b'{"version": 3,', 400, "InvalidRequest", "body"),
    ("no body", b"", 400, "InvalidRequest", "body"),
    ("not an object", b"[3]", 400, "InvalidRequest", "body"),
    ("two objects", b'{"version": 3} {}', 400, "InvalidRequest", "body"),
    ("endless nesting", b'{"version": 3, "staged": ' + b"[" * 50_000, 400, "InvalidRequest", "staged"),
    ("over the limit", b" " * (MAX_BODY + 1), 413, "TooLarge", "body"),
    ("no version", {"inline": {"content": LINE}}, 400, "InvalidRequest", "version"),
    ("version is text", {"version": "3", "inline": {"content": LINE}}, 400, "InvalidRequest", "version"),
    ("version is a fraction", {"version": 3.5, "inline": {"content": LINE}}, 400, "InvalidRequest", "version"),
    ("version is true", {"version": True, "inline": {"content": LINE}}, 400, "InvalidRequest", "version"),
    ("version 0", {"version": 0, "inline": {"content": LINE}}, 400, "InvalidRequest", "version"),
    ("negative version", {"version": -1, "inline": {"content": LINE}}, 400, "InvalidRequest", "version"),
    ("version beyond 2^53", {"version": 2**53, "inline": {"content": LINE}}, 400, "InvalidRequest", "version"),
    ("version of 40 digits", {"version": 10**40, "inline": {"content": LINE}}, 400, "InvalidRequest", "version"),
    ("a gap", {"version": 4, "inline": {"content": LINE}}, 400, "VersionGap", "version"),
    ("unknown member", {"version": 3, "inlined": {"content": LINE}}, 400, "InvalidRequest", "inlined"),
    ("unknown inner member", {"version": 3, "inline": {"contents": ""}}, 400, "InvalidRequest", "inline.contents"),
    ("neither staged nor inline", {"version": 3}, 400, "InvalidRequest", "staged"),
    (
        "both staged and inline",
        {"version": 3, "inline": {"content": LINE}, "staged": {"name": NAME, "size": 1}},
        400,
        "InvalidRequest",
        "staged",
    ),
    ("content is no text", {"version": 3, "inline": {"content": {}}}, 400, "InvalidRequest", "inline.content"),
    ("staged is no object", {"version": 3, "staged": NAME}, 400, "InvalidRequest", "staged"),
    ("size missing", {"version": 3, "staged": {"name": NAME}}, 400, "InvalidRequest", "staged.size"),
    ("size 0", {"version": 3, "staged": {"name": NAME, "size": 0}}, 400, "InvalidRequest", "staged.size"),
    ("negative time", {"version": 3, "staged": {"name": NAME, "size": 1, "modified": -1}}, 400, "InvalidRequest",
     "staged.modified"),
    ("endless time", {"version": 3, "staged": {"name": NAME, "size": 1, "modified": 10**30}}, 400, "InvalidRequest",
     "staged.modified"),
    ("file absent", {"version": 3, "staged": {"name": NAME, "size": 1}}, 404, "NoSuchStagedFile", "staged.name"),
    ("negative base", {"version": 3, "base": -1, "inline": {"content": LINE}}, 400, "InvalidRequest", "base"),
    ("base beyond 2^53", {"version": None, "base": 2**53, "inline": {"content": LINE}}, 400, "InvalidRequest", "base"),
    ("ticket without base", {"version": None, "inline": {"content": LINE}}, 400, "InvalidRequest", "base"),
    ("ticket from the future", {"version": None, "base": 9, "inline": {"content": LINE}}, 400, "VersionGap", "base"),
    ("ticket with a file", {"version": None, "base": 2, "staged": {"name": NAME, "size": 1}}, 400, "InvalidRequest",
     "staged.name"),
    ("ticket with a name", {"version": None, "base": 2, "inline": {"content": LINE, "name": NAME}}, 400,
     "InvalidRequest", "inline.name"),
    ("etag is a number", {"version": 3, "inline": {"content": LINE}, "etag": 5}, 400, "InvalidRequest", "etag"),
    ("endless etag", {"version": 3, "inline": {"content": LINE}, "etag": "x" * 600}, 400, "InvalidRequest", "etag"),
    ("stale etag of a ticket", {"version": None, "base": 2, "etag": "old", "inline": {"content": LINE}}, 409,
     "StaleMetadata", "etag"),
    ("stale etag", {"version": 3, "inline": {"content": LINE}, "etag": "old"}, 409, "StaleMetadata", "etag"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "type", "field"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES]
)
def test_a_bad_body_is_refused_and_changes_nothing(lake: Lake, body: Any, status: int, type: str, field: str) -> None:
    before = lake.state()
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    check_refused(lake, before, lake.propose(None, body=raw), status, type, field)


@pytest.mark.parametrize(
    "name",
    [
        " ",
        "x",
        "../../../etc/passwd",
        f"../{NAME}",
        f"/{NAME}",
        f"{NAME}/..",
        f"{3:020d}.a/b.json",
        f"{3:020d}.a\x00.json",
        f"{3:020d}.a.json\n",
        f"{3:020d}..json",
        f"{3:020d}.%2e%2e.json",
        f"{3:020d}.é.json",
        f"{3:019d}.a.json",
        f"{4:020d}.a.json",
        f"{3:020d}.{'a' * 81}.json",
        f"{3:020d}.json",
        "٣".rjust(20, "٠") + ".a.json",
    ],
)
@pytest.mark.parametrize("form", ["staged", "inline"])
def test_a_name_that_plays_tricks_with_paths_is_refused(lake: Lake, name: str, form: str) -> None:
    before = lake.state()
    member = {"name": name, "size": 5} if form == "staged" else {"name": name, "content": LINE}
    check_refused(lake, before, lake.propose({"version": 3, form: member}), 400, "InvalidRequest", f"{form}.name")
    assert not any(".." in path or "etc" in path for path in lake.world.storages.files)


@pytest.mark.parametrize(
    "table_id", ["x", "..", "%2e%2e%2fother", "1" * 36, ORDERS.replace("-", ""), f"{{{ORDERS}}}", f"urn:uuid:{ORDERS}"]
)
def test_a_table_id_that_is_no_uuid_is_refused(lake: Lake, table_id: str) -> None:
    body = {"version": 3, "inline": {"content": LINE}}
    check_refused(lake, lake.state(), lake.propose(body, table_id=table_id), 400, "InvalidRequest", "table_id")


@pytest.mark.parametrize("form", ["inline", "staged", "ticket", "metadata"])
def test_an_unknown_table_is_not_found(lake: Lake, form: str) -> None:
    altered = delta.lines(delta.info("t3", lake.now()), delta.metadata()).decode()
    body = {
        "inline": {"version": 3, "inline": {"content": LINE}},
        "staged": {"version": 3, "staged": {"name": NAME, "size": 5}},
        "ticket": {"version": None, "base": 2, "inline": {"content": LINE}},
        "metadata": {"version": 3, "inline": {"content": altered}},
    }[form]
    check_refused(lake, lake.state(), lake.propose(body, table_id=UNKNOWN), 404, "NoSuchTable", "table_id")


def test_i10_a_dropped_table_refuses_new_commits_and_still_answers_replays(lake: Lake) -> None:
    content = delta.append("t3", lake.now())
    assert lake.inline(3, content).status == 200
    lake.set(state="dropped")
    before = lake.state()
    for answer in (lake.append(4, "t4"), lake.append(None, "t5", base=3)):
        error = check_refused(lake, before, answer, 409, "TableNotActive", None)
        assert error["state"] == "dropped"
    assert lake.inline(3, content).json["outcome"] == "replayed"


@pytest.mark.parametrize("state", ["leaving", "stuck", "recovering"])
def test_a_table_that_is_not_active_says_its_state_and_what_to_do(lake: Lake, state: str) -> None:
    lake.set(state=state, reason="because")
    before = lake.state()
    error = check_refused(lake, before, lake.append(3, "t3"), 409, "TableNotActive", None)
    assert (error["state"], error["latest"]) == (state, 2)
    assert "because" in error["message"]


def test_a_full_row_asks_for_patience_and_takes_the_same_proposal_after_publication(lake: Lake) -> None:
    version = 2
    while True:
        version += 1
        content = delta.append(f"t{version}", lake.now())
        before = lake.state()
        answer = lake.inline(version, content)
        if answer.status != 200:
            break
    error = answer.error
    assert (answer.status, error["type"], error["retry_after_ms"]) == (429, "BacklogFull", 500)
    assert answer.headers["retry-after"] == "1"
    assert lake.state()[0] == before[0]
    lake.publish()
    assert lake.inline(version, content).json["outcome"] == "ratified"


def test_a_text_that_no_store_could_hold_is_no_crash(lake: Lake) -> None:
    before = lake.state()
    answer = lake.propose(None, body='{"version": 3, "etag": "\\ud800", "inline": {"content": ""}}')
    check_refused(lake, before, answer, 400, "InvalidRequest", "body")
    made = lake.propose(None, body='{"version": 3, "inline": {"content": "\ud800"}}')
    check_refused(lake, before, made, 400, "InvalidRequest", "body")


def test_nothing_of_a_refused_table_is_written_to_storage(lake: Lake) -> None:
    lake.append(9, "gap")
    assert [path for path in lake.world.storages.files if path.startswith(f"{LOCATION}/_delta_log/_staged")] == []
