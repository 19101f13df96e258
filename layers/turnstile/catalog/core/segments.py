"""Which segment of a spilled index holds a key: the directory, a partition of all keys into ranges.

A range begins at its ``first`` key and ends before the next one's; the first range begins at the empty key. Each leads
to at most one segment obj. Segments are written once, and trees of many commits share them. A segment may hold keys
outside its range: they are remains of a range that was wider once, and count for nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, Protocol

import msgspec

from turnstile.catalog.core.index import Index, shared
from turnstile.store.core.obj_types import SEGMENT


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

_FORMAT: Final = 1
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(tuple[int, list[tuple[int, str, msgspec.Raw, int]]])


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
    found, rows = _DECODER.decode(packed)
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
