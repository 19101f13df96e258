"""The rules of gc: items that may be removed, and since when they have been unreachable (design
2.6, I10). Pure. An item is removed when it has been unreachable for longer than the grace period of
its kind, never because it is old. If the time at which it became unreachable is not known exactly,
a later one is taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, get_args

import msgspec

from turnstile.store.core.names import parse_staged_file
from turnstile.store.core.rows import Kind
from turnstile.store.core.terms import latest_ms

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

HOUR_MS: Final = 3_600_000

SETTLED_MS: Final = HOUR_MS
"""Longer than a write can be in flight plus the difference between clocks. The HEAD that a catalog
had this long before its kept history begins, and objs that were written by then, do not change any
more.
"""


class Grace(msgspec.Struct, frozen=True):
    """How long garbage of each kind stays after it became unreachable. ``objs_ms``: an inline obj
    is written again only on another day (``keys.inline_obj``). ``history_ms``: a catalog's past
    HEADs stay complete, for listings that began there, changes that were computed from there, and
    resets; metadata files of Iceberg tables stay as long. ``files_ms``: data files and manifests of
    Iceberg tables that nothing names, since they were written, and as long as ``history_ms`` at
    least: a writer may be about to commit them. ``refs_ms``: a deleted reference, an entry of the
    journal of transactions, and the row of a large group answer late repetitions of requests.
    ``ended_ms``: so does the HEAD of a table that is gone for good.
    """

    staged_ms: int = 24 * HOUR_MS
    staging_ms: int = 24 * HOUR_MS
    dropped_ms: int = 168 * HOUR_MS
    objs_ms: int = 48 * HOUR_MS
    history_ms: int = 168 * HOUR_MS
    files_ms: int = 72 * HOUR_MS
    refs_ms: int = 720 * HOUR_MS
    ended_ms: int = 744 * HOUR_MS

    @property
    def tombstone_ms(self) -> int:
        """How long the HEAD of a table that is gone for good stays after the drop: a day longer
        than identities of commits are kept, unless told otherwise, and until no HEAD of the kept
        history names the table.
        """
        return max(self.ended_ms, self.dropped_ms, self.history_ms + 2 * SETTLED_MS)

    @property
    def unnamed_ms(self) -> int:
        """How long files of Iceberg tables that nothing names stay at least."""
        return max(self.files_ms, self.history_ms)

    def __post_init__(self) -> None:
        if self.history_ms < 3 * HOUR_MS:
            raise ValueError("history must be 3 hours at least: page tokens live for one, functions for a part of one")
        if self.objs_ms < 25 * HOUR_MS:
            raise ValueError("objs may only go after more than a day")
        if self.refs_ms < 24 * HOUR_MS:
            raise ValueError("refs may only go after a day: until then requests are repeated")


LOG_RETENTION_MS: Final = 31 * 24 * HOUR_MS
"""For so long after a commit that follows it, and a little more, a file of a table's log is kept
unless the table says otherwise (``delta.logRetentionDuration``)."""


class Place(msgspec.Struct, frozen=True):
    """The progress of scheduled runs, which look at all rows in parts.

    Attributes:
        after: the key up to which this round has looked; empty: the next run begins a round.
        began_ms: when this round began; after its end, when the last one began.
        before_ms: when the round before it began; 0: there was none.
        idle_after: the key up to which idle tables have been looked at.
    """

    after: str = ""
    began_ms: int = 0
    before_ms: int = 0
    idle_after: str = ""

    def start_run(self, now: int) -> Place:
        """The place for a run at ``now``: in the midst of a round, or in a new one. A time that a
        clock which was ahead has written counts as unknown: tables would be taken for idle until
        then.
        """
        began_ms, before_ms = (0 if ms > latest_ms(now, 0) else ms for ms in (self.began_ms, self.before_ms))
        return (
            Place(self.after, began_ms, before_ms, self.idle_after)
            if self.after
            else Place("", now, began_ms, self.idle_after)
        )


def idle_since(place: Place, grace: Grace) -> int:
    """Tables not changed since this time (ms) are idle: the previous round scanned them after every
    grace period had passed. A staged file of a dead writer changes no HEAD, so idle tables are
    scanned too, a few per run.
    """
    longest = max(grace.staged_ms, grace.objs_ms, grace.history_ms, grace.files_ms, LOG_RETENTION_MS)
    return place.before_ms - longest


class Item(msgspec.Struct, frozen=True):
    """One item to remove. ``id`` names it within its kind; ``bytes`` is the size that its removal
    frees; times in ms."""

    kind: Kind
    id: str
    bytes: int
    unreachable_since: int
    age_ms: int


def due(kind: Kind, id: str, size: int, *, since: int, now: int, grace: int) -> Item | None:
    """Returns the item if it has been unreachable for ``grace`` ms, else None."""
    age = now - since
    return Item(kind, id, size, since, age) if age >= grace else None


class StagedFile(msgspec.Struct, frozen=True):
    """A file under ``_staged_commits``."""

    name: str
    size_bytes: int
    modified_ms: int


def version_of(file: StagedFile) -> int | None:
    """The version a staged file was proposed for, or None when it is no staged commit."""
    parsed = parse_staged_file(file.name)
    return parsed[0] if parsed else None


def staged_candidates(files: Iterable[StagedFile], floor: int, carried: frozenset[str]) -> Iterator[StagedFile]:
    """Yields the files that no HEAD names and no proposal can use: at or below the ``floor``, up to
    which every version is in ``_delta_log``, and not ``carried`` by the tail.

    An older floor is safe as well: it never falls. A name at or below it is never ratified any
    more, since a version above ``latest`` is proposed under a name of that version or a later one
    (``delta.ratify``).
    """
    for file in files:
        version = version_of(file)
        if version is not None and version <= floor and file.name not in carried:
            yield file


def decided_at(version: int, published: Mapping[int, int]) -> int | None:
    """A time (ms) by which ``version`` was certainly decided: that of its published file, or of the
    next one after it if log cleanup has removed its own. None when that is not known, also because
    the log has a hole there. ``published`` is in ascending order, and is not gone through: there
    may be as many files to judge as versions in it.
    """
    if version in published:
        return published[version]
    first = next(iter(published), None)
    return published[first] if first is not None and first > version else None


def staged_since(file: StagedFile, published: Mapping[int, int], left_tail: int | None) -> int | None:
    """Since when (ms) a candidate is unreachable; None when that is not known. A loser is
    unreachable once its version is decided, or since it was written if that was later. The winner
    is reachable for readers until the floor has passed it and it has left the tail (``left_tail``,
    ms).
    """
    version = version_of(file)
    decided = decided_at(version, published) if version is not None else None
    if decided is None:
        return None
    return max(file.modified_ms, decided, left_tail or 0)


_PROBES: Final = 7


class BloomFilter:
    """A set of texts in bounded memory that never denies a member, and rarely claims a text that is
    none (Bloom, 1970): at ten ``bits`` a member one in a hundred, at twenty one in ten thousand;
    the ``seed`` decides which. gc marks reachable objs with it: an obj that is wrongly taken for
    reachable stays until the next run, which has another seed.
    """

    __slots__ = ("_array", "_bits", "_seed")

    def __init__(self, bits: int, seed: int) -> None:
        self._bits = bits
        self._seed = seed.to_bytes(8, "big")
        self._array = bytearray((bits + 7) // 8)

    def add(self, text: str) -> None:
        for bit in self._probes(text):
            self._array[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, text: str) -> bool:
        return all(self._array[bit >> 3] & 1 << (bit & 7) for bit in self._probes(text))

    def _probes(self, text: str) -> Iterator[int]:
        digest = hashlib.blake2b(text.encode(), digest_size=16, key=self._seed).digest()
        first = int.from_bytes(digest[:8], "big")
        step = int.from_bytes(digest[8:], "big") | 1
        return ((first + probe * step) % self._bits for probe in range(_PROBES))
