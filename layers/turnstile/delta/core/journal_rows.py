"""Rows of the journal of transactions, and the writes that change them: one for each transaction
that its client announced.

    open ──── the group's own write ────▶ committed
      └────── abort, or gc after the end ▶ aborted

``committed`` is part of the very write that ratifies the group (I8), under the clause that the row
is open and still about these commits. So a row has the outcome of its transaction at every moment,
and a copy of the group that arrives after an abort is refused for good (I3). A row that was removed
refuses as well, since the write requires that it exists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal

import msgspec

from turnstile.store.core.rows import StoredRow
from turnstile.store.core.terms import latest_ms
from turnstile.store.core.writes import (
    Action,
    AtLeast,
    AtMost,
    Below,
    Change,
    Clause,
    Either,
    Equals,
    Erase,
    Insert,
    Set,
    new_row,
)

State = Literal["open", "committed", "aborted"]

OPEN: Final[State] = "open"
COMMITTED: Final[State] = "committed"
ABORTED: Final[State] = "aborted"

MINUTE_MS: Final = 60_000
LEAST_TTL_MS: Final = MINUTE_MS
MOST_TTL_MS: Final = 7 * 24 * 60 * MINUTE_MS
USUAL_TTL_MS: Final = 24 * 60 * MINUTE_MS
"""For how long an entry is open: a day, unless the client says otherwise."""


class JournalRow(StoredRow, frozen=True):
    """A transaction that a client announced before it sent it.

    Attributes:
        id: the group's, a uuid.
        attempt: rises with every other set of commits that the client announces under this id, as
            after a rebase.
        obj: id of the obj that holds the commits; it names their content, so equal ids are equal
            groups.
        written, read: tables, with the version that each is to become, or was read at.
        slack: of the tables in ``read``, by how many versions each may be behind, where it may; for
            people.
        isolation: as the client names it; for people.
        owner: the principal that announced it; for people.
        until: the end (ms), after which gc aborts it.
        settled: when it was committed or aborted (ms); 0 while it is open.
        catalog: the catalog that is changed, or was read, as well; empty where it is about commits
            alone.
        freed: staged files of an aborted transaction that gc may remove at once, as ``<table
            id>/<name>``.
    """

    kind: ClassVar[str] = "transaction"

    id: str
    state: State
    attempt: int
    obj: str
    written: dict[str, int]
    read: dict[str, int]
    isolation: str
    owner: str
    created: int
    until: int
    settled: int = 0
    freed: tuple[str, ...] = ()
    catalog: str = ""
    slack: dict[str, int] = msgspec.field(default_factory=dict)


def announce(row: JournalRow) -> Insert:
    """The first entry of a transaction."""
    return Insert(row.to_row(), (new_row("I3"),))


def announce_again(row: JournalRow) -> Change:
    """Other commits under the same id, of a later attempt; a late copy of an earlier one changes
    nothing."""
    actions = (
        Set(("attempt",), row.attempt),
        Set(("obj",), row.obj),
        Set(("written",), row.written),
        Set(("read",), row.read),
        Set(("slack",), row.slack),
        Set(("until",), row.until),
    )
    later = Clause("later attempt", "I3", "no later attempt was announced", Below(("attempt",), row.attempt))
    return Change(row.key, (_open(), later), actions)


def commit_entry(key: str, obj: str, now: int) -> Change:
    """The write of a group of commits to its entry, in its own transaction."""
    return Change(key, (_open(), _same_commits(obj)), (Set(("state",), COMMITTED), Set(("settled",), now)))


def abort_entry(key: str, obj: str, freed: Sequence[str], now: int) -> Change:
    """After it no copy of the group is ratified any more."""
    actions: list[Action] = [Set(("state",), ABORTED), Set(("settled",), now)]
    if freed:
        actions.append(Set(("freed",), list(freed)))
    return Change(key, (_open(), _same_commits(obj)), tuple(actions))


def expire_entry(key: str, now: int) -> Change:
    """The same for an entry whose end has passed. gc removes its staged files like the files of any
    loser."""
    ended = Either((AtMost(("until",), now), AtLeast(("until",), latest_ms(now, MOST_TTL_MS) + 1)))
    over = Clause("over", "I10", "its end is over, or no right clock wrote it", ended)
    return Change(key, (_open(), over), (Set(("state",), ABORTED), Set(("settled",), now)))


def forget_entry(row: JournalRow) -> Erase:
    """Remove a settled entry."""
    return Erase(row.key, (Clause("settled", "I10", "it was settled then", Equals(("settled",), row.settled)),))


def staged_name(freed: str) -> tuple[str, str]:
    """Table id and name of an entry of ``freed``."""
    table_id, _, name = freed.partition("/")
    return table_id, name


def freed_names(staged: Mapping[str, str]) -> tuple[str, ...]:
    """Entries of ``freed`` from staged names by table id."""
    return tuple(f"{table_id}/{name}" for table_id, name in sorted(staged.items()))


def _open() -> Clause:
    return Clause("undecided", "I3", "it is neither committed nor aborted", Equals(("state",), OPEN))


def _same_commits(obj: str) -> Clause:
    return Clause("same commits", "I8", "the entry is about these commits", Equals(("obj",), obj))
