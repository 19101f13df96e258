"""Keeping the embedded layer small: the fullest range of it moves into its segment (Polaris, "Object Indexes").

A change ordinarily writes one segment at most, however large the index is: one range goes, the others wait. Where that
range has outgrown a segment only its fuller part is written; the old segment stays and leads to the rest. Small
neighbours become one. All is a function of what is passed in: segments are never changed, so trees of older commits
read theirs as ever (I9).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Final

import msgspec

from turnstile.store.core.limits import SpillLimits

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

_BULK: Final = 4  # from so many times the limit on, a change writes as many segments as it takes
_SMALL: Final = 4  # a segment below this part of the limit looks for a neighbour to join
_FILL: Final = 0.75  # of the limit, how full the pieces of a segment become at most


class Spilled(msgspec.Struct, frozen=True):
    """The index afterwards, and the new segments by id."""

    embedded: Index
    directory: Directory
    written: Mapping[str, Index] = {}


Load = Callable[[str], Index]
NewId = Callable[[], str]


def spill(
    embedded: Index, directory: Directory, limits: SpillLimits, *, load: Load, new_id: NewId, patience: float = 0.0
) -> Spilled:
    """``embedded`` over ``directory``, after as much spilling as is due.

    Args:
        load: reads a segment.
        new_id: a fresh id for a segment.
        patience: in [0, 1); how far beyond the limit to wait. Writers that differ in it do not all spill at once, of
            whom all but one would have written a segment for nothing.
    """
    work = _Work(embedded, directory, limits, load, new_id)
    bulk = len(work.embedded.packed) > _BULK * work.limit
    while len(work.embedded.packed) > _BULK * work.limit:
        work.move(whole=True)
    if not bulk and len(work.embedded.packed) > work.limit * (1 + patience):
        work.move(whole=False)
    used = {segment.obj for segment in work.directory}
    written = {id: index for id, index in work.written.items() if id in used}
    return Spilled(work.embedded, work.directory, written)


class _Work:
    """An index on its way."""

    def __init__(self, embedded: Index, directory: Directory, limits: SpillLimits, load: Load, new_id: NewId) -> None:
        self.embedded, self.directory, self._limits = embedded, directory, limits
        self._load, self._new_id = load, new_id
        self.written: dict[str, Index] = {}

    @property
    def limit(self) -> int:
        """Bytes of the embedded layer from which on it spills."""
        return max(self._limits.embedded, len(pack_directory(self.directory)))

    def move(self, *, whole: bool) -> None:
        """Move the fullest range (``whole``), or as much of it as one segment takes."""
        ranges = self.directory or (Segment("", ""),)
        counts = Counter(position_of(ranges, key) for key, _ in self.embedded.iterate())
        at = max(counts, key=lambda position: (counts[position], -position))
        part = self.embedded.between(ranges[at].first, stop_of(ranges, at))
        base = self._clipped(ranges, at)
        merged = _over(base, part)
        low = high = at
        moved = {key for key, _ in part.iterate()}
        if merged == base:  # burials of what was never here
            fresh = [ranges[at]]
        elif len(merged.packed) <= self._limits.segment:
            low, high, merged = self._joined(ranges, at, merged)
            fresh = [self._write(ranges[low].first, merged)]
        else:
            fresh, moved = self._cut(ranges[at], base, part, merged, whole=whole)
        self.directory = _coalesced((*ranges[:low], *fresh, *ranges[high + 1 :]))
        self.embedded = self.embedded.with_changes({}, moved)

    def _clipped(self, ranges: Directory, at: int) -> Index:
        """What the segment of a range holds of it."""
        segment = ranges[at]
        if not segment.obj:
            return Index()
        found = self.written[segment.obj] if segment.obj in self.written else self._load(segment.obj)
        return found.between(segment.first, stop_of(ranges, at))

    def _joined(self, ranges: Directory, at: int, merged: Index) -> tuple[int, int, Index]:
        """``merged`` with a neighbour if both are small, and the positions of the first and last range it covers."""
        size = len(merged.packed)
        if merged and size * _SMALL <= self._limits.segment:
            for other in (at - 1, at + 1):
                if 0 <= other < len(ranges) and (ranges[other].weight + size) * 2 <= self._limits.segment:
                    both = merged.with_changes(dict(self._clipped(ranges, other).iterate()))
                    return min(at, other), max(at, other), both
        return at, at, merged

    def _cut(
        self, old: Segment, base: Index, part: Index, merged: Index, *, whole: bool
    ) -> tuple[list[Segment], set[str]]:
        """Ranges in place of one that has outgrown its segment, and the embedded keys that moved."""
        pieces = list(_pieces(old.first, base, part, merged, self._limits.segment))
        firsts = tuple(Segment(first, "") for first, _ in pieces)
        inside: list[set[str]] = [set() for _ in pieces]
        for key, _ in part.iterate():
            inside[position_of(firsts, key)].add(key)
        fullest = max(enumerate(inside), key=lambda one: len(one[1]))[0]
        fresh: list[Segment] = []
        moved: set[str] = set()
        for position, (first, piece) in enumerate(pieces):
            if position == fullest or (whole and inside[position]):
                fresh.append(self._write(first, piece))
                moved |= inside[position]
            else:
                fresh.append(Segment(first, old.obj, len(piece.packed) if old.obj else 0))
        return fresh, moved

    def _write(self, first: str, index: Index) -> Segment:
        if not index:
            return Segment(first, "")
        id = self._new_id()
        self.written[id] = index
        return Segment(first, id, len(index.packed))


def _over(base: Index, part: Index) -> Index:
    """``base`` after what ``part`` puts and buries."""
    put = {key: entry for key, entry in part.iterate() if entry.kind != GONE}
    return base.with_changes(put, [key for key, entry in part.iterate() if entry.kind == GONE])


def _pieces(first: str, base: Index, part: Index, merged: Index, limit: int) -> Iterator[tuple[str, Index]]:
    """What has outgrown a segment in pieces that have not, each with its range's first key.

    Names that only ever grow (dates, numbers) leave full segments behind, which nobody has to write again.
    """
    if base and base.keys[-1] < part.keys[0] and len(base.packed) * 2 > limit:
        yield first, base
        first, merged = separator(base.keys[-1], part.keys[0]), _over(Index(), part)
    last = ""
    for piece in _halved(merged, limit):
        yield separator(last, piece.keys[0]) if last else first, piece
        last = piece.keys[-1]


def _halved(index: Index, limit: int) -> Iterator[Index]:
    """Equal parts of ``index``, each within ``limit`` bytes (or a single entry)."""
    size = len(index.packed)
    if size <= limit or len(index) == 1:
        yield index
        return
    count = min(len(index), max(2, ceil(size / (limit * _FILL))))
    for number in range(count):
        low, high = len(index) * number // count, len(index) * (number + 1) // count
        yield from _halved(index.between(index.keys[low], index.keys[high] if high < len(index) else None), limit)


def _coalesced(ranges: Directory) -> Directory:
    """Neighbours that lead to the same segment, or to none, as one range."""
    found: list[Segment] = []
    for segment in ranges:
        if found and found[-1].obj == segment.obj:
            found[-1] = Segment(found[-1].first, segment.obj, found[-1].weight + segment.weight)
        else:
            found.append(segment)
    return tuple(found)
