"""SQL's LIKE, in linear time for every pattern: a query and the texts that it is compared with come
from different people.

A run, the part between two ``%``, has a fixed length, so the first place where it fits is as good
as any: there is no backtracking. A run without ``_`` is a plain text search. For a run with ``_``
all places are tried at once: bit ``i`` of a letter's number says whether the text has the letter at
``i``, and each letter of the run is one shift and one AND of such numbers (Baeza-Yates and Gonnet,
"A new approach to text searching", with text and pattern exchanged).
"""

from __future__ import annotations

import functools
from collections import defaultdict
from itertools import takewhile
from typing import Final

_ANY: Final = 0
_Token = str | int | None
_Run = tuple[str | None, ...]
"""The part between two ``%``: letters, None for any letter."""


def like(text: str, pattern: str) -> bool:
    """Whether all of ``text`` fits ``pattern``: ``%`` any characters, ``_`` exactly one, a
    backslash takes the next character as it is."""
    first, *more = _runs(pattern)
    if not more:
        return len(first) == len(text) and _fits(text, 0, first)
    *middle, last = more
    at = len(first)
    end = len(text) - len(last)
    if at > end or not _fits(text, 0, first) or not _fits(text, end, last):
        return False
    for run in middle:
        at = _first(text, run, at, end)
        if at < 0:
            return False
        at += len(run)
    return True


def tokens_of(pattern: str) -> list[_Token]:
    """Returns the pattern's characters, ``_ANY`` for ``%`` and None for ``_``."""
    wildcards: dict[str, _Token] = {"%": _ANY, "_": None}
    letters = iter(pattern)
    return [next(letters, "\\") if letter == "\\" else wildcards.get(letter, letter) for letter in letters]


def fixed_start(pattern: str) -> str:
    """Returns the text that every match begins with."""
    return "".join(str(token) for token in takewhile(lambda token: isinstance(token, str), tokens_of(pattern)))


@functools.lru_cache(maxsize=512)
def _runs(pattern: str) -> tuple[_Run, ...]:
    """The runs before, between and after the ``%``. Cached: one pattern is compared with many
    texts."""
    runs: list[list[str | None]] = [[]]
    for token in tokens_of(pattern):
        if isinstance(token, int):
            runs.append([])
        else:
            runs[-1].append(token)
    return tuple(map(tuple, runs))


def _fits(text: str, at: int, run: _Run) -> bool:
    """Whether ``run`` fits at ``at``; the text is long enough."""
    return all(letter is None or letter == text[at + place] for place, letter in enumerate(run))


def _first(text: str, run: _Run, at: int, end: int) -> int:
    """The first place from ``at`` on where ``run`` fits before ``end``, or -1."""
    if None not in run:
        return text.find("".join(map(str, run)), at, end)
    places = -1  # every place, so far
    for place, letter in enumerate(run):
        if places and letter is not None:
            places &= _bits(text).of(letter) >> place
    places >>= at
    if not places:
        return -1
    first = at + (places & -places).bit_length() - 1
    return first if first + len(run) <= end else -1


class _Bits:
    """The positions of letters in a text, as numbers; computed for the letters that are looked
    up."""

    def __init__(self, text: str) -> None:
        self._size = len(text) // 8 + 1
        self._numbers = dict[str, int]()
        self._at: defaultdict[str, list[int]] = defaultdict(list)
        for at, letter in enumerate(text):
            self._at[letter].append(at)

    def of(self, letter: str) -> int:
        """Returns a number whose bit ``i`` is set where the text has ``letter`` at ``i``."""
        number = self._numbers.get(letter)
        if number is None:
            bits = bytearray(self._size)
            for at in self._at.get(letter, ()):
                bits[at >> 3] |= 1 << (at & 7)
            number = self._numbers[letter] = int.from_bytes(bits, "little")
        return number


@functools.lru_cache(maxsize=4)
def _bits(text: str) -> _Bits:
    """Cached: a query may compare many patterns with one text, one after the other."""
    return _Bits(text)
