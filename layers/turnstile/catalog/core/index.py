"""An ordered, immutable index from key to entry (Polaris, "Object Indexes").

Keys are compared as they are; ``catalog_paths`` makes them from names. An index is a layer: one layer is embedded in
the commit obj; the layer below is spilled into segment objs that the commit names, and the embedded entry wins
(``layered``, ``spill``). A key removed from a layer that lies over another is marked ``GONE`` there instead.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

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
