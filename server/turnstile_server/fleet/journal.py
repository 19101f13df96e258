"""Events of the fleet: each event of this process's member is a line of the log, and a row in the
store (``turnstile.events.fleet_log``).

The member's transactions are recorded as they are accepted (``NotedRefs``), so a heartbeat without
changes costs no further request. A separate thread appends, so the heartbeat goes on meanwhile.
Events that the store refuses are tried again. A crash can lose events, and nothing else.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from turnstile.events.core.events import Event
from turnstile.events.fleet_log import FleetLog, fleet_event
from turnstile.fleet.core.changes import (
    REFUSED,
    REMOVED,
    TAKEN_OVER,
    FleetChange,
    changes_in,
    joined_name,
    merge_alike,
)
from turnstile.fleet.core.rows import MemberRow
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import AllAccepted, Refs, SomeRejected, World
from turnstile_server.loops import EndingThread
from turnstile_server.world import RefsAround

GATHER_S: Final = 0.5
"""How long events are gathered, and half of the longest pause between two attempts."""

AT_ONCE: Final = 100
"""Events that are appended together."""

WAITING_MOST: Final = 2_000
"""Events that wait; of more, the oldest are lost."""

CLOSE_S: Final = 5.0

log = logging.getLogger("turnstile.fleet")


class FleetJournal(EndingThread):
    """Writes the events of this process's member. Safe for threads. At its end it appends the
    events that wait, if that does not take long.

    Args:
        me: returns the id of the member.
    """

    def __init__(self, world: World, me: Callable[[], str]) -> None:
        super().__init__("fleet events", CLOSE_S)
        self._world = world
        self._me = me
        self._log = FleetLog(world)
        self._names = dict[str, str]()
        self._series = world.ids.uuid()
        self._count = 0
        self._happened = list[tuple[FleetChange, str]]()
        self._waiting = list[Event]()
        self._thread.start()

    def recording_world(self) -> World:
        """Returns the world with refs that record their transactions, for the member."""
        return replace(self._world, refs=NotedRefs(self._world.refs, self._note_transaction, self._note_member))

    def note_removal(self, id: str) -> None:
        """Notes that the member ``id`` found that it had been removed."""
        self._note([FleetChange(REFUSED, id)])

    def _note_transaction(self, writes: Sequence[Write]) -> None:
        with self._changed:
            self._names |= joined_name(writes)
        self._note(changes_in(self._world.space, self._me(), writes))

    def _note_member(self, rows: Iterable[Row]) -> None:
        names = {row["id"]: row["name"] for row in rows if row["kind"] == MemberRow.kind and "name" in row}
        with self._changed:
            self._names |= names

    def _note(self, happened: list[FleetChange]) -> None:
        if happened:
            with self._changed:
                self._happened += [(change, self._me() or change.member) for change in happened]
                self._changed.notify_all()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._happened or self._waiting or self._stop.is_set())
            self._stop.wait(random.uniform(GATHER_S, 2 * GATHER_S))  # noqa: S311 - so that members do not meet
            self._gather()
            self._append()
        until_s = time.monotonic() + CLOSE_S
        self._gather()
        while not self._append() and time.monotonic() < until_s:
            time.sleep(random.uniform(0, GATHER_S))  # noqa: S311

    def _gather(self) -> None:
        """Makes events, each with a line of the log."""
        with self._changed:
            happened = self._happened
            self._happened = []
            names = dict(self._names)
            now = self._world.clock.now_ms()
        for by in dict.fromkeys(by for _, by in happened):
            for change in merge_alike(change for change, writer in happened if writer == by):
                self._count += 1
                event = fleet_event(f"fleet/{self._series}/{self._count}", change, by, names, now)
                loud = change.type in (REMOVED, TAKEN_OVER, REFUSED)
                extra = {"member": event.subject, "member_name": event.name, **event.data}
                log.log(logging.WARNING if loud else logging.INFO, "%s", event.type, extra=extra)
                self._waiting.append(event)
        if len(self._waiting) > WAITING_MOST:
            log.warning("%d events of the fleet are lost: the store takes none", len(self._waiting) - WAITING_MOST)
            del self._waiting[:-WAITING_MOST]

    def _append(self) -> bool:
        """Appends the oldest that wait; whether nothing is left."""
        try:
            if self._waiting and self._log.append(self._waiting[:AT_ONCE]):
                del self._waiting[:AT_ONCE]
        except Exception as error:  # the store does not answer: the next attempt may succeed
            log.warning("events of the fleet are not written: %r", error)
        return not self._waiting


class NotedRefs(RefsAround):
    """Refs that tell of transactions that were accepted, and of rows that were read together."""

    def __init__(
        self, refs: Refs, transacted: Callable[[Sequence[Write]], None], seen: Callable[[Iterable[Row]], None]
    ) -> None:
        super().__init__(refs)
        self._note_transaction = transacted
        self._note_member = seen

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        rows = self._refs.read_many(keys)
        self._note_member(rows.values())
        return rows

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        response = self._refs.transact(writes, token)
        if isinstance(response, AllAccepted):
            self._note_transaction(writes)
        return response
