"""What keeps the files of a table for its clones: the uuids of those that need them, in the row of the location's owner.

A clone has no files of its own when it is made: it shows those of its source. So the purge of a dropped source has to
wait for them. Both go by one row, the owner's, in the transaction that makes a clone, drops it, or begins a purge:

    clones     uuids of the clones that need what lies there
    purging    gc has begun to remove it

A clone holds only what nobody is purging, and a purge begins only where nobody holds. Whichever comes first decides, and
no clone is ever forgotten or remembered for too long (I10).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from turnstile.store.core.keys import Space
from turnstile.store.core.writes import Absent, Change, Clause, Drop, Equals, Exclude, Include, Present, Set

MAX_CLONES: Final = 200
"""Clones that may need one location: 8 kB of its owner's row, which each of them writes once and gc reads."""


class Held(msgspec.Struct, frozen=True, array_like=True):
    """A location that a clone needs: where, and whose it is (the uuid in its owner's row)."""

    location: str
    owner: str


def uncloned() -> Clause:
    """What has to hold of a location before its files may go, or somebody else may own it."""
    return Clause("uncloned", "I10", "no clone needs what lies there", Absent(("clones",)))


def hold(space: Space, held: Held, clones: Iterable[str]) -> Change:
    """Keep the location for ``clones``, as long as nobody has begun to empty it. Again is accepted."""
    return Change(
        space.location(held.location),
        (
            Clause("own", "I10", "what is cloned still owns the location", Equals(("table_id",), held.owner)),
            Clause("unpurged", "I10", "nothing that lies there is being removed", Absent(("purging",))),
        ),
        (Include(("clones",), frozenset(clones)),),
    )


def let_go(space: Space, held: Held, clones: Iterable[str]) -> Change:
    """``clones`` need the location no more."""
    owned = Clause("owned", "I10", "a location that is needed has its owner", Present(("table_id",)))
    return Change(space.location(held.location), (owned,), (Exclude(("clones",), frozenset(clones)),))


def exchange(space: Space, held: Held, known: frozenset[str], *, come: Iterable[str], go: Iterable[str]) -> Change:
    """Some clones need the location again, others no more: both in one write, which a row allows a set once only.

    Args:
        known: the clones that were read there.
    """
    path = ("clones",)
    clones = frozenset(known).difference(go).union(come)
    return Change(
        space.location(held.location),
        (
            Clause("own", "I10", "what was cloned still owns the location", Equals(("table_id",), held.owner)),
            Clause("unpurged", "I10", "nothing that lies there is being removed", Absent(("purging",))),
            Clause(
                "same clones", "I10", "they are those that were read", Equals(path, known) if known else Absent(path)
            ),
        ),
        (Set(path, clones) if clones else Drop(path),),
    )


def begin_purge(space: Space, held: Held) -> Change:
    """No clone may need the location from now on. Again is accepted."""
    own = Clause("own", "I10", "the location is still this table's", Equals(("table_id",), held.owner))
    return Change(space.location(held.location), (own, uncloned()), (Set(("purging",), True),))
