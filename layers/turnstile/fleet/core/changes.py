"""Events of the fleet, derived from the writes of an accepted transaction (``fleet.core.rows``):
members that joined or left, granules that changed hands. Pure.

A conditional write is data, so the writes of an accepted transaction describe its effect, whichever
part of a member made them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from turnstile.fleet.core.rows import MemberRow
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Change, Check, Equals, Erase, Insert, Write

JOINED: Final = "turnstile.fleet.joined"
LEFT: Final = "turnstile.fleet.left"
REMOVED: Final = "turnstile.fleet.removed"
REFUSED: Final = "turnstile.fleet.refused"
"""A member that was frozen found that it had been removed. It is the only one that no transaction
says."""

CLAIMED: Final = "turnstile.fleet.claimed"
HANDED_OVER: Final = "turnstile.fleet.handed-over"
TAKEN_OVER: Final = "turnstile.fleet.taken-over"
RELEASED: Final = "turnstile.fleet.released"
"""Granules lost their owner: no member works for their role, or the last one left."""


class FleetChange(msgspec.Struct, frozen=True):
    """An event of a member, or of granules of one role.

    Attributes:
        type: one of the above.
        member: the id of the member that joined, left or was removed; that received granules; or
            that lost them without a recipient.
        source: the id of the previous owner; empty: the granules had no owner.
        role, count: of the granules.
        first, last: the lowest and the highest epoch of the granules after the event.
    """

    type: str
    member: str
    source: str = ""
    role: str = ""
    count: int = 0
    first: int = 0
    last: int = 0


def changes_in(space: Space, me: str, writes: Sequence[Write]) -> list[FleetChange]:
    """Returns the events of an accepted transaction; none for a transaction of another kind, or for
    a write to a member's own row alone.

    Args:
        me: the id of the member that made the writes. A member that removes itself has left.
    """
    members = space.fleet_member("")
    granules = space.fleet_granule("")
    source = ""
    to = ""
    type = CLAIMED
    epochs = dict[str, list[int]]()
    for write in writes:
        if isinstance(write, Check):
            continue
        if write.key.startswith(granules):
            role = write.key.removeprefix(granules).rpartition("/")[0]
            epochs.setdefault(role, []).append(_epoch(write))
        elif write.key.startswith(members):
            id = write.key.removeprefix(members)
            names = {clause.name for clause in write.clauses}
            if isinstance(write, Insert):
                return [FleetChange(JOINED, id)]
            if isinstance(write, Erase):
                return [FleetChange(LEFT if id == me else REMOVED, id)]
            if "active" in names:
                to = id
            elif "same changes" in names:
                source = id
                type = HANDED_OVER
            elif "silent" in names:
                source = id
                type = TAKEN_OVER
    if not to:
        to = source
        source = ""
        type = RELEASED
    return [
        FleetChange(type, to, source, role, len(numbers), min(numbers), max(numbers))
        for role, numbers in epochs.items()
    ]


def joined_name(writes: Iterable[Write]) -> Mapping[str, str]:
    """Returns the name of the member that a transaction lets join, by its id."""
    rows = [write.row for write in writes if isinstance(write, Insert) and write.row["kind"] == MemberRow.kind]
    return {row["id"]: row["name"] for row in rows}


def merge_alike(changes_in: Iterable[FleetChange]) -> list[FleetChange]:
    """Merges events of one type, role, recipient and source into one. Keeps the order."""
    whole = dict[tuple[str, ...], FleetChange]()
    for change in changes_in:
        key = (change.type, change.member, change.source, change.role)
        before = whole.get(key)
        if before is None:
            whole[key] = change
            continue
        whole[key] = replace(
            before, count=before.count + change.count, first=min(before.first, change.first),
            last=max(before.last, change.last),
        )  # fmt: skip
    return list(whole.values())


def _epoch(write: Change | Insert | Erase) -> int:
    """The epoch of a granule after its owner has changed: one more than the only clause
    compares."""
    if isinstance(write, Insert):
        return int(write.row["epoch"])
    [clause] = write.clauses
    assert isinstance(clause.test, Equals)
    return int(clause.test.value) + 1
