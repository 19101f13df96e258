"""Proposing a commit until its outcome is known: never "conflict" or "try again" for what is
ratified, or may be (I3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.support.clients.scripted import LOST, Server, api, outcome, refused
from turnstile_http.errors import ApiError
from turnstile_http.proposals import OutcomeUnknown, Proposal, Ratified, ratify

PROPOSAL = Proposal("t", 3, "txn-3", {"version": 3, "inline": {"content": "{}\n", "name": "n"}})
COMMIT = {"version": 3, "timestamp": 1, "name": "n", "modified": 1, "kind": "inline"}
ACCEPTED = httpx.Response(200, json={"outcome": "ratified", "commit": COMMIT, "latest": 4, "etag": "e"})


def listed(*commits: Any) -> httpx.Response:
    return httpx.Response(200, json={"commits": list(commits), "latest": 4, "floor": 0, "etag": "e"})


def proposed(*answers: httpx.Response | Exception, deadline: float = 30.0) -> tuple[Ratified, Server]:
    server = Server(*answers)
    return ratify(api(server), PROPOSAL, deadline), server


def failed(*answers: httpx.Response | Exception, deadline: float = 30.0) -> tuple[Exception, Server]:
    server = Server(*answers)
    with pytest.raises((ApiError, OutcomeUnknown)) as raised:
        ratify(api(server), PROPOSAL, deadline)
    return raised.value, server


def test_i3_a_lost_answer_is_asked_for_by_the_same_proposal() -> None:
    for lost in (LOST, refused("OutcomeUnknown", 503), httpx.Response(502, text="gateway")):
        ratified, server = proposed(lost, lost, ACCEPTED)
        assert (ratified.commit.version, ratified.latest) == (3, 4)
        assert server.sent == ["POST commits"] * 3
        assert server.bodies == [PROPOSAL.body] * 3


@pytest.mark.parametrize("type", ["CommitVersionConflict", "StaleMetadata", "InvalidCommit", "TableNotActive"])
def test_a_refusal_is_reported_at_once_when_nothing_was_lost(type: str) -> None:
    error, server = failed(refused(type))
    assert isinstance(error, ApiError) and error.type == type
    assert server.sent == ["POST commits"]


def test_i3_a_conflict_is_final_whatever_was_lost() -> None:
    error, server = failed(LOST, refused("CommitVersionConflict"))
    assert isinstance(error, ApiError) and error.type == "CommitVersionConflict"
    assert server.sent == ["POST commits"] * 2


@pytest.mark.parametrize("type", ["StaleMetadata", "ConcurrentChange", "ReloadRequired", "TableNotActive"])
def test_i3_any_other_refusal_behind_a_lost_answer_is_decided_by_the_outcome(type: str) -> None:
    """Delta would rebase what was refused, and commit it a second time."""
    ratified, server = proposed(LOST, refused(type), outcome("ratified"), listed(COMMIT))
    assert ratified.commit.version == 3
    assert server.sent == ["POST commits", "POST commits", "GET outcome", "GET commits"]
    error, _ = failed(LOST, refused(type), outcome("never"))
    assert isinstance(error, ApiError) and error.type == type
    ratified, server = proposed(LOST, refused(type), outcome("open"), ACCEPTED)
    assert server.sent == ["POST commits", "POST commits", "GET outcome", "POST commits"], "an earlier one may land"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_i3_an_outcome_that_may_not_be_asked_for_stays_unknown(status: int) -> None:
    """The token has expired meanwhile, the right is revoked, the table is purged."""
    error, _ = failed(LOST, refused("Refused", status), deadline=0.05)
    assert isinstance(error, OutcomeUnknown)
    ratified, _ = proposed(LOST, refused("Refused", status), refused("Refused", status), ACCEPTED)
    assert ratified.commit.version == 3


def test_i3_a_ratified_commit_that_has_left_the_tail_is_asked_for_again() -> None:
    ratified, server = proposed(LOST, refused("StaleMetadata"), outcome("ratified"), listed(), ACCEPTED)
    assert ratified.commit.version == 3
    assert server.sent[-1] == "POST commits"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_i3_a_ratified_commit_that_may_not_be_read_is_never_reported_as_refused(status: int) -> None:
    """Delta would rebase what is ratified, and commit it a second time."""
    told = (LOST, refused("StaleMetadata"), outcome("ratified"), refused("Refused", status))
    error, _ = failed(*told, deadline=0.05)
    assert isinstance(error, OutcomeUnknown)
    ratified, server = proposed(*told, ACCEPTED)
    assert ratified.commit.version == 3
    assert server.sent[-1] == "POST commits"


def test_i3_when_time_is_up_the_outcome_is_unknown_if_an_answer_was_lost() -> None:
    answers: Sequence[Any]
    for answers in ((LOST,), (LOST, refused("Throttled", 429)), (LOST, httpx.ConnectError("down"))):
        error, _ = failed(*answers, deadline=0.05)
        assert isinstance(error, OutcomeUnknown), answers
        assert "txn_id='txn-3', version=3" in str(error)


def test_i3_when_time_is_up_and_nothing_was_lost_nothing_was_changed() -> None:
    for answer in (refused("Throttled", 429), httpx.ConnectError("down"), refused("StorageFault", 503)):
        error, _ = failed(answer, deadline=0.05)
        assert isinstance(error, ApiError) and error.transient and not error.ambiguous
