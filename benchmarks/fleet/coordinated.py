"""A member whose fleet is kept by a coordination service: what ZooKeeper's and etcd's clients
share.

It decides as Turnstile's members do (``decisions.surplus``), and is told at once of what
Turnstile's have to look for: who comes and goes, and granules that come to it. The next in the ring
takes over from a member that is gone.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

from turnstile.fleet.core.decisions import batches, surplus

ROLE: Final = "publish"
Epochs = dict[str, int]
"""Granules by name, each with the number of times that its owner changed."""


class Service(Protocol):
    """Members and granules in a coordination service, as one client sees them. Its session, or
    lease, ends ``ttl_s`` after its last sign of life."""

    changed: threading.Event
    """Set when members, or the granules given to this one, may be others than they were."""

    def join(self) -> None:
        """Becomes a member."""

    def leave(self) -> None:
        """Is no member any more."""

    def members(self) -> set[str]:
        """Who is a member."""

    def counts(self, ids: Iterable[str]) -> dict[str, int]:
        """How many granules each of these members showed that it owns."""

    def show(self, count: int) -> None:
        """Shows how many granules this one owns."""

    def alive(self) -> None:
        """One sign of life: a round trip."""

    def given(self) -> Epochs:
        """Granules that were given to this member since the last call."""

    def move(self, granules: Mapping[str, int], to: str) -> bool:
        """Makes ``to`` the owner of granules, all or none, if none of them changed hands since its
        epoch; epoch 0: that nobody owned."""

    def owned_by(self, id: str) -> Epochs:
        """The granules of a member that is gone."""


class Churn:
    """When a member leaves and joins again, and how long each takes. ``report`` is told of the
    times."""

    def __init__(self, report: Callable[..., None]) -> None:
        self._report = report
        self._every_s = 0.0
        self._next_s = 0.0

    def begin(self, every_s: float) -> None:
        """Has the member do so every so many seconds, from a moment by chance."""
        self._next_s = time.monotonic() + random.uniform(0, every_s)
        self._every_s = every_s

    def is_due(self) -> bool:
        """Whether it is to leave now."""
        if not self._every_s or time.monotonic() < self._next_s:
            return False
        self._next_s += self._every_s
        return True

    def timed(self, leave: Callable[[], object]) -> None:
        """Leaves."""
        began_s = time.monotonic()
        leave()
        self._report("left", took_ms=(time.monotonic() - began_s) * 1000)


@dataclass
class Shown:
    """What ``surplus`` has to know of a member."""

    id: str
    loads: dict[str, int]


@dataclass
class CoordinatedMember:
    """One member. ``report`` is told whenever what it owns or who it knows has changed."""

    service: Service
    id: str
    granules: int
    batch: int
    in_flight: int
    beat_s: float
    report: Callable[..., None]
    churn: Churn
    first: bool
    owned: Epochs = field(default_factory=dict)
    known: set[str] = field(default_factory=set)
    balanced_s: float = 0.0
    shown: int = -1
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def run(self, stop: threading.Event) -> None:
        """Joins, and works until ``stop``."""
        self._join()
        if self.first:
            self._move_all([(self.id, dict.fromkeys(names, 0)) for names in batches(self._names(), self.batch)])
        next_s = time.monotonic() + self.beat_s
        while not stop.is_set():
            self._turn()
            self.service.changed.wait(max(0.0, next_s - time.monotonic()))
            if time.monotonic() >= next_s:
                began_s = time.monotonic()
                next_s = began_s + self.beat_s
                self.service.alive()
                self.report("beat", took_ms=(time.monotonic() - began_s) * 1000)
            if self.churn.is_due():
                self.churn.timed(self.service.leave)
                self._join()

    def _join(self) -> None:
        began_s = time.monotonic()
        self.service.join()
        self.report("joined", took_ms=(time.monotonic() - began_s) * 1000)

    def _turn(self) -> None:
        self.service.changed.clear()
        members = self.service.members()
        if given := self.service.given():
            self._own(given)
        gone = self.known - members
        new = members - self.known - {self.id}
        if gone or new:
            self.known = members
            self.report("members", count=len(members), gone=sorted(gone))
        for id in sorted(gone):
            if self._is_next(id, members):
                taken = sorted(self.service.owned_by(id).items())
                self._move_all([(self.id, dict(part)) for part in batches(taken, self.batch)])
        now_s = time.monotonic()
        if len(self.owned) != self.shown and (new or now_s - self.balanced_s > self.beat_s):
            self.service.show(len(self.owned))
            self.shown = len(self.owned)
        if (new or now_s - self.balanced_s > 5 * self.beat_s) and self.owned and not given:
            self._balance(members)
            self.balanced_s = time.monotonic()

    def _balance(self, members: set[str]) -> None:
        others = [Shown(id, {ROLE: count}) for id, count in self.service.counts(members - {self.id}).items()]
        chosen = surplus(self.id, dict.fromkeys(self.owned, 1), others, ROLE)  # type: ignore[arg-type]
        parts = [
            [(to, {name: self.owned[name] for name in part}) for part in batches(names, self.batch)]
            for to, names in chosen.items()
        ]
        turns = max(map(len, parts), default=0)
        self._move_all([part[turn] for turn in range(turns) for part in parts if turn < len(part)])

    def _move_all(self, moves: list[tuple[str, Epochs]]) -> None:
        """Some at once, in order."""

        def move(to: str, granules: Epochs) -> None:
            if self.service.move(granules, to):
                after = {name: epoch + 1 for name, epoch in granules.items()}
                if to == self.id:
                    self._own(after)
                else:
                    with self._mutex:
                        for name in granules:
                            self.owned.pop(name, None)
                        owned = len(self.owned)
                    self.report("owned", owned=owned, gained=0)

        if self.in_flight == 1:
            for to, granules in moves:
                move(to, granules)
            return
        with ThreadPoolExecutor(self.in_flight) as pool:
            for _ in pool.map(lambda one: move(*one), moves):
                pass

    def _own(self, granules: Epochs) -> None:
        with self._mutex:
            new = len(granules.keys() - self.owned.keys())
            self.owned.update(granules)
            owned = len(self.owned)
        self.report("owned", owned=owned, gained=new)

    def _is_next(self, id: str, members: set[str]) -> bool:
        ring = sorted(members)
        return bool(ring) and next((other for other in ring if other > id), ring[0]) == self.id

    def _names(self) -> list[str]:
        return [f"{ROLE}/{number}" for number in range(self.granules)]
