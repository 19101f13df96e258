"""Writes of readers and vacuums to the row of a location's owner (``catalog.core.location_rows``,
"marks"). Pure.

    register, unregister    a reader needs some versions until a time, or needs them no more
    mark                    a vacuum leaves these versions, and removes the files of no other ones

All of them change ``revision``, and need it to be the one that they were computed from; so does
every decision by the marks. A vacuum also needs the clones to be the same as at its start. The
first write wins: a reader that registered before a vacuum's mark is among its pins, a later one is
refused for versions below it (I10).
"""

from __future__ import annotations

import re
from typing import Final

from turnstile.catalog.core.location_rows import HeldLocation, Location, Reader, holdable, same_clones, same_marks
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.maintenance.core.pins import Marks
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict
from turnstile.store.core.terms import is_over
from turnstile.store.core.writes import Action, Change, Check, Clause, Drop, Equals, Set

MINUTE_MS: Final = 60_000
LEAST_TTL_MS: Final = MINUTE_MS
MOST_TTL_MS: Final = 7 * 24 * 60 * MINUTE_MS
"""For how long a reader may register at once; it can renew."""

READERS_MAX: Final = 30
READERS_EACH: Final = 8
"""The limits of readers of one table, and of one principal: each takes some hundred bytes of a row
that loads read."""

_HOLDER: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@:-]{0,79}", re.ASCII)


def check_holder(holder: str) -> str:
    """Returns a reader's name for itself. Raises InvalidRequest for one that is none."""
    if not _HOLDER.fullmatch(holder):
        remedy = "up to 80 letters, digits, '_', '.', '@', ':' or '-', beginning with a letter or digit"
        raise InvalidRequest(f"holder {holder[:90]!r} is no name of a reader", field="holder", remedy=remedy)
    return holder


def marks_in(owner: Location) -> Marks:
    """The marks that a row has."""
    return Marks(owner.readable_from, frozenset(map(int, owner.kept)))


def with_reader(owner: Location, reader: Reader, now: int, skew_ms: int) -> tuple[Reader, ...]:
    """Returns the readers of a row with ``reader`` added, in place of the reader of the same name
    and principal, without expired ones.

    Raises:
        StateConflict: ``VersionsGone``: a vacuum may have removed files that they need;
            ``TooManyReaders``.
    """
    if not whole(owner, reader):
        problem = (
            f"version {reader.first} is not whole any more: vacuum or clean-up left those from {owner.readable_from} on"
        )
        remedy = f"register for version {owner.readable_from} or a later one"
        raise StateConflict(
            ErrorType.VERSIONS_GONE, problem, field="version", remedy=remedy, readable_from=owner.readable_from
        )
    others = tuple(
        each for each in without_holder(owner, reader.holder, reader.principal) if is_live(each, now, skew_ms)
    )
    own = sum(each.principal == reader.principal for each in others)
    if own >= READERS_EACH or len(others) >= READERS_MAX:
        problem = f"{len(others)} readers are registered, {own} of them by the same principal"
        remedy = "release one, or wait until the time of one is over"
        raise StateConflict(ErrorType.TOO_MANY_READERS, problem, field="holder", remedy=remedy, limit=READERS_EACH)
    return (*others, reader)


def is_live(reader: Reader, now: int, skew_ms: int) -> bool:
    """Whether a reader's time is not over, by the clock of any server; one that ends later than a
    reader may ask for was registered by a clock that was ahead, and is over."""
    return not is_over(reader.until + skew_ms + 1, now, MOST_TTL_MS)


def whole(owner: Location, reader: Reader) -> bool:
    """Whether every version that the reader wants is whole."""
    below = owner.readable_from - 1
    last = min(below, reader.first + len(owner.kept))  # one that is not whole is among these, or there is none
    if reader.last >= 0:
        last = min(last, reader.last)
    return all(owner.readable(version) for version in range(reader.first, last + 1))


def without_holder(owner: Location, holder: str, principal: str) -> tuple[Reader, ...]:
    """The readers of a row without one."""
    return tuple(each for each in owner.readers if (each.holder, each.principal) != (holder, principal))


def set_readers(held: HeldLocation, owner: Location, readers: tuple[Reader, ...]) -> Change:
    """The readers of a location are these."""
    clauses = (*holdable(held), same_marks(owner.revision))
    action: Action = Set(("readers",), [reader.pack() for reader in readers]) if readers else Drop(("readers",))
    return Change(owner.key, clauses, (action, Set(("revision",), owner.revision + 1)))


def mark(held: HeldLocation, owner: Location, marks: Marks) -> Change:
    """Begins a vacuum that leaves the versions of ``marks``; ``owner`` is the row from which its
    pins were read."""
    clauses = (*holdable(held), same_clones(owner.clones), same_marks(owner.revision))
    kept: Action = Set(("kept",), {str(version) for version in marks.kept}) if marks.kept else Drop(("kept",))
    actions = (Set(("readable_from",), marks.readable_from), kept, Set(("revision",), owner.revision + 1))
    return Change(owner.key, clauses, actions)


def in_use(head: TableHead) -> Check:
    """Goes with ``mark``: nothing is removed from a table that is dropped, leaving, stuck or
    recovering."""
    active = Clause("active", "I10", "the table is in ordinary use", Equals(("state",), ACTIVE))
    return Check(head.key, (active,))
