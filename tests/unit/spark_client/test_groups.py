"""Proposing a group until its outcome is known: applied once or not at all, and never "conflict"
for what may be applied (I3, I8)."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from tests.support.clients.scripted import LOST, Server, api, outcome, refused
from turnstile_http.errors import ApiError
from turnstile_spark.errors import TransactionConflict, TransactionOutcomeUnknown
from turnstile_spark.transactions.groups import Group, RatifiedGroup, ratify_group

GROUP = Group("g", "txn-1", {"id": "g", "commits": [{"table_id": "t", "version": 3}], "reads": []})
COMMIT = {"version": 3, "timestamp": 1, "name": "n", "modified": 1, "kind": "inline"}
ACCEPTED = httpx.Response(
    200, json={"outcome": "ratified", "id": "g", "commits": [{"table_id": "t", "commit": COMMIT}]}
)


@pytest.fixture(autouse=True)
def _jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's exceptions are made beside a JVM."""
    from pyspark import SparkContext
    from pyspark.errors.exceptions.captured import CapturedException

    monkeypatch.setattr(SparkContext, "_jvm", Mock())
    monkeypatch.setattr(CapturedException, "_log_exception", lambda _: None)


def conflict(*types: str) -> httpx.Response:
    members = [{"table_id": "t", "type": type, "message": f"{type}!", "latest": 9} for type in types]
    return httpx.Response(409, json={"error": {"type": "TransactionConflict", "message": "no", "members": members}})


def proposed(*answers: Any, deadline: float = 30.0, is_open: bool = False) -> tuple[RatifiedGroup, Server]:
    server = Server(*answers)
    return ratify_group(api(server), GROUP, deadline, is_open=is_open), server


def failed(*answers: Any, deadline: float = 30.0, is_open: bool = False) -> tuple[Exception, Server]:
    server = Server(*answers)
    with pytest.raises((ApiError, TransactionConflict, TransactionOutcomeUnknown)) as raised:
        ratify_group(api(server), GROUP, deadline, is_open=is_open)
    return raised.value, server


@pytest.mark.parametrize("status", [401, 403, 404])
def test_i3_an_outcome_that_may_not_be_asked_for_stays_unknown(status: int) -> None:
    error, _ = failed(LOST, refused("Refused", status), deadline=0.05)
    assert isinstance(error, TransactionOutcomeUnknown)


def test_i3_a_lost_answer_is_asked_for_by_the_same_group() -> None:
    for lost in (LOST, refused("OutcomeUnknown", 503), httpx.Response(502, text="gateway")):
        ratified, server = proposed(lost, lost, ACCEPTED)
        assert (ratified.commits["t"].version, ratified.requests) == (3, 3)
        assert server.bodies == [GROUP.body] * 3


def test_i8_a_conflict_names_its_members_and_is_reported_at_once() -> None:
    error, server = failed(conflict("CommitVersionConflict", "StaleMetadata"))
    assert isinstance(error, TransactionConflict)
    assert [member["type"] for member in error.members] == ["CommitVersionConflict", "StaleMetadata"]
    assert "StaleMetadata!" in str(error)
    assert len(server.sent) == 1


def test_i3_a_version_that_is_anothers_is_final_also_after_a_lost_answer() -> None:
    error, server = failed(LOST, conflict("StaleMetadata", "CommitVersionConflict"))
    assert isinstance(error, TransactionConflict)
    assert server.sent == ["POST transactions"] * 2


@pytest.mark.parametrize(
    "answer", [conflict("StaleMetadata"), refused("InvalidCommit", 400), refused("NoSuchTable", 404)]
)
def test_i3_any_other_refusal_after_a_lost_answer_is_checked_against_the_outcome(answer: httpx.Response) -> None:
    ratified, server = proposed(LOST, answer, outcome("ratified"), ACCEPTED)
    assert ratified.commits["t"].version == 3
    assert server.sent == ["POST transactions", "POST transactions", "GET outcome", "POST transactions"]
    error, _ = failed(LOST, answer, outcome("never"))
    assert not isinstance(error, TransactionOutcomeUnknown)
    error, server = failed(answer, outcome("open"), answer, outcome("open"), LOST, is_open=True, deadline=0.05)
    assert isinstance(error, TransactionOutcomeUnknown)


def test_i3_an_outcome_without_evidence_is_unknown() -> None:
    error, _ = failed(LOST, deadline=0.05)
    assert isinstance(error, TransactionOutcomeUnknown)
    assert error.id == "g" and "transaction g" in str(error)


def test_a_server_that_was_never_reached_has_applied_nothing() -> None:
    error, _ = failed(httpx.ConnectError("refused"), deadline=0.05)
    assert isinstance(error, ApiError) and error.type == "Unreachable"
    error, _ = failed(httpx.ConnectError("refused"), deadline=0.05, is_open=True)
    assert isinstance(error, TransactionOutcomeUnknown)
