"""Owners to which a server forwards changes of a catalog, and commits of a hot table. Pure.

A server forwards a change of a catalog to the owner of the catalog's granule, where all changes of
the catalog share swaps of its HEAD (``catalog.changes.group_commit``). It forwards commits of a
table that gets many of them, so that they share writes (``delta.ratify``). Forwarding is
only for speed: a server that is unsure applies the change itself (``core.asking``), and the CAS on
the HEAD decides in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from turnstile.fleet.core.decisions import granule_of

CATALOGS: Final = "catalogs"
"""The role of owners that apply changes of catalogs, and commits of hot tables."""

HOT_PER_S: Final = 16
"""Commits of one table in one second and one process that make it hot: fewer do not meet often
enough to be worth a hop."""

RATES_MOST: Final = 10_000
"""The number of tables for which commit rates are kept."""


def table_subject(name: str) -> str:
    """Returns the subject under which a table's owner is looked up, by its id or full name; that of
    a catalog is its name."""
    return f"table/{name}"


class Rates:
    """How often each subject was asked for in this second and in the one before it, by one process.
    For one thread."""

    def __init__(self, hot_per_s: int = HOT_PER_S, most: int = RATES_MOST) -> None:
        self._hot_per_s = hot_per_s
        self._most = most
        self._counts: dict[str, tuple[int, int, int]] = {}

    def note(self, subject: str, now_ms: int) -> bool:
        """Counts a request; returns whether the subject is hot. ``now_ms``: by a clock that never
        steps back."""
        second = now_ms // 1000
        at, count, before = self._counts.pop(subject, (second, 0, 0))
        if at != second:
            before = count if at == second - 1 else 0
            count = 0
        self._counts[subject] = second, count + 1, before
        if len(self._counts) > self._most:
            del self._counts[next(iter(self._counts))]
        return max(count + 1, before) >= self._hot_per_s


class Address(msgspec.Struct, frozen=True):
    """Where a member can be asked. ``secret``: by which both sides know that they read the same
    row; of this process only."""

    host: str
    port: int
    secret: str


class Owners(msgspec.Struct, frozen=True):
    """The owners of a role's granules as a member has cached them, valid until ``until_ms`` by the
    machine's monotonic clock.

    Attributes:
        granules: the number of granules of the role; 0: unknown.
        owners: by granule, the owners that are well and have an address.
    """

    until_ms: int = 0
    granules: int = 0
    owners: Mapping[str, Address] = {}

    def of(self, subject: str, now_ms: int) -> Address | None:
        """Returns the owner of a subject; None: there is none, so the server applies the change
        itself."""
        if now_ms >= self.until_ms or self.granules == 0:
            return None
        return self.owners.get(granule_of(CATALOGS, subject, self.granules))
