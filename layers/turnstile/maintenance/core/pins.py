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
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

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
