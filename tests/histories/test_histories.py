"""Answers to concurrent clients of a server have one order in which every answer is right (I1, I2,
I3, I6)."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest

from benchmarks.racing import table as racing
from tests.histories.check import History, Operation, judge, needs_go
from tests.histories.clients import Load, run
from tests.histories.killing import kill_again_and_again, needs_proc
from turnstile_server import Server

pytestmark = [needs_go, pytest.mark.timeout(600)]
ENOUGH = 50
"""Answers of a history worth judging."""
SECONDS = float(os.environ.get("TURNSTILE_HISTORY_SECONDS", "4"))


def tables(server: Server, count: int) -> list[str]:
    return [racing.create(server.url, server.token, f"h{uuid4().hex[:10]}").table_id for _ in range(count)]


def accepted(history: History) -> None:
    assert history.answers >= ENOUGH, f"only {history.answers} answers"
    judgement = judge(history.operations)
    assert judgement.linearizable, judgement.said


def spoilt(history: History) -> list[Operation]:
    """The same history with one commit told twice: the checker must not be content with
    anything."""
    commits = [one for one in history.operations if one.op == "commit" and one.result == "ok"]
    twice = commits[len(commits) // 2]
    after = max(one.returned for one in history.operations) + 10
    extra = Operation(
        client=99, table=twice.table, op="commit", call=after, returned=after + 1, version=twice.got, txn="other",
        result="ok", got=twice.got,
    )  # fmt: skip
    return [*history.operations, extra]


def test_i1_i2_i3_i6_racing_clients_see_one_history(server: Server) -> None:
    history = run(server.client, tables(server, 2), Load(answers=ENOUGH, clients=5, seconds=SECONDS))
    accepted(history)
    assert not judge(spoilt(history)).linearizable


@pytest.mark.slow
def test_i1_i2_i3_i6_clients_that_hang_up_before_the_answer_see_one_history(server: Server) -> None:
    history = run(
        server.client, tables(server, 3), Load(answers=ENOUGH, clients=5, seconds=SECONDS, impatient=0.1, seed=2)
    )
    assert any(operation.result == "unknown" for operation in history.operations)
    accepted(history)


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("name", ["http", "background"])
def test_i1_i2_i3_i6_i11_processes_killed_again_and_again_change_no_answer(tmp_path: Path, name: str) -> None:
    with Server.start(tmp_path / "home", 0) as own:
        names = tables(own, 2)
        with kill_again_and_again(own, name, SECONDS / 3) as killed:
            history = run(own.client, names, Load(answers=ENOUGH, clients=4, seconds=2 * SECONDS, patient=True, seed=3))
        assert len(killed) >= 2, killed
        accepted(history)
