"""Leases: who holds a name until when, in one row that each holder replaces by compare-and-swap.

    lease    {key, kind, holder, until, fence, created}

``holder`` is a random token that every renewal replaces: a copy of a process that renews with an old one is refused.
``until`` (ms) only ever rises. A lease is taken over when the taker's clock is past it; a wrong clock may take it early,
so whoever needs more than good manners uses what the row orders: ``start`` (the new holder's times begin where those of
the one before end) or ``fence`` (a number that rises with every holder).

Rows are never deleted: one that began anew would give times and fences out a second time.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.store.core.writes import Change, Clause, Equals, Insert, Row, Set, SetSum, new_row

RELEASED: Final = "released"


class LeaseRow(msgspec.Struct, frozen=True):
    """A parsed row."""

    key: str
    holder: str
    until: int
    fence: int

    @classmethod
    def from_row(cls, row: Row) -> LeaseRow:
        """Parse a refs row of kind ``lease``."""
        return cls(row["key"], row["holder"], row["until"], row["fence"])


class Lease(msgspec.Struct, frozen=True):
    """A lease that is held: from ``start`` on and before ``until`` (ms), under the token ``holder``."""

    key: str
    holder: str
    start: int
    until: int
    fence: int


def take_first(key: str, holder: str, now: int, until: int) -> Insert:
    """The first lease of a name."""
    row: Row = {"key": key, "kind": "lease", "holder": holder, "until": until, "fence": 0, "created": now}
    return Insert(row, (new_row("I2"),))


def take_over(seen: LeaseRow, holder: str, until: int) -> Change:
    """The next lease of a name whose last one is over, as it was ``seen``. Whoever else takes it or extends it moves the
    end; a renewal that does not leaves nothing to collide with."""
    return Change(
        seen.key,
        (Clause("same end", "I2", "times begin where those of the last lease end", Equals(("until",), seen.until)),),
        (Set(("holder",), holder), Set(("until",), until), SetSum(("fence",), ("fence",), 1)),
    )


def renew(lease: Lease, holder: str, until: int) -> Change:
    """A later end, and another token. Possible also after the end, as long as nobody took the lease over."""
    return Change(lease.key, (_held(lease),), (Set(("holder",), holder), Set(("until",), max(until, lease.until))))


def release(lease: Lease, free: int) -> Change:
    """Give it up: from ``free`` (ms) on, times are the next holder's."""
    return Change(lease.key, (_held(lease),), (Set(("holder",), RELEASED), Set(("until",), free)))


def _held(lease: Lease) -> Clause:
    return Clause("held", "I2", "the lease is still this holder's", Equals(("holder",), lease.holder))
