"""Unity's Delta API: every rule of commits, claimed backfill and replays."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes import delta
from tests.functional.http import Answer
from tests.functional.unity_kit import COLUMNS, T1, Unity, metadata, published, refused

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


def test_i2_a_taken_version_is_409_though_the_losers_file_is_gone(unity: Unity) -> None:
    """Found by generated requests: the winner's name is known, so nothing is unknown here."""
    unity.update(unity.commit(1))
    late = unity.commit(1)
    late["commit"]["file-name"] = "00000000000000000001.gone.json"
    refused(unity.update(late), 409, CONFLICT)


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


def test_i3_a_loser_that_knows_more_to_be_published_is_told_of_the_conflict(unity: Unity) -> None:
    """As recorded of Spark: it lists the log after it lost. A 400 would end its retries."""
    unity.update(first := unity.commit(1))
    unity.update(unity.commit(2))
    refused(unity.update(unity.commit(1), published(2)), 409, CONFLICT)
    refused(unity.update(unity.commit(2), published(2)), 409, CONFLICT)
    assert unity.update(first, published(2)).status == 200


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
