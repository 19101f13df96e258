"""Turns of tables in the background process: what changed is published soon, each table by one
thread at a time (I11)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.support.stack import until
from tests.support.threads import join
from turnstile_server import turns as module
from turnstile_server.turns import IDLE_S, REST_CHANGES, REST_S, Turns


class Work:
    """What turns do: they are noted, and wait until ``go`` is set."""

    def __init__(self) -> None:
        self.begun = list[str]()
        self.at_once = 0
        self.most_at_once = 0
        self.go = threading.Event()
        self.go.set()
        self._mutex = threading.Lock()

    def __call__(self, table_id: str) -> None:
        with self._mutex:
            self.begun.append(table_id)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            assert self.go.wait(60)
            if table_id == "broken":
                raise RuntimeError("its own failure")
        finally:
            with self._mutex:
                self.at_once -= 1


class Clock:
    """The time of the module, in seconds, which stands still."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def turns(work: Work, clock: Clock) -> Iterator[Turns]:
    made = Turns(work, 4)
    yield made
    work.go.set()
    made.close()


def test_a_table_that_changes_has_its_turn_at_once(turns: Turns, work: Work) -> None:
    assert turns.idle() and turns.begin() == IDLE_S
    turns.add("a")
    turns.add("b")
    assert not turns.idle()
    turns.begin()
    until(turns.idle)
    assert sorted(work.begun) == ["a", "b"]


def test_i11_what_changes_during_a_turn_has_another_one(turns: Turns, work: Work, clock: Clock) -> None:
    """The turn may have read the HEAD before the change."""
    work.go.clear()
    turns.add("a")
    turns.begin()
    until(lambda: work.at_once == 1)
    turns.add("a")
    assert turns.begin() == REST_S and work.begun == ["a"], "not two at once"
    work.go.set()
    until(lambda: not turns._tables["a"].running)
    assert not turns.idle(), "the feed's cursor must not pass the change"
    clock.now_s += REST_S
    turns.begin()
    until(turns.idle)
    assert work.begun == ["a", "a"] and work.most_at_once == 1


def test_a_table_rests_after_its_turn_unless_it_changes_often(turns: Turns, work: Work, clock: Clock) -> None:
    turns.add("a")
    turns.begin()
    until(turns.idle)
    turns.add("a", REST_CHANGES - 1)
    assert turns.begin() == pytest.approx(REST_S) and work.begun == ["a"]
    turns.add("a")
    turns.begin()
    until(turns.idle)
    assert work.begun == ["a", "a"]
    turns.add("a")
    clock.now_s += REST_S / 2
    assert turns.begin() == pytest.approx(REST_S / 2) and work.begun == ["a", "a"]
    clock.now_s += REST_S
    turns.begin()
    until(turns.idle)
    assert work.begun == ["a"] * 3


def test_i11_a_turn_that_fails_ends_neither_its_table_nor_the_others(turns: Turns, work: Work, clock: Clock) -> None:
    for _ in range(2):
        for table_id in ("broken", "a"):
            turns.add(table_id)
        turns.begin()
        until(turns.idle)
        clock.now_s += REST_S
    assert sorted(work.begun) == ["a", "a", "broken", "broken"]


def test_tables_that_do_not_change_any_more_are_forgotten(turns: Turns, clock: Clock) -> None:
    for number in range(10):
        turns.add(str(number))
    turns.begin()
    until(turns.idle)
    turns.begin()
    assert len(turns._tables) == 10
    clock.now_s += REST_S
    turns.begin()
    assert not turns._tables


def test_closing_waits_for_the_turns_under_way(work: Work, clock: Clock) -> None:
    turns = Turns(work, 1)
    work.go.clear()
    for table_id in ("a", "b"):
        turns.add(table_id)
    turns.begin()
    until(lambda: work.at_once == 1)
    closing = threading.Thread(target=turns.close)
    closing.start()
    until(lambda: turns._pool._shutdown)
    assert closing.is_alive()
    work.go.set()
    join(closing)
    assert work.begun == ["a"] and work.at_once == 0
