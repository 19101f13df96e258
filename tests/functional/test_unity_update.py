"""Unity's Delta API: every action of an update, alone and combined, every rule of commits and backfill, and replays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import delta
from tests.functional.http import Answer
from tests.functional.unity_kit import COLUMNS, SCHEMA, T1, Unity, api_protocol, metadata, protocol, published, refused

INVALID = "InvalidParameterValueException"
CONFLICT = "CommitVersionConflictException"
REQUIREMENT = "UpdateRequirementConflictException"
WIDER: dict[str, Any] = {
    "type": "struct",
    "fields": [*COLUMNS["fields"], {"name": "extra", "type": "integer", "nullable": True, "metadata": {}}],
}


@pytest.fixture
def unity() -> Unity:
    made = Unity()
    made.create()
    return made


def properties(answer: Answer) -> dict[str, str]:
    assert answer.status == 200, answer.text
    return dict(answer.json["metadata"]["properties"])


def etag(answer: Answer) -> str:
    assert answer.status == 200, answer.text
    return str(answer.json["metadata"]["etag"])


def sets(**values: str) -> dict[str, Any]:
    return {"action": "set-properties", "updates": values}


def config(unity: Unity, **more: str) -> dict[str, str]:
    return {"io.unitycatalog.tableId": unity.uuid, **more}


def domain(name: str, configuration: str, *, removed: bool = False) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": configuration, "removed": removed}}


# -- add-commit -------------------------------------------------------------------------------------------------------


def test_a_commit_as_spark_sends_it_is_accepted_and_listed(unity: Unity) -> None:
    before = unity.get(T1).json
    proposed = unity.commit(1)
    answer = unity.update(proposed, published(0))
    assert answer.status == 200
    assert answer.json["commits"] == [proposed["commit"]]
    assert answer.json["latest-table-version"] == 1
    assert answer.json["metadata"] == before["metadata"]  # data only: etag, versions and all stay
    assert unity.get(T1).json == answer.json


def test_i1_i6_commits_come_newest_first_contiguous_and_complete(unity: Unity) -> None:
    for version in range(1, 15):  # more than the ten of the reference
        assert unity.update(unity.commit(version)).status == 200
    loaded = unity.get(T1).json
    assert [one["version"] for one in loaded["commits"]] == list(range(14, 0, -1))
    assert loaded["latest-table-version"] == 14
    unity.publish()
    loaded = unity.get(T1).json
    assert (loaded["commits"], loaded["latest-table-version"]) == ([], 14)


def test_i5_a_claimed_backfill_is_only_a_hint(unity: Unity) -> None:
    unity.update(unity.commit(1))
    answer = unity.update(unity.commit(2), published(1))
    assert [one["version"] for one in answer.json["commits"]] == [2, 1]
    assert unity.update(published(2)).json["commits"] == answer.json["commits"]


def test_i1_the_first_commit_is_version_1_whatever_backfill_it_claims(unity: Unity) -> None:
    refused(unity.update(unity.commit(2)), 400, INVALID)
    assert unity.update(unity.commit(1), published(99)).status == 200


def test_i1_a_gap_is_400(unity: Unity) -> None:
    unity.update(unity.commit(1))
    refused(unity.update(unity.commit(3)), 400, INVALID)


def test_i2_another_commit_of_an_accepted_version_is_409(unity: Unity) -> None:
    unity.update(unity.commit(1))
    message = refused(unity.update(unity.commit(1)), 409, CONFLICT)["message"]
    assert "Current table version is 1" in message


def test_i7_a_timestamp_that_does_not_increase_is_400(unity: Unity) -> None:
    first = unity.commit(1)
    unity.update(first)
    refused(unity.update(unity.commit(2, ict=first["commit"]["timestamp"])), 400, INVALID)


def test_i7_a_timestamp_far_ahead_of_the_clock_is_400(unity: Unity) -> None:
    refused(unity.update(unity.commit(1, ict=unity.world.clock.now_ms() + 3_600_000)), 400, INVALID)


@pytest.mark.parametrize("member", ["version", "timestamp", "file-size", "file-modification-timestamp"])
@pytest.mark.parametrize("value", [0, -1, 2**63, 2**70, None, "1", 1.5])
def test_numbers_of_a_commit_are_positive(unity: Unity, member: str, value: Any) -> None:
    proposed = unity.commit(1)
    proposed["commit"][member] = value
    assert unity.update(proposed).status == 400
    del proposed["commit"][member]
    refused(unity.update(proposed), 400, INVALID)


@pytest.mark.parametrize("name", ["", "a/b", "a\\b", ".", "..", "x" * 256, "a\x00b", "a\nb"])
def test_a_file_name_is_a_plain_base_name(unity: Unity, name: str) -> None:
    proposed = unity.commit(1)
    proposed["commit"]["file-name"] = name
    refused(unity.update(proposed), 400, INVALID)


@pytest.mark.parametrize("name", ["any name.json", "00000000000000000007.x.json", "été", "no-extension"])
def test_i4_the_form_of_a_file_name_is_free_and_it_is_published(unity: Unity, name: str) -> None:
    answer = unity.update(unity.commit(1, name=name))
    assert answer.json["commits"][0]["file-name"] == name
    unity.publish()
    assert unity.get(T1).json["commits"] == []
    assert unity.update(unity.commit(2)).status == 200


def test_a_staged_file_that_is_not_there_or_has_another_size_is_400(unity: Unity) -> None:
    proposed = unity.commit(1)
    proposed["commit"]["file-size"] += 1
    refused(unity.update(proposed), 400, INVALID)
    proposed["commit"]["file-name"] = "00000000000000000001.gone.json"
    refused(unity.update(proposed), 400, INVALID)


def test_inline_commits_have_their_files_before_they_are_listed(unity: Unity) -> None:
    content = delta.append("inline", unity.world.clock.now_ms()).decode()
    inline = {"version": 1, "inline": {"content": content}}
    assert unity.hot.post(f"/v1/tables/{unity.uuid}/commits", inline).status == 200
    (found,) = unity.get(T1).json["commits"]
    location = unity.get(T1).json["metadata"]["location"]
    path = f"{location}/_delta_log/_staged_commits/{found['file-name']}"
    assert unity.world.storages.files[path][0] == content.encode()
    assert found["file-size"] == len(content)


# -- backfill alone ---------------------------------------------------------------------------------------------------


def test_a_claimed_backfill_alone(unity: Unity) -> None:
    refused(unity.update(published(0)), 400, INVALID)  # needs a commit before
    unity.update(unity.commit(1))
    before = unity.rows()
    assert unity.update(published(1)).json["latest-table-version"] == 1
    assert unity.update(published(0)).status == 200
    refused(unity.update(published(2)), 400, INVALID)
    refused(unity.update(published(-1)), 400, INVALID)
    assert unity.rows() == before


def test_with_a_commit_the_version_before_is_the_bound_of_a_claimed_backfill(unity: Unity) -> None:
    unity.update(unity.commit(1))
    refused(unity.update(unity.commit(2), published(2)), 400, INVALID)
    assert unity.update(unity.commit(2), published(1)).status == 200


# -- replays ----------------------------------------------------------------------------------------------------------


def test_i3_a_replay_is_a_no_op_of_the_whole_request(unity: Unity) -> None:
    first = unity.commit(1)
    assert unity.update(first).status == 200
    unity.update(unity.commit(2))
    before = unity.rows()
    answer = unity.update(first, published(0), sets(other="1"), etag="stale")
    assert (answer.status, answer.json["latest-table-version"]) == (200, 2)
    assert "other" not in properties(answer)
    assert unity.rows() == before


def test_i3_a_replay_of_a_metadata_change_is_a_no_op_too(unity: Unity) -> None:
    change = sets(mine="1")
    old = etag(unity.get(T1))
    proposed = unity.commit(1, metadata(**config(unity, mine="1")))
    assert unity.update(proposed, change, etag=old).status == 200
    answer = unity.update(proposed, change, etag=old)
    assert properties(answer)["mine"] == "1" and answer.json["latest-table-version"] == 1


def test_i3_a_replay_long_after_publication_is_known_by_the_index(unity: Unity) -> None:
    first = unity.commit(1)
    unity.update(first)
    for version in range(2, 9):
        unity.update(unity.commit(version))
        unity.publish()
    assert unity.head().tail_from > 1
    assert unity.update(first, etag="stale").json["latest-table-version"] == 8
    unity.world.storages.files.pop(
        f"{unity.head().location}/_delta_log/_staged_commits/{first['commit']['file-name']}"
    )  # gc took it meanwhile
    assert unity.update(first).status == 200


def test_i3_where_nobody_remembers_names_contents_are_compared(unity: Unity) -> None:
    first = unity.commit(1)
    unity.update(first)
    for version in range(2, 9):
        unity.update(unity.commit(version))
        unity.publish()
    objs = unity.world.objs.rows
    for key in [key for key in objs if "identity/" in str(key)]:
        objs.pop(key)
    assert unity.update(first).status == 200
    refused(unity.update(unity.commit(1, txn="other")), 409, CONFLICT)
    name = first["commit"]["file-name"]
    staged = f"{unity.head().location}/_delta_log/_staged_commits/{name}"
    content = unity.world.storages.files.pop(staged)
    refused(unity.update(first), 500, "CommitStateUnknownException")
    unity.world.storages.files[staged] = content
    unity.world.storages.files.pop(f"{unity.head().location}/_delta_log/{1:020d}.json")
    refused(unity.update(first), 500, "CommitStateUnknownException")


def test_i3_a_transaction_that_is_another_version_already_is_final(unity: Unity) -> None:
    """Rebasing it would write it twice, so it is no conflict."""
    unity.update(unity.commit(1, txn="mine"))
    refused(unity.update(unity.commit(2, txn="mine")), 400, INVALID)
    assert unity.get(T1).json["latest-table-version"] == 1


# -- requirements -----------------------------------------------------------------------------------------------------


def test_the_uuid_must_be_asserted_and_right(unity: Unity) -> None:
    proposed = unity.commit(1)
    refused(unity.post(T1, {"requirements": [], "updates": [proposed]}), 400, INVALID)
    wrong = {"type": "assert-etag", "etag": "x"}
    refused(unity.post(T1, {"requirements": [wrong], "updates": [proposed]}), 400, INVALID)
    other = "99999999-9999-4999-8999-999999999999"
    refused(unity.update(proposed, uuid=other), 409, REQUIREMENT)


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


def test_nothing_is_both_set_and_removed(unity: Unity) -> None:
    refused(unity.update(sets(a="1"), {"action": "remove-properties", "removals": ["a"]}), 400, INVALID)
    clustering = {"delta.clustering": {"clusteringColumns": []}}
    both = (
        {"action": "set-domain-metadata", "updates": clustering},
        {"action": "remove-domain-metadata", "domains": ["delta.clustering"]},
    )
    refused(unity.update(*both), 400, INVALID)


def test_an_update_of_what_is_missing_is_404(unity: Unity) -> None:
    proposed = unity.commit(1)
    refused(unity.update(proposed, path=f"{SCHEMA}/tables/t2"), 404, "NoSuchTableException")
    refused(unity.update(proposed, path=T1.replace("sales", "nope")), 404, "NoSuchSchemaException")
    refused(unity.update(proposed, path=T1.replace("main", "nope")), 404, "NoSuchCatalogException")


# -- metadata with a commit -------------------------------------------------------------------------------------------


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


def test_the_reference_removes_a_property_with_its_commit(unity: Unity) -> None:
    unity.update(unity.commit(1, metadata(**config(unity, mine="1"))), sets(mine="1"))
    removal = {"action": "remove-properties", "removals": ["mine"]}
    assert "mine" not in properties(unity.update(unity.commit(2, metadata(**config(unity))), removal))


def test_clustering_can_be_emptied_and_removed(unity: Unity) -> None:
    features = ("clustering", "domainMetadata")
    cluster = {"action": "set-domain-metadata", "updates": {"delta.clustering": {"clusteringColumns": []}}}
    first = unity.commit(1, protocol(*features), domain("delta.clustering", '{"clusteringColumns":[]}'))
    assert properties(unity.update(first, cluster))["clusteringColumns"] == "[]"
    gone = unity.commit(2, domain("delta.clustering", "", removed=True))
    answer = unity.update(gone, {"action": "remove-domain-metadata", "domains": ["delta.clustering"]})
    assert "clusteringColumns" not in properties(answer)


def test_row_tracking_alone_leaves_etag_and_last_update_as_they_are() -> None:
    unity = Unity()
    unity.create("t1", "rowTracking", "domainMetadata")
    old = unity.get(T1)
    mark = {"action": "set-domain-metadata", "updates": {"delta.rowTracking": {"rowIdHighWaterMark": 4}}}
    answer = unity.update(unity.commit(1, domain("delta.rowTracking", '{"rowIdHighWaterMark":4}')), mark)
    assert etag(answer) == etag(old)
    assert properties(answer) == properties(old) | {"delta.rowTracking.rowIdHighWaterMark": "4"}


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
        {"action": "remove-domain-metadata", "domains": ["other"]},
        {"action": "set-columns", "columns": {"type": "struct", "fields": []}},
        {"action": "update-metadata-snapshot-version", "last-commit-version": 1, "last-commit-timestamp-ms": 1},
    ],
)
def test_i9_what_the_commits_file_does_not_say_is_refused(unity: Unity, action: Any) -> None:
    proposed, before = unity.commit(1), unity.rows()
    refused(unity.update(proposed, action), 400, INVALID)
    refused(unity.update(action), 400, INVALID)
    assert unity.rows() == before


def test_derived_properties_sent_back_are_ignored(unity: Unity) -> None:
    sent = sets(**{"delta.lastUpdateVersion": "99", "delta.feature.madeUp": "supported", "delta.minReaderVersion": "1"})
    found = properties(unity.update(unity.commit(1), sent))
    assert found["delta.lastUpdateVersion"] == "0" and "delta.feature.madeUp" not in found
    assert found["delta.minReaderVersion"] == "3"


# -- metadata without a commit ----------------------------------------------------------------------------------------


def test_a_comment_and_own_properties_are_kept_beside_the_log(unity: Unity) -> None:
    old = etag(unity.get(T1))
    answer = unity.update(sets(team="a"), {"action": "set-table-comment", "comment": "hello"})
    assert properties(answer)["team"] == "a" and etag(answer) != old
    assert unity.get(f"{T1.split('/delta')[0]}/tables/main.sales.t1").json["comment"] == "hello"
    again = unity.update(sets(team="a"))
    assert etag(again) == etag(answer)
    gone = unity.update({"action": "remove-properties", "removals": ["team"]})
    assert "team" not in properties(gone)
    assert unity.update({"action": "set-table-comment", "comment": None}).status == 200
    assert unity.get(f"{T1.split('/delta')[0]}/tables/main.sales.t1").json["comment"] is None


def test_what_is_beside_the_log_stays_through_commits(unity: Unity) -> None:
    unity.update(sets(team="a"))
    unity.update(unity.commit(1, metadata(**config(unity, mine="1"))), sets(mine="1"))
    answer = unity.update(unity.commit(2))
    assert (properties(answer)["team"], properties(answer)["mine"]) == ("a", "1")


def test_maintenance_is_a_policy_of_the_table(unity: Unity) -> None:
    answer = unity.update(sets(**{"turnstile.allowed-maintenance": "data_reorganization"}))
    assert answer.json["allowed-maintenance-operations"] == ["DATA_REORGANIZATION"]
    answer = unity.update(sets(**{"turnstile.allowed-maintenance": ""}))
    assert answer.json["allowed-maintenance-operations"] == []


# -- UniForm ----------------------------------------------------------------------------------------------------------


def iceberg(unity: Unity, version: int) -> dict[str, Any]:
    location = unity.get(T1).json["metadata"]["location"]
    return {
        "iceberg": {
            "metadata-location": f"{location}/metadata/{version}.json",
            "converted-delta-version": version,
            "converted-delta-timestamp": 1,
        }
    }


def test_uniform_rides_with_every_commit_exactly_when_the_table_has_it(unity: Unity) -> None:
    refused(unity.update(unity.commit(1) | {"uniform": iceberg(unity, 1)}), 400, INVALID)
    formats = {"delta.universalFormat.enabledFormats": "iceberg"}
    enabling = unity.commit(1, metadata(**config(unity, **formats)))
    refused(unity.update(enabling, sets(**formats)), 400, INVALID)
    first = unity.update(enabling | {"uniform": iceberg(unity, 1)}, sets(**formats))
    assert first.json["uniform"] == iceberg(unity, 1)
    refused(unity.update(unity.commit(2)), 400, INVALID)
    refused(unity.update(unity.commit(2) | {"uniform": iceberg(unity, 3)}), 400, INVALID)
    elsewhere = iceberg(unity, 2)
    elsewhere["iceberg"]["metadata-location"] = "s3://elsewhere/x"
    refused(unity.update(unity.commit(2) | {"uniform": elsewhere}), 400, INVALID)
    second = unity.update(unity.commit(2) | {"uniform": iceberg(unity, 2)}, etag=etag(first))
    assert second.json["uniform"] == iceberg(unity, 2)
    assert etag(second) == etag(first)
    assert second.json["metadata"]["last-commit-version"] == 1


# -- states and faults ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "status", "type"),
    [
        ("leaving", 400, INVALID),
        ("stuck", 429, "ResourceExhaustedException"),
        ("recovering", 429, "TooManyRequestsException"),
    ],
)
def test_a_table_that_takes_no_commits_is_no_conflict(unity: Unity, state: str, status: int, type: str) -> None:
    proposed = unity.commit(1)
    unity.world.refs.rows[unity.world.space.table(unity.uuid)]["state"] = state
    refused(unity.update(proposed), status, type)


def test_a_full_backlog_is_429_with_a_time_to_wait(unity: Unity) -> None:
    proposed = unity.commit(1)
    unity.world.refs.rows[unity.world.space.table(unity.uuid)]["bytes"] = 10**6
    answer = unity.update(proposed)
    refused(answer, 429, "ResourceExhaustedException")
    assert answer.headers["retry-after"] == "1"


def test_a_lost_answer_is_unknown_and_a_repetition_finds_out(unity: Unity, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnstile.core.errors import OutcomeUnknown

    proposed, write = unity.commit(1), unity.world.refs.write

    def lost(asked: Any) -> Any:
        write(asked)
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(type(unity.world.refs), "write", lambda self, asked: lost(asked))
    refused(unity.update(proposed), 500, "CommitStateUnknownException")
    monkeypatch.undo()
    assert unity.update(proposed).json["latest-table-version"] == 1
