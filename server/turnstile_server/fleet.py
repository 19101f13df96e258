"""The background's part in the fleet (``turnstile.fleet``): servers that share a store publish and sweep each table once.

Every server hears of every change. It works on the tables of its own granules, on those that it has just handed over, since their new owner learns of it
with its next beat, and on those whose owner nobody is sure of. What it leaves to others it remembers for a while: when an owner is doubted, or its granules come here, those tables have a turn here, which changes nothing
where they are published already. A server that does not hear of every change (a table without a stream) is no member, and works as one
that is alone.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from turnstile.fleet.core.decisions import SILENT_BEATS, SUSPECTED_BEATS
from turnstile.fleet.core.owners import CATALOGS, Address, Owners
from turnstile.fleet.member import Beat, Member, Whose
from turnstile.store.core.errors import TurnstileError
from turnstile.store.ports import World
from turnstile_server import metrics

GRANULES: Final = {"publish": 64, "sweep": 1}
"""Roles of a server's background, and into how many granules the work of each is cut."""

ALONE_BEATS: Final = 15
"""How much more slowly a server beats that is alone."""

GIVEN_BEATS: Final = 3
"""For how many beats a server goes on with the tables of a granule that it handed over."""

LEFT_MOST: Final = 10_000
"""Keys of changes that were left to others and are remembered; the sweep finds the rest."""

log = logging.getLogger("turnstile.fleet")


class Sharing:
    """Shares the work of a background with other servers. ``mine`` and ``sweeps`` are safe for threads.

    Args:
        redo: called with changes that were left to others, and had better be looked at here.
        sweep: called when tables may have been missed: granules came here, or this process stood still.
        hears: whether this process is told of every change of the store.
        beat_ms: how often it shows life.
        address: where others can ask for changes of catalogs; None: nowhere, so it owns none.
        tell_owners: called after each beat with the owners of catalogs.
    """

    def __init__(
        self, world: World, redo: Callable[[Mapping[str, int]], None], sweep: Callable[[], None],
        hears: Callable[[], bool], beat_ms: int, *, address: Address | None = None,
        tell_owners: Callable[[Owners], None] = lambda _: None,
    ) -> None:  # fmt: skip
        name = f"{socket.gethostname()}:{os.getpid()}"
        self.member = Member(
            world, _monotonic_ms, name=name, granules=GRANULES if address is None else {**GRANULES, CATALOGS: 32},
            beat_ms=beat_ms, alone_beat_ms=ALONE_BEATS * beat_ms, address=address,
        )  # fmt: skip
        self._tell_owners, self._metrics = tell_owners, metrics.FleetMetrics()
        self._own_rows = (world.space.fleet(), world.space.fleet_member(""), world.space.fleet_granule(""))
        self._redo, self._sweep, self._hears, self._beat_ms = redo, sweep, hears, beat_ms
        self._left, self._mutex = dict[str, int](), threading.Lock()
        self._owned, self._given = frozenset[str](), dict[str, int]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def start(self) -> None:
        """Joins, and beats until ``close``."""
        self._thread.start()

    def close(self) -> None:
        """Hands everything over and leaves."""
        self._stop.set()
        self._thread.join()
        with suppress(OSError):
            self._tell_owners(Owners())
        try:
            self.member.leave()
        except TurnstileError as error:  # the others find it silent
            log.warning("the fleet was not left: %s", error.message)

    def mine(self, changes: Mapping[str, int]) -> dict[str, int]:
        """Returns the changes that this process should look at: those of keys whose owner it is, or nobody is for sure."""
        chosen, now_ms = dict[str, int](), _monotonic_ms()
        for key, count in changes.items():
            if key.startswith(self._own_rows):
                continue
            if self._is_mine(key):
                chosen[key] = count
                continue
            with self._mutex:
                self._left.pop(key, None)
                self._left[key] = now_ms
                if len(self._left) > LEFT_MOST:
                    del self._left[next(iter(self._left))]
        return chosen

    def sweeps(self) -> bool:
        """Returns whether this process should sweep."""
        return self.member.whose("sweep", "") is not Whose.OTHERS

    def _is_mine(self, key: str) -> bool:
        return (
            self.member.whose("publish", key) is not Whose.OTHERS
            or self.member.granule_of("publish", key) in self._given
        )

    def _note_given(self) -> None:
        """Notes what this process owned before and does not own now."""
        owned, now_ms = frozenset(self.member.owned()), _monotonic_ms()
        given = {name: at_ms for name, at_ms in self._given.items() if now_ms - at_ms < GIVEN_BEATS * self._beat_ms}
        self._given = {**given, **dict.fromkeys(self._owned - owned, now_ms)}
        self._owned = owned

    def _run(self) -> None:
        began_ms = _monotonic_ms()
        while not self._stop.is_set():
            stood_still = _monotonic_ms() - began_ms > SUSPECTED_BEATS * max(self._beat_ms, self.member.next_beat_ms())
            began_ms, least_ms = _monotonic_ms(), 0
            try:
                self._beat(stood_still=stood_still)
            except Exception as error:  # the store does not answer: until it does, this process is sure of nothing
                log.warning("no sign of life: %r", error)
                least_ms = self._beat_ms
            self._pass_on()
            rest_s = max(least_ms, self.member.next_beat_ms()) / 1000
            if self.member.members() < 2 or rest_s == 0 or self._stop.wait(rest_s / 2):
                self._stop.wait(rest_s)
                continue
            try:
                if self.member.look():
                    self._pass_on()
            except Exception as error:  # the next beat says it, if it lasts
                log.info("the others were not looked at: %r", error)
            self._stop.wait(rest_s / 2)

    def _pass_on(self) -> None:
        """Has others of this process know what it believes now."""
        self._look_again()
        try:
            self._tell_owners(self.member.owners(CATALOGS))
        except OSError as error:  # what was told before ends by itself
            log.warning("owners of catalogs could not be told: %s", error)

    def _beat(self, *, stood_still: bool) -> None:
        if not self._hears():
            if self.member.id:
                log.warning("this process does not hear of every change, and leaves the fleet until it does")
            self.member.leave()
            return
        beat: Beat = self.member.beat()
        self._note_given()
        self._metrics.record(self.member.members(), len(self.member.owned()), len(beat.gained), removed=beat.removed)
        if beat.gained or beat.removed or stood_still:
            log.info("granules gained: %d", len(beat.gained))
            self._sweep()

    def _look_again(self) -> None:
        """Takes back what was left to an owner that is in doubt by now, and forgets what was left long ago."""
        oldest_ms = _monotonic_ms() - 2 * SILENT_BEATS * self._beat_ms
        with self._mutex:
            self._left = {key: at_ms for key, at_ms in self._left.items() if at_ms >= oldest_ms}
            keys = list(self._left)
        again = {key: 1 for key in keys if self._is_mine(key)}
        if again:
            with self._mutex:
                for key in again:
                    self._left.pop(key, None)
            self._redo(again)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
