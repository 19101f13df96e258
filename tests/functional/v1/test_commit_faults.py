"""Faults of the stores during a commit: the answer is true, and the client can always find out the
outcome (I2, I3)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.lake import Lake, make_lake
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled
from turnstile.store.core.writes import Write
from turnstile.store.ports import Rejected


@pytest.fixture
def lake() -> Lake:
    return make_lake()


def lose_the_answer(lake: Lake, *, applied: bool) -> list[Write]:
    """The next write's answer is lost, after or before the store saw it. What was sent is in the
    list returned."""
    refs = lake.world.refs
    sent: list[Write] = []

    def write(one: Write) -> Any:
        sent.append(one)
        del refs.write  # only this once
        if applied:
            refs.write(one)
        raise OutcomeUnknown("the connection was reset")

    refs.write = write  # type: ignore[method-assign]
    return sent


@pytest.mark.parametrize("version", [1, None])
def test_i3_an_unknown_outcome_is_said_to_be_unknown_and_the_same_request_resolves_it(
    lake: Lake, version: int | None
) -> None:
    content = delta.append("t1", lake.now())
    lose_the_answer(lake, applied=True)
    lost = lake.inline(version, content, base=0)
    assert (lost.status, lost.error["type"]) == (500, "CommitStateUnknown")
    assert "same request" in lost.error["remedy"]
    assert lake.get("outcome", txn_id="t1").json == {"outcome": "ratified", "version": 1, "latest": 1}
    again = lake.inline(version, content, base=0)
    assert (again.json["outcome"], again.json["commit"]["version"]) == ("replayed", 1)


def test_i3_an_unknown_outcome_that_did_not_happen_stays_open_until_another_commit_is_that_version(lake: Lake) -> None:
    content = delta.append("t1", lake.now())
    lose_the_answer(lake, applied=False)
    assert lake.inline(1, content).status == 500
    assert lake.get("outcome", txn_id="t1", version=1).json == {"outcome": "open", "latest": 0}
    assert lake.append(1, "t2").status == 200
    assert lake.get("outcome", txn_id="t1", version=1).json == {"outcome": "never", "latest": 1}


def test_i2_a_write_that_lands_late_finds_its_place_taken(lake: Lake) -> None:
    sent = lose_the_answer(lake, applied=False)
    lake.append(1, "t1")
    assert lake.append(1, "t2").status == 200
    before = lake.state()
    lake.world.refs.write(sent[0])
    assert lake.state() == before
    assert lake.get("outcome", txn_id="t1", version=1).json["outcome"] == "never"


def test_a_throttled_commit_was_not_applied_and_says_when_to_come_back(lake: Lake) -> None:
    def throttled(*_: Any) -> None:
        raise Throttled(retry_after_ms=300)

    lake.world.refs.write = throttled  # type: ignore[method-assign,assignment]
    before = lake.state()
    answer = lake.append(1, "t1")
    assert (answer.status, answer.error["type"], answer.error["retry_after_ms"]) == (429, "Throttled", 300)
    assert lake.state() == before


def test_a_fault_of_table_storage_is_no_verdict_on_the_commit(lake: Lake) -> None:
    staged = lake.stage(1, delta.append("t1", lake.now()))
    storages = lake.world.storages
    real = type(storages).open

    def broken(location: str) -> Any:
        raise StorageFault("the bucket cannot be reached", remedy="try again")

    storages.open = broken  # type: ignore[method-assign]
    before = lake.state()
    answer = lake.propose({"version": 1, "staged": staged})
    assert (answer.status, answer.error["type"]) == (503, "StorageFault")
    assert answer.error["retry_after_ms"] > 0
    assert lake.state() == before
    storages.open = real.__get__(storages)  # type: ignore[method-assign]
    assert lake.propose({"version": 1, "staged": staged}).json["outcome"] == "ratified"


@pytest.mark.parametrize("fault", [StorageFault("the log cannot be read"), Throttled()])
def test_i3_a_replay_that_cannot_be_shown_is_unknown_and_not_said_to_have_changed_nothing(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """A 429 or 503 tells that this request ratified nothing: a client that sends again by itself
    would believe it."""
    content = delta.append("t1", lake.now())
    assert lake.inline(None, content, base=0).status == 200

    def broken(*_: Any) -> None:
        raise fault

    monkeypatch.setattr(lake.world.refs, "read", broken)
    again = lake.inline(None, content, base=0)
    assert (again.status, again.error["type"]) == (500, "CommitStateUnknown")
    monkeypatch.undo()
    assert lake.inline(None, content, base=0).json["outcome"] == "replayed"


def test_i3_a_refusal_behind_a_lost_answer_is_unknown_over_http(lake: Lake) -> None:
    """The table is stuck for a moment; the attempt whose answer was lost lands when it is not."""
    sent: list[Write] = []
    real = lake.world.refs.write

    def late(one: Write) -> Any:
        sent.append(one)
        lake.set(state="stuck", reason="version 1: gone")
        answer = real(one)
        assert isinstance(answer, Rejected)
        return Rejected(answer.row, uncertain=True)

    lake.world.refs.write = late  # type: ignore[method-assign]
    content = delta.append("t1", lake.now())
    answer = lake.inline(1, content)
    assert (answer.status, answer.error["type"]) == (500, "CommitStateUnknown")
    assert "stuck" in answer.error["message"]
    lake.set(state="active")
    real(sent[0])
    lake.world.refs.write = real  # type: ignore[method-assign]
    assert lake.inline(1, content).json["outcome"] == "replayed"


def test_an_unforeseen_error_is_500_without_a_word_about_the_inside(lake: Lake) -> None:
    def bug(*_: Any) -> None:
        raise ZeroDivisionError("secret")

    lake.world.refs.write = bug  # type: ignore[method-assign,assignment]
    answer = lake.append(1, "t1")
    assert (answer.status, answer.error["type"]) == (500, "InternalError")
    assert "secret" not in answer.text
    assert answer.error["correlation"] == answer.headers["x-correlation-id"]


def test_a_metadata_commit_that_meets_a_throttle_between_its_steps_can_be_sent_again(lake: Lake) -> None:
    content = delta.lines(delta.info("t1", lake.now()), delta.metadata(owner="me"))
    real = lake.world.refs.write

    def throttled(*_: Any) -> None:
        lake.world.refs.write = real  # type: ignore[method-assign]
        raise Throttled

    lake.world.refs.write = throttled  # type: ignore[method-assign,assignment]
    assert lake.inline(1, content).status == 429
    assert lake.head.latest == 0
    assert lake.inline(1, content).json["outcome"] == "ratified"


def test_two_metadata_commits_from_the_same_version_have_one_winner(lake: Lake) -> None:
    """Between the second one's read and its write the first one is ratified (I2)."""
    first = delta.lines(delta.info("t1", lake.now()), delta.metadata(owner="one"))
    second = delta.lines(delta.info("t2", lake.now()), delta.metadata(owner="two"))
    real = lake.world.refs.write

    def interrupted(one: Write) -> Any:
        lake.world.refs.write = real  # type: ignore[method-assign]
        assert lake.inline(1, first).status == 200
        return real(one)

    lake.world.refs.write = interrupted  # type: ignore[method-assign]
    assert lake.inline(1, second).error["type"] == "CommitVersionConflict"
    loaded = lake.http.get("/v1/catalogs/main/namespaces/sales/tables/orders").json
    assert loaded["metadata"]["properties"]["owner"] == "one"
