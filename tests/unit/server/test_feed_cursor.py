"""Servers that share a SQLite file share the cursor of its feed: it stays behind the slowest of
them (I11)."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest

from turnstile.store.core.errors import StorageFault
from turnstile_server import background
from turnstile_server.background import Background


class Feed:
    """A database with a scripted feed, one look after the other, and nothing new after that.
    ``moves``: after how many looks the cursor moved, and where to."""

    def __init__(self, looks: Sequence[tuple[Mapping[str, int], int]], stop: threading.Event) -> None:
        self._looks = list(looks)
        self._stop = stop
        self.looked = 0
        self.locked = 0
        self.moves: list[tuple[int, int]] = []

    def changes(self, consumer: str, after: int) -> tuple[Mapping[str, int], int]:
        self.looked += 1
        if self.looked > len(self._looks):
            self._stop.set()
            return {}, 0
        return self._looks[self.looked - 1]

    def advance(self, consumer: str, upto: int) -> None:
        if self.locked:
            self.locked -= 1
            raise StorageFault("another process has held the lock")
        self.moves.append((self.looked, upto))


class Idle:
    """Turns, events, sharing and a listener that have nothing to do. ``busy``: how often they are
    asked first while they have."""

    def __init__(self, busy: int = 0) -> None:
        self._busy = busy

    def notice(self, changes: object) -> None: ...

    def begin(self) -> float:
        return 0.0

    def idle(self) -> bool:
        self._busy -= 1
        return self._busy < 0

    def add(self, *_: object) -> None: ...

    def wait(self, _seconds: float) -> None: ...


def moves(
    monkeypatch: pytest.MonkeyPatch,
    looks: Sequence[tuple[Mapping[str, int], int]],
    *,
    shared: bool,
    locked: int = 0,
    busy: Mapping[str, int] = MappingProxyType({}),
) -> Any:
    """When the cursor moves, and where to, in a process that is at once ready to move it."""
    monkeypatch.setattr(background, "ADVANCE_S", -1.0)
    monkeypatch.setattr(background, "LOOK_S", 0.0)
    process: Any = Background.__new__(Background)
    process.stop = threading.Event()
    process._beaten_s = float("inf")
    process._work = {}
    process._turns = Idle(busy.get("_turns", 0))
    process._events = Idle(busy.get("_events", 0))
    process._sharing = Idle() if shared else None
    feed: Any = Feed(looks, process.stop)
    feed.locked = locked
    process._follow_feed(feed, Idle())
    return feed.moves


NOTHING: tuple[Mapping[str, int], int] = ({}, 0)
LOOKS = [({"table/a": 1}, 10), NOTHING, NOTHING, ({"table/b": 1}, 20), NOTHING, NOTHING, NOTHING]


def test_a_server_that_is_alone_moves_the_cursor_as_soon_as_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert moves(monkeypatch, LOOKS, shared=False) == [(2, 10), (5, 20)]


def test_i11_a_shared_cursor_moves_to_the_position_before_the_last_read(monkeypatch: pytest.MonkeyPatch) -> None:
    assert moves(monkeypatch, LOOKS, shared=True) == [(3, 10), (6, 20)]


def test_i11_what_was_seen_just_now_stays_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [({"table/a": 1}, 10), NOTHING, ({"table/b": 1}, 20), NOTHING]
    assert moves(monkeypatch, looks, shared=True) == [(4, 10), (5, 20)]


@pytest.mark.parametrize("busy", ["_turns", "_events"])
def test_i11_the_cursor_stays_while_a_table_or_an_event_is_still_being_worked_on(
    monkeypatch: pytest.MonkeyPatch, busy: str
) -> None:
    found = moves(monkeypatch, LOOKS, shared=False, busy={busy: 2})
    assert found == [(5, 20)], "not at the first looks, at which nothing came and work was under way"


@pytest.mark.parametrize("shared", [False, True])
def test_i11_a_cursor_that_cannot_be_kept_is_kept_later_and_the_feed_is_followed_meanwhile(
    monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """As when another process was frozen with the lock of the file."""
    looks = [({"table/a": 1}, 10), *[NOTHING] * 5]
    assert [upto for _, upto in moves(monkeypatch, looks, shared=shared, locked=2)] == [10]
