"""The Delta API: requirements, and metadata that rides with a commit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.conformance.actions import (
    INVALID,
    REQUIREMENT,
    WIDER,
    config,
    domain,
    etag,
    properties,
    sets,
)
from tests.support.conformance.cases import covers
from tests.support.unity import (
    COLUMNS,
    SCHEMA,
    T1,
    B,
    Unity,
    api_protocol,
    metadata,
    protocol,
    published,
    refused,
)


@pytest.fixture
def unity() -> Unity:
    made = Unity()
    made.create()
    return made


# -- requirements -----------------------------------------------------------------------------------------------------


@covers(updateTable=(400, 409))
def test_the_uuid_must_be_asserted_and_right(unity: Unity) -> None:
    proposed = unity.commit(1)
    refused(unity.post(T1, {"requirements": [], "updates": [proposed]}), 400, INVALID)
    wrong = {"type": "assert-etag", "etag": "x"}
    refused(unity.post(T1, {"requirements": [wrong], "updates": [proposed]}), 400, INVALID)
    other = "99999999-9999-4999-8999-999999999999"
    refused(unity.update(proposed, uuid=other), 409, REQUIREMENT)


@covers(updateTable=400)
@pytest.mark.parametrize(
    "uuid", ["x", "", "955b45cc", "955b45ccfebf47288615450d5c732c5f", "{955b45cc-febf-4728-8615-450d5c732c5f}"]
)
def test_what_is_no_uuid_is_400_because_loading_again_would_not_help(unity: Unity, uuid: str) -> None:
    required = [{"type": "assert-table-uuid", "uuid": uuid}]
    refused(unity.post(T1, {"requirements": required, "updates": [sets(a="1")]}), 400, INVALID)


@covers(updateTable=200)
def test_a_uuid_may_be_in_capitals(unity: Unity) -> None:
    assert unity.update(sets(a="1"), uuid=unity.uuid.upper()).status == 200


@covers(updateTable=(200, 409))
def test_an_etag_is_asserted_for_data_too_and_data_does_not_change_it(unity: Unity) -> None:
    old = etag(unity.get(T1))
    assert etag(unity.update(unity.commit(1), etag=old)) == old
    assert etag(unity.update(unity.commit(2), etag=old)) == old
    refused(unity.update(unity.commit(3), etag="other"), 409, REQUIREMENT)
    refused(unity.update(published(1), etag="other"), 409, REQUIREMENT)
    refused(unity.update(sets(a="1"), etag="other"), 409, REQUIREMENT)
    changed = unity.update(unity.commit(3, metadata(**config(unity, a="1"))), sets(a="1"), etag=old)
    assert etag(changed) != old
    refused(unity.update(unity.commit(4), etag=old), 409, REQUIREMENT)


@covers(updateTable=400)
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"requirements": [], "updates": []},
        {"requirements": [{"type": "assert-table-uuid", "uuid": "UUID"}], "updates": []},
        {"requirements": [{"type": "assert-nothing"}], "updates": [published(0)]},
        {"requirements": [{"uuid": "UUID"}], "updates": [published(0)]},
        {"requirements": [{"type": "assert-table-uuid", "uuid": "UUID"}], "updates": [{"action": "no-such"}]},
        {"requirements": [{"type": "assert-table-uuid", "uuid": "UUID"}] * 2, "updates": [published(0)]},
        {"requirements": [{"type": "assert-table-uuid", "uuid": "UUID"}], "updates": [published(0), published(0)]},
        {"requirements": [{"type": "assert-table-uuid", "uuid": "UUID"}], "updates": [{"action": "add-commit"}]},
        {"requirements": None, "updates": None},
    ],
)
def test_shapes_that_are_refused(unity: Unity, body: Any) -> None:
    refused(unity.post(T1, body), 400, INVALID)


@covers(updateTable=400)
def test_nothing_is_both_set_and_removed(unity: Unity) -> None:
    refused(unity.update(sets(a="1"), {"action": "remove-properties", "removals": ["a"]}), 400, INVALID)
    clustering = {"delta.clustering": {"clusteringColumns": []}}
    both = (
        {"action": "set-domain-metadata", "updates": clustering},
        {"action": "remove-domain-metadata", "domains": ["delta.clustering"]},
    )
    refused(unity.update(*both), 400, INVALID)


@covers(updateTable=404)
def test_an_update_of_what_is_missing_is_404(unity: Unity) -> None:
    proposed = unity.commit(1)
    refused(unity.update(proposed, path=f"{SCHEMA}/tables/t2"), 404, "NoSuchTableException")
    refused(unity.update(proposed, path=T1.replace("sales", "nope")), 404, "NoSuchSchemaException")
    refused(unity.update(proposed, path=T1.replace("main", "nope")), 404, "NoSuchCatalogException")


# -- metadata with a commit -------------------------------------------------------------------------------------------


@covers(updateTable=200)
def test_a_new_column_as_spark_sends_it(unity: Unity) -> None:
    old = etag(unity.get(T1))
    proposed = unity.commit(1, metadata(WIDER, **config(unity, **{"delta.columnMapping.maxColumnId": "2"})))
    answer = unity.update(
        proposed,
        published(0),
        {"action": "set-columns", "columns": WIDER},
        sets(**{"delta.columnMapping.maxColumnId": "2"}),
    )
    said = answer.json["metadata"]
    assert said["columns"] == WIDER and said["etag"] != old
    assert properties(answer)["delta.lastUpdateVersion"] == "1"
    assert properties(answer)["delta.lastCommitTimestamp"] == str(proposed["commit"]["timestamp"])
    assert (said["last-commit-version"], said["last-commit-timestamp-ms"]) == (1, proposed["commit"]["timestamp"])
    after = unity.update(unity.commit(2))
    assert after.json["metadata"] == said


@covers(updateTable=200)
def test_every_action_at_once_is_one_commit(unity: Unity) -> None:
    columns = {"type": "struct", "fields": [*WIDER["fields"], {"name": "p", "type": "string", "nullable": True,
                                                               "metadata": {}}]}  # fmt: skip
    features = ("clustering", "domainMetadata", "rowTracking")
    proposed = unity.commit(
        1,
        protocol(*features),
        metadata(columns, ["p"], "said", **config(unity, mine="1")),
        domain("delta.clustering", '{"clusteringColumns":[["id"]]}'),
        domain("delta.rowTracking", '{"rowIdHighWaterMark":3}'),
    )
    answer = unity.update(
        published(0),
        {"action": "set-table-comment", "comment": "said"},
        {"action": "set-domain-metadata", "updates": {"delta.clustering": {"clusteringColumns": [["id"]]},
                                                      "delta.rowTracking": {"rowIdHighWaterMark": 3}}},
        {"action": "remove-properties", "removals": ["gone"]},
        sets(mine="1", beside="2"),
        {"action": "set-protocol", "protocol": api_protocol(*features)},
        {"action": "set-partition-columns", "partition-columns": ["p"]},
        {"action": "set-columns", "columns": columns},
        proposed,
        etag=etag(unity.get(T1)),
    )  # fmt: skip
    found = properties(answer)
    assert answer.json["metadata"]["columns"] == columns and answer.json["metadata"]["partition-columns"] == ["p"]
    assert (found["mine"], found["beside"]) == ("1", "2")
    assert found["delta.feature.clustering"] == "supported"
    assert found["clusteringColumns"] == '[["id"]]'
    assert found["delta.rowTracking.rowIdHighWaterMark"] == "3"


@covers(updateTable=200)
def test_the_reference_removes_a_property_with_its_commit(unity: Unity) -> None:
    unity.update(unity.commit(1, metadata(**config(unity, mine="1"))), sets(mine="1"))
    removal = {"action": "remove-properties", "removals": ["mine"]}
    assert "mine" not in properties(unity.update(unity.commit(2, metadata(**config(unity))), removal))


@covers(updateTable=200)
def test_clustering_can_be_emptied_and_removed(unity: Unity) -> None:
    features = ("clustering", "domainMetadata")
    cluster = {"action": "set-domain-metadata", "updates": {"delta.clustering": {"clusteringColumns": []}}}
    first = unity.commit(1, protocol(*features), domain("delta.clustering", '{"clusteringColumns":[]}'))
    assert properties(unity.update(first, cluster))["clusteringColumns"] == "[]"
    gone = unity.commit(2, domain("delta.clustering", "", removed=True))
    answer = unity.update(gone, {"action": "remove-domain-metadata", "domains": ["delta.clustering"]})
    assert "clusteringColumns" not in properties(answer)


@covers(updateTable=200)
def test_row_tracking_alone_leaves_etag_and_last_update_as_they_are() -> None:
    unity = Unity()
    unity.create("t1", "rowTracking", "domainMetadata")
    old = unity.get(T1)
    mark = {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 4}}}
    answer = unity.update(unity.commit(1, domain("delta.rowTracking", '{"rowIdHighWaterMark":4}')), mark)
    assert etag(answer) == etag(old)
    assert properties(answer) == properties(old) | {"delta.rowTracking.rowIdHighWaterMark": "4"}


MARK = "delta.rowTracking.rowIdHighWaterMark"


@covers(updateTable=200)
def test_the_mark_of_row_tracking_is_shown_from_when_a_client_sets_its_domain_until_one_removes_it() -> None:
    unity = Unity()
    unity.create("t1", "rowTracking", "domainMetadata")
    old = etag(unity.get(T1))
    said = {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 5}}}
    gone = {"action": "remove-domain-metadata", "domains": ["delta.rowTracking"]}

    def mark(version: int) -> dict[str, Any]:
        return domain("delta.rowTracking", f'{{"rowIdHighWaterMark":{version}}}')

    assert MARK not in properties(unity.update(unity.commit(1, mark(4))))
    assert properties(unity.update(unity.commit(2, mark(5)), said))[MARK] == "5"
    assert properties(unity.update(unity.commit(3, mark(6))))[MARK] == "6", "the log's, which is newer"
    assert MARK not in properties(unity.update(gone))
    assert MARK not in properties(unity.update(unity.commit(4, mark(7))))
    assert properties(unity.update(said))[MARK] == "7"
    removed = domain("delta.rowTracking", '{"rowIdHighWaterMark":7}', removed=True)
    assert MARK not in properties(unity.update(unity.commit(5, removed), gone))
    assert etag(unity.get(T1)) == old


@covers(updateTable=200)
@pytest.mark.parametrize("what", ["metadata", "protocol", "domain", "all"])
def test_a_commit_that_repeats_the_metadata_leaves_version_time_and_etag_as_they_are(what: str) -> None:
    unity = Unity()
    unity.create("t1", "clustering", "domainMetadata")
    unity.update(unity.commit(1, domain("delta.clustering", '{"clusteringColumns":[["id"]]}')))
    old = unity.get(T1).json["metadata"]
    repeated = metadata(**config(unity))
    repeated["metaData"]["createdTime"] = 77
    shuffled = protocol("domainMetadata", "clustering")
    same = domain("delta.clustering", '{"clusteringColumns":[["id"]]}')
    actions = {"metadata": [repeated], "protocol": [shuffled], "domain": [same], "all": [shuffled, repeated, same]}
    assert unity.update(unity.commit(2, *actions[what])).json["metadata"] == old
    assert unity.get(T1).json["metadata"] == old
    seen = unity.update(
        unity.commit(3, *actions[what]),
        {"action": "set-protocol", "protocol": api_protocol("domainMetadata", "clustering")},
    )
    assert seen.json["metadata"]["last-commit-version"] == 3, "the request says that it changes something"
    assert (
        unity.update(unity.commit(4, metadata(**config(unity, mine="1")))).json["metadata"]["last-commit-version"] == 4
    )


@covers(updateTable=200)
def test_a_comment_that_was_emptied_in_the_log_is_empty_in_the_older_api(unity: Unity) -> None:
    said = metadata(description="said", **config(unity))
    emptied = metadata(**config(unity))
    emptied["metaData"]["description"] = ""
    comment = {"action": "set-table-comment", "comment": "said"}
    unity.update(unity.commit(1, said), comment)
    assert unity.get(f"{B}/tables/main.sales.t1").json["comment"] == "said"
    unity.update(unity.commit(2, emptied), {"action": "set-table-comment", "comment": ""})
    assert unity.get(f"{B}/tables/main.sales.t1").json["comment"] == ""


@covers(updateTable=400)
@pytest.mark.parametrize(
    "action",
    [
        {"action": "set-columns", "columns": WIDER},
        {"action": "set-partition-columns", "partition-columns": ["id"]},
        {"action": "set-partition-columns", "partition-columns": ["nope"]},
        {"action": "set-protocol", "protocol": api_protocol("clustering")},
        {"action": "set-properties", "updates": {"delta.appendOnly": "true"}},
        {"action": "set-properties", "updates": {"delta.checkpointPolicy": "classic"}},
        {"action": "remove-properties", "removals": ["delta.checkpointPolicy"]},
        {"action": "set-domain-metadata", "updates": {"delta.clustering": {"clusteringColumns": [["id"]]}}},
        {"action": "set-domain-metadata", "updates": {}},
        {"action": "set-domain-metadata", "updates": {"my.domain": {"a": 1}}},
        {"action": "set-columns", "columns": {"type": "struct", "fields": []}},
        {"action": "update-metadata-snapshot-version", "last-commit-version": 1, "last-commit-timestamp-ms": 1},
    ],
)
def test_i9_what_the_commits_file_does_not_say_is_refused(unity: Unity, action: Any) -> None:
    proposed = unity.commit(1)
    before = unity.rows()
    refused(unity.update(proposed, action), 400, INVALID)
    refused(unity.update(action), 400, INVALID)
    assert unity.rows() == before


@covers(updateTable=400)
@pytest.mark.parametrize(
    ("domain_name", "said"),
    [("delta.clustering", {"clusteringColumns": [["id"]]}), ("delta.rowTracking", {"rowIdHighWaterMark": 1})],
)
def test_a_domain_needs_its_feature_though_the_file_has_the_domain(
    unity: Unity, domain_name: str, said: dict[str, Any]
) -> None:
    proposed = unity.commit(1, domain(domain_name, json.dumps(said)))
    sets_domain = {"action": "set-domain-metadata", "updates": {domain_name: said}}
    assert "feature" in refused(unity.update(proposed, sets_domain), 400, INVALID)["message"]


@covers(updateTable=(200, 400))
def test_domains_that_the_api_does_not_name_are_taken_as_the_log_has_them() -> None:
    """The reference skips them when they are set, and refuses to remove them."""
    unity = Unity()
    unity.create("t1", "domainMetadata")
    sent = {"action": "set-domain-metadata", "updates": {"my.domain": {"a": 1}}}
    refused(unity.update(unity.commit(1, domain("my.domain", '{"a":2}')), sent), 400, INVALID)
    refused(unity.update(unity.commit(1, domain("my.domain", "{")), sent), 400, INVALID)
    assert unity.update(unity.commit(1, domain("my.domain", '{ "a": 1 }')), sent).status == 200
    assert unity.update(sent).status == 200  # it says so already
    gone = {"action": "remove-domain-metadata", "domains": ["my.domain", "never.there"]}
    refused(unity.update(unity.commit(2), gone), 400, INVALID)
    assert unity.update(unity.commit(2, domain("my.domain", "", removed=True)), gone).status == 200
    assert unity.update(gone).status == 200


@covers(updateTable=200)
def test_derived_properties_sent_back_are_ignored(unity: Unity) -> None:
    sent = sets(**{"delta.lastUpdateVersion": "99", "delta.feature.madeUp": "supported", "delta.minReaderVersion": "1"})
    found = properties(unity.update(unity.commit(1), sent))
    assert found["delta.lastUpdateVersion"] == "0" and "delta.feature.madeUp" not in found
    assert found["delta.minReaderVersion"] == "3"


@covers(updateTable=200)
def test_a_user_defined_type_is_shown_as_what_files_hold(unity: Unity) -> None:
    """The API has no such types, and its clients would not read the table at all."""
    stored = {"type": "struct", "fields": [{"name": "x", "type": "double", "nullable": False, "metadata": {}}]}
    point = {"type": "udt", "class": "Point", "pyClass": None, "sqlType": stored}
    in_log = {
        "type": "struct",
        "fields": [*COLUMNS["fields"], {"name": "at", "type": point, "nullable": True, "metadata": {}}],
    }
    said = {
        "type": "struct",
        "fields": [*COLUMNS["fields"], {"name": "at", "type": stored, "nullable": True, "metadata": {}}],
    }
    answer = unity.update(
        unity.commit(1, metadata(in_log, **config(unity))), {"action": "set-columns", "columns": said}
    )
    assert answer.json["metadata"]["columns"] == said
    column = unity.get(f"{B}/tables/main.sales.t1").json["columns"][1]
    assert column["type_name"] == "USER_DEFINED_TYPE" and json.loads(column["type_json"])["type"] == point
