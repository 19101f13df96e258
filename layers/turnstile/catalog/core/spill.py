"""Keeps the embedded layer of an index small by moving parts of it into segments (Polaris, "Object
Indexes").

When the embedded layer exceeds its limit, its fullest range moves into the segment of that range. A
change ordinarily writes at most one segment, however large the index is: one range moves, the
others wait. If the range has outgrown a segment, only its fuller part is written, and the old
segment still serves the rest. Small neighbours are joined. Segments are never changed, so trees of
older commits keep reading theirs (I9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Final

import msgspec

from turnstile.catalog.core.index import (
    GONE,
    Directory,
    Index,
    Segment,
    pack_directory,
    position_of,
    separator,
    stop_of,
)
from turnstile.store.core.limits import SpillLimits

_BULK: Final = 4  # above this many times the limit, a change writes as many segments as needed
_SMALL: Final = 4  # a segment smaller than limit / _SMALL is joined with a neighbour if one has room
_FILL: Final = 0.75  # how full, as a part of the limit, the pieces of a cut segment are at most


class Spilled(msgspec.Struct, frozen=True):
    """The index after spilling, and the new segments by id."""

    embedded: Index
    directory: Directory
    written: Mapping[str, Index] = {}


Load = Callable[[str], Index]
NewId = Callable[[], str]


def spill(
    embedded: Index, directory: Directory, limits: SpillLimits, *, load: Load, new_id: NewId, patience: float = 0.0
) -> Spilled:
    """Returns ``embedded`` over ``directory`` after as much spilling as is due. ``patience``, in
    [0, 1), is the part of the limit by which it may be exceeded before: if all concurrent writers
    spilled at once, all but one would have written a segment for nothing; different values prevent
    that.
    """
    work = _Spilling(embedded, directory, limits, load, new_id)
    bulk = len(work.embedded.packed_bytes) > _BULK * work.limit
    while len(work.embedded.packed_bytes) > _BULK * work.limit:
        work.move(whole=True)
    if not bulk and len(work.embedded.packed_bytes) > work.limit * (1 + patience):
        work.move(whole=False)
    used = {segment.obj for segment in work.directory}
    written = {id: index for id, index in work.written.items() if id in used}
    return Spilled(work.embedded, work.directory, written)


class _Spilling:
    def __init__(self, embedded: Index, directory: Directory, limits: SpillLimits, load: Load, new_id: NewId) -> None:
        self.embedded = embedded
        self.directory = directory
        self._limits = limits
        self._load = load
        self._new_id = new_id
        self.written: dict[str, Index] = {}

    @property
    def limit(self) -> int:
        return max(self._limits.embedded, len(pack_directory(self.directory)))

    def move(self, *, whole: bool) -> None:
        """Moves the fullest range: all of it (``whole``), or as much as one segment takes."""
        ranges = self.directory or (Segment("", ""),)
        counts = Counter(position_of(ranges, key) for key, _ in self.embedded.iterate())
        at = max(counts, key=lambda position: (counts[position], -position))
        part = self.embedded.between(ranges[at].first, stop_of(ranges, at))
        base = self._clip(ranges, at)
        merged = _over(base, part)
        low = high = at
        moved = {key for key, _ in part.iterate()}
        if merged == base:  # only GONE marks of keys that the segment does not have
            fresh = [ranges[at]]
        elif len(merged.packed_bytes) <= self._limits.segment:
            low, high, merged = self._join_small(ranges, at, merged)
            fresh = [self._write(ranges[low].first, merged)]
        else:
            fresh, moved = self._cut(ranges[at], base, part, merged, whole=whole)
        self.directory = _coalesce((*ranges[:low], *fresh, *ranges[high + 1 :]))
        self.embedded = self.embedded.with_changes({}, moved)

    def _clip(self, ranges: Directory, at: int) -> Index:
        segment = ranges[at]
        if not segment.obj:
            return Index()
        index = self.written[segment.obj] if segment.obj in self.written else self._load(segment.obj)
        return index.between(segment.first, stop_of(ranges, at))

    def _join_small(self, ranges: Directory, at: int, merged: Index) -> tuple[int, int, Index]:
        """Joins a range with a neighbour if both are small. Returns the first and the last position
        covered, and the index."""
        size = len(merged.packed_bytes)
        if merged and size * _SMALL <= self._limits.segment:
            for other in (at - 1, at + 1):
                if 0 <= other < len(ranges) and (ranges[other].weight + size) * 2 <= self._limits.segment:
                    both = merged.with_changes(dict(self._clip(ranges, other).iterate()))
                    return min(at, other), max(at, other), both
        return at, at, merged

    def _cut(
        self, old: Segment, base: Index, part: Index, merged: Index, *, whole: bool
    ) -> tuple[list[Segment], set[str]]:
        """Returns the ranges that replace one that has outgrown its segment, and the embedded keys
        that moved."""
        pieces = list(_pieces(old.first, base, part, merged, self._limits.segment))
        firsts = tuple(Segment(first, "") for first, _ in pieces)
        inside: list[set[str]] = [set() for _ in pieces]
        for key, _ in part.iterate():
            inside[position_of(firsts, key)].add(key)
        fullest = max(enumerate(inside), key=lambda item: len(item[1]))[0]
        fresh: list[Segment] = []
        moved: set[str] = set()
        for position, (first, piece) in enumerate(pieces):
            if position == fullest or (whole and inside[position]):
                fresh.append(self._write(first, piece))
                moved |= inside[position]
            else:
                fresh.append(Segment(first, old.obj, len(piece.packed_bytes) if old.obj else 0))
        return fresh, moved

    def _write(self, first: str, index: Index) -> Segment:
        if not index:
            return Segment(first, "")
        id = self._new_id()
        self.written[id] = index
        return Segment(first, id, len(index.packed_bytes))


def _over(base: Index, part: Index) -> Index:
    """Returns ``base`` after the entries and GONE marks of ``part``."""
    put = {key: entry for key, entry in part.iterate() if entry.kind != GONE}
    return base.with_changes(put, [key for key, entry in part.iterate() if entry.kind == GONE])


def _pieces(first: str, base: Index, part: Index, merged: Index, limit: int) -> Iterator[tuple[str, Index]]:
    """Cuts an index that has outgrown a segment into pieces that have not, each with the first key
    of its range.

    Where new names always sort last (dates, numbers), the full segment stays as it is and is never
    written again.
    """
    if base and base.keys[-1] < part.keys[0] and len(base.packed_bytes) * 2 > limit:
        yield first, base
        first = separator(base.keys[-1], part.keys[0])
        merged = _over(Index(), part)
    last = ""
    for piece in _halve(merged, limit):
        yield separator(last, piece.keys[0]) if last else first, piece
        last = piece.keys[-1]


def _halve(index: Index, limit: int) -> Iterator[Index]:
    """Yields equal parts of ``index``, each within ``limit`` bytes (or a single entry)."""
    size = len(index.packed_bytes)
    if size <= limit or len(index) == 1:
        yield index
        return
    count = min(len(index), max(2, ceil(size / (limit * _FILL))))
    for number in range(count):
        low = len(index) * number // count
        high = len(index) * (number + 1) // count
        yield from _halve(index.between(index.keys[low], index.keys[high] if high < len(index) else None), limit)


def _coalesce(ranges: Directory) -> Directory:
    """Joins neighbouring ranges that have the same segment, or none."""
    joined: list[Segment] = []
    for segment in ranges:
        if joined and joined[-1].obj == segment.obj:
            joined[-1] = Segment(joined[-1].first, segment.obj, joined[-1].weight + segment.weight)
        else:
            joined.append(segment)
    return tuple(joined)
