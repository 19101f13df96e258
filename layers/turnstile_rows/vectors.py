"""Deletion vectors: which rows of a file are deleted. Source: Delta protocol, "Deletion Vectors",
"Deletion Vector Format"."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyroaring import BitMap64

from turnstile_rows.errors import Unsupported

_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85: Final = str.maketrans(_Z85, _B85)
_MAGIC: Final = 1681511377
#: Of the size before a vector and the checksum after it.
FRAME_BYTES: Final = 8
#: Characters of a uuid in base 85.
_UUID: Final = 20


def vector_path(vector: Mapping[str, Any]) -> str | None:
    """Where the vector of a descriptor is: a path relative to the table, an absolute URI, or None
    for one that is in the descriptor itself."""
    text = str(vector["pathOrInlineDv"])
    match vector["storageType"]:
        case "i":
            return None
        case "p":
            return text
        case "u":
            prefix = text[:-_UUID]
            name = uuid.UUID(bytes=_decode(text[-_UUID:]))
            return f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"
    raise Unsupported(f"a deletion vector of storage type {vector['storageType']!r} is not known to this client")


def vector_range(vector: Mapping[str, Any]) -> tuple[int, int]:
    """Where the vector of a descriptor is in its file, as :func:`deleted_rows` takes it: the
    offset, and how many bytes."""
    return int(vector.get("offset") or 0), int(vector["sizeInBytes"]) + FRAME_BYTES


def deleted_rows(vector: Mapping[str, Any], stored: bytes | None) -> BitMap64:
    """The numbers of the deleted rows. ``stored``: the bytes of the vector's file from its offset
    on, at least size, vector and checksum; None for an inline vector. Raises :class:`Unsupported`
    for an invalid or damaged vector, so that deleted rows are never shown.
    """
    size = int(vector["sizeInBytes"])
    if stored is None:
        data = _decode(str(vector["pathOrInlineDv"]))[:size]
    else:
        data = stored[4 : 4 + size]
        told = stored[:4]
        checksum = stored[4 + size : 8 + size]
        if told != struct.pack(">i", size) or checksum != struct.pack(">I", zlib.crc32(data)):
            raise Unsupported("a deletion vector's file differs from the log: its size or checksum is another")
    if len(data) < size or data[:4] != struct.pack("<i", _MAGIC):
        raise Unsupported("a deletion vector is not in the format that this client knows")
    rows = BitMap64.deserialize(data[4:])
    if len(rows) != vector["cardinality"]:
        raise Unsupported(f"a deletion vector has {len(rows)} rows, and the log says {vector['cardinality']}")
    return rows


def kept_rows(deleted: BitMap64, first: int, count: int) -> pa.Array:
    """The positions of the rows that are not deleted, among ``count`` rows of a file from the
    number ``first`` on; counted from the first."""
    kept = BitMap64(range(first, first + count)) - deleted
    return pa.array([row - first for row in kept], pa.int64())


def _decode(text: str) -> bytes:
    try:
        return base64.b85decode(text.translate(_TO_B85))
    except ValueError:
        raise Unsupported(f"{text[:100]!r} is not encoded in base 85") from None
