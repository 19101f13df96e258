"""Pins: the versions of a Delta table that must stay readable, with holder and end (I10, ADR 30).
Pure.

A version is readable while its commits (or a checkpoint and the commits after it) and the files
that it names are there. The pinned versions:

    latest        the latest version and all that follow
    retention     every version that was the latest within ``delta.deletedFileRetentionDuration``:
                  time travel
    log           commits of ``delta.logRetentionDuration``: only the log, not the files that it
                  names
    moment        the moments of the catalog's kept history: a clone can be made as of any of them
    snapshot      the version that a named snapshot of the catalog recorded, or that the table had
                  at its moment
    clone         the version that a pinned clone shows
    transaction   the version that an unsettled announced transaction has read, or is based on, and
                  all that followed
    reader        the versions that a reader registered

Readers and vacuums write them to the row of a location's owner (``catalog.core.location_rows``,
"marks"):

    register, unregister    a reader needs some versions until a time, or needs them no more
    mark                    a vacuum leaves these versions, and removes the files of no other ones

All of them change ``revision``, and need it to be the one that they were computed from; so does
every decision by the marks. A vacuum also needs the clones to be the same as at its start. The
first write wins: a reader that registered before a vacuum's mark is among its pins, a later one is
refused for versions below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from turnstile.catalog.core.location_rows import HeldLocation, Location, Reader, holdable, same_clones, same_marks
from turnstile.delta.core.head import ACTIVE, TableHead
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

PinKind = Literal["latest", "retention", "log", "moment", "snapshot", "clone", "transaction", "reader"]


class Pin(msgspec.Struct, frozen=True):
    """Versions that stay.

    Attributes:
        first, last: the versions, both included; ``last`` None: and all that follow.
        holder: a uuid, the name of a snapshot, the id of a transaction, the name of a reader; empty
            for none.
        until_ms: when it ends by itself; None: when it is removed.
        owner: the principal that holds it, if one does.
    """

    first: int
    last: int | None
    kind: PinKind
    holder: str = ""
    until_ms: int | None = None
    owner: str = ""

    def covers(self, version: int) -> bool:
        """Whether ``version`` is among its versions."""
        return self.first <= version and (self.last is None or version <= self.last)


def of_files(pins: Iterable[Pin]) -> tuple[Pin, ...]:
    """The pins that need the data files of versions, too: all but the pins of the log."""
    return tuple(pin for pin in pins if pin.kind != "log")


def lowest(pins: Iterable[Pin]) -> int:
    """The lowest pinned version. A log from there on, with the files for its first version, has all
    pinned versions."""
    return min(pin.first for pin in pins)


KEPT_MAX: Final = 200
"""Versions below the mark that a location's row lists, about twenty bytes each. Where more are
pinned the mark is lower."""


class Marks(msgspec.Struct, frozen=True):
    """The versions that a vacuum leaves whole: from ``readable_from`` on all, below it the versions
    in ``kept``."""

    readable_from: int = 0
    kept: frozenset[int] = frozenset()

    def readable(self, version: int) -> bool:
        """Whether a vacuum with these marks leaves the version whole."""
        return version >= self.readable_from or version in self.kept


def marks_of(pins: Iterable[Pin], before: Marks) -> Marks:
    """Returns the marks of a vacuum that leaves all pinned versions, as far as they were whole
    ``before``: a version that an earlier vacuum may have touched never counts as whole again.

    Requires a pin without an end: the latest version's.
    """
    needed = of_files(pins)
    first = min(pin.first for pin in needed if pin.last is None)
    older = sorted({(pin.first, pin.last + 1) for pin in needed if pin.last is not None})
    ranges = [range(start, min(stop, first)) for start, stop in older]
    while sum(map(len, ranges)) > KEPT_MAX:
        first = min(first, ranges.pop().start)
        ranges = [range(each.start, min(each.stop, first)) for each in ranges]
    kept = {version for each in ranges for version in each}
    kept.update(version for version in before.kept if version >= first)
    readable_from = max(first, before.readable_from)
    return Marks(readable_from, frozenset(version for version in kept if before.readable(version)))


def cut_at(before: Marks, boundary: int) -> Marks:
    """Returns the marks of a clean-up of the log that leaves every version from the boundary on:
    below it none is whole any more."""
    kept = frozenset(version for version in before.kept if version >= boundary)
    return Marks(max(before.readable_from, boundary), kept)


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
