"""Bad input to the commit operation: a clear error that names field and remedy, and nothing changed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fakes import delta
from tests.functional.http import Answer
from tests.functional.tables import LOCATION, ORDERS, START, UNKNOWN, Lake, make_lake
from turnstile_http.request import MAX_BODY


@pytest.fixture
def lake() -> Lake:
    made = make_lake()
    assert made.append(1, "t1").status == 200
    assert made.append(2, "t2").status == 200
    return made


def check(lake: Lake, before: Any, answer: Answer, *expected: Any) -> dict[str, Any]:
    """The error has the expected status, type and field, says what to do, and nothing that is stored has changed."""
    error = answer.error
    assert (answer.status, error["type"], error.get("field")) == expected, error
    assert error.get("remedy"), error
    assert error["message"]
    assert lake.state() == before
    return error


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
    ("negative time", {"version": 3, "staged": {"name": NAME, "size": 1, "modified": -1}}, 400, "InvalidRequest", "staged.modified"),
    ("endless time", {"version": 3, "staged": {"name": NAME, "size": 1, "modified": 10**30}}, 400, "InvalidRequest", "staged.modified"),
    ("file absent", {"version": 3, "staged": {"name": NAME, "size": 1}}, 404, "NoSuchStagedFile", "staged.name"),
    ("negative base", {"version": 3, "base": -1, "inline": {"content": LINE}}, 400, "InvalidRequest", "base"),
    ("base beyond 2^53", {"version": None, "base": 2**53, "inline": {"content": LINE}}, 400, "InvalidRequest", "base"),
    ("ticket without base", {"version": None, "inline": {"content": LINE}}, 400, "InvalidRequest", "base"),
    ("ticket from the future", {"version": None, "base": 9, "inline": {"content": LINE}}, 400, "VersionGap", "base"),
    ("ticket with a file", {"version": None, "base": 2, "staged": {"name": NAME, "size": 1}}, 400, "InvalidRequest", "staged.name"),
    ("ticket with a name", {"version": None, "base": 2, "inline": {"content": LINE, "name": NAME}}, 400, "InvalidRequest", "inline.name"),
    ("etag is a number", {"version": 3, "inline": {"content": LINE}, "etag": 5}, 400, "InvalidRequest", "etag"),
    ("endless etag", {"version": 3, "inline": {"content": LINE}, "etag": "x" * 600}, 400, "InvalidRequest", "etag"),
    ("stale etag of a ticket", {"version": None, "base": 2, "etag": "old", "inline": {"content": LINE}}, 409, "StaleMetadata", "etag"),
    ("stale etag", {"version": 3, "inline": {"content": LINE}, "etag": "old"}, 409, "StaleMetadata", "etag"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "status", "type", "field"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES]
)
def test_a_bad_body_is_refused_and_changes_nothing(lake: Lake, body: Any, status: int, type: str, field: str) -> None:
    before = lake.state()
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    check(lake, before, lake.propose(None, body=raw), status, type, field)


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
    check(lake, before, lake.propose({"version": 3, form: member}), 400, "InvalidRequest", f"{form}.name")
    assert not any(".." in path or "etc" in path for path in lake.world.storages.files)


@pytest.mark.parametrize(
    "table_id", ["x", "..", "%2e%2e%2fother", "1" * 36, ORDERS.replace("-", ""), f"{{{ORDERS}}}", f"urn:uuid:{ORDERS}"]
)
def test_a_table_id_that_is_no_uuid_is_refused(lake: Lake, table_id: str) -> None:
    body = {"version": 3, "inline": {"content": LINE}}
    check(lake, lake.state(), lake.propose(body, table_id=table_id), 400, "InvalidRequest", "table_id")


@pytest.mark.parametrize("form", ["inline", "staged", "ticket", "metadata"])
def test_an_unknown_table_is_not_found(lake: Lake, form: str) -> None:
    altered = delta.lines(delta.info("t3", lake.now()), delta.metadata()).decode()
    body = {
        "inline": {"version": 3, "inline": {"content": LINE}},
        "staged": {"version": 3, "staged": {"name": NAME, "size": 5}},
        "ticket": {"version": None, "base": 2, "inline": {"content": LINE}},
        "metadata": {"version": 3, "inline": {"content": altered}},
    }[form]
    check(lake, lake.state(), lake.propose(body, table_id=UNKNOWN), 404, "NoSuchTable", "table_id")


INFO = delta.info("t3", START + 60_000)
ADD = delta.add("f")


def without(action: dict[str, Any], member: str) -> dict[str, Any]:
    ((name, body),) = action.items()
    return {name: {key: value for key, value in body.items() if key != member}}


def protocol_without(feature: str, member: str) -> dict[str, Any]:
    made = delta.protocol()
    made["protocol"][member] = [name for name in made["protocol"][member] if name != feature]
    return made


def changed_metadata(**members: Any) -> bytes:
    return delta.lines(INFO, {"metaData": {**delta.metadata()["metaData"], **members}})


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


CONTENTS: list[tuple[str, bytes, str, str]] = [
    ("only a newline", b"\n", "InvalidCommit", "content"),
    ("not JSON", b"hello\n", "InvalidCommit", "content"),
    ("not UTF-8 escapes", b'{"commitInfo": "\\ud800"}', "InvalidCommit", "content"),
    ("endless nesting", b'{"commitInfo": ' + b"[" * 20_000, "InvalidCommit", "content"),
    ("a bare list", b"[]\n", "InvalidCommit", "content"),
    ("two actions on a line", b'{"commitInfo": {}, "add": {}}\n', "InvalidCommit", "content"),
    ("an empty line between", delta.lines(INFO) + b"\n" + delta.lines(ADD), "InvalidCommit", "content"),
    ("no commitInfo", delta.lines(ADD), "InvalidCommit", "commitInfo"),
    ("commitInfo not first", delta.lines(ADD, INFO), "InvalidCommit", "commitInfo"),
    ("commitInfo twice", delta.lines(INFO, INFO), "InvalidCommit", "commitInfo"),
    ("no txnId", delta.lines(without(INFO, "txnId"), ADD), "InvalidCommit", "commitInfo.txnId"),
    ("txnId is a number", delta.lines(delta.info(5, START), ADD), "InvalidCommit", "commitInfo.txnId"),  # type: ignore[arg-type]
    ("txnId is empty", delta.lines(delta.info("", START), ADD), "InvalidCommit", "commitInfo.txnId"),
    ("endless txnId", delta.lines(delta.info("x" * 500, START), ADD), "InvalidCommit", "commitInfo.txnId"),
    ("no timestamp", delta.lines(without(INFO, "inCommitTimestamp"), ADD), "InvalidCommit", "commitInfo.inCommitTimestamp"),
    ("timestamp is text", delta.lines(delta.info("t3", "now"), ADD), "InvalidCommit", "commitInfo.inCommitTimestamp"),  # type: ignore[arg-type]
    ("timestamp 0", delta.lines(delta.info("t3", 0), ADD), "InvalidCommit", "commitInfo.inCommitTimestamp"),
    ("timestamp not increasing", delta.append("t3", START), "TimestampNotIncreasing", "commitInfo.inCommitTimestamp"),
    ("timestamp ahead", delta.append("t3", START + 3_600_000), "TimestampAhead", "commitInfo.inCommitTimestamp"),
    ("catalogManaged removed for readers", delta.lines(INFO, protocol_without("catalogManaged", "readerFeatures")), "InvalidCommit", "protocol.readerFeatures"),
    ("catalogManaged removed for writers", delta.lines(INFO, protocol_without("catalogManaged", "writerFeatures")), "InvalidCommit", "protocol.writerFeatures"),
    ("in-commit timestamps removed", delta.lines(INFO, protocol_without("inCommitTimestamp", "writerFeatures")), "InvalidCommit", "protocol.writerFeatures"),
    ("an old protocol", delta.lines(INFO, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}), "InvalidCommit", "protocol.minReaderVersion"),
    ("in-commit timestamps switched off", delta.lines(INFO, delta.metadata(**{"delta.enableInCommitTimestamps": "false"})), "InvalidCommit", "metaData.configuration"),
    ("a schema that is none", delta.lines(INFO, {"metaData": {**delta.metadata()["metaData"], "schemaString": "{"}}), "InvalidCommit", "metaData.schemaString"),
    ("columns that are no list", changed_metadata(partitionColumns=5), "InvalidCommit", "metaData.partitionColumns"),
    ("columns that are no names", changed_metadata(partitionColumns=[1]), "InvalidCommit", "metaData.partitionColumns"),
    ("a property that is a number", changed_metadata(configuration={"delta.enableInCommitTimestamps": "true", "a": 1}), "InvalidCommit", "metaData.configuration"),
    ("a description that is an object", changed_metadata(description={}), "InvalidCommit", "metaData.description"),
    ("metadata without an id", delta.lines(INFO, without(delta.metadata(), "id")), "InvalidCommit", "metaData.id"),
    ("an action nested deeper than some readers go", delta.lines(INFO, delta.add("f", x=deep(200))), "InvalidCommit", "add"),
    ("a sidecar", delta.lines(INFO, {"sidecar": {}}), "InvalidCommit", "sidecar"),
    ("two protocols", delta.lines(INFO, delta.protocol(), delta.protocol()), "InvalidCommit", "protocol"),
    ("a nameless domain", delta.lines(INFO, {"domainMetadata": {}}), "InvalidCommit", "domainMetadata"),
    ("a nameless application", delta.lines(INFO, {"txn": {"version": 1}}), "InvalidCommit", "txn.appId"),
]  # fmt: skip


@pytest.mark.parametrize("form", ["inline", "staged"])
@pytest.mark.parametrize(("content", "type", "field"), [row[1:] for row in CONTENTS], ids=[row[0] for row in CONTENTS])
def test_content_that_breaks_the_protocol_is_refused(
    lake: Lake, content: bytes, type: str, field: str, form: str
) -> None:
    if form == "inline":
        before = lake.state()
        answer = lake.inline(3, content)
    else:
        staged = lake.stage(3, content)
        before = lake.state()
        answer = lake.propose({"version": 3, "staged": staged})
    check(lake, before, answer, 400, type, field)


def test_empty_content_or_an_empty_name_is_refused(lake: Lake) -> None:
    check(lake, lake.state(), lake.inline(3, b""), 400, "InvalidCommit", "content")
    body = {"version": 3, "staged": {"name": "", "size": 5}}
    check(lake, lake.state(), lake.propose(body), 400, "InvalidRequest", "staged.name")


def test_a_refusal_by_time_says_which_time_would_do(lake: Lake) -> None:
    error = lake.inline(3, delta.append("t3", START)).error
    assert error["last"] == lake.head.last_ict
    assert str(lake.head.last_ict + 1) in error["remedy"]
    assert lake.inline(3, delta.append("t3", START + 3_600_000)).error["server"] == lake.world.clock.now


def test_version_is_judged_before_timestamp_so_that_a_loser_learns_that_it_lost(lake: Lake) -> None:
    assert lake.inline(2, delta.append("late", START)).error["type"] == "CommitVersionConflict"


def test_inline_content_over_the_limit_is_to_be_staged(lake: Lake) -> None:
    content = delta.lines(delta.info("t3", lake.now()), delta.add("x" * 300_000))
    error = check(lake, lake.state(), lake.inline(3, content), 413, "TooLarge", "inline.content")
    assert (error["limit"], error["size"]) == (262_144, len(content))
    assert "stage" in error["remedy"]


def test_a_staged_file_of_another_size_is_refused(lake: Lake) -> None:
    staged = lake.stage(3, delta.append("t3", lake.now()))
    before = lake.state()
    body = {"version": 3, "staged": {**staged, "size": staged["size"] + 1}}
    check(lake, before, lake.propose(body), 400, "InvalidCommit", "staged.size")


def test_a_ticket_must_be_a_blind_append(lake: Lake) -> None:
    for content in (
        delta.lines(delta.info("t3", lake.now()), delta.remove("f")),
        delta.lines(delta.info("t3", lake.now()), delta.metadata()),
        delta.lines(delta.info("t3", lake.now()), delta.add("f", dataChange=False)),
    ):
        before = lake.state()
        check(lake, before, lake.inline(None, content, base=2), 400, "InvalidCommit", "version")


def test_a_ticket_must_fit_the_tables_row_tracking(lake: Lake) -> None:
    tracked = delta.lines(
        delta.info("t3", lake.now()),
        delta.add("f"),
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": '{"rowIdHighWaterMark": 0}',
                "removed": False,
            }
        },
    )
    check(lake, lake.state(), lake.inline(None, tracked, base=2), 400, "InvalidCommit", "content")


def test_statistics_nested_too_deeply_count_as_none(lake: Lake) -> None:
    stats = json.dumps({"numRecords": 1, "minValues": deep(200)})
    content = delta.lines(
        delta.info("t3", lake.now()),
        delta.add("f", stats=stats),
        {
            "domainMetadata": {
                "domain": "delta.rowTracking",
                "configuration": '{"rowIdHighWaterMark": 0}',
                "removed": False,
            }
        },
    )
    check(lake, lake.state(), lake.inline(None, content, base=2), 400, "InvalidCommit", "add.stats")
    assert lake.inline(3, content).status == 200  # a named commit assigns its own row ids


@pytest.mark.parametrize("read", [10**40, 2**53, -1])
def test_a_read_version_that_is_none_gives_a_ticket_no_base(lake: Lake, read: int) -> None:
    content = delta.append("t3", lake.now(), base=read)
    check(lake, lake.state(), lake.inline(None, content), 400, "InvalidRequest", "base")
    assert lake.inline(3, content).status == 200


def test_more_rows_than_there_are_row_ids_are_none(lake: Lake) -> None:
    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark": 0}', "removed": False}
    adds = [delta.add(str(i), 2**53 - 1) for i in range(2200)]
    slim = [{"add": {"dataChange": True, "stats": add["add"]["stats"]}} for add in adds]
    content = delta.lines(delta.info("t3", lake.now()), *slim, {"domainMetadata": mark})
    check(lake, lake.state(), lake.inline(None, content, base=2), 400, "InvalidCommit", "add.stats")


def test_a_line_with_many_braces_but_few_levels_is_welcome(lake: Lake) -> None:
    add = delta.add("f", tags={str(i): {} for i in range(500)})
    assert lake.inline(3, delta.lines(delta.info("t3", lake.now()), add)).status == 200


def test_an_operation_that_is_no_text_is_left_out(lake: Lake) -> None:
    info = delta.info("t3", lake.now())
    info["commitInfo"]["operation"] = {"a": deep(50)}
    assert lake.inline(3, delta.lines(info, ADD)).json["commit"]["operation"] == ""


def test_i10_a_table_dropped_in_the_middle_takes_no_commit_and_still_knows_its_own(lake: Lake) -> None:
    content = delta.append("t3", lake.now())
    assert lake.inline(3, content).status == 200
    lake.set(state="dropped")
    before = lake.state()
    for answer in (lake.append(4, "t4"), lake.append(None, "t5", base=3)):
        error = check(lake, before, answer, 409, "TableNotActive", None)
        assert error["state"] == "dropped"
    assert lake.inline(3, content).json["outcome"] == "replayed"


@pytest.mark.parametrize("state", ["leaving", "stuck", "recovering"])
def test_a_table_that_is_not_active_says_its_state_and_what_to_do(lake: Lake, state: str) -> None:
    lake.set(state=state, reason="because")
    before = lake.state()
    error = check(lake, before, lake.append(3, "t3"), 409, "TableNotActive", None)
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
    check(lake, before, answer, 400, "InvalidRequest", "body")
    made = lake.propose(None, body='{"version": 3, "inline": {"content": "\ud800"}}')
    check(lake, before, made, 400, "InvalidRequest", "body")


def test_nothing_of_a_refused_table_is_written_to_storage(lake: Lake) -> None:
    lake.append(9, "gap")
    assert [path for path in lake.world.storages.files if path.startswith(f"{LOCATION}/_delta_log/_staged")] == []
