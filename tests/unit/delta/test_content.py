"""``read_content``: what must be known of a commit before it may become a version. It refuses by InvalidCommit only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes import delta
from turnstile.delta.core.content import read_content
from turnstile.store.core.errors import InvalidCommit
from turnstile.store.core.names import MAX_ROW_ID

INFO = delta.info("t", 5)
MARK = {
    "domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":7}', "removed": False}
}
DEEP = "[" * 5_000


def domain(configuration: Any, **more: Any) -> dict[str, Any]:
    return {"domainMetadata": {"domain": "delta.rowTracking", "configuration": configuration, **more}}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from([DEEP, "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(
    ["commitInfo", "protocol", "metaData", "domainMetadata", "txn", "add", "remove", "cdc", "sidecar", "new"]
)
_members = st.sampled_from(
    ["txnId", "inCommitTimestamp", "readVersion", "operation", "appId", "domain", "configuration", "stats", "dataChange",
     "schemaString", "minReaderVersion", "readerFeatures", "writerFeatures", "removed", "deletionVector"]
)  # fmt: skip
_actions = st.builds(lambda name, body: {name: body}, _names, st.dictionaries(_members, _json, max_size=4) | _json)
_good = st.sampled_from(
    [INFO, MARK, delta.add("f"), delta.protocol(), delta.metadata(), {"txn": {"appId": "a"}}, delta.remove("f")]
)


@settings(max_examples=examples(400))
@given(st.lists(_good | _actions, max_size=5), st.booleans(), st.booleans(), st.binary(max_size=4))
@example([INFO, domain(DEEP)], True, False, b"")
@example([INFO, delta.add("f") | {"add": {"stats": DEEP}}], True, False, b"")
@example([INFO, delta.metadata() | {"metaData": {"configuration": {}, "schemaString": DEEP}}], True, False, b"")
@example([INFO, {"txn": {"appId": "\ud800"}}], True, False, b"")
@example([INFO, domain(7)], True, False, b"")
def test_i2_no_content_makes_it_fail_in_another_way(
    actions: list[dict[str, Any]], whole: bool, first: bool, tail: bytes
) -> None:
    raw = b"".join(json.dumps(action).encode() + b"\n" for action in [INFO, *actions]) + tail
    for content in (raw, raw[len(json.dumps(INFO)) + 1 :], raw[:-3]):
        try:
            read = read_content(content, whole=whole, first_version=first)
        except InvalidCommit as error:
            named = bool(error.message and error.field)
        else:
            named = read.ict > 0 and all(text.encode() for text in (read.txn, *read.apps) if text)
        assert named


@given(st.binary(max_size=60))
def test_i2_random_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(InvalidCommit):
        read_content(raw)


@pytest.mark.parametrize(
    ("actions", "field"),
    [
        ([], "content"),
        ([delta.add("f")], "commitInfo"),
        ([INFO, INFO], "commitInfo"),
        ([{"commitInfo": {"inCommitTimestamp": 5}}], "commitInfo.txnId"),
        ([delta.info("", 5)], "commitInfo.txnId"),
        ([delta.info("x" * 129, 5)], "commitInfo.txnId"),
        ([delta.info("t", 0)], "commitInfo.inCommitTimestamp"),
        ([delta.info("t", 2**53)], "commitInfo.inCommitTimestamp"),
        ([delta.info("t", True)], "commitInfo.inCommitTimestamp"),
        ([{"commitInfo": {"txnId": "t", "inCommitTimestamp": "5"}}], "commitInfo.inCommitTimestamp"),
        ([INFO, {"add": []}], "add"),
        ([INFO, {"add": {}, "remove": {}}], "content"),
        ([INFO, {"sidecar": {}}], "sidecar"),
        ([INFO, {"checkpointMetadata": {}}], "checkpointMetadata"),
        ([INFO, delta.protocol(), delta.protocol()], "protocol"),
        ([INFO, delta.metadata(), delta.metadata()], "metaData"),
        ([INFO, {"protocol": delta.protocol()["protocol"] | {"minReaderVersion": 2}}], "protocol.minReaderVersion"),
        ([INFO, {"protocol": delta.protocol()["protocol"] | {"minWriterVersion": 8}}], "protocol.minWriterVersion"),
        ([INFO, {"protocol": delta.protocol()["protocol"] | {"readerFeatures": []}}], "protocol.readerFeatures"),
        (
            [INFO, {"protocol": delta.protocol()["protocol"] | {"writerFeatures": ["catalogManaged"]}}],
            "protocol.writerFeatures",
        ),
        (
            [INFO, {"protocol": delta.protocol()["protocol"] | {"writerFeatures": ["inCommitTimestamp"]}}],
            "protocol.writerFeatures",
        ),
        ([INFO, {"protocol": delta.protocol()["protocol"] | {"readerFeatures": [1]}}], "protocol.readerFeatures"),
        (
            [INFO, delta.metadata(**{"delta.enableInCommitTimestamps": "false"})],
            "metaData.configuration",
        ),
        ([INFO, {"metaData": delta.metadata()["metaData"] | {"configuration": None}}], "metaData.configuration"),
        ([INFO, {"metaData": delta.metadata()["metaData"] | {"schemaString": "[]"}}], "metaData.schemaString"),
        (
            [INFO, {"metaData": delta.metadata()["metaData"] | {"schemaString": '{"type":"map"}'}}],
            "metaData.schemaString",
        ),
        ([INFO, {"metaData": delta.metadata()["metaData"] | {"schemaString": 5}}], "metaData.schemaString"),
        ([INFO, {"domainMetadata": {"domain": 5}}], "domainMetadata"),
        ([INFO, {"txn": {"appId": None}}], "txn.appId"),
        ([INFO, domain('{"rowIdHighWaterMark":-2}')], "domainMetadata.configuration"),
        ([INFO, domain(f'{{"rowIdHighWaterMark":{MAX_ROW_ID + 1}}}')], "domainMetadata.configuration"),
        ([INFO, domain('{"rowIdHighWaterMark":true}')], "domainMetadata.configuration"),
        ([INFO, domain("")], "domainMetadata.configuration"),
    ],
)
def test_i2_content_that_would_brick_the_table_is_refused_by_member(actions: list[Any], field: str) -> None:
    with pytest.raises(InvalidCommit) as refused:
        read_content(delta.lines(*actions))
    assert refused.value.field == field


@pytest.mark.parametrize("missing", ["protocol", "metaData"])
def test_i2_version_0_must_define_the_table(missing: str) -> None:
    both = {"protocol": delta.protocol(), "metaData": delta.metadata()}
    del both[missing]
    with pytest.raises(InvalidCommit) as refused:
        read_content(delta.lines(INFO, *both.values()), first_version=True)
    assert refused.value.field == missing
    assert read_content(delta.version_zero("t", 5), first_version=True).changes_metadata


@pytest.mark.parametrize(
    ("actions", "changed"),
    [
        ([delta.add("f")], "append"),
        ([delta.add("f"), {"txn": {"appId": "a", "version": 1}}, MARK], "append"),
        ([delta.add("f", dataChange=False)], "data"),
        ([delta.add("f", deletionVector={"x": 1})], "data"),
        ([delta.add("f"), delta.remove("g")], "data"),
        ([{"cdc": {"path": "c"}}], "data"),
        ([delta.add("f"), {"somethingNew": {}}], "data"),
        ([delta.add("f"), delta.protocol()], "metadata"),
        ([delta.add("f"), delta.metadata()], "metadata"),
        ([delta.add("f"), {"domainMetadata": {"domain": "mine", "configuration": ""}}], "metadata"),
    ],
)
def test_i2_what_a_commit_changes_is_told_apart(actions: list[Any], changed: str) -> None:
    content = read_content(delta.lines(INFO, *actions))
    assert content.changed == changed and content.blind == (changed == "append")


def test_i2_a_prefix_is_judged_line_by_line_and_counts_as_unread() -> None:
    raw = delta.lines(INFO, delta.add("f"), {"txn": {"appId": "a"}})
    content = read_content(raw[:-5], whole=False)
    assert (content.changed, content.blind, content.adds, content.apps) == ("unread", False, 1, ())


def test_i2_rows_and_marks_are_read_only_where_they_are_numbers() -> None:
    def rows(*actions: Any) -> tuple[int | None, int | None, int]:
        content = read_content(delta.lines(INFO, *actions))
        return content.rows, content.hwm, content.adds

    assert rows(delta.add("f", 3), delta.add("g", 4), MARK) == (7, 7, 2)
    assert rows(delta.add("f", 3), delta.add("g", stats=None)) == (None, None, 2)
    for stats in ("{}", "[]", "{", '{"numRecords":true}', '{"numRecords":-1}', '{"numRecords":1.0}', 5, DEEP):
        assert rows(delta.add("f", stats=stats))[0] is None
    assert rows(delta.add("f", MAX_ROW_ID))[0] == MAX_ROW_ID
    assert rows(delta.add("f", MAX_ROW_ID + 1))[0] is None
    assert rows(domain("", removed=True)) == (0, None, 0)


def test_i3_the_version_a_writer_read_is_kept_only_as_a_number() -> None:
    assert read_content(delta.lines(delta.info("t", 5, readVersion=4))).read_version == 4
    assert read_content(delta.lines(delta.info("t", 5, readVersion="4"))).read_version is None
    assert read_content(delta.lines(delta.info("t", 5, readVersion=True))).read_version is None
    assert read_content(delta.lines(delta.info("t", 5, operation="x" * 70))).operation == "x" * 64
