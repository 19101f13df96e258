"""``read_content``: what must be known of a commit before it may become a version. It refuses by
InvalidCommit only."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.fakes import delta
from tests.support.python_calls import python_calls
from turnstile.delta.core.content import Uses, read_content
from turnstile.store.core.errors import InvalidCommit
from turnstile.store.core.names import MAX_ROW_ID

INFO = delta.info("t", 5)
MARK = {
    "domainMetadata": {"domain": "delta.rowTracking", "configuration": '{"rowIdHighWaterMark":7}', "removed": False}
}
DEEP = "[" * 5_000


def group(*participants: Any, id: Any = "g") -> dict[str, Any]:
    return {"transactionGroup": {"transactionId": id, "participants": list(participants)}}


MEMBER = {"tableId": "a", "version": 3}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}


REMOVED = delta.remove("f")["remove"]


def deep(levels: int, of: str = "[") -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if of == "[" else {"a": value}
    return value


def domain(configuration: Any, **more: Any) -> dict[str, Any]:
    members = {"domain": "delta.rowTracking", "configuration": configuration, "removed": False}
    return {"domainMetadata": {**members, **more}}


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.sampled_from([DEEP, "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_names = st.sampled_from(
    ["commitInfo", "protocol", "metaData", "domainMetadata", "txn", "add", "remove", "cdc", "sidecar", "new"]
)
_members = st.sampled_from(
    ["txnId", "inCommitTimestamp", "readVersion", "operation", "appId", "domain", "configuration", "stats",
     "dataChange",
     "schemaString", "minReaderVersion", "readerFeatures", "writerFeatures", "removed", "deletionVector"]
)  # fmt: skip
_actions = st.builds(lambda name, body: {name: body}, _names, st.dictionaries(_members, _json, max_size=4) | _json)
_good = st.sampled_from(
    [
        INFO,
        MARK,
        delta.add("f"),
        delta.protocol(),
        delta.metadata(),
        {"txn": {"appId": "a", "version": 1}},
        delta.remove("f"),
    ]
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
        ([INFO, {"domainMetadata": {"domain": 5}}], "domainMetadata.domain"),
        ([INFO, {"txn": {"appId": None}}], "txn.appId"),
        ([INFO, domain('{"rowIdHighWaterMark":-2}')], "domainMetadata.configuration"),
        ([INFO, domain(f'{{"rowIdHighWaterMark":{MAX_ROW_ID + 1}}}')], "domainMetadata.configuration"),
        ([INFO, domain('{"rowIdHighWaterMark":true}')], "domainMetadata.configuration"),
        ([INFO, domain("")], "domainMetadata.configuration"),
        ([INFO, {"somethingNew": []}], "somethingNew"),
        ([INFO, {"somethingNew": {"a": deep(99)}}], "somethingNew"),
        ([INFO, delta.add("f", tags=deep(1))], "add.tags"),
        ([INFO, delta.add("f", stats=json.dumps(deep(101)))], "add.stats"),
        ([INFO, delta.add("f", stats=json.dumps({"minValues": deep(100)}))], "add.stats"),
        ([INFO, delta.add("f", stats=json.dumps({"minValues": deep(100, "{")}))], "add.stats"),
        ([INFO, delta.add("f"), delta.add("f")], "add.path"),
        ([INFO, delta.remove("f"), delta.remove("f")], "remove.path"),
        ([INFO, delta.add("a b")], "add.path"),
        ([INFO, delta.add("a%zz")], "add.path"),
        ([INFO, delta.add("mailto:f")], "add.path"),
        ([INFO, delta.add("f"), delta.remove("f")], "add.path"),
        (
            [INFO, delta.add("f", deletionVector=VECTOR), {"remove": REMOVED | {"deletionVector": VECTOR}}],
            "add.path",
        ),
        ([INFO, {"remove": REMOVED | {"extendedFileMetadata": True, "size": 1}}], "remove"),
        ([INFO, {"remove": REMOVED | {"extendedFileMetadata": True, "partitionValues": {}}}], "remove"),
        ([INFO, delta.add("f", deletionVector=VECTOR, stats=None)], "add.stats"),
        ([INFO, {"txn": {"appId": "a", "version": 1}}, {"txn": {"appId": "a", "version": 2}}], "txn.appId"),
        ([INFO, MARK, MARK], "domainMetadata.domain"),
    ],
)
def test_i2_content_that_would_brick_the_table_is_refused_by_member(actions: list[Any], field: str) -> None:
    with pytest.raises(InvalidCommit) as refused:
        read_content(delta.lines(*actions))
    assert refused.value.field == field


@pytest.mark.parametrize(
    "vector",
    [
        {"storageType": "p"},
        {"storageType": "p", "pathOrInlineDv": "deletion_vector_1.bin"},
        {"storageType": "p", "pathOrInlineDv": "s3://b/x y"},
        {"storageType": "u", "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k"},
        {"storageType": "u", "pathOrInlineDv": "H.-t@S}K{vb[*k^"},
        {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k "},
        {"storageType": "i"},
        {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"},
        {"storageType": "i", "pathOrInlineDv": "", "offset": None},
        {"storageType": "x"},
        {"sizeInBytes": -1},
        {"sizeInBytes": 2**31},
        {"cardinality": -1},
        {"offset": -1},
    ],
)
def test_i2_a_deletion_vector_that_readers_could_not_find_is_not_ratified(vector: dict[str, Any]) -> None:
    with pytest.raises(InvalidCommit) as refused:
        read_content(delta.lines(INFO, delta.add("f", deletionVector=VECTOR | vector)))
    assert str(refused.value.field).startswith("add.deletionVector")


@pytest.mark.parametrize(
    "vector",
    [
        {},
        {"pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^"},
        {"storageType": "p", "pathOrInlineDv": "s3://b/deletion_vector_1.bin"},
        {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "offset": None},
        {"storageType": "i", "pathOrInlineDv": "wi5b=00001", "offset": None},
    ],
)
def test_a_deletion_vector_is_in_a_file_or_in_the_action(vector: dict[str, Any]) -> None:
    content = read_content(delta.lines(INFO, delta.add("f", deletionVector=VECTOR | vector)))
    assert content.uses.features == {"deletionVectors"}


@pytest.mark.parametrize(
    ("actions", "field"),
    [
        ([{"transactionGroup": {}}], "transactionGroup.transactionId"),
        ([group(MEMBER, id="")], "transactionGroup.transactionId"),
        ([group(MEMBER, id="x" * 129)], "transactionGroup.transactionId"),
        ([group()], "transactionGroup.participants"),
        ([group({"tableId": "a"})], "transactionGroup.participants.version"),
        ([group({"tableId": "", "version": 3})], "transactionGroup.participants"),
        ([group({"tableId": "a", "version": -1})], "transactionGroup.participants"),
        ([group(MEMBER, MEMBER)], "transactionGroup"),
        ([group(MEMBER), group(MEMBER)], "transactionGroup"),
    ],
)
def test_i2_the_tables_of_a_transaction_are_named_in_the_shape_of_the_proposal(actions: list[Any], field: str) -> None:
    with pytest.raises(InvalidCommit) as refused:
        read_content(delta.lines(INFO, *actions))
    assert refused.value.field == field


def test_a_commit_that_names_its_transaction_is_like_others_but_no_blind_append() -> None:
    content = read_content(
        delta.lines(INFO, group(MEMBER, {"tableId": "b", "version": 0, "name": "more"}), delta.add("f"))
    )
    assert (content.adds, content.blind, content.change_kind) == (1, False, "data")


def test_i2_a_carriage_return_ends_no_line_in_the_middle_of_an_action() -> None:
    """To JSON it is white space, to Spark's and Java's readers the end of a line."""
    raw = delta.lines(INFO, delta.add("f"))
    assert read_content(raw.replace(b"\n", b"\r\n")) == read_content(raw)
    assert read_content(raw.replace(b"\n", b"\r\n").removesuffix(b"\n")) == read_content(raw)
    with pytest.raises(InvalidCommit, match="line 2: a carriage return"):
        read_content(raw.replace(b'{"add":', b'{"add":\r'))


def test_i2_a_file_may_come_back_with_another_deletion_vector() -> None:
    old = {"remove": REMOVED | {"deletionVector": {**VECTOR, "offset": 1}}}
    assert read_content(delta.lines(INFO, old, delta.add("f", deletionVector=VECTOR))).adds == 1
    assert read_content(delta.lines(INFO, delta.remove("g"), delta.add("f"))).adds == 1


def test_i2_a_path_is_a_uri() -> None:
    for path in ("p=%20/f", "s3://b/f", "é/f", "a+b!f", "file:///f", "a/1:2", "a#b", "?1:2"):
        assert read_content(delta.lines(INFO, delta.add(path))).adds == 1
    for path in ("file://", "s3://", "//", "a#b#c", "1:2.parquet", "é:f", "t=10:30/f", ":f", "a:f"):
        for action in (delta.add(path), delta.remove(path)):
            with pytest.raises(InvalidCommit, match="is not a URI"):
                read_content(delta.lines(INFO, action))
    vector = {"storageType": "p", "pathOrInlineDv": "s3://", "sizeInBytes": 1, "cardinality": 1}
    with pytest.raises(InvalidCommit, match="must be an absolute URI"):
        read_content(delta.lines(INFO, delta.add("f", deletionVector=vector)))


def test_i2_a_commit_is_judged_by_what_it_needs_of_its_table() -> None:
    def uses(*actions: Any) -> Uses:
        return read_content(delta.lines(INFO, *actions)).uses

    cdc = {"cdc": {"path": "c", "partitionValues": {"p": None}, "size": 1, "dataChange": False}}
    assert uses() == Uses()
    tracked = uses(delta.add("f", baseRowId=0, defaultRowCommitVersion=1))
    assert (tracked.partitions, tracked.features) == ({frozenset()}, {"rowTracking"})
    assert (tracked.untracked, tracked.values) == (None, frozenset())
    assert uses(delta.add("f", baseRowId=0)).untracked == "f", "both, or the add is not tracked"
    assert uses(delta.add("f", defaultRowCommitVersion=0)).untracked == "f"
    assert uses(delta.add("f"), delta.add("g")).untracked == "f", "the first one is named"
    assert uses(cdc) == Uses(frozenset({frozenset({"p"})}), frozenset({"changeDataFeed"}))
    files = [file.path for file in uses(delta.add("f"), delta.add("g", dataChange=False), delta.add("h")).files]
    assert files == ["f", "h"], "a rewrite brings no new rows"
    removed = {"remove": {**REMOVED, "path": "f"}}
    assert uses(delta.add("f", deletionVector=VECTOR), removed).files == (), "nor does a deletion vector"
    assert uses({"remove": REMOVED | {"deletionVector": VECTOR}}).features == {"deletionVectors"}
    assert uses(MARK).features == {"domainMetadata", "rowTracking"}
    assert uses(domain("", removed=True)).features == {"domainMetadata"}, "a table may leave row tracking"
    assert uses(domain("{}", domain="delta.clustering")).features == {"domainMetadata", "clustering"}
    assert uses(domain("{}", domain="mine")).features == {"domainMetadata"}


def test_what_is_nested_a_hundred_levels_deep_is_read() -> None:
    stats = (json.dumps({"minValues": deep(99, of)}) for of in "[{")
    nested = [{"somethingNew": {"a": deep(98)}}, *(delta.add(f"f{n}", stats=text) for n, text in enumerate(stats))]
    assert read_content(delta.lines(INFO, *nested)).adds == 2


@pytest.mark.parametrize(
    ("actions", "field"),
    [
        ([delta.protocol(), delta.metadata(**{"delta.constraints.c": "id > 0"})], "protocol.writerFeatures"),
        ([delta.protocol(), delta.metadata(), delta.add("f", partitionValues={"p": "1"})], "add.partitionValues"),
    ],
)
def test_i2_what_defines_the_table_is_judged_with_the_rest_of_its_commit(actions: list[Any], field: str) -> None:
    with pytest.raises(InvalidCommit) as refused:
        read_content(delta.lines(INFO, *actions), first_version=True)
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
        ([delta.add("f", deletionVector=VECTOR)], "data"),
        ([delta.add("f"), delta.remove("g")], "data"),
        ([{"cdc": {"path": "c", "partitionValues": {}, "size": 1, "dataChange": False}}], "data"),
        ([delta.add("f"), {"somethingNew": {}}], "data"),
        ([delta.add("f"), delta.protocol()], "metadata"),
        ([delta.add("f"), delta.metadata()], "metadata"),
        ([delta.add("f"), domain("", domain="mine")], "metadata"),
    ],
)
def test_i2_what_a_commit_changes_is_distinguished(actions: list[Any], changed: str) -> None:
    content = read_content(delta.lines(INFO, *actions))
    assert content.change_kind == changed and content.blind == (changed == "append")


def test_i2_a_prefix_is_judged_line_by_line_and_counts_as_unread() -> None:
    raw = delta.lines(INFO, delta.add("f"), {"txn": {"appId": "a", "version": 1}})
    content = read_content(raw[:-5], whole=False)
    assert (content.change_kind, content.blind, content.adds, content.apps) == ("unread", False, 1, ())


def test_i2_rows_and_marks_are_read_only_where_they_are_numbers() -> None:
    def rows(*actions: Any) -> tuple[int | None, int | None, int]:
        content = read_content(delta.lines(INFO, *actions))
        return content.rows, content.hwm, content.adds

    assert rows(delta.add("f", 3), delta.add("g", 4), MARK) == (7, 7, 2)
    assert rows(delta.add("f", 3), delta.add("g", stats=None)) == (None, None, 2)
    for stats in (None, "", "{}", '{"numRecords":null}', '{"minValues":{"a":[1]}}'):
        assert rows(delta.add("f", stats=stats))[0] is None
    assert rows(delta.add("f", MAX_ROW_ID))[0] == MAX_ROW_ID
    assert rows(delta.add("f", MAX_ROW_ID + 1))[0] is None
    assert rows(domain("", removed=True)) == (0, None, 0)


def test_i3_the_version_a_writer_read_is_kept_if_it_can_be_one() -> None:
    assert read_content(delta.lines(delta.info("t", 5, readVersion=4))).read_version == 4
    assert read_content(delta.lines(delta.info("t", 5, readVersion=-1))).read_version is None
    assert read_content(delta.lines(delta.info("t", 5, readVersion=2**60))).read_version is None
    assert read_content(delta.lines(delta.info("t", 5, operation="x" * 70))).operation == "x" * 64


def test_judging_an_add_takes_a_few_calls_however_many_there_are() -> None:
    """The hot path: one decoding of a line and one of its statistics, each in C, and a handful of
    steps around them."""

    def calls(adds: int, **more: Any) -> int:
        raw = delta.lines(
            INFO, *(delta.add(f"p{number}.parquet", partitionValues={"d": "x"}, **more) for number in range(adds))
        )
        return python_calls(lambda: read_content(raw))

    def calls_to_remove(files: int) -> int:
        raw = delta.lines(INFO, *(delta.remove(f"p{number}.parquet") for number in range(files)))
        return python_calls(lambda: read_content(raw))

    assert calls(200) - calls(100) <= 100 * 3
    assert calls_to_remove(200) - calls_to_remove(100) <= 100 * 5
    assert calls(200, more=1) - calls(100, more=1) <= 100 * 12, "members that nobody knows take the longer way"
