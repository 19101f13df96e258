"""Reads the event log of a catalog from a place on (I13).

The log's row is read consistently and first: every chunk before the one that it fills is an obj by
then, and final. An obj that is missing, or older than the retention, is not passed over: a reader
is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnstile.events.append import RETENTION_MS, chunk_obj
from turnstile.events.core.cursors import FIELD, NOW, Place, decode_cursor
from turnstile.events.core.events import Event, unpack
from turnstile.events.core.rows import EventLog
from turnstile.store.core.errors import ErrorType, StateConflict
from turnstile.store.core.rows import EVENTS
from turnstile.store.ports import Obj, World

CHUNKS: Final = 256
"""Full chunks that one call reads: a caller that may see few of the events gets a cursor further
on, and asks again."""

_AT_ONCE: Final = 64


class EventReader:
    """Reads logs. No state between calls."""

    def __init__(self, world: World) -> None:
        self._world = world

    def has_log(self, catalog: str) -> bool:
        """Whether there was ever an event in ``catalog``."""
        return self._log(catalog) is not None

    def place(self, catalog: str, after: str | None) -> Place:
        """Returns the place of a client's ``after``: a cursor, the end (``now``), or by default the
        oldest event in the log. Raises InvalidRequest for any other text."""
        if after is not None and after != NOW:
            return decode_cursor(after, catalog)
        log = self._log(catalog)
        if log is None:
            return Place(catalog.lower(), "", 0, 0)
        if after is None:
            return Place(catalog.lower(), log.log, self._oldest(log), 0)
        return Place(catalog.lower(), log.log, log.chunk, len(unpack(log.tail)))

    def events(self, place: Place) -> Iterator[tuple[Event, Place]]:
        """Yields events after ``place``, each with the place after it: in order, up to the end or
        ``CHUNKS`` chunks on.

        Raises:
            StateConflict: ``CursorExpired``; the events after the place are gone.
        """
        log = self._log(place.catalog)
        if log is None:
            if place.log:
                raise expired_cursor()
            return
        if not place.log:
            place = Place(place.catalog, log.log, 0, 0)
        if place.log != log.log or place.chunk > log.chunk:
            raise expired_cursor()
        last = min(log.chunk, place.chunk + CHUNKS)
        for first in range(place.chunk, last, _AT_ONCE):
            numbers = range(first, min(first + _AT_ONCE, last))
            objs = self._world.objs.get_many(
                self._world.space.objs(log.catalog), [chunk_obj(log.log, number) for number in numbers]
            )
            for number in numbers:
                obj = objs.get(chunk_obj(log.log, number))
                if obj is None or not self._is_kept(obj):
                    raise expired_cursor()
                yield from _from(place, number, obj.decode_with(unpack))
        if last == log.chunk:
            yield from _from(place, log.chunk, unpack(log.tail))

    def place_after_gap(self, place: Place) -> Place:
        """Returns where to go on if ``events`` raises ``CursorExpired`` at once for ``place``: the
        oldest event behind it that is kept, or of all, where the log was begun anew or is behind
        the place.
        """
        log = self._log(place.catalog)
        if log is None:
            return Place(place.catalog, "", 0, 0)
        is_beyond = place.chunk > log.chunk or (place.chunk == log.chunk and place.index > len(unpack(log.tail)))
        chunk = self._oldest(log) if place.log != log.log or is_beyond else self._oldest(log, place.chunk + 1)
        return Place(place.catalog, log.log, chunk, 0)

    def _log(self, catalog: str) -> EventLog | None:
        row = self._world.refs.read(self._world.space.event_log(catalog))
        return None if row is None else EventLog.from_row(row)

    def _oldest(self, log: EventLog, first: int = 0) -> int:
        """The first chunk from ``first`` on that is kept."""
        prefix = EVENTS.id(f"{log.log}/")
        if log.chunk > first:
            for obj in self._world.objs.list(self._world.space.objs(log.catalog), prefix):
                number = int(obj.id.removeprefix(prefix))
                if number >= first and self._is_kept(obj):
                    return min(number, log.chunk)
        return log.chunk

    def _is_kept(self, obj: Obj) -> bool:
        return self._world.clock.now_ms() - obj.created_us // 1000 < RETENTION_MS


def _from(place: Place, number: int, events: list[Event]) -> Iterator[tuple[Event, Place]]:
    start = place.index if number == place.chunk else 0
    if start > len(events):
        raise expired_cursor()
    for index in range(start, len(events)):
        yield events[index], Place(place.catalog, place.log, number, index + 1)


def expired_cursor() -> StateConflict:
    """The refusal of a cursor before an event that is gone, or of a log that was begun anew."""
    days = RETENTION_MS // 86_400_000
    return StateConflict(
        ErrorType.CURSOR_EXPIRED,
        f"the events that follow this cursor are not kept any more: they are for {days} days",
        field=FIELD,
        remedy="read the tables as they are now, then follow events from the oldest that is kept (without a cursor) "
        "or from 'now'",
    )
