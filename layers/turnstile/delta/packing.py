"""How inline content is packed for the row or an obj."""

from __future__ import annotations

import zlib


def pack(content: bytes) -> bytes:
    """Compressed content."""
    return zlib.compress(content, 6)


def unpack(packed: bytes) -> bytes:
    """The content that ``pack`` was given."""
    return zlib.decompress(packed)
