"""A set in bounded memory that never denies a member, and now and then claims one that is none (Bloom, 1970).

gc marks with it: what is wrongly taken for reachable stays until the next run, whose seed differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

_PROBES: Final = 7


class BloomFilter:
    """Texts, as bits.

    Args:
        bits: size; at ten bits a member one in a hundred others is claimed, at twenty one in ten thousand.
        seed: which others are claimed.
    """

    __slots__ = ("_array", "_bits", "_seed")

    def __init__(self, bits: int, seed: int) -> None:
        self._bits, self._seed = bits, seed.to_bytes(8, "big")
        self._array = bytearray((bits + 7) // 8)

    def add(self, text: str) -> None:
        """Make ``text`` a member."""
        for bit in self._probes(text):
            self._array[bit >> 3] |= 1 << (bit & 7)

    def __contains__(self, text: str) -> bool:
        return all(self._array[bit >> 3] & 1 << (bit & 7) for bit in self._probes(text))

    def _probes(self, text: str) -> Iterator[int]:
        digest = hashlib.blake2b(text.encode(), digest_size=16, key=self._seed).digest()
        first, step = int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big") | 1
        return ((first + probe * step) % self._bits for probe in range(_PROBES))
