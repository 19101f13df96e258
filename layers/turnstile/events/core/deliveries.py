"""Deliveries: up to where a target has got the events of a catalog. Pure.

held      one deliverer at a time sends to a target, for as long as it is known to be at it; a clock
that is wrong makes
          duplicates, and no hole
moved     behind the events that the target acknowledged
failed    the target is left alone for a while, twice as long after each failure
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from turnstile.events.core.cursors import Place
from turnstile.store.core.limits import growing_pause_ms
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.terms import is_over
from turnstile.store.core.writes import Change, Clause, Equals, Insert, Set, new_row

HELD_MS: Final = 60_000
"""How long a target is held from one batch to the next: longer than a target may take to answer."""

FIRST_PAUSE_MS: Final = 1_000
LONGEST_PAUSE_MS: Final = 5 * 60_000

ERROR_CHARACTERS: Final = 300


class EventDelivery(StoredRow, frozen=True):
    """The progress of one target in the log of one catalog.

    Attributes:
        catalog: the catalog's name.
        target: the target's name.
        count: how often the row was changed.
        log, chunk, index: the place after the last acknowledged event (``events.core.cursors``).
        sent: events that it acknowledged, duplicates included.
        failures: attempts that failed since the last acknowledged one.
        error: why the last of them failed.
        held_until_ms: until when a deliverer has the target; 0: none has.
        pause_until_ms: nothing is sent before, after a failure.
        changed_at: server clock of the last change (ms).
    """

    kind: ClassVar[str] = "event-delivery"

    catalog: str
    target: str
    count: int
    log: str
    chunk: int
    index: int
    sent: int
    failures: int
    error: str
    held_until_ms: int
    pause_until_ms: int
    changed_at: int

    @property
    def place(self) -> Place:
        return Place(self.catalog, self.log, self.chunk, self.index)

    def due_ms(self, now: int, *, alone: bool) -> int:
        """Returns the time (ms) from which on events may be sent: no other deliverer has the
        target, which is only possible if the caller is not ``alone``, and the pause after a failure
        is over. A time that a clock which was ahead has written counts as over.
        """
        pause_ms = 0 if is_over(self.pause_until_ms, now, LONGEST_PAUSE_MS) else self.pause_until_ms
        held_ms = 0 if alone or is_over(self.held_until_ms, now, HELD_MS) else self.held_until_ms
        return max(pause_ms, held_ms)


def first_delivery(key: str, target: str, place: Place, now: int) -> EventDelivery:
    """Returns the delivery to a new target, held."""
    return EventDelivery(
        key, place.catalog, target, 0, place.log, place.chunk, place.index, 0, 0, "", now + HELD_MS, 0, now
    )


def with_holder(delivery: EventDelivery, now: int) -> EventDelivery:
    """Returns the delivery, held by the deliverer that found it due."""
    return _with_change(delivery, now, held_until_ms=now + HELD_MS)


def after_acknowledgement(delivery: EventDelivery, place: Place, count: int, now: int) -> EventDelivery:
    """Returns the delivery behind ``count`` more events that the target acknowledged, still
    held."""
    return _with_change(
        delivery, now, log=place.log, chunk=place.chunk, index=place.index, sent=delivery.sent + count, failures=0,
        error="", held_until_ms=now + HELD_MS, pause_until_ms=0,
    )  # fmt: skip


def after_failure(delivery: EventDelivery, error: str, now: int) -> EventDelivery:
    """Returns the delivery after an attempt that failed with ``error``."""
    failures = delivery.failures + 1
    return _with_change(
        delivery, now, failures=failures, error=error[:ERROR_CHARACTERS], held_until_ms=0,
        pause_until_ms=now + pause_ms(failures),
    )  # fmt: skip


def without_holder(delivery: EventDelivery, now: int) -> EventDelivery:
    """Returns the delivery without a holder."""
    return _with_change(delivery, now, held_until_ms=0)


def pause_ms(failures: int) -> int:
    """Returns how long a target is left alone after its ``failures``-th failure in a row."""
    return growing_pause_ms(failures, FIRST_PAUSE_MS, LONGEST_PAUSE_MS)


def change_delivery(before: EventDelivery | None, after: EventDelivery) -> Insert | Change:
    """Makes ``after`` the delivery that was read, or written, as ``before`` (None: there was
    none)."""
    if before is None:
        return Insert(after.to_row(), (new_row("I14"),))
    same = Clause("same delivery", "I14", "no other deliverer moved the place", Equals(("count",), before.count))
    names = msgspec.structs.asdict(after).keys() - {"key", "catalog", "target"}
    return Change(after.key, (same,), tuple(Set((name,), getattr(after, name)) for name in sorted(names)))


def _with_change(delivery: EventDelivery, now: int, **members: object) -> EventDelivery:
    return msgspec.structs.replace(delivery, count=delivery.count + 1, changed_at=now, **members)
