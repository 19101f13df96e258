"""Readers register for versions of a table, and vacuums announce the versions that they leave: both
in the row of the location's owner (ADR 30).

    a reader      holds versions until a time; it renews, or the time ends. Refused for versions
                  that are not whole any more
    a clean-up    of the log does the same with the versions before its boundary
    a vacuum      reads all pins (``pins``), writes its marks, and only then removes files that are
                  older and not marked. The
                  marks are written under the clauses that no reader and no clone has come since the
                  pins were read

Every step may be repeated. A vacuum that dies after its marks has removed nothing, or a part; the
next one continues. Marks only narrow: a version that one vacuum may have touched never counts as
whole for a later one.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.catalog.core.location_rows import HeldLocation, Location, Reader
from turnstile.catalog.describe import not_active
from turnstile.delta.core.head import ACTIVE, STUCK, TableHead
from turnstile.delta.undecided import seen_one
from turnstile.maintenance.core.pins import (
    LEAST_TTL_MS,
    MOST_TTL_MS,
    Marks,
    Pin,
    check_holder,
    cut_at,
    in_use,
    mark,
    marks_in,
    marks_of,
    set_readers,
    with_reader,
    without_holder,
)
from turnstile.maintenance.holders import SKEW_MS
from turnstile.maintenance.pins import Pins
from turnstile.store.core.errors import ErrorType, InvalidRequest, NotFound, StateConflict
from turnstile.store.core.writes import Change, Write
from turnstile.store.ports import Rejected, SomeRejected, World

_ATTEMPTS: Final = 6


class VacuumPlan(msgspec.Struct, frozen=True):
    """The limits of a vacuum of a table.

    Attributes:
        latest: the table's latest version.
        marks: the versions that stay whole.
        before: the marks of earlier vacuums.
        files_before_ms: files that are not older stay in any case: they may belong to a commit in
            progress.
        pins: the pins behind the marks.
    """

    table_id: str
    latest: int
    marks: Marks
    before: Marks
    files_before_ms: int
    pins: tuple[Pin, ...]


class Holds:
    """Registers readers and announces vacuums. Cheap: one per request, or shared."""

    def __init__(self, world: World, pins: Pins) -> None:
        self._world = world
        self._pins = pins

    def table(self, table_id: str) -> TableHead:
        """The HEAD of a table. Raises NotFound."""
        row = self._world.refs.read(self._world.space.table(table_id))
        if row is None:
            raise NotFound("table", table_id, field="table_id", remedy="load the table by name again")
        return seen_one(self._world, TableHead.from_row(row))

    def hold(self, table_id: str, holder: str, principal: str, *, first: int, last: int | None, ttl_ms: int) -> Pin:
        """Registers a reader, or renews it: ``holder`` of the same ``principal`` then has these
        versions and this time. Two reads, one write. Returns the pin.

        Raises:
            InvalidRequest: a name that is none, a version that there is not, a time out of range.
            NotFound: no such table.
            StateConflict: ``VersionsGone``, ``TooManyReaders``; ``TableNotActive``: its files may
                be about to go, or are another
                table's; ``ConcurrentChange``.
        """
        check_holder(holder)
        if not LEAST_TTL_MS <= ttl_ms <= MOST_TTL_MS:
            problem = f"ttl_ms must be between {LEAST_TTL_MS} and {MOST_TTL_MS}, not {ttl_ms}"
            raise InvalidRequest(problem, field="ttl_ms", remedy="a minute at least, a week at most; renew it")
        for _ in range(_ATTEMPTS):
            head = self.table(table_id)
            if head.state not in (ACTIVE, STUCK):
                raise not_active(head.name, self._world.refs.read(head.key))
            if not 0 <= first <= head.latest:
                problem = f"'{head.name}' has no version {first}: its latest is {head.latest}"
                raise InvalidRequest(problem, field="version", remedy="name a version that was read")
            owner = self._pins.owner(head)
            now = self._world.clock.now_ms()
            reader = Reader(holder, principal, first, -1 if last is None else last, now + ttl_ms)
            readers = with_reader(owner, reader, now, SKEW_MS)
            if self._write(set_readers(_held_location(owner, head), owner, readers)):
                return Pin(first, last, "reader", holder, reader.until)
        raise _moving(head)

    def release(self, table_id: str, holder: str, principal: str) -> None:
        """Ends a reader's hold; again, it changes nothing. Raises NotFound: no such table;
        StateConflict."""
        check_holder(holder)
        for _ in range(_ATTEMPTS):
            head = self.table(table_id)
            owner = self._pins.owner(head)
            readers = without_holder(owner, holder, principal)
            if readers == owner.readers or self._write(set_readers(_held_location(owner, head), owner, readers)):
                return
        raise _moving(head)

    def plan(self, table_id: str, files_ms: int | None = None) -> VacuumPlan:
        """The limits of a vacuum now; ``files_ms`` as for ``Pins.of``. Writes nothing. Raises as
        ``announce``."""
        return self._plan(table_id, files_ms)[0]

    def announce(self, table_id: str, files_ms: int | None = None) -> VacuumPlan:
        """Writes the marks of a vacuum that is about to begin, and returns them. From then on no
        reader can register for other versions.

        Raises:
            NotFound: no such table.
            StateConflict: ``TableNotActive``; ``ConcurrentChange``: clones and readers kept coming.
        """
        for _ in range(_ATTEMPTS):
            plan, head, owner = self._plan(table_id, files_ms)
            writes: list[Write] = [mark(_held_location(owner, head), owner, plan.marks), in_use(head)]
            if not isinstance(self._world.refs.transact(writes, self._world.ids.uuid()), SomeRejected):
                return plan
        raise _moving(head)

    def announce_cleanup(self, table_id: str, location: str, boundary: int) -> None:
        """Writes the marks of a clean-up of the log at ``location`` that leaves the versions from
        ``boundary`` on, unless they are written. From then on no reader can register for a version
        before it. Two reads if they are.

        Raises:
            NotFound: no such table.
            StateConflict: ``TableNotActive``: it is not in ordinary use, or has changed;
                ``ConcurrentChange``: a new holder needs a version before the boundary, or clones
                and readers kept coming.
        """
        for _ in range(_ATTEMPTS):
            head = self.table(table_id)
            if head.state != ACTIVE:
                raise not_active(head.name, self._world.refs.read(head.key))
            if head.location != location or head.floor < boundary:
                problem = f"the HEAD of '{head.name}' was restored, or moved"
                raise StateConflict(ErrorType.TABLE_NOT_ACTIVE, problem, field="table", remedy="the next run goes on")
            before = marks_in(self._pins.owner(head))
            if cut_at(before, boundary) == before:
                return
            table_pins = self._pins.of(head)
            first = min(table_pins.pins, key=lambda pin: pin.first)
            if first.first < boundary:
                problem = (
                    f"version {first.first} of '{head.name}' is needed ({first.kind} {first.holder}".rstrip() + ")"
                )
                raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, field="table", remedy="the next run goes on")
            marks = cut_at(marks_in(table_pins.owner), boundary)
            writes: list[Write] = [mark(_held_location(table_pins.owner, head), table_pins.owner, marks), in_use(head)]
            if not isinstance(self._world.refs.transact(writes, self._world.ids.uuid()), SomeRejected):
                return
        raise _moving(head)

    def _plan(self, table_id: str, files_ms: int | None) -> tuple[VacuumPlan, TableHead, Location]:
        head = self.table(table_id)
        if head.state != ACTIVE:
            raise not_active(head.name, self._world.refs.read(head.key))
        now = self._world.clock.now_ms()
        table_pins = self._pins.of(head, files_ms=files_ms)
        before = marks_in(table_pins.owner)
        kept_ms = self._pins.files_ms(head) if files_ms is None else files_ms
        since = now if table_pins.writing_since is None else min(now, table_pins.writing_since)
        files_before = 0 if kept_ms is None else max(0, since - kept_ms)
        marks = marks_of(table_pins.pins, before)
        return (
            VacuumPlan(head.table_id, head.latest, marks, before, files_before, table_pins.pins),
            head,
            table_pins.owner,
        )

    def _write(self, change: Change) -> bool:
        return not isinstance(self._world.refs.write(change), Rejected)


def _held_location(owner: Location, head: TableHead) -> HeldLocation:
    return HeldLocation(head.location, owner.table_id)


def _moving(head: TableHead) -> StateConflict:
    problem = f"readers, clones or the state of '{head.name}' changed during every attempt"
    return StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy="send the same request again", retry_after_ms=100)
