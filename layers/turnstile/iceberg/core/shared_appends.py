"""The rules of a group of appends to one Iceberg table, which share a metadata file and a swap: the
commits that may be members, and the answer to each (I21, I23). Pure.

A group is a chain: each append is computed from the metadata that the append before it leaves, and
only the last metadata become a file. A commit that cannot take its place in the chain leaves the
group and is committed alone afterwards, so a refusal comes from a state that the table had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final

from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.requirements import AssertRefSnapshotId, AssertTableUuid, TableRequirement
from turnstile.iceberg.core.snapshots import MAIN

GROUP_APPENDS: Final = 32
"""Appends of one group at most."""


class Written(Enum):
    """The result of the swap that a group shares."""

    APPLIED = "the HEAD has it"
    UNKNOWN = "its answer was lost"
    BUSY = "others kept winning, or the store refused the load: nothing was applied"
    FAILED = "an error says that nothing was applied"


class Answer(Enum):
    """The answer to an append after an attempt of its group."""

    TABLE = "the table as the group leaves it"
    ERROR = "the error of the swap"
    ALONE = "none yet: it is committed alone"


def may_share(requirements: Sequence[TableRequirement], updates: Sequence[u.TableUpdate]) -> bool:
    """Returns whether a commit may be a member of a group: it adds one snapshot of operation
    ``append`` to branch main and does nothing else, and requires nothing but the table and the
    place of its snapshot in the branch."""
    if len(updates) != 2:
        return False
    added, ref = updates
    if not isinstance(added, u.AddSnapshot) or not isinstance(ref, u.SetSnapshotRef):
        return False
    if (ref.ref_name, ref.type, ref.snapshot_id) != (MAIN, "branch", added.snapshot.snapshot_id):
        return False
    if added.snapshot.summary.get("operation") != "append":
        return False
    return all(isinstance(requirement, AssertTableUuid | AssertRefSnapshotId) for requirement in requirements)


def answer(written: Written, *, member: bool) -> Answer:
    """Returns the answer to an append; ``member``: its snapshot is in the metadata that the swap
    was about."""
    if not member:
        return Answer.ALONE
    match written:
        case Written.APPLIED:
            return Answer.TABLE
        case Written.UNKNOWN | Written.BUSY:
            return Answer.ERROR
        case Written.FAILED:
            return Answer.ALONE


def fits(keys: Collection[str], taken: AbstractSet[str], most: int) -> bool:
    """Returns whether a member with the rows ``keys`` of its own fits beside members that change
    the rows ``taken``: a row takes part in a transaction once, which has ``most`` of them."""
    return len(taken) + len(keys) <= most and taken.isdisjoint(keys)
