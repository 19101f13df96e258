"""The background's worker of a target tries undelivered events again, and ends on request (I14)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.stack import until
from turnstile.events.deliver import Delivered
from turnstile_server import events as module
from turnstile_server.events import DeliveryWorker


class Delivers:
    """Answers each call with the next of ``answers``, then with nothing left."""

    target = SimpleNamespace(name="inbox")

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.answers: list[Delivered | Exception] = []
        self.go = threading.Event()
        self.go.set()
        self.told_to_stop = False

    def deliver(self, catalog: str, *, go_on: Callable[[], bool]) -> Delivered:
        self.calls.append(catalog)
        assert self.go.wait(60)
        self.told_to_stop = not go_on()
        answer = self.answers.pop(0) if self.answers else Delivered(1)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Figures:
    """Adds up what is recorded."""

    def __init__(self) -> None:
        self.sent = 0
        self.failures = 0

    def record(self, target: str, sent: int, *, failed: bool) -> None:
        assert target == "inbox"
        self.sent = self.sent + sent
        self.failures = self.failures + failed


@pytest.fixture
def delivers() -> Delivers:
    return Delivers()


@pytest.fixture
def figures() -> Figures:
    return Figures()


@pytest.fixture
def worker(delivers: Any, figures: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeliveryWorker]:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    made = DeliveryWorker(delivers, figures)
    yield made
    delivers.go.set()
    made.close()


def test_each_catalog_that_was_added_has_its_turn(worker: DeliveryWorker, delivers: Delivers, figures: Figures) -> None:
    worker.add(["a", "b"])
    until(lambda: figures.sent == 2)
    assert sorted(delivers.calls) == ["a", "b"]


def test_i14_what_comes_while_a_catalog_has_its_turn_gives_it_another(
    worker: DeliveryWorker, delivers: Delivers
) -> None:
    delivers.go.clear()
    worker.add(["a"])
    until(lambda: delivers.calls == ["a"])
    worker.add(["a"])
    delivers.go.set()
    until(lambda: delivers.calls == ["a", "a"])


def test_i14_it_comes_back_at_its_due_time_and_after_a_fault_of_the_store(
    worker: DeliveryWorker, delivers: Delivers, figures: Figures
) -> None:
    soon_ms = int(time.time() * 1000)
    delivers.answers = [Delivered(0, "answered 500", soon_ms), RuntimeError("the store is away"), Delivered(3)]
    worker.add(["a"])
    until(lambda: figures.sent == 3)
    assert (delivers.calls, figures.failures) == (["a", "a", "a"], 1)


def test_a_catalog_that_has_to_wait_keeps_no_other_back(
    worker: DeliveryWorker, delivers: Delivers, figures: Figures
) -> None:
    delivers.answers = [Delivered(0, "down", int(time.time() * 1000) + 3_600_000)]
    worker.add(["a"])
    until(lambda: figures.failures == 1)
    worker.add(["b"])
    until(lambda: figures.sent == 1)
    assert delivers.calls == ["a", "b"]


def test_a_catalog_rests_after_its_turn_and_keeps_no_other_back(delivers: Any, figures: Any) -> None:
    resting = DeliveryWorker(delivers, figures, rest_s=3_600)
    delivers.go.clear()
    resting.add(["a"])
    until(lambda: delivers.calls == ["a"])
    resting.add(["a"])  # during its turn
    delivers.go.set()
    until(lambda: figures.sent == 1)
    resting.add(["a", "b"])  # after it
    until(lambda: figures.sent == 2)
    resting.close()
    assert delivers.calls == ["a", "b"]


def test_a_catalog_that_has_rested_has_its_turn_again(delivers: Any, figures: Any) -> None:
    resting = DeliveryWorker(delivers, figures, rest_s=0.01)
    resting.add(["a"])
    until(lambda: figures.sent == 1)
    resting.add(["a"])
    until(lambda: figures.sent == 2)
    resting.close()


@pytest.mark.parametrize(("cpu_s", "again"), [(0.0, True), (360.0, False)])
def test_a_catalog_rests_by_the_cpu_time_of_its_turn_and_not_by_its_length(
    delivers: Any, figures: Any, cpu_s: float, again: bool
) -> None:
    """On a busy machine checkpoints would stop for minutes after a turn."""
    times = iter([0.0, cpu_s, 0.0, 0.0, 0.0, 0.0])
    resting = DeliveryWorker(delivers, figures, rest_s=0.01, rest_turns=10, cpu_s=lambda: next(times))
    resting.add(["a"])
    until(lambda: figures.sent == 1)
    resting.add(["a", "b"])
    until(lambda: figures.sent == 2 + again)
    resting.close()
    assert delivers.calls.count("a") == 1 + again


def test_a_worker_that_is_closed_tells_the_deliverer_to_stop(worker: DeliveryWorker, delivers: Delivers) -> None:
    delivers.go.clear()
    worker.add(["a", "b"])
    until(lambda: len(delivers.calls) == 1)
    closing = threading.Thread(target=worker.close)
    closing.start()
    until(worker._stop.is_set)
    delivers.go.set()
    closing.join(60)
    assert delivers.told_to_stop
    assert len(delivers.calls) == 1
