"""Every end time that a row stores, with its longest term: for reports about a clock that was ahead
(ADR 64).

An end time is a time of the future: the end of a lease, a pause, a turn. The server that writes it
adds a term to its own clock. ``ENDS`` has the longest term of each. A later time was written by a
clock that was ahead, and counts as over (``store.core.terms``). A member of a row that holds a
number and is neither in ``ENDS`` nor in the list of ``tests/unit/store/test_terms.py`` fails a test
there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from turnstile.access.core.client_rows import MAX_KEEP_S
from turnstile.catalog.changes.retry import HOLD_MS as TURN_MS
from turnstile.catalog.core.location_rows import Location
from turnstile.coordination.core.rows import TERM_MOST_MS, Task, Updateable
from turnstile.delta.core import journal_rows
from turnstile.delta.core.reservations import LEASE_MOST_MS, Register
from turnstile.delta.core.undecided import OPEN_MS
from turnstile.events.core import deliveries, follow_ups
from turnstile.gc.core import Place
from turnstile.maintenance.core import due, pins
from turnstile.maintenance.core.candidates import RunHistory, runs_task
from turnstile.store.core.rows import TASK
from turnstile.store.core.terms import latest_ms
from turnstile.store.core.writes import Row

_MEMBERS: Final[Mapping[tuple[str, str], int]] = {
    ("catalog", "turn_until"): TURN_MS,
    ("catalog", "swept"): 0,
    ("table", "reserved_until"): LEASE_MOST_MS,
    ("transaction", "until"): journal_rows.MOST_TTL_MS,
    ("group", "deadline"): OPEN_MS,
    ("event-delivery", "held_until_ms"): deliveries.HELD_MS,
    ("event-delivery", "pause_until_ms"): deliveries.LONGEST_PAUSE_MS,
    ("client", "former_until"): MAX_KEEP_S * 1000,
}
"""Of attributes of rows, in ms, by kind and name."""

_PACKED: Final[Mapping[tuple[str, str], int]] = {
    ("Reservation", "until"): LEASE_MOST_MS,
    ("Reader", "until"): pins.MOST_TTL_MS,
    ("Task", "until"): TERM_MOST_MS,
    ("LastAttempt", "again_ms"): due.LONGEST_PAUSE_MS,
    ("RunHistory", "again_ms"): due.LONGEST_PAUSE_MS,
    ("ActionState", "again_ms"): due.LONGEST_PAUSE_MS,
    ("FollowUpState", "held_until_ms"): follow_ups.HELD_MS,
    ("Place", "began_ms"): 0,
    ("Place", "before_ms"): 0,
}
"""The same for members of packed structs, by the struct's name."""

ENDS: Final[Mapping[tuple[str, str], int]] = {**_MEMBERS, **_PACKED}

STAMPS: Final = ("created", "changed_at")
"""When a row was written: not in the future, but for a clock that was ahead."""

KINDS: Final = (
    "catalog",
    "table",
    "transaction",
    "group",
    "event-delivery",
    "client",
    "reservations",
    "location",
    "updateable",
)
"""The kinds of rows that ``ahead`` looks into."""


_LIGHT_WORK: Final = "maintain."
_FOLLOW_UPS: Final = "follow-up."
_GC: Final = "collect"
"""How the ids of rows of the type begin, by their subject."""


class _Pause(msgspec.Struct, frozen=True):
    """The part of ``maintenance.work.LastAttempt`` that is an end."""

    again_ms: int = 0


class _Round(msgspec.Struct, frozen=True):
    """The part of the result of a gc run that has its place."""

    place: Place = Place()


class Ahead(msgspec.Struct, frozen=True):
    """A time in the row ``key`` that no right clock can have written by now: ``ahead_ms`` further
    than the latest one."""

    key: str
    member: str
    ahead_ms: int


def ahead(row: Row, now_ms: int) -> Iterator[Ahead]:
    """Yields the times of a row that a clock which was ahead has written. Raises the errors of a
    damaged row."""
    key = str(row["key"])
    for member, at_ms, longest_ms in _times(row):
        if at_ms > latest_ms(now_ms, longest_ms):
            yield Ahead(key, member, at_ms - now_ms - longest_ms)


def _times(row: Row) -> Iterator[tuple[str, int, int]]:
    kind = row["kind"]
    for (of, member), longest_ms in _MEMBERS.items():
        if of == kind and isinstance(row.get(member), int):
            yield member, row[member], longest_ms
    for member in STAMPS:
        if isinstance(row.get(member), int):
            yield member, row[member], 0
    if kind == Register.kind:
        for each in Register.from_row(row).reservations:
            yield f"reservation {each.id}", each.until, LEASE_MOST_MS
    elif kind == Location.kind:
        for reader in Location.from_row(row).readers:
            yield f"reader {reader.holder}", reader.until, pins.MOST_TTL_MS
    elif kind == Updateable.kind and row.get("type") == TASK.name:
        id = str(row["key"]).rpartition("/")[2]
        # another payload, such as the list of tables with a failing follow-up, or a damaged one
        with suppress(msgspec.MsgspecError, ValueError):
            yield from (
                _times_of_follow_ups(row["payload"])
                if id.startswith(_FOLLOW_UPS)
                else _times_of_task(id, row["payload"])
            )


def _times_of_task(id: str, payload: bytes) -> Iterator[tuple[str, int, int]]:
    """The lease of a task, and the ends in its result, by the subject of the task. Raises
    DecodeError."""
    task = Task.unpack(payload)
    yield "task's lease", task.until, _PACKED["Task", "until"]
    if not task.result:
        return
    if id.startswith(_LIGHT_WORK):
        again_ms = msgspec.msgpack.decode(task.result, type=_Pause).again_ms
        yield "pause of light work", again_ms, _PACKED["LastAttempt", "again_ms"]
    elif id.startswith(runs_task("")):
        yield "pause of runs by policy", RunHistory.unpack(task.result).again_ms, _PACKED["RunHistory", "again_ms"]
    elif id == _GC:
        place = msgspec.json.decode(task.result, type=_Round).place
        yield "begin of gc's round", place.began_ms, _PACKED["Place", "began_ms"]
        yield "begin of gc's round before", place.before_ms, _PACKED["Place", "before_ms"]


def _times_of_follow_ups(payload: bytes) -> Iterator[tuple[str, int, int]]:
    """The ends in a table's state of follow-ups. Raises DecodeError."""
    state = follow_ups.FollowUpState.unpack(payload)
    yield "turn of follow-ups", state.held_until_ms, _PACKED["FollowUpState", "held_until_ms"]
    for name, action in state.actions.items():
        yield f"pause of follow-up {name}", action.again_ms, _PACKED["ActionState", "again_ms"]


def description_of(found: Ahead) -> str:
    """Returns a text for operators."""
    hours = found.ahead_ms / 3_600_000
    far = f"{hours / 24:.1f} days" if hours >= 48 else f"{hours:.1f} h"
    return f"{found.member} of {found.key} is {far} ahead"
