"""Rows of the event log, and the conditional writes on them.

    event-log     one for each catalog: where the log ends, and the chunk that is being filled
    event-mark    one for each table and catalog: up to where its changes have events

An append is one transaction: the log's row and the marks of all that the events are about. So an
event is in the log exactly if its mark says so, however often a change is delivered and however
many append at once (I13).
"""

from __future__ import annotations

from typing import ClassVar, Final

from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Change, Clause, Equals, Erase, Insert, Set, new_row

CHUNK_BYTES: Final = 1_024
"""A chunk of at least this size is full. The row is paid for with every append, twice because it is
a transaction, so it is small; readers get a hundred full chunks by one request, each of some
events.
"""

APPEND_BYTES: Final = 64 * 1024
"""Packed events that one append adds at most, so that row and chunk stay far under the limits of a
row."""


class EventLog(StoredRow, frozen=True):
    """The log of a catalog.

    Attributes:
        catalog: the catalog's name.
        log: id of this log; cursors of another one lead nowhere.
        end: how many events were appended so far.
        chunk: number of the chunk that is being filled.
        tail: its events, packed. A full chunk is not appended to: it is an obj before the next one
            begins.
        changed_at: server clock of the last append (ms).
    """

    kind: ClassVar[str] = "event-log"

    catalog: str
    log: str
    end: int
    chunk: int
    tail: bytes
    changed_at: int

    @property
    def full(self) -> bool:
        """Whether the chunk is final."""
        return len(self.tail) >= CHUNK_BYTES


class EventMark(StoredRow, frozen=True):
    """Up to where the changes of one HEAD have events.

    Attributes:
        count: how often the mark was changed.
        state: the HEAD's state, or ``dropped`` for a catalog without one.
        latest: version of a table, number of a catalog's HEAD.
        floor: of a table.
        name: the full name.
        head: id of a catalog's HEAD; empty for a table.
        created: when the HEAD was created (ms).
        rewound: how often ratified versions were taken back.
    """

    kind: ClassVar[str] = "event-mark"

    count: int
    state: str
    latest: int
    floor: int
    name: str
    head: str
    created: int
    rewound: int


def append_to_log(before: EventLog | None, after: EventLog) -> Insert | Change:
    """Makes ``after`` the log that was read as ``before`` (None: there was none)."""
    if before is None:
        return Insert(after.to_row(), (new_row("I13"),))
    same = Clause("same end", "I13", "nothing was appended since the log was read", Equals(("end",), before.end))
    names = ("log", "end", "chunk", "tail", "changed_at")
    return Change(after.key, (same,), tuple(Set((name,), getattr(after, name)) for name in names))


def move_mark(before: EventMark | None, after: EventMark) -> Insert | Change:
    """Makes ``after`` the mark that was read as ``before`` (None: there was none)."""
    if before is None:
        return Insert(after.to_row(), (new_row("I13"),))
    same = Clause(
        "same mark", "I13", "no other process has made events of these changes since", Equals(("count",), before.count)
    )
    names = ("count", "state", "latest", "floor", "name", "head", "created", "rewound")
    return Change(after.key, (same,), tuple(Set((name,), getattr(after, name)) for name in names))


def forget_mark(mark: EventMark) -> Erase:
    """Erases the mark of a HEAD that is erased in the same transaction."""
    same = Clause("same mark", "I13", "no events were made since it was read", Equals(("count",), mark.count))
    return Erase(mark.key, (same,))
