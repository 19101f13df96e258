"""The background's worker of events: what changed stays added until its events are in the log
(I13)."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest

from tests.support.stack import until
from turnstile.events.append import Appended
from turnstile_server import events as module
from turnstile_server.events import EventWorker


class Appends:
    """Notes what is appended; fails as often as ``failures`` says, and waits until ``go`` is
    set."""

    def __init__(self) -> None:
        self.calls = list[list[str]]()
        self.failures = 0
        self.go = threading.Event()
        self.go.set()

    def is_source(self, key: str) -> bool:
        return not key.startswith("other")

    def append(self, keys: Iterable[str]) -> Appended:
        self.calls.append(list(keys))
        assert self.go.wait(60)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the store is away")
        return Appended()


@pytest.fixture
def appends() -> Appends:
    return Appends()


@pytest.fixture
def worker(appends: Appends, monkeypatch: pytest.MonkeyPatch) -> Iterator[EventWorker]:
    monkeypatch.setattr(module, "RETRY_S", 0.0)
    made = EventWorker(appends, 0.0)
    yield made
    appends.go.set()
    made.close()


def test_heads_are_appended_and_other_rows_are_not(worker: EventWorker, appends: Appends) -> None:
    assert worker.idle()
    worker.add(["a", "other", "b"])
    until(worker.idle)
    assert sorted(key for call in appends.calls for key in call) == ["a", "b"]


def test_i13_what_changes_while_its_events_are_appended_is_appended_again(
    worker: EventWorker, appends: Appends
) -> None:
    appends.go.clear()
    worker.add(["a"])
    until(lambda: bool(appends.calls))
    worker.add(["a"])
    assert not worker.idle()
    appends.go.set()
    until(worker.idle)
    assert appends.calls == [["a"], ["a"]]


def test_i13_after_a_failure_the_same_heads_are_tried_again(worker: EventWorker, appends: Appends) -> None:
    appends.failures = 2
    worker.add(["a", "b"])
    until(worker.idle)
    assert len(appends.calls) == 3 and appends.calls[-1] == ["a", "b"]
