"""The index of a tree: the embedded layer over the spilled one, as if they were one sorted map (Polaris, "Object
Indexes"). What is embedded wins, ``GONE`` included; a look-up reads at most one segment, a range only those it crosses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from turnstile.catalog.core.index import GONE, Index, IndexEntry, past_prefix
from turnstile.catalog.core.segments import Directory, Segments, position_of, segment_of, stop_of

Item = tuple[str, IndexEntry]


class LayeredIndex:
    """Sorted keys with their entries, segments loaded as they are needed. Never changes."""

    __slots__ = ("_segments", "directory", "embedded")

    def __init__(self, embedded: Index, directory: Directory, segments: Segments) -> None:
        self.embedded, self.directory, self._segments = embedded, directory, segments

    def get(self, key: str) -> IndexEntry | None:
        """The entry under exactly ``key``: at most one segment is read."""
        found = self.embedded.get(key)
        if found is None:
            id = segment_of(self.directory, key)
            found = self._segments.load(id).get(key) if id else None
        return _live(found)

    def peek(self, key: str) -> IndexEntry | None:
        """The entry as far as it is in memory. None also means: not here."""
        found = self.embedded.get(key)
        if found is None:
            id = segment_of(self.directory, key)
            segment = self._segments.peek(id) if id else None
            found = segment.get(key) if segment is not None else None
        return _live(found)

    def iterate(self, start: str = "", stop: str | None = None, *, reverse: bool = False) -> Iterator[Item]:
        """Entries with ``start <= key < stop`` in key order (or the reverse of it)."""
        ranges = self._ranges(start, stop)
        for low, high, id in reversed(list(ranges)) if reverse else ranges:
            over = self.embedded.iterate(low, high, reverse=reverse)
            under = self._segments.load(id).iterate(low, high, reverse=reverse) if id else iter(())
            yield from _merged(over, under, reverse=reverse)

    def starting(self, prefix: str, *, reverse: bool = False) -> Iterator[Item]:
        """Entries whose key starts with ``prefix``, in key order (or the reverse of it)."""
        return self.iterate(prefix, past_prefix(prefix), reverse=reverse)

    def first(self, start: str) -> Item | None:
        """The first entry with ``key >= start``."""
        return next(self.iterate(start), None)

    def last(self, stop: str | None) -> Item | None:
        """The last entry with ``key < stop``; None for ``stop``: the last of all."""
        return next(self.iterate(stop=stop, reverse=True), None)

    def with_changes(self, put: Mapping[str, IndexEntry], remove: Iterable[str] = ()) -> Index:
        """The embedded layer after ``put`` and then ``remove``; keys to remove need not be there."""
        gone = list(remove)
        buried = {key: IndexEntry(GONE, "") for key in gone if segment_of(self.directory, key)}
        return self.embedded.with_changes({**put, **buried}, [key for key in gone if key not in buried])

    def _ranges(self, start: str, stop: str | None) -> Iterator[tuple[str, str | None, str]]:
        """The parts of ``[start, stop)`` by the segment they lie in."""
        if not self.directory:
            yield start, stop, ""
            return
        for at in range(position_of(self.directory, start), len(self.directory)):
            segment, end = self.directory[at], stop_of(self.directory, at)
            if stop is not None and segment.first >= stop:
                return
            last = stop is not None and (end is None or stop < end)
            yield max(start, segment.first), stop if last else end, segment.obj


def _live(entry: IndexEntry | None) -> IndexEntry | None:
    return None if entry is None or entry.kind == GONE else entry


def _merged(over: Iterator[Item], under: Iterator[Item], *, reverse: bool) -> Iterator[Item]:
    """Two sorted runs as one, without what is gone; where both have a key, ``over`` counts."""
    high, low = next(over, None), next(under, None)
    while high is not None or low is not None:
        if high is not None and (low is None or high[0] == low[0] or (high[0] < low[0]) != reverse):
            if low is not None and low[0] == high[0]:
                low = next(under, None)
            if high[1].kind != GONE:
                yield high
            high = next(over, None)
        elif low is not None:
            yield low
            low = next(under, None)
