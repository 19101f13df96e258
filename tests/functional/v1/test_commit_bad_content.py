"""Content that breaks the protocol or the contract: refused before anything is written, with field
and remedy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.lake import START, Lake, check_refused, make_lake


@pytest.fixture
def lake() -> Lake:
    made = make_lake()
    assert made.append(1, "t1").status == 200
    assert made.append(2, "t2").status == 200
    return made


INFO = delta.info("t3", START + 60_000)
ADD = delta.add("f")
NUMBER: Any = 5
TEXT: Any = "now"


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
    ("txnId is a number", delta.lines(delta.info(NUMBER, START), ADD), "InvalidCommit", "commitInfo.txnId"),
    ("txnId is empty", delta.lines(delta.info("", START), ADD), "InvalidCommit", "commitInfo.txnId"),
    ("endless txnId", delta.lines(delta.info("x" * 500, START), ADD), "InvalidCommit", "commitInfo.txnId"),
    ("no timestamp", delta.lines(without(INFO, "inCommitTimestamp"), ADD), "InvalidCommit",
     "commitInfo.inCommitTimestamp"),
    ("timestamp is text", delta.lines(delta.info("t3", TEXT), ADD), "InvalidCommit", "commitInfo.inCommitTimestamp"),
    ("timestamp 0", delta.lines(delta.info("t3", 0), ADD), "InvalidCommit", "commitInfo.inCommitTimestamp"),
    ("timestamp not increasing", delta.append("t3", START), "TimestampNotIncreasing", "commitInfo.inCommitTimestamp"),
    ("timestamp ahead", delta.append("t3", START + 3_600_000), "TimestampAhead", "commitInfo.inCommitTimestamp"),
    ("catalogManaged removed for readers", delta.lines(INFO, protocol_without("catalogManaged", "readerFeatures")),
     "InvalidCommit", "protocol.readerFeatures"),
    ("catalogManaged removed for writers", delta.lines(INFO, protocol_without("catalogManaged", "writerFeatures")),
     "InvalidCommit", "protocol.writerFeatures"),
    ("in-commit timestamps removed", delta.lines(INFO, protocol_without("inCommitTimestamp", "writerFeatures")),
     "InvalidCommit", "protocol.writerFeatures"),
    ("an old protocol", delta.lines(INFO, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}),
     "InvalidCommit", "protocol.minReaderVersion"),
    ("in-commit timestamps switched off",
     delta.lines(INFO, delta.metadata(**{"delta.enableInCommitTimestamps": "false"})), "InvalidCommit",
     "metaData.configuration"),
    ("a schema that is none", delta.lines(INFO, {"metaData": {**delta.metadata()["metaData"], "schemaString": "{"}}),
     "InvalidCommit", "metaData.schemaString"),
    ("columns that are no list", changed_metadata(partitionColumns=5), "InvalidCommit", "metaData.partitionColumns"),
    ("columns that are no names", changed_metadata(partitionColumns=[1]), "InvalidCommit", "metaData.partitionColumns"),
    ("a property that is a number", changed_metadata(configuration={"delta.enableInCommitTimestamps": "true", "a": 1}),
     "InvalidCommit", "metaData.configuration"),
    ("a description that is an object", changed_metadata(description={}), "InvalidCommit", "metaData.description"),
    ("metadata without an id", delta.lines(INFO, without(delta.metadata(), "id")), "InvalidCommit", "metaData.id"),
    ("an action nested deeper than some readers go", delta.lines(INFO, delta.add("f", x=deep(200))), "InvalidCommit",
     "add"),
    ("a sidecar", delta.lines(INFO, {"sidecar": {}}), "InvalidCommit", "sidecar"),
    ("two protocols", delta.lines(INFO, delta.protocol(), delta.protocol()), "InvalidCommit", "protocol"),
    ("a nameless domain", delta.lines(INFO, {"domainMetadata": {}}), "InvalidCommit", "domainMetadata.domain"),
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
    check_refused(lake, before, answer, 400, type, field)


def test_empty_content_or_an_empty_name_is_refused(lake: Lake) -> None:
    check_refused(lake, lake.state(), lake.inline(3, b""), 400, "InvalidCommit", "content")
    body = {"version": 3, "staged": {"name": "", "size": 5}}
    check_refused(lake, lake.state(), lake.propose(body), 400, "InvalidRequest", "staged.name")


def test_a_refusal_by_time_says_which_time_would_do(lake: Lake) -> None:
    error = lake.inline(3, delta.append("t3", START)).error
    assert error["last"] == lake.head.last_ict
    assert str(lake.head.last_ict + 1) in error["remedy"]
    assert lake.inline(3, delta.append("t3", START + 3_600_000)).error["server"] == lake.world.clock.now


def test_version_is_judged_before_timestamp_so_that_a_loser_learns_that_it_lost(lake: Lake) -> None:
    assert lake.inline(2, delta.append("late", START)).error["type"] == "CommitVersionConflict"


def test_inline_content_over_the_limit_is_to_be_staged(lake: Lake) -> None:
    content = delta.lines(delta.info("t3", lake.now()), delta.add("x" * 300_000))
    error = check_refused(lake, lake.state(), lake.inline(3, content), 413, "TooLarge", "inline.content")
    assert (error["limit"], error["size"]) == (262_144, len(content))
    assert "stage" in error["remedy"]


def test_a_staged_file_of_another_size_is_refused(lake: Lake) -> None:
    staged = lake.stage(3, delta.append("t3", lake.now()))
    before = lake.state()
    body = {"version": 3, "staged": {**staged, "size": staged["size"] + 1}}
    check_refused(lake, before, lake.propose(body), 400, "InvalidCommit", "staged.size")


def test_a_ticket_must_be_a_blind_append(lake: Lake) -> None:
    for content in (
        delta.lines(delta.info("t3", lake.now()), delta.remove("f")),
        delta.lines(delta.info("t3", lake.now()), delta.metadata()),
        delta.lines(delta.info("t3", lake.now()), delta.add("f", dataChange=False)),
    ):
        before = lake.state()
        check_refused(lake, before, lake.inline(None, content, base=2), 400, "InvalidCommit", "version")


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
    check_refused(lake, lake.state(), lake.inline(None, tracked, base=2), 400, "InvalidCommit", "content")


def test_statistics_nested_too_deeply_are_refused(lake: Lake) -> None:
    stats = json.dumps({"numRecords": 1, "minValues": deep(200)})
    content = delta.lines(delta.info("t3", lake.now()), delta.add("f", stats=stats))
    for version in (None, 3):
        check_refused(lake, lake.state(), lake.inline(version, content, base=2), 400, "InvalidCommit", "add.stats")


@pytest.mark.parametrize("read", [2**63 - 1, 2**53, -1])
def test_a_read_version_that_is_none_gives_a_ticket_no_base(lake: Lake, read: int) -> None:
    content = delta.append("t3", lake.now(), base=read)
    check_refused(lake, lake.state(), lake.inline(None, content), 400, "InvalidRequest", "base")
    assert lake.inline(3, content).status == 200


def test_more_rows_than_there_are_row_ids_are_none(lake: Lake) -> None:
    mark = {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark": 0}', "removed": False}
    adds = [delta.add(str(i), 2**53 - 1) for i in range(1800)]
    content = delta.lines(delta.info("t3", lake.now()), *adds, {"domainMetadata": mark})
    check_refused(lake, lake.state(), lake.inline(None, content, base=2), 400, "InvalidCommit", "add.stats")


def test_a_line_with_many_braces_but_few_levels_is_welcome(lake: Lake) -> None:
    add = delta.add("f", more={str(i): {} for i in range(500)})
    assert lake.inline(3, delta.lines(delta.info("t3", lake.now()), add)).status == 200


@pytest.mark.parametrize(
    ("member", "value"), [("operation", {}), ("timestamp", "now"), ("readVersion", "1"), ("tags", [])]
)
def test_provenance_that_delta_could_not_show_is_refused(lake: Lake, member: str, value: Any) -> None:
    info = delta.info("t3", lake.now())
    info["commitInfo"][member] = value
    before = lake.state()
    answer = lake.inline(3, delta.lines(info, ADD))
    check_refused(lake, before, answer, 400, "InvalidCommit", f"commitInfo.{member}")
