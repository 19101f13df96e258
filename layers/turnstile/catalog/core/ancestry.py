"""How a catalog commit finds its ancestors: the one before it, and bookmarks further back.

``parents[0]`` of commit ``seq`` is commit ``seq - 1``; ``parents[k]`` is the newest one before it whose sequence number
is a multiple of ``8 ** k``. Each commit makes its own from those of the one before, without a read; and any ancestor is a
few steps away, however long the history is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_STEP: Final = 8


def parents_after(seq: int, id: str, parents: tuple[str, ...]) -> tuple[str, ...]:
    """``parents`` of the commit that follows commit ``id`` with number ``seq`` and with these parents."""
    made, level, distance = [id], 1, _STEP
    while distance <= seq:
        if seq % distance == 0:
            made.append(id)
        else:
            made.append(parents[level] if level < len(parents) else "")
        level, distance = level + 1, distance * _STEP
    return tuple(made)


def ancestors(seq: int, parents: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    """Number and id of the ancestors that commit ``seq`` names, farthest first. Commits made before there were
    bookmarks have none, and those after them have gaps."""
    for level in reversed(range(1, len(parents))):
        if parents[level]:
            yield (seq - 1) // _STEP**level * _STEP**level, parents[level]
    if parents:
        yield seq - 1, parents[0]
