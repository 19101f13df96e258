"""Which changes of a catalog share one swap of its HEAD, and when their outcomes are certain (I21).
Pure.

A group is a chain of commits: each change is computed in the state that the changes before it
leave, and becomes a commit of its own; one conditional write makes the last of them the HEAD. So a
refusal may come from a state that exists only if that write is accepted, or from a state that was
the catalog's before the change was requested. Neither is an answer: alone, the change might have
been applied.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final

GROUP_CHANGES: Final = 64
"""Changes of one group at most."""

GROUP_ROWS: Final = 99
"""Rows that a group changes beside the catalog's: a transaction has 100 writes at most."""

GROUP_BYTES: Final = 1024 * 1024
"""Bytes of the indexes in a group's commits, after which no further change joins."""


class Judgement(Enum):
    """The result of a change of a group in the state that it was computed in."""

    CHANGES = "it made a commit"
    UNCHANGED = "nothing needs changing"
    REFUSED = "it raised an error"
    POSTPONED = "it does not fit into this group"


class Swap(Enum):
    """The result of a group's conditional write."""

    ACCEPTED = "applied"
    LOST = "refused by a row"
    FAILED = "an error says that it was not applied"
    UNKNOWN = "its answer was lost"
    NONE = "no change of the group made a commit"


class Completion(Enum):
    """The answer to a change after an attempt of its group."""

    OUTCOME = "its result"
    ERROR = "the error of the group's write"
    NOTHING = "nothing: it is judged again"


def completion_of(judgement: Judgement, swap: Swap, *, real: bool) -> Completion:
    """Returns the answer to a change.

    Args:
        real: whether the state that it was computed in is known to have been the catalog's at a
            moment after the change was requested, for any result of the swap.
    """
    if judgement is Judgement.POSTPONED:
        return Completion.NOTHING
    if swap is Swap.ACCEPTED:  # so all states of the group were, or are, the catalog's
        return Completion.OUTCOME
    if judgement is Judgement.CHANGES:
        return Completion.NOTHING if swap is Swap.LOST else Completion.ERROR
    return Completion.OUTCOME if real else Completion.NOTHING


def joins(keys: Collection[str], taken: AbstractSet[str], changes: int, size_bytes: int) -> bool:
    """Returns whether a change of the rows ``keys`` may join a group of so many ``changes``, which
    change the rows ``taken`` and have indexes of ``size_bytes``. The first change always may. A row
    takes part in a transaction once.
    """
    if changes == 0:
        return True
    if changes >= GROUP_CHANGES or size_bytes >= GROUP_BYTES:
        return False
    return len(taken) + len(keys) <= GROUP_ROWS and taken.isdisjoint(keys)
