"""SQL's LIKE, in time bounded by the product of both lengths: no regular expression that a pattern could make slow."""

from __future__ import annotations

from typing import Final

_ANY: Final = 0
_ONE: Final = 1
_Token = str | int


def like(text: str, pattern: str) -> bool:
    """Whether all of ``text`` fits ``pattern``: ``%`` any characters, ``_`` exactly one, a backslash takes the next
    character as it is."""
    tokens = tokens_of(pattern)
    at = place = 0
    star, retry = -1, 0  # the last % met, and where what follows it is tried next
    while at < len(text):
        if place < len(tokens) and tokens[place] == _ANY:
            star, retry = place, at
            place += 1
        elif place < len(tokens) and tokens[place] in (_ONE, text[at]):
            at, place = at + 1, place + 1
        elif star >= 0:
            retry += 1
            at, place = retry, star + 1
        else:
            return False
    return all(token == _ANY for token in tokens[place:])


def tokens_of(pattern: str) -> list[_Token]:
    """Characters, ``_ANY`` and ``_ONE``."""
    found: list[_Token] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == "\\":
            found.append(next(letters, letter))
        else:
            found.append({"%": _ANY, "_": _ONE}.get(letter, letter))
    return found


def fixed_start(pattern: str) -> str:
    """What every text that fits begins with."""
    start = ""
    for token in tokens_of(pattern):
        if not isinstance(token, str):
            break
        start += token
    return start
