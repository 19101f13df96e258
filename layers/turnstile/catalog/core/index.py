"""An ordered, immutable index from key to entry (Polaris, "Object Indexes").

Keys are compared as they are; ``catalog_paths`` makes them from names. An index is a layer: one layer is embedded in
the commit obj; the layer below is spilled into segment objs that the commit names, and the embedded entry wins
(``layered``, ``spill``). A key removed from a layer that lies over another is marked ``GONE`` there instead.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from turnstile.store.core.obj_types import SEGMENT

GONE: Final = "gone"

_LAST: Final = "\U0010ffff"
_SURROGATES: Final = ("\ud7ff", "\ue000")  # between them lies no character


class IndexEntry(msgspec.Struct, frozen=True):
    """What a name leads to: its ``kind``, the id of the entity's obj, and the table's uuid (empty: not a table)."""

    kind: str
    obj: str
    table_id: str = ""


def past_prefix(prefix: str) -> str | None:
    """The smallest key that is greater than every key that starts with ``prefix``; None: there is none."""
    head = prefix.rstrip(_LAST)
    if not head:
        return None
    before, after = _SURROGATES
    return head[:-1] + (after if head[-1] == before else chr(ord(head[-1]) + 1))


class Index:
    """Sorted keys with their entries. Never changes; ``with_changes`` makes another."""

    __slots__ = ("_entries", "_packed", "keys")

    def __init__(self, keys: tuple[str, ...] = (), entries: tuple[IndexEntry, ...] = ()) -> None:
        self.keys, self._entries = keys, entries
        self._packed: bytes | None = None

    @property
    def packed(self) -> bytes:
        """What ``pack`` makes of it, made once."""
        if self._packed is None:
            self._packed = pack(self)
        return self._packed

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self.keys == other.keys and self._entries == other._entries

    def __hash__(self) -> int:
        return hash((self.keys, self._entries))

    def get(self, key: str) -> IndexEntry | None:
        """The entry under exactly ``key``."""
        at = bisect_left(self.keys, key)
        return self._entries[at] if at < len(self.keys) and self.keys[at] == key else None

    def iterate(
        self, start: str = "", stop: str | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[str, IndexEntry]]:
        """Entries with ``start <= key < stop`` in key order (or the reverse of it)."""
        low = bisect_left(self.keys, start)
        high = len(self.keys) if stop is None else bisect_left(self.keys, stop)
        positions = range(high - 1, low - 1, -1) if reverse else range(low, high)
        return ((self.keys[at], self._entries[at]) for at in positions)

    def between(self, start: str, stop: str | None) -> Index:
        """The part with ``start <= key < stop``."""
        low = bisect_left(self.keys, start)
        high = len(self.keys) if stop is None else bisect_left(self.keys, stop)
        return Index(self.keys[low:high], self._entries[low:high])

    def first(self, start: str) -> tuple[str, IndexEntry] | None:
        """The first entry with ``key >= start``."""
        return next(self.iterate(start), None)

    def with_changes(self, put: Mapping[str, IndexEntry], remove: Iterable[str] = ()) -> Index:
        """The index after ``put`` and then ``remove``; keys to remove need not be there."""
        merged = dict(zip(self.keys, self._entries, strict=True))
        merged.update(put)
        for key in remove:
            merged.pop(key, None)
        keys = tuple(sorted(merged))
        return Index(keys, tuple(merged[key] for key in keys))


# -- bytes ------------------------------------------------------------------------------------------------------------
#
# [1, kinds, rows]; a row is flat: characters shared with the key before, rest of the key, position in kinds, characters
# shared with the obj id before, rest of the obj id, table uuid as 16 bytes (or empty, or the text if it is no uuid).

_FORMAT: Final = 1
_Row = tuple[int, str, int, int, str, bytes | str]
_ENCODER: Final = msgspec.msgpack.Encoder()
# The last member is Any: msgspec has no union of text and bytes, though msgpack tells them apart.
_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, list[str], list[tuple[int, str, int, int, str, Any]]])


def shared(one: str, other: str) -> int:
    """How many characters both start with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _short_uuid(value: str) -> bytes | str:
    try:
        packed = bytes.fromhex(value.replace("-", ""))
    except ValueError:
        return value
    return packed if _long_uuid(packed) == value else value


def _long_uuid(value: bytes | str) -> str:
    if isinstance(value, str):
        return value
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])) if digits else ""


def pack(index: Index) -> bytes:
    """The index as bytes; prefixes shared with the row before are left out."""
    kinds: list[str] = []
    rows: list[_Row] = []
    last_key = last_obj = ""
    for key, entry in index.iterate():
        if entry.kind not in kinds:
            kinds.append(entry.kind)
        same, same_obj = shared(last_key, key), shared(last_obj, entry.obj)
        rows.append(
            (
                same,
                key[same:],
                kinds.index(entry.kind),
                same_obj,
                entry.obj[same_obj:],
                _short_uuid(entry.table_id),
            )
        )
        last_key, last_obj = key, entry.obj
    return _ENCODER.encode((_FORMAT, kinds, rows))


def unpack(packed: bytes) -> Index:
    """The index that ``pack`` was given.

    Raises:
        ValueError: bytes of a format this version does not know.
    """
    found, kinds, rows = _DECODER.decode(packed)
    if found != _FORMAT:
        raise ValueError(f"index format {found} is not known here")
    keys: list[str] = []
    entries: list[IndexEntry] = []
    key = obj = ""
    for same, suffix, kind, same_obj, obj_suffix, table_id in rows:
        key, obj = key[:same] + suffix, obj[:same_obj] + obj_suffix
        keys.append(key)
        entries.append(IndexEntry(kinds[kind], obj, _long_uuid(table_id)))
    return Index(tuple(keys), tuple(entries))


# -- segments ---------------------------------------------------------------------------------------------------------
# Which segment of a spilled index holds a key: the directory, a partition of all keys into ranges.
#
# A range begins at its ``first`` key and ends before the next one's; the first range begins at the empty key. Each leads
# to at most one segment obj. Segments are written once, and trees of many commits share them. A segment may hold keys
# outside its range: they are remains of a range that was wider once, and count for nothing.


class Segment(msgspec.Struct, frozen=True):
    """One range. ``first`` its lowest possible key; ``obj`` the segment's id, empty for a range that holds nothing
    below the embedded layer; ``weight`` about how many packed bytes of the segment lie in the range."""

    first: str
    obj: str
    weight: int = 0


Directory = tuple[Segment, ...]
"""Ranges in key order, the first one's ``first`` empty. The empty directory: nothing was ever spilled."""


class Segments(Protocol):
    """Where segments come from."""

    def load(self, id: str) -> Index:
        """The segment; at most one request."""

    def peek(self, id: str) -> Index | None:
        """The segment if that takes no request."""


def position_of(directory: Directory, key: str) -> int:
    """Position of the range that ``key`` lies in; the directory must not be empty."""
    return bisect_right(directory, key, key=lambda segment: segment.first) - 1


def segment_of(directory: Directory, key: str) -> str:
    """Id of the segment that may hold ``key``; empty when none does."""
    return directory[position_of(directory, key)].obj if directory else ""


def stop_of(directory: Directory, position: int) -> str | None:
    """The key at which a range ends; None: it is the last one."""
    return directory[position + 1].first if position + 1 < len(directory) else None


def separator(left: str, right: str) -> str:
    """The shortest key that is greater than ``left`` and not greater than ``right``, which is greater than ``left``."""
    return right[: shared(left, right) + 1]


# -- bytes ------------------------------------------------------------------------------------------------------------
#
# [1, rows]; a row: characters shared with the first key before, rest of it, id (its 16 bytes if it is plain hex), weight


_SEGMENTS_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, str, msgspec.Raw, int]]])


def pack_directory(directory: Directory) -> bytes:
    """The directory as bytes; the empty one takes none."""
    rows = []
    last = ""
    for segment in directory:
        same = shared(last, segment.first)
        rows.append((same, segment.first[same:], _short(segment.obj), segment.weight))
        last = segment.first
    return _ENCODER.encode((_FORMAT, rows)) if rows else b""


def unpack_directory(packed: bytes) -> Directory:
    """The directory that ``pack_directory`` was given.

    Raises:
        ValueError: bytes of a format this version does not know.
    """
    if not packed:
        return ()
    found, rows = _SEGMENTS_DECODER.decode(packed)
    if found != _FORMAT:
        raise ValueError(f"segment directory format {found} is not known here")
    segments = []
    last = ""
    for same, rest, id, weight in rows:
        last = last[:same] + rest
        segments.append(Segment(last, _long(msgspec.msgpack.decode(id)), weight))
    return tuple(segments)


def _short(id: str) -> bytes | str:
    digits = id.removeprefix(SEGMENT.prefix)
    try:
        packed = bytes.fromhex(digits)
    except ValueError:
        return id
    return packed if SEGMENT.id(packed.hex()) == id else id


def _long(id: bytes | str) -> str:
    return id if isinstance(id, str) else SEGMENT.id(id.hex())


# -- layered ----------------------------------------------------------------------------------------------------------
# The index of a tree: the embedded layer over the spilled one, as if they were one sorted map (Polaris, "Object
# Indexes"). What is embedded wins, ``GONE`` included; a look-up reads at most one segment, a range only those it crosses.


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
