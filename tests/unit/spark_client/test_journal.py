"""A transaction is announced, and withdrawn after a refusal. The client reports only outcomes that
are still possible (I3)."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import httpx
import pytest

from tests.support.clients.scripted import LOST, Server, api, refused
from turnstile_http.errors import ApiError
from turnstile_spark.errors import TransactionConflict, TransactionOutcomeUnknown, TurnstileError
from turnstile_spark.transactions.conflicts.fold import with_participants
from turnstile_spark.transactions.groups import Group, ratify_group
from turnstile_spark.transactions.journal import AnnouncedTransaction, Announcer

BODY = {"id": "g", "commits": [{"table_id": "t", "version": 3}], "reads": [], "journal": True}
GROUP = Group("g", "txn-1", BODY)
ENTRY = {
    "id": "g", "state": "open", "commits": [{"table_id": "t", "version": 3}],
    "reads": [{"table_id": "r", "version": 1}],
    "isolation": "snapshot", "owner": "ann", "attempt": 1, "created": 1_000, "until": 2_000,
}  # fmt: skip
OK = httpx.Response(200, json=ENTRY)


@pytest.fixture(autouse=True)
def _jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's exceptions are made beside a JVM."""
    from pyspark import SparkContext
    from pyspark.errors.exceptions.captured import CapturedException

    monkeypatch.setattr(SparkContext, "_jvm", Mock())
    monkeypatch.setattr(CapturedException, "_log_exception", lambda _: None)


def announcer(*answers: Any) -> tuple[Announcer, Server]:
    server = Server(*answers)
    return Announcer(api(server), "snapshot"), server


def test_every_set_of_commits_is_an_attempt_and_the_same_again_is_none() -> None:
    journal, server = announcer(OK, OK, OK)
    other = Group("g", "txn-1", {**BODY, "commits": [{"table_id": "t", "version": 4}]})
    for group in (GROUP, GROUP, other):
        journal.announce(group, 5)
    assert [body["attempt"] for body in server.bodies] == [1, 1, 2]
    assert server.bodies[0] == {
        "commits": BODY["commits"], "reads": [], "attempt": 1, "isolation": "snapshot"
    }  # fmt: skip


def test_changes_of_the_catalog_are_announced_there() -> None:
    journal, server = announcer(OK)
    changes = [{"change": "create_namespace", "name": "eu"}]
    journal.announce(Group("g", "txn-1", {**BODY, "changes": changes, "catalog_reads": []}), 5)
    assert server.bodies[0] == {
        "commits": BODY["commits"], "reads": [], "changes": changes, "catalog_reads": [], "attempt": 1,
        "isolation": "snapshot"
    }  # fmt: skip


def test_i3_an_announcement_whose_answer_is_lost_is_sent_again() -> None:
    journal, server = announcer(LOST, refused("Throttled", 429), OK)
    journal.announce(GROUP, 5)
    assert server.bodies == [server.bodies[0]] * 3 and journal.is_announced


def test_i3_one_that_may_have_arrived_leaves_the_outcome_unknown() -> None:
    journal, _ = announcer(LOST, httpx.ConnectError("refused"))
    with pytest.raises(TransactionOutcomeUnknown):
        journal.announce(GROUP, 0.3)
    assert journal.is_announced


def test_one_that_never_arrived_has_announced_nothing() -> None:
    for answer, type in ((httpx.ConnectError("refused"), "Unreachable"), (refused("InvalidRequest", 400), None)):
        journal, _ = announcer(answer)
        with pytest.raises(ApiError) as caught:
            journal.announce(GROUP, 0.2)
        assert caught.value.type == (type or "InvalidRequest") and not journal.is_announced


def test_i3_a_transaction_that_another_client_has_finished_is_sent_all_the_same() -> None:
    journal, _ = announcer(refused("TransactionCommitted"))
    journal.announce(GROUP, 5)
    assert journal.is_announced


def test_i3_an_abort_of_another_client_is_final_also_after_a_lost_answer() -> None:
    server = Server(LOST, refused("TransactionAborted"))
    with pytest.raises(ApiError) as caught:
        ratify_group(api(server), GROUP, 5)
    assert caught.value.type == "TransactionAborted" and len(server.sent) == 2


def conflict(*types: str) -> TransactionConflict:
    body = {"members": [{"table_id": "t", "type": type} for type in types]}
    return TransactionConflict("g", ApiError(409, "TransactionConflict", "no", body))


def test_i3_a_refused_transaction_is_withdrawn_unless_another_client_has_finished_it() -> None:
    refusal = ApiError(429, "BacklogFull", "full")
    for answer, is_committed in ((OK, False), (refused("TransactionCommitted"), True)):
        journal, server = announcer(answer)
        assert journal.withdraw("g", 5, refusal) is is_committed
        assert server.sent == ["DELETE g"]


def test_i3_what_can_neither_be_withdrawn_nor_be_known_to_be_lost_is_unknown() -> None:
    """Somebody may finish it, where its user would run it again."""
    server = Server(LOST)
    journal = Announcer(api(server, deadline=0.05), "snapshot")
    with pytest.raises(TransactionOutcomeUnknown):
        journal.withdraw("g", 0.2, ApiError(409, "TableNotActive", "stuck"))
    with pytest.raises(TransactionOutcomeUnknown):
        journal.withdraw("g", 0.2, conflict("StaleMetadata"))
    assert journal.withdraw("g", 0.2, conflict("StaleMetadata", "CommitVersionConflict")) is False


@pytest.mark.parametrize("status", [401, 403])
def test_i3_what_may_not_be_withdrawn_is_unknown_and_what_is_not_announced_is_refused(status: int) -> None:
    journal, _ = announcer(refused("Refused", status))
    with pytest.raises(TransactionOutcomeUnknown):
        journal.withdraw("g", 5, ApiError(status, "Refused", "the token has expired"))
    assert journal.withdraw("g", 5, conflict("CommitVersionConflict")) is False
    journal, _ = announcer(refused("NoSuchTransaction", 404))
    assert journal.withdraw("g", 5, ApiError(status, "Refused", "the token has expired")) is False


def test_i3_an_announcement_that_may_still_arrive_is_not_withdrawn_by_an_answer_that_there_is_none() -> None:
    """Somebody could finish it once it is there."""
    expired = refused("NotAuthenticated", 401)
    journal, _ = announcer(LOST, expired, refused("NoSuchTransaction", 404))
    with pytest.raises(ApiError) as caught:
        journal.announce(GROUP, 5)
    with pytest.raises(TransactionOutcomeUnknown):
        journal.withdraw("g", 5, caught.value)
    journal, _ = announcer(LOST, OK, refused("NoSuchTransaction", 404))
    journal.announce(GROUP, 5)
    assert journal.withdraw("g", 5, caught.value) is False, "it had arrived, and is gone"


def test_an_announced_transaction_is_resumed_and_aborted_by_its_entry() -> None:
    server = Server(httpx.Response(200, json={}), httpx.Response(200, json={**ENTRY, "state": "committed"}))
    transaction = AnnouncedTransaction.read(api(server), ENTRY)
    assert (transaction.versions, transaction.reads, transaction.until) == ({"t": 3}, {"r": 1}, 2.0)
    assert transaction.is_over
    assert transaction.resume().state == "committed"
    lost = AnnouncedTransaction.read(api(Server(refused("TransactionConflict"))), ENTRY)
    with pytest.raises(TransactionConflict):
        lost.resume()
    undone = AnnouncedTransaction.read(api(Server(refused("TransactionCommitted"))), ENTRY)
    with pytest.raises(TurnstileError, match="TURNSTILE_REFUSED"):
        undone.abort()


def test_the_action_with_the_participants_is_there_once_whatever_was_there() -> None:
    content = '{"commitInfo":{"operation":"a\u2028b"}}\n{"add":{}}\n'
    once = with_participants(content, "g", {"b": 2, "a": 1})
    assert once == content + (
        '{"transactionGroup":{"transactionId":"g","participants":'
        '[{"tableId":"a","version":1},{"tableId":"b","version":2}]}}\n'
    )
    assert with_participants(once, "g", {"b": 2, "a": 1}) == once
    assert with_participants(once, "g", {"a": 7}).count("transactionGroup") == 1
