"""What a kill interrupted is done within minutes: tables that were busy are tried again, and gc is
(I10, I15)."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.stack import until
from turnstile.coordination.tasks import Busy
from turnstile.gc.collector import Report
from turnstile.maintenance.work import LEFT, MaintenanceResult
from turnstile_server.background import COLLECT_AGAIN_S, COLLECT_S, Background
from turnstile_server.light_work import LightWork
from turnstile_server.loops import start_loop


@pytest.mark.parametrize("outcome", sorted(LEFT))
def test_i15_a_table_that_light_work_left_is_tried_again_until_its_work_is_done(outcome: Any) -> None:
    answers: list[Any] = [RuntimeError("the store does not answer"), outcome, "done"]
    asked: list[str] = []

    def maintain(table_id: str) -> MaintenanceResult:
        asked.append(table_id)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return MaintenanceResult(table_id, answer)

    process = LightWork.__new__(LightWork)
    process.stop = threading.Event()
    process._left = {}
    process._leaves = threading.Lock()
    process._metrics = SimpleNamespace(record=lambda done: None)  # type: ignore[assignment]
    process._maintainer = SimpleNamespace(maintain=maintain)  # type: ignore[assignment]
    process._maintain(MaintenanceResult("a", outcome))
    process._maintain(MaintenanceResult("b", "done"))
    for count in (1, 2, 3, 3):
        process._maintain_left()
        assert asked == ["a"] * count


class FakeTask:
    """The task of gc: answers each run with the next of ``answers``."""

    def __init__(self, *answers: Any, rest_ms: int = 0) -> None:
        self.answers = list(answers)
        self.rest = rest_ms
        self.runs = 0

    def run(self, *_: object, **__: object) -> Any:
        self.runs += 1
        return self.answers.pop(0)

    def rest_ms(self, every_ms: int) -> int:
        assert every_ms == COLLECT_S * 1000
        return self.rest


def background(task: FakeTask, sharing: Any = None) -> Background:
    process: Any = Background.__new__(Background)
    process._services = SimpleNamespace(collect_task=task)
    process._store = SimpleNamespace(world=SimpleNamespace(clock=SimpleNamespace(now_ms=lambda: 1)))
    process._sharing = sharing
    process._collect_left = False
    return process


DONE = Report(False, (), 0, 0, 0, (), True)


def test_i10_gc_that_a_killed_server_has_begun_runs_as_soon_as_its_lease_is_over() -> None:
    task = FakeTask(Busy(5, 1), Busy(5, 1), DONE)
    process = background(task)
    assert [process._collect() for _ in range(3)] == [COLLECT_AGAIN_S, COLLECT_AGAIN_S, None]
    assert task.runs == 3


def test_i10_gc_that_another_server_has_ended_meanwhile_is_not_repeated() -> None:
    task = FakeTask(Busy(5, 1), DONE)
    process = background(task)
    assert process._collect() == COLLECT_AGAIN_S
    task.rest = 7_200_000
    assert process._collect() == 7_200
    assert task.runs == 1
    task.rest = 0
    assert process._collect() is None


def test_i19_a_server_that_comes_to_sweep_looks_whether_gc_is_due() -> None:
    sweeps = [False, True, True]
    task = FakeTask(DONE, rest_ms=3_600_000)
    process = background(task, SimpleNamespace(sweeps=lambda: sweeps.pop(0)))
    assert process._collect() == COLLECT_AGAIN_S
    assert process._collect() == 3_600
    task.rest = 0
    assert process._collect() is None
    assert task.runs == 1


def test_a_loop_comes_back_when_its_run_says_so_and_after_a_failure() -> None:
    stop = threading.Event()
    calls = list[int]()

    def run() -> float | None:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("no answer")
        return 0.0 if len(calls) < 3 else None

    start_loop(stop, 0, 0.001, run)
    try:
        until(lambda: len(calls) > 5)
    finally:
        stop.set()
