"""The background's part in the fleet (``turnstile.fleet``): processes that share a store do each
work once.

A process with a role owns granules of it, and does their work. Every process receives the hints of
all changes. It works on the changes of three kinds of granules: its own; granules that it has just
handed over, because the new owner learns of it with its next heartbeat; and granules without a
known owner. It remembers the other changes for a while. When their owner is suspected, or their
granules come to this process, it works on them, which has no effect on finished work. A process
that should be woken by changes and does not receive every hint (a table without a stream) is no
member, and works as if it were alone.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from turnstile.fleet.core.decisions import SILENT_BEATS, SUSPECTED_BEATS
from turnstile.fleet.core.owners import CATALOGS, Address, Owners
from turnstile.fleet.core.roles import GRANULES, MAINTAIN, SWEEP
from turnstile.fleet.core.shares import Ownership, Shares
from turnstile.fleet.member import Beat, Member
from turnstile.store.core.errors import TurnstileError
from turnstile.store.ports import World
from turnstile_server.fleet.journal import FleetJournal
from turnstile_server.settings import ServerSettings
from turnstile_server.struct_file import StructFile
from turnstile_server.telemetry import metrics

ALONE_BEATS: Final = 15
"""How much more slowly a server beats that is alone."""

GIVEN_BEATS: Final = 3
"""For how many beats a process goes on with the work of a granule that it handed over."""

LEFT_MOST: Final = 10_000
"""Changes that were left to others and are remembered, of each role; the sweep finds the rest."""

log = logging.getLogger("turnstile.fleet")


@dataclass(frozen=True)
class Work:
    """The work of a role that changes of rows call for: ``of`` says of which keys' rows, ``do``
    gets the keys and how often each changed."""

    of: Callable[[str], bool]
    do: Callable[[Mapping[str, int]], None]


@dataclass(frozen=True)
class Processes:
    """The data that the background exchanges with the other processes of this machine at each
    heartbeat.

    Attributes:
        owners: receives the owners of catalogs, for processes that answer requests.
        shares: receives the assignment of light work.
        maintained: returns how many events light work has handled since the last call, by catalog.
    """

    owners: Callable[[Owners], None] = lambda _: None
    shares: Callable[[Shares], None] = lambda _: None
    maintained: Callable[[], Mapping[str, int]] = dict


class Sharing:
    """Shares the work of a background with other processes. ``mine`` and ``sweeps`` are safe for
    threads.

    Args:
        roles: the roles that it works for.
        work: its roles that are woken by changes.
        catch_up: called with the roles that may have missed changes: granules came here, or this
            process was frozen.
        hears: whether this process receives the hint of every change of the store.
        beat_ms: the time between heartbeats.
        address: where others can send changes of catalogs; None: nowhere, so it owns none.
    """

    def __init__(
        self, world: World, roles: Collection[str], work: Mapping[str, Work],
        catch_up: Callable[[Collection[str]], None],
        *, hears: Callable[[], bool], beat_ms: int, address: Address | None = None, processes: Processes | None = None,
    ) -> None:  # fmt: skip
        self._journal = FleetJournal(world, lambda: self.member.id)
        granules = {role: GRANULES[role] for role in roles} | ({} if address is None else {CATALOGS: 32})
        self.member = Member(
            self._journal.recording_world(), _monotonic_ms, name=f"{socket.gethostname()}:{os.getpid()}",
            granules=granules,
            beat_ms=beat_ms, alone_beat_ms=ALONE_BEATS * beat_ms, address=address,
        )  # fmt: skip
        self._processes = processes or Processes()
        self._metrics = metrics.FleetMetrics()
        self._roles = frozenset(roles)
        self._work = work
        self._catch_up = catch_up
        self._hears = hears
        self._beat_ms = beat_ms
        self._left = {role: dict[str, int]() for role in work}
        self._mutex = threading.Lock()
        self._owned = frozenset[str]()
        self._given = dict[str, int]()
        self._fleet_row = world.space.fleet()
        self._new_member_seen = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def start(self) -> None:
        """Joins, and beats until ``close``."""
        self._thread.start()

    def close(self) -> None:
        """Hands everything over and leaves."""
        self._stop.set()
        self._new_member_seen.set()
        self._thread.join()
        with suppress(OSError):
            self._processes.owners(Owners())
            self._processes.shares(Shares())
        try:
            self.member.leave()
        except TurnstileError as error:  # the others find it silent
            log.warning("the fleet was not left: %s", error.message)
        self._journal.close()

    def mine(self, role: str, changes: Mapping[str, int]) -> dict[str, int]:
        """Returns the changes that this process should work on for one of its roles: the changes in
        its own granules, and in granules without a known owner."""
        chosen = dict[str, int]()
        now_ms = _monotonic_ms()
        for key, count in changes.items():
            if self._is_mine(role, key):
                chosen[key] = count
                continue
            with self._mutex:
                left = self._left[role]
                left.pop(key, None)
                left[key] = now_ms
                if len(left) > LEFT_MOST:
                    del left[next(iter(left))]
        return chosen

    def notice(self, changes: Mapping[str, int]) -> None:
        """Triggers a heartbeat at once if this member is alone and the fleet's row is among the
        changed keys: another member has joined."""
        if self._fleet_row in changes:
            self._new_member_seen.set()

    def sweeps(self) -> bool:
        """Returns whether this process should sweep, if that is one of its roles."""
        return self.member.whose(SWEEP, "") is not Ownership.OTHERS

    def _is_mine(self, role: str, key: str) -> bool:
        return self.member.whose(role, key) is not Ownership.OTHERS or self.member.granule_of(role, key) in self._given

    def _note_given(self) -> None:
        """Records the granules that this process owned before and does not own now."""
        owned = frozenset(self.member.owned_granules())
        now_ms = _monotonic_ms()
        given = {name: at_ms for name, at_ms in self._given.items() if now_ms - at_ms < GIVEN_BEATS * self._beat_ms}
        self._given = {**given, **dict.fromkeys(self._owned - owned, now_ms)}
        self._owned = owned

    def _run(self) -> None:
        began_ms = _monotonic_ms()
        while not self._stop.is_set():
            stood_still = _monotonic_ms() - began_ms > SUSPECTED_BEATS * max(self._beat_ms, self.member.next_beat_ms())
            began_ms = _monotonic_ms()
            least_ms = 0
            try:
                self._beat(stood_still=stood_still)
            except Exception as error:  # the store does not answer: until it does, this process is sure of nothing
                log.warning("no sign of life: %r", error)
                least_ms = self._beat_ms
            self._pass_on()
            rest_s = max(least_ms, self.member.next_beat_ms()) / 1000
            if self.member.members() < 2:
                self._new_member_seen.wait(rest_s)
                self._new_member_seen.clear()
                continue
            if rest_s == 0 or self._stop.wait(rest_s / 2):
                continue
            try:
                if self.member.look():
                    self._pass_on()
            except Exception as error:  # the next beat says it, if it lasts
                log.info("the others were not looked at: %r", error)
            self._stop.wait(rest_s / 2)

    def _pass_on(self) -> None:
        """Passes the present cache on to the other parts of this process."""
        for role in self._work:
            self._look_again(role)
        self._tell()

    def _beat(self, *, stood_still: bool) -> None:
        if not self._hears():
            if self.member.id:
                log.warning("this process does not hear of every change, and leaves the fleet until it does")
            self.member.leave()
            return
        before = self.member.id
        beat: Beat = self.member.beat()
        for row in beat.replaced:
            log.warning("a member's damaged row was replaced, and the member will be removed: %s", row.message)
        self._note_given()
        self._metrics.record(
            self.member.members(), len(self.member.owned_granules()), len(beat.gained), removed=beat.removed
        )
        if beat.removed:
            self._journal.note_removal(before)
        gained = {name.rpartition("/")[0] for name in beat.gained}
        if missed := self._roles if beat.removed or stood_still else gained & self._roles:
            self._catch_up(missed)

    def _tell(self) -> None:
        try:
            self._processes.owners(self.member.owners(CATALOGS))
            if MAINTAIN in self._roles:
                self._processes.shares(self.member.shares(MAINTAIN))
                for catalog, events in self._processes.maintained().items():
                    self.member.whose(MAINTAIN, catalog, events)
        except OSError as error:  # what was told before ends by itself
            log.warning("the owners could not be passed on to other processes: %s", error)

    def _look_again(self, role: str) -> None:
        """Takes back changes that were left to an owner that is now suspected, and forgets changes
        that were left long ago."""
        oldest_ms = _monotonic_ms() - 2 * SILENT_BEATS * self._beat_ms
        with self._mutex:
            left = self._left[role] = {key: at_ms for key, at_ms in self._left[role].items() if at_ms >= oldest_ms}
            keys = list(left)
        again = {key: 1 for key in keys if self._is_mine(role, key)}
        if again:
            with self._mutex:
                for key in again:
                    left.pop(key, None)
            self._work[role].do(again)


# -- between the background and light work, which has a process of its own ---------------------------------------------


class Worked(msgspec.Struct, frozen=True):
    """How many events light work has dealt with since its process began, by catalog."""

    events: Mapping[str, int] = {}


def shares_file(settings: ServerSettings) -> StructFile[Shares]:
    """Returns the file from which light work reads its assignment."""
    return StructFile(Path(settings.runtime) / "shares", Shares())


def maintained_file(settings: ServerSettings) -> StructFile[Worked]:
    """Returns the file from which the background reads the progress of light work: the load of its
    granules."""
    return StructFile(Path(settings.runtime) / "maintained", Worked())


def differences(read: Callable[[], Worked]) -> Callable[[], dict[str, int]]:
    """Returns a function that returns how many events were handled since its last call. A restarted
    process counts from zero."""
    before = dict[str, int]()

    def since() -> dict[str, int]:
        nonlocal before
        now = dict(read().events)
        grown = {name: count - (last if (last := before.get(name, 0)) <= count else 0) for name, count in now.items()}
        before = now
        return {name: count for name, count in grown.items() if count}

    return since


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
