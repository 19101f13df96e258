"""An ordered, immutable index from key to entry, in two layers (Polaris, "Object Indexes").

    Index           one layer: sorted keys with their entries, and its packed form
    Segment         one range of keys of the spilled layer; a directory of them says which segment
                    obj holds a key
    LayeredIndex    the embedded layer over the spilled one, as if they were one sorted map

The embedded layer is in the commit obj; the layer below it is spilled into segment objs that the
commit names (``spill``). The embedded entry wins. A key that is removed from a layer above another
one is marked ``GONE`` there instead. ``paths`` makes keys from names.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from turnstile.store.core.rows import SEGMENT

GONE: Final = "gone"


class IndexEntry(msgspec.Struct, frozen=True):
    """The entry of a name: its ``kind``, the id of the entity's obj, and the table's uuid (empty if
    it is no table)."""

    kind: str
    obj: str
    table_id: str = ""


Item = tuple[str, IndexEntry]


_KNOWN_ROWS: Final = 1024
"""Rows of an index that are remembered at most: an embedded layer has some hundreds, and segments
seldom change."""


class Index:
    """Sorted keys with their entries. Immutable. An index that ``with_changes`` made from another
    reuses the packed rows of that one, so that a small change of a large index costs little."""

    __slots__ = ("_entries", "_packed", "_rows", "keys")

    def __init__(self, keys: tuple[str, ...] = (), entries: tuple[IndexEntry, ...] = ()) -> None:
        self.keys = keys
        self._entries = entries
        self._packed: bytes | None = None
        self._rows: dict[str, _KnownRow] = {}

    @property
    def packed_bytes(self) -> bytes:
        if self._packed is None:
            self._packed, rows = _pack(self, self._rows)
            self._rows = rows if len(rows) <= _KNOWN_ROWS else {}
        return self._packed

    def __len__(self) -> int:
        return len(self.keys)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Index) and self.keys == other.keys and self._entries == other._entries

    def __hash__(self) -> int:
        return hash((self.keys, self._entries))

    def get(self, key: str) -> IndexEntry | None:
        at = bisect_left(self.keys, key)
        return self._entries[at] if at < len(self.keys) and self.keys[at] == key else None

    def _range(self, start: str, stop: str | None) -> tuple[int, int]:
        return bisect_left(self.keys, start), len(self.keys) if stop is None else bisect_left(self.keys, stop)

    def iterate(self, start: str = "", stop: str | None = None, *, reverse: bool = False) -> Iterator[Item]:
        """Entries with ``start <= key < stop`` in key order (or the reverse of it)."""
        low, high = self._range(start, stop)
        positions = range(high - 1, low - 1, -1) if reverse else range(low, high)
        return ((self.keys[at], self._entries[at]) for at in positions)

    def between(self, start: str, stop: str | None) -> Index:
        low, high = self._range(start, stop)
        return Index(self.keys[low:high], self._entries[low:high])

    def with_changes(self, put: Mapping[str, IndexEntry], remove: Iterable[str] = ()) -> Index:
        """Returns the index after ``put`` and then ``remove``; keys to remove need not be there."""
        merged = dict(zip(self.keys, self._entries, strict=True))
        merged.update(put)
        for key in remove:
            merged.pop(key, None)
        keys = tuple(sorted(merged))
        changed = Index(keys, tuple(merged[key] for key in keys))
        changed._rows = self._rows
        return changed


# The packed form of an index is [1, kinds, rows]. A row is flat: characters shared with the key
# before, rest of the key, position in kinds, characters shared with the obj id before, rest of the
# obj id, table uuid as 16 bytes (or empty, or the text if it is no uuid).

_FORMAT: Final = 1
_ENCODER: Final = msgspec.msgpack.Encoder()
# The last member is Any: msgspec has no union of text and bytes, though msgpack tells them apart.
_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, list[str], list[tuple[int, str, int, int, str, Any]]])


def common_prefix_length(one: str, other: str) -> int:
    """Returns how many characters both start with."""
    low = 0
    high = min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _short(value: str, long: Callable[[bytes], str], prefix: str = "") -> bytes | str:
    """Returns the bytes of which ``long`` makes ``value``; ``value`` if there are none."""
    try:
        packed = bytes.fromhex(value.removeprefix(prefix).replace("-", ""))
    except ValueError:
        return value
    return packed if long(packed) == value else value


def _long_uuid(value: bytes | str) -> str:
    if isinstance(value, str):
        return value
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])) if digits else ""


def pack(index: Index) -> bytes:
    """Returns the index as bytes; prefixes shared with the row before are left out."""
    return _pack(index, {})[0]


class _KnownRow:
    """The row of ``entry`` after a row of ``last_key`` and ``last``."""

    __slots__ = ("entry", "kind", "last", "last_key", "row")

    def __init__(self, last_key: str, last: IndexEntry, key: str, entry: IndexEntry, kind: int) -> None:
        self.last_key = last_key
        self.last = last
        self.entry = entry
        self.kind = kind
        same = common_prefix_length(last_key, key)
        same_obj = common_prefix_length(last.obj, entry.obj)
        table_id = _short(entry.table_id, _long_uuid)
        self.row = (same, key[same:], kind, same_obj, entry.obj[same_obj:], table_id)


_NO_ENTRY: Final = IndexEntry("", "")


def _pack(index: Index, known: Mapping[str, _KnownRow]) -> tuple[bytes, dict[str, _KnownRow]]:
    """The packed index, and its rows by key; ``known``: the rows of a similar index."""
    kinds: dict[str, int] = {}
    rows: dict[str, _KnownRow] = {}
    last_key = ""
    last = _NO_ENTRY
    for key, entry in index.iterate():
        kind = kinds.setdefault(entry.kind, len(kinds))
        row = known.get(key)
        if (
            row is None
            or row.entry is not entry
            or row.last is not last
            or row.last_key != last_key
            or row.kind != kind
        ):
            row = _KnownRow(last_key, last, key, entry, kind)
        rows[key] = row
        last_key = key
        last = entry
    return _ENCODER.encode((_FORMAT, list(kinds), [row.row for row in rows.values()])), rows


def unpack(packed: bytes) -> Index:
    """Returns the index that ``pack`` was given. Raises ValueError for a format this version does
    not know."""
    format, kinds, rows = _DECODER.decode(packed)
    if format != _FORMAT:
        raise ValueError(f"index format {format} is not known here")
    keys: list[str] = []
    entries: list[IndexEntry] = []
    key = obj = ""
    for same, suffix, kind, same_obj, obj_suffix, table_id in rows:
        key = key[:same] + suffix
        obj = obj[:same_obj] + obj_suffix
        keys.append(key)
        entries.append(IndexEntry(kinds[kind], obj, _long_uuid(table_id)))
    return Index(tuple(keys), tuple(entries))


# -- segments ---------------------------------------------------------------------------------------------------------


class Segment(msgspec.Struct, frozen=True):
    """One range of keys of the spilled layer, from the key ``first`` to before that of the next
    range, and the segment ``obj`` that holds it (empty if nothing lies there), with about
    ``weight`` packed bytes. Segment objs are written once, and trees of many commits share them.
    One may hold keys outside the range, remains of a range that was wider once; they are ignored.
    """

    first: str
    obj: str
    weight: int = 0


Directory = tuple[Segment, ...]
"""A partition of all keys into ranges, in key order; the first range begins at the empty key. An
empty directory: nothing was ever spilled."""


class Segments(Protocol):
    """Source of segments."""

    def load(self, id: str) -> Index:
        """Returns the segment; at most one request."""

    def peek(self, id: str) -> Index | None:
        """Returns the segment if that takes no request, else None."""


def position_of(directory: Directory, key: str) -> int:
    """Returns the position of the range that ``key`` lies in; requires a directory that is not
    empty."""
    return bisect_right(directory, key, key=lambda segment: segment.first) - 1


def segment_of(directory: Directory, key: str) -> str:
    """Returns the id of the segment that may hold ``key``; empty if none does."""
    return directory[position_of(directory, key)].obj if directory else ""


def stop_of(directory: Directory, position: int) -> str | None:
    """Returns the key at which a range ends; None for the last one."""
    return directory[position + 1].first if position + 1 < len(directory) else None


def separator(left: str, right: str) -> str:
    """Returns the shortest key ``k`` with ``left < k <= right``; requires ``left < right``."""
    return right[: common_prefix_length(left, right) + 1]


# The packed form of a directory is [1, rows]. A row: characters shared with the first key before,
# rest of the first key, id (16 bytes if it is plain hex), weight.
_DIRECTORY_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, str, msgspec.Raw, int]]])


def pack_directory(directory: Directory) -> bytes:
    """Returns the directory as bytes; no bytes for an empty one."""
    rows = []
    last = ""
    for segment in directory:
        same = common_prefix_length(last, segment.first)
        rows.append((same, segment.first[same:], _short(segment.obj, _long_id, SEGMENT.prefix), segment.weight))
        last = segment.first
    return _ENCODER.encode((_FORMAT, rows)) if rows else b""


def unpack_directory(packed: bytes) -> Directory:
    """Returns the directory that ``pack_directory`` was given. Raises ValueError for a format this
    version does not know."""
    if not packed:
        return ()
    format, rows = _DIRECTORY_DECODER.decode(packed)
    if format != _FORMAT:
        raise ValueError(f"segment directory format {format} is not known here")
    segments = []
    last = ""
    for same, rest, id, weight in rows:
        last = last[:same] + rest
        segments.append(Segment(last, _long_id(msgspec.msgpack.decode(id)), weight))
    return tuple(segments)


def _long_id(id: bytes | str) -> str:
    return id if isinstance(id, str) else SEGMENT.id(id.hex())


# -- both layers ------------------------------------------------------------------------------------------------------


class LayeredIndex:
    """The index of a tree: sorted keys with their entries. Immutable. Segments are loaded as they
    are needed: a look-up reads at most one, a range only the segments it crosses."""

    __slots__ = ("_segments", "directory", "embedded")

    def __init__(self, embedded: Index, directory: Directory, segments: Segments) -> None:
        self.embedded = embedded
        self.directory = directory
        self._segments = segments

    def get(self, key: str) -> IndexEntry | None:
        return self._get(key, self._segments.load)

    def peek(self, key: str) -> IndexEntry | None:
        """Returns the entry if it is in memory. None may also mean that it is not in memory."""
        return self._get(key, self._segments.peek)

    def _get(self, key: str, read: Callable[[str], Index | None]) -> IndexEntry | None:
        entry = self.embedded.get(key)
        if entry is None and (id := segment_of(self.directory, key)):
            segment = read(id)
            entry = segment.get(key) if segment is not None else None
        return None if entry is None or entry.kind == GONE else entry

    def iterate(self, start: str = "", stop: str | None = None, *, reverse: bool = False) -> Iterator[Item]:
        """Entries with ``start <= key < stop`` in key order (or the reverse of it)."""
        ranges = self._ranges(start, stop)
        for low, high, id in reversed(list(ranges)) if reverse else ranges:
            over = self.embedded.iterate(low, high, reverse=reverse)
            under = self._segments.load(id).iterate(low, high, reverse=reverse) if id else iter(())
            yield from _merge_runs(over, under, reverse=reverse)

    def first(self, start: str) -> Item | None:
        return next(self.iterate(start), None)

    def last(self, stop: str | None) -> Item | None:
        return next(self.iterate(stop=stop, reverse=True), None)

    def with_changes(self, put: Mapping[str, IndexEntry], remove: Iterable[str] = ()) -> Index:
        """Returns the embedded layer after ``put`` and then ``remove``; keys to remove need not be
        there."""
        removed = list(remove)
        marked = {key: IndexEntry(GONE, "") for key in removed if segment_of(self.directory, key)}
        return self.embedded.with_changes({**put, **marked}, [key for key in removed if key not in marked])

    def _ranges(self, start: str, stop: str | None) -> Iterator[tuple[str, str | None, str]]:
        """Yields the parts of ``[start, stop)`` by the segment they lie in: start, stop, and the
        segment's id."""
        if not self.directory:
            yield start, stop, ""
            return
        for at in range(position_of(self.directory, start), len(self.directory)):
            segment = self.directory[at]
            end = stop_of(self.directory, at)
            if stop is not None and segment.first >= stop:
                return
            last = stop is not None and (end is None or stop < end)
            yield max(start, segment.first), stop if last else end, segment.obj


def _merge_runs(over: Iterator[Item], under: Iterator[Item], *, reverse: bool) -> Iterator[Item]:
    """Merges two sorted runs, without removed keys; where both have a key, ``over`` wins."""
    high = next(over, None)
    low = next(under, None)
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
