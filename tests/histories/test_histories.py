"""What concurrent clients of the real stack were told has one order in which every answer is right (I1, I2, I3, I6)."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from benchmarks.racing import table as racing
from tests.histories.check import History, Operation, judge, needs_go
from tests.histories.clients import Load, run
from tests.histories.killing import kill_sandboxes, needs_proc
from tests.support.stack import Functions

if TYPE_CHECKING:
    from turnstile_local import Stack

pytestmark = [needs_go, pytest.mark.slow, pytest.mark.timeout(600)]
SECONDS = float(os.environ.get("TURNSTILE_HISTORY_SECONDS", "8"))


def tables(stack: Stack, count: int) -> list[str]:
    return [racing.create(stack.url, stack.token, f"h{uuid4().hex[:10]}").table_id for _ in range(count)]


def accepted(history: History, least: int) -> None:
    told = [operation for operation in history.operations if operation.result != "unknown"]
    assert len(told) >= least, f"only {len(told)} answers"
    judgement = judge(history.operations)
    assert judgement.linearizable, judgement.said


def spoilt(history: History) -> list[Operation]:
    """The same history with one commit told twice: the checker must not be content with anything."""
    commits = [one for one in history.operations if one.op == "commit" and one.result == "ok"]
    twice = commits[len(commits) // 2]
    after = max(one.returned for one in history.operations) + 10
    extra = Operation(
        client=99, table=twice.table, op="commit", call=after, returned=after + 1, version=twice.got, txn="other",
        result="ok", got=twice.got,
    )  # fmt: skip
    return [*history.operations, extra]


def test_i1_i2_i3_i6_racing_clients_are_told_one_history(stack: Stack) -> None:
    history = run(stack.client, tables(stack, 2), Load(clients=5, seconds=SECONDS))
    accepted(history, 50)
    assert not judge(spoilt(history)).linearizable


def test_i1_i2_i3_i6_clients_that_hang_up_before_the_answer_are_told_one_history(stack: Stack) -> None:
    history = run(stack.client, tables(stack, 3), Load(clients=5, seconds=SECONDS, impatient=0.1, seed=2))
    assert any(operation.result == "unknown" for operation in history.operations)
    accepted(history, 50)


def test_i1_i2_i3_i6_i11_a_publisher_that_is_killed_again_and_again_changes_no_answer(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in stack.env.items():
        monkeypatch.setenv(name, value)
    functions, over = Functions(stack), threading.Event()

    def kill() -> None:
        for point in ("publish.copied", "publish.identities", "publish.floor", "publish.fetched"):
            functions.set("app.on_refs", TURNSTILE_FAULT_POINT=point)
            if over.wait(SECONDS / 4):
                return

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        history = run(stack.client, tables(stack, 2), Load(clients=4, seconds=SECONDS, seed=3))
    finally:
        over.set()
        killer.join()
        functions.set("app.on_refs", TURNSTILE_FAULT_POINT="")
    accepted(history, 30)


@needs_proc
def test_i1_i2_i3_i6_functions_killed_in_the_middle_of_commits_change_no_history(stack: Stack) -> None:
    killed, over = [], threading.Event()

    def kill() -> None:
        while not over.wait(SECONDS / 3):
            killed.append(kill_sandboxes(stack, "CommitFunction"))

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        history = run(stack.client, tables(stack, 2), Load(clients=4, seconds=SECONDS, seed=4))
    finally:
        over.set()
        killer.join()
    assert sum(killed) >= 2, killed
    accepted(history, 30)
