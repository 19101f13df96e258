"""What gc may remove, and since when it has been unreachable (design 2.6, I10). Pure: the services look, this judges.

Nothing goes because it is old. A thing goes when it has been unreachable for longer than its grace period, and where
the moment it became unreachable is not known exactly, a later one is taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Literal

import msgspec

from turnstile.store.core.names import parse_staged_file

Kind = Literal["staged", "staging", "dropped", "objs", "metadata", "iceberg", "history", "catalogs", "refs"]
KINDS: Final[tuple[Kind, ...]] = (
    "staged",
    "staging",
    "dropped",
    "objs",
    "metadata",
    "iceberg",
    "history",
    "catalogs",
    "refs",
)

HOUR_MS: Final = 3_600_000

SETTLED_MS: Final = HOUR_MS
"""More than a write can be on its way and clocks can differ: what a catalog's HEAD was so long before the end of its
history, and what was written by then, is known for good."""


class Grace(msgspec.Struct, frozen=True):
    """How long each kind stays after it became unreachable (ms).

    ``objs`` must be more than a day: an inline obj is written anew only on another day (``keys.inline_obj``).
    ``history`` is how long a catalog's past HEADs stay whole: for listings that began there, changes that were computed
    from there, and whoever wants to go back. Metadata files of Iceberg tables stay as long.
    ``refs`` is how long a deleted reference tells late repetitions of requests what became of them.
    """

    staged: int = 24 * HOUR_MS
    staging: int = 24 * HOUR_MS
    dropped: int = 168 * HOUR_MS
    objs: int = 48 * HOUR_MS
    history: int = 168 * HOUR_MS
    refs: int = 720 * HOUR_MS

    def __post_init__(self) -> None:
        if self.history < 3 * HOUR_MS:
            raise ValueError("history must be 3 hours at least: page tokens live for one, functions for a part of one")
        if self.objs < 25 * HOUR_MS:
            raise ValueError("objs may only go after more than a day")
        if self.refs < 24 * HOUR_MS:
            raise ValueError("refs may only go after a day: until then requests are repeated")


class Item(msgspec.Struct, frozen=True):
    """One thing to remove. ``id`` names it within its kind; ``bytes`` what removing it frees; times in ms."""

    kind: Kind
    id: str
    bytes: int
    unreachable_since: int
    age_ms: int


class Staged(msgspec.Struct, frozen=True):
    """A file under ``_staged_commits``: name, size in bytes, modification time in ms."""

    name: str
    size: int
    modified: int


def version_of(file: Staged) -> int | None:
    """The version a staged file was proposed for, or None when it is no staged commit."""
    parsed = parse_staged_file(file.name)
    return parsed[0] if parsed else None


def staged_candidates(files: Iterable[Staged], floor: int, carried: frozenset[str]) -> list[Staged]:
    """The files that no HEAD answer names and no proposal can use: at or below the floor, and not in the tail.

    Args:
        floor: every version up to it is in ``_delta_log``. A floor that was read earlier is as good: it never falls.
        carried: names of the tail's entries.
    """
    found = []
    for file in files:
        version = version_of(file)
        if version is not None and version <= floor and file.name not in carried:
            found.append(file)
    return found


def decided_at(version: int, published: Mapping[int, int]) -> int | None:
    """When ``version`` was certainly decided: its published file's time (ms), or that of the next one after it if log
    cleanup has taken its own. None when that cannot be said, also because the log has a hole there."""
    later = sorted(other for other in published if other >= version)
    if not later or (later[0] != version and len(later) < len(published)):
        return None
    return published[later[0]]


def staged_since(file: Staged, published: Mapping[int, int], left_tail: int | None) -> int | None:
    """Since when a candidate is unreachable, or None when that cannot be said.

    A loser is unreachable once its version is decided, or since it was written if that was later. The winner is
    reachable for readers until the floor has passed it and it has left the tail (``left_tail``, ms).
    """
    version = version_of(file)
    decided = decided_at(version, published) if version is not None else None
    if decided is None:
        return None
    return max(file.modified, decided, left_tail or 0)


def due(kind: Kind, id: str, size: int, *, since: int, now: int, grace: int) -> Item | None:
    """The item, if it has been unreachable for ``grace`` ms."""
    age = now - since
    return Item(kind, id, size, since, age) if age >= grace else None


# -- core bloom -------------------------------------------------------------------------------------------------------
# A set in bounded memory that never denies a member, and now and then claims one that is none (Bloom, 1970).
#
# gc marks with it: what is wrongly taken for reachable stays until the next run, whose seed differs.


_PROBES: Final = 7


class BloomFilter:
    """Texts, as bits.

    Args:
        bits: size; at ten bits a member one in a hundred others is claimed, at twenty one in ten thousand.
        seed: which others are claimed.
    """

    __slots__ = ("_array", "_bits", "_seed")

    def __init__(self, bits: int, seed: int) -> None:
        self._bits, self._seed = bits, seed.to_bytes(8, "big")
        self._array = bytearray((bits + 7) // 8)

    def add(self, text: str) -> None:
        """Make ``text`` a member."""
        for bit in self._probes(text):
            self._array[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, text: str) -> bool:
        return all(self._array[bit >> 3] & 1 << (bit & 7) for bit in self._probes(text))

    def _probes(self, text: str) -> Iterator[int]:
        digest = hashlib.blake2b(text.encode(), digest_size=16, key=self._seed).digest()
        first, step = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
        return ((first + probe * step) % self._bits for probe in range(_PROBES))
