"""The Delta API: every rule of commits and of claimed backfill."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.actions import (
    CONFLICT,
    INVALID,
)
from tests.support.conformance.cases import covers
from tests.support.fakes import delta
from tests.support.unity import (
    T1,
    Unity,
    published,
    refused,
)


@pytest.fixture
def unity() -> Unity:
    made = Unity()
    made.create()
    return made


# -- add-commit -------------------------------------------------------------------------------------------------------


@covers(updateTable=200)
def test_a_commit_as_spark_sends_it_is_accepted_and_listed(unity: Unity) -> None:
    before = unity.get(T1).json
    proposed = unity.commit(1)
    answer = unity.update(proposed, published(0))
    assert answer.status == 200
    assert answer.json["commits"] == [proposed["commit"]]
    assert answer.json["latest-table-version"] == 1
    assert answer.json["metadata"] == before["metadata"]  # data only: etag, versions and all stay
    assert unity.get(T1).json == answer.json


@covers(updateTable=200)
def test_i1_i6_commits_come_newest_first_contiguous_and_complete(unity: Unity) -> None:
    for version in range(1, 15):  # more than the ten of the reference
        assert unity.update(unity.commit(version)).status == 200
    loaded = unity.get(T1).json
    assert [one["version"] for one in loaded["commits"]] == list(range(14, 0, -1))
    assert loaded["latest-table-version"] == 14
    unity.publish()
    loaded = unity.get(T1).json
    assert (loaded["commits"], loaded["latest-table-version"]) == ([], 14)


@covers(updateTable=200)
def test_i5_a_claimed_backfill_is_only_a_hint(unity: Unity) -> None:
    unity.update(unity.commit(1))
    answer = unity.update(unity.commit(2), published(1))
    assert [one["version"] for one in answer.json["commits"]] == [2, 1]
    assert unity.update(published(2)).json["commits"] == answer.json["commits"]


@covers(updateTable=(200, 400))
def test_i1_the_first_commit_is_version_1_whatever_backfill_it_claims(unity: Unity) -> None:
    refused(unity.update(unity.commit(2)), 400, INVALID)
    assert unity.update(unity.commit(1), published(99)).status == 200


@covers(updateTable=(200, 400))
def test_i1_a_gap_is_400(unity: Unity) -> None:
    unity.update(unity.commit(1))
    refused(unity.update(unity.commit(3)), 400, INVALID)


@covers(updateTable=(200, 409))
def test_i2_another_commit_of_an_accepted_version_is_409(unity: Unity) -> None:
    unity.update(unity.commit(1))
    message = refused(unity.update(unity.commit(1)), 409, CONFLICT)["message"]
    assert "Current table version is 1" in message


@covers(updateTable=(200, 409))
def test_i2_a_taken_version_is_409_though_the_losers_file_is_gone(unity: Unity) -> None:
    """Found by generated requests: the winner's name is known, so nothing is unknown here."""
    unity.update(unity.commit(1))
    late = unity.commit(1)
    late["commit"]["file-name"] = "00000000000000000001.gone.json"
    refused(unity.update(late), 409, CONFLICT)


@covers(updateTable=(200, 400))
def test_i7_a_timestamp_that_does_not_increase_is_400(unity: Unity) -> None:
    first = unity.commit(1)
    unity.update(first)
    refused(unity.update(unity.commit(2, ict=first["commit"]["timestamp"])), 400, INVALID)


@covers(updateTable=400)
def test_i7_a_timestamp_far_ahead_of_the_clock_is_400(unity: Unity) -> None:
    refused(unity.update(unity.commit(1, ict=unity.world.clock.now_ms() + 3_600_000)), 400, INVALID)


@covers(updateTable=400)
@pytest.mark.parametrize("member", ["version", "timestamp", "file-size", "file-modification-timestamp"])
@pytest.mark.parametrize("value", [0, -1, 2**63, 2**70, None, "1", 1.5])
def test_numbers_of_a_commit_are_positive(unity: Unity, member: str, value: Any) -> None:
    proposed = unity.commit(1)
    proposed["commit"][member] = value
    assert unity.update(proposed).status == 400
    del proposed["commit"][member]
    refused(unity.update(proposed), 400, INVALID)


@covers(updateTable=400)
@pytest.mark.parametrize("name", ["", "a/b", "a\\b", ".", "..", "x" * 256, "a\x00b", "a\nb"])
def test_a_file_name_is_a_plain_base_name(unity: Unity, name: str) -> None:
    proposed = unity.commit(1)
    proposed["commit"]["file-name"] = name
    refused(unity.update(proposed), 400, INVALID)


@covers(updateTable=200)
@pytest.mark.parametrize("name", ["any name.json", "00000000000000000007.x.json", "été", "no-extension"])
def test_i4_the_form_of_a_file_name_is_free_and_it_is_published(unity: Unity, name: str) -> None:
    answer = unity.update(unity.commit(1, name=name))
    assert answer.json["commits"][0]["file-name"] == name
    unity.publish()
    assert unity.get(T1).json["commits"] == []
    assert unity.update(unity.commit(2)).status == 200


@covers(updateTable=(200, 400))
def test_i10_a_file_of_an_earlier_version_is_not_ratified_under_its_old_name(unity: Unity) -> None:
    """It lost, so gc may remove it: named for version 1, which is published."""
    lost = unity.commit(1, txn="lost")
    unity.update(unity.commit(1))
    lost["commit"]["version"] = 2
    error = refused(unity.update(lost), 400, INVALID)
    assert "is named for version 1" in error["message"]
    assert unity.get(T1).json["latest-table-version"] == 1


@covers(updateTable=400)
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


@covers(updateTable=400)
@pytest.mark.parametrize("version", [0, 1])
def test_a_claimed_backfill_needs_a_commit_before_it(unity: Unity, version: int) -> None:
    refused(unity.update(published(version)), 400, INVALID)


@covers(updateTable=400)
@pytest.mark.parametrize("version", [3, 99, -1, 2**63])
def test_a_claimed_backfill_is_a_version_and_not_above_the_latest(unity: Unity, version: int) -> None:
    unity.update(unity.commit(1))
    unity.update(unity.commit(2))
    before = unity.rows()
    refused(unity.update(published(version)), 400, INVALID)
    assert unity.rows() == before


@covers(updateTable=200)
@pytest.mark.parametrize("version", [0, 1, 2])
def test_i5_a_claimed_backfill_writes_nothing_before_and_after_publication(unity: Unity, version: int) -> None:
    unity.update(unity.commit(1))
    unity.update(unity.commit(2))
    for _ in range(2):
        before = unity.rows()
        assert unity.update(published(version)).json["latest-table-version"] == 2
        assert unity.rows() == before
        unity.publish()


@covers(updateTable=(200, 400))
def test_with_a_commit_the_version_before_is_the_bound_of_a_claimed_backfill(unity: Unity) -> None:
    unity.update(unity.commit(1))
    refused(unity.update(unity.commit(2), published(2)), 400, INVALID)
    assert unity.update(unity.commit(2), published(1)).status == 200


@covers(updateTable=(200, 409))
def test_i3_a_loser_that_knows_more_to_be_published_gets_the_conflict(unity: Unity) -> None:
    """As recorded of Spark: it lists the log after it lost. A 400 would end its retries."""
    unity.update(first := unity.commit(1))
    unity.update(unity.commit(2))
    refused(unity.update(unity.commit(1), published(2)), 409, CONFLICT)
    refused(unity.update(unity.commit(2), published(2)), 409, CONFLICT)
    assert unity.update(first, published(2)).status == 200


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


@covers(updateTable=429)
def test_a_full_backlog_is_429_with_a_time_to_wait(unity: Unity) -> None:
    proposed = unity.commit(1)
    unity.world.refs.rows[unity.world.space.table(unity.uuid)]["bytes"] = 10**6
    answer = unity.update(proposed)
    refused(answer, 429, "ResourceExhaustedException")
    assert answer.headers["retry-after"] == "1"


@covers(updateTable=(200, 500))
def test_a_lost_answer_is_unknown_and_a_repetition_finds_out(unity: Unity, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnstile.store.core.errors import OutcomeUnknown

    proposed = unity.commit(1)
    write = unity.world.refs.write

    def lost(asked: Any) -> Any:
        write(asked)
        raise OutcomeUnknown("lost")

    monkeypatch.setattr(type(unity.world.refs), "write", lambda self, asked: lost(asked))
    refused(unity.update(proposed), 500, "CommitStateUnknownException")
    monkeypatch.undo()
    assert unity.update(proposed).json["latest-table-version"] == 1
