"""Decisions about silent members, about which member watches which, and about granules that should
change hands. Pure; times in ms by the observer's own monotonic clock.

Clocks of two processes are never compared. An observer judges a member by a counter in its row:
while the counter changes, the member is well. Silence is the time that passes on the observer's
clock between two looks at an unchanged counter (Marlin, "Failure Detection", with rows for
messages).
"""

from __future__ import annotations

import hashlib
import heapq
from bisect import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from turnstile.fleet.core.rows import MemberRow

T = TypeVar("T")

SUSPECTED_BEATS: Final = 2
"""Missed heartbeats after which a member is suspected and other members do its work, too."""

SILENT_BEATS: Final = 5
"""Signs of life that did not come until its granules are taken over."""

WATCHED: Final = 3
"""The number of members that each member watches: its successors in the ring of ids."""

WHOLE_LOOK_BEATS: Final = 5
"""A member looks at all members once in so many heartbeats, to balance the load and to find
granules without an owner."""

LOOKED_AT: Final = 8
"""The average number of members that a member looks at in a heartbeat, beside the members that it
watches. Large fleets have fewer full looks."""

UNEVEN_PERCENT: Final = 25
"""How far from the mean a load must be before granules move: measured loads are never equal."""


RUN_MOST: Final = 90
"""How many neighbours are given to one member at a time at most."""

RUNS_EACH: Final = 8
"""How many times as many granules are so given to each at least, where there are as many: so loads
are as even as without."""


def granule_of(role: str, subject: str, granules: int) -> str:
    """Returns the granule of a role that ``subject`` (a table's id, a catalog's name) is in: a
    range of hashes."""
    return granule_name(role, hash_of(subject, granules))


def granule_name(role: str, number: int) -> str:
    """Returns the name of a role's granule."""
    return f"{role}/{number}"


def granule_names(granules: Mapping[str, int]) -> list[str]:
    """Returns the names of all granules of some roles, each with its number of granules."""
    return [granule_name(role, number) for role in sorted(granules) for number in range(granules[role])]


class Observation(msgspec.Struct, frozen=True):
    """The observations that one member has of another.

    Attributes:
        life: the heartbeat counter at the last look.
        at_ms: the time of the last look.
        quiet_ms: how long the counter has not changed.
        seen_alive: whether this observer has ever seen the counter change.
    """

    life: int
    at_ms: int
    quiet_ms: int = 0
    seen_alive: bool = False

    def is_suspected(self, member: MemberRow) -> bool:
        """Whether others should do the member's work: it was never seen alive, or has missed some
        heartbeats."""
        return not self.seen_alive or self.quiet_ms >= SUSPECTED_BEATS * member.beat_ms

    def silent(self, member: MemberRow) -> bool:
        """Whether the member's granules are to be taken over."""
        return self.quiet_ms >= SILENT_BEATS * member.beat_ms


def updated_observations(
    observations: Mapping[str, Observation], members: Iterable[MemberRow], now_ms: int, present: Collection[str]
) -> dict[str, Observation]:
    """Returns the observations after a look at the rows of ``members``. Observations of other
    members stay as they are; those of members that are not ``present`` in the fleet are dropped.

    One look counts for at most ``SUSPECTED_BEATS`` heartbeats of silence. If the observer itself
    was frozen, the member may have been, too, and one look is not enough to take its granules.
    """
    after = {id: observation for id, observation in observations.items() if id in present}
    for member in members:
        before = after.get(member.id)
        if before is None:
            after[member.id] = Observation(member.life, now_ms)
        elif member.life != before.life:
            after[member.id] = Observation(member.life, now_ms, seen_alive=True)
        else:
            quiet_ms = before.quiet_ms + min(max(0, now_ms - before.at_ms), SUSPECTED_BEATS * member.beat_ms)
            after[member.id] = Observation(member.life, now_ms, quiet_ms, before.seen_alive)
    return after


def members_to_watch(me: str, members: Collection[str], silent: Collection[str]) -> list[str]:
    """Returns the members that ``me`` looks at on every beat: the ``WATCHED`` that follow it in the
    ring of ids, and as many more as of these are ``silent``. So every member has observers, however
    many there are, and each costs them little.
    """
    ring = sorted(members)
    following = [id for id in ring if id > me] + [id for id in ring if id < me]
    chosen = list[str]()
    well = 0
    for id in following:
        if well == WATCHED:
            break
        chosen.append(id)
        well += id not in silent
    return chosen


def unseen(me: str, members: Collection[str], observations: Mapping[str, Observation]) -> list[str]:
    """Returns at most ``LOOKED_AT`` members that ``me`` has not seen alive yet, the next ones in
    the ring. It looks at them beside the members that it watches."""
    strangers = sorted(id for id in members if id not in observations or not observations[id].seen_alive)
    start = bisect(strangers, me)
    return (strangers[start:] + strangers[:start])[:LOOKED_AT]


def is_whole_look(me: str, beats: int, others: int) -> bool:
    """Returns whether ``me`` looks at all ``others`` in the beat after so many. In a large fleet
    each does so more rarely, and not all in the same beat, so that a beat costs the same in fleets
    of any size.
    """
    every = max(WHOLE_LOOK_BEATS, others // LOOKED_AT)
    shift = hash_of(me, every) if every > WHOLE_LOOK_BEATS else 0
    return (beats + shift) % every == every - 1


def hash_of(text: str, most: int) -> int:
    """Returns a number below ``most`` that is always the same for ``text``."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") * most >> 32


def surplus(me: str, mine: Mapping[str, int], members: Collection[MemberRow], role: str) -> dict[str, list[str]]:
    """Returns the granules that ``me`` should hand over, and their recipients, so that the loads of
    a role become nearly even.

    Every member decides for itself, and gives granules away until its load is at most the mean. So
    members that decide at the same time never overload a recipient together.

    Args:
        mine: the loads of the granules of ``role`` that ``me`` owns, each at least 1.
        members: the other members that can receive granules.
    """
    loads = _loads(members, role)
    load = sum(mine.values())
    if not loads:
        return {}
    mean = (load + sum(loads.values())) / (len(loads) + 1)
    margin = mean * UNEVEN_PERCENT / 100
    if load <= mean + margin and min(loads.values()) >= mean - margin:
        return {}
    takers = _Takers(me, loads, len(mine))
    moves = dict[str, list[str]]()
    for name, weight in sorted(mine.items(), key=_heaviest_first):
        if load - weight >= mean:
            moves.setdefault(takers.give(weight), []).append(name)
            load -= weight
    return moves


def everything(me: str, mine: Mapping[str, int], members: Collection[MemberRow], role: str) -> dict[str, list[str]]:
    """Returns a recipient for each granule of a role that ``me`` owns, for a member that leaves.
    Each granule goes to the member with the least load. Empty when no other one of ``members``
    works for the role.
    """
    loads = _loads(members, role)
    if not loads:
        return {}
    takers = _Takers(me, loads, len(mine))
    moves = dict[str, list[str]]()
    for name, weight in sorted(mine.items(), key=_heaviest_first):
        moves.setdefault(takers.give(weight), []).append(name)
    return moves


def batches(granules: Sequence[T], size: int) -> list[Sequence[T]]:
    """Returns granules, or their names, in parts that fit into a transaction."""
    return [granules[start : start + size] for start in range(0, len(granules), size)]


def _loads(members: Iterable[MemberRow], role: str) -> dict[str, int]:
    return {member.id: member.loads[role] for member in members if role in member.loads}


def _heaviest_first(granule: tuple[str, int]) -> tuple[int, str]:
    return -granule[1], granule[0]


class _Takers:
    """Recipients of granules. Each granule goes to the member with the least load; granules that
    several members give at once are spread over recipients with equal load. Granules of equal load
    go to one recipient in runs, so that neighbouring rows stay with one owner.
    """

    def __init__(self, me: str, loads: Mapping[str, int], granules: int) -> None:
        self._heap = [(load, hashlib.sha256(f"{me}/{id}".encode()).digest(), id) for id, load in loads.items()]
        heapq.heapify(self._heap)
        self._run = max(1, min(RUN_MOST, granules // (RUNS_EACH * (len(loads) + 1))))
        self._taker: tuple[int, bytes, str] | None = None
        self._left = 0
        self._weight = 0

    def give(self, load: int) -> str:
        """Returns the recipient of a granule of this load."""
        if self._left == 0 or load != self._weight:
            self._left = self._run
            self._weight = load
            self._taker = (
                heapq.heappop(self._heap) if self._taker is None else heapq.heappushpop(self._heap, self._taker)
            )
        assert self._taker is not None
        before, order, id = self._taker
        self._taker = (before + load, order, id)
        self._left = self._left - 1
        return id
