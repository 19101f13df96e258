"""Who is silent, who watches whom, and which granules should change hands. Pure; times in ms by the observer's own monotonic clock.

Clocks of two processes are never compared. A member is judged by a number in its row: as long as it changes, the member is well, and what
counts as silence is time that passed here, between looks at the row (Marlin, "Failure Detection", with rows for messages).
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
"""Missed heartbeats after which a member is suspected, and others duplicate its work."""

SILENT_BEATS: Final = 5
"""Signs of life that did not come until its granules are taken over."""

WATCHED: Final = 3
"""How many members each member watches: those that follow it in the ring of ids."""

WHOLE_LOOK_BEATS: Final = 5
"""Every so many beats a member looks at all members: to balance, and to find granules that nobody owns."""

LOOKED_AT: Final = 8
"""How many members a member looks at in a beat beside those that it watches, on average: in a large fleet whole looks are rarer."""

UNEVEN_PERCENT: Final = 25
"""How far from the mean a load must be before granules move: measured loads are never equal."""


RUN_MOST: Final = 90
"""How many neighbours are given to one member at a time at most."""

RUNS_EACH: Final = 8
"""How many times as many granules are so given to each at least, where there are as many: so loads are as even as without."""


def granule_of(role: str, subject: str, granules: int) -> str:
    """Returns the granule of a role that ``subject`` (a table's id, a catalog's name) is in: a range of hashes."""
    return granule_name(role, hash_of(subject, granules))


def granule_name(role: str, number: int) -> str:
    """Returns the name of a role's granule."""
    return f"{role}/{number}"


def granule_names(granules: Mapping[str, int]) -> list[str]:
    """Returns the names of all granules of some roles, each with its number of granules."""
    return [granule_name(role, number) for role in sorted(granules) for number in range(granules[role])]


class Sight(msgspec.Struct, frozen=True):
    """What one observer has seen of a member.

    Attributes:
        life: the count of signs of life when it looked last.
        at_ms: when that was.
        quiet_ms: for how long the count has not changed.
        seen_alive: whether it has ever changed before this observer's eyes.
    """

    life: int
    at_ms: int
    quiet_ms: int = 0
    seen_alive: bool = False

    def suspected(self, member: MemberRow) -> bool:
        """Whether nobody should wait for the member's work: it was never seen alive, or has missed some signs of life."""
        return not self.seen_alive or self.quiet_ms >= SUSPECTED_BEATS * member.beat_ms

    def silent(self, member: MemberRow) -> bool:
        """Whether the member's granules are to be taken over."""
        return self.quiet_ms >= SILENT_BEATS * member.beat_ms


def looked(
    sights: Mapping[str, Sight], members: Iterable[MemberRow], now_ms: int, present: Collection[str]
) -> dict[str, Sight]:
    """Returns the sights after a look at the rows of ``members``; of other members they stay as they are, and those of who is not
    ``present`` in the fleet any more are dropped.

    One look counts for ``SUSPECTED_BEATS`` beats of silence at most: where the observer itself stood still, the member may have done so, too, and
    one look is not enough to take its granules.
    """
    after = {id: sight for id, sight in sights.items() if id in present}
    for member in members:
        before = after.get(member.id)
        if before is None:
            after[member.id] = Sight(member.life, now_ms)
        elif member.life != before.life:
            after[member.id] = Sight(member.life, now_ms, seen_alive=True)
        else:
            quiet_ms = before.quiet_ms + min(max(0, now_ms - before.at_ms), SUSPECTED_BEATS * member.beat_ms)
            after[member.id] = Sight(member.life, now_ms, quiet_ms, before.seen_alive)
    return after


def watched(me: str, members: Collection[str], silent: Collection[str]) -> list[str]:
    """Returns the members that ``me`` looks at on every beat: the ``WATCHED`` that follow it in the ring of ids, and as many more as
    of these are ``silent``. So every member has observers, however many there are, and each costs them little."""
    ring = sorted(members)
    following = [id for id in ring if id > me] + [id for id in ring if id < me]
    chosen, well = list[str](), 0
    for id in following:
        if well == WATCHED:
            break
        chosen.append(id)
        well += id not in silent
    return chosen


def unseen(me: str, members: Collection[str], sights: Mapping[str, Sight]) -> list[str]:
    """Returns the members that ``me`` looks at beside those it watches, since it has not seen them alive yet: ``LOOKED_AT`` at most, the next in the ring."""
    strangers = sorted(id for id in members if id not in sights or not sights[id].seen_alive)
    start = bisect(strangers, me)
    return (strangers[start:] + strangers[:start])[:LOOKED_AT]


def is_whole_look(me: str, beats: int, others: int) -> bool:
    """Returns whether ``me`` looks at all ``others`` in the beat after so many. In a large fleet each does so more rarely, and not all in the same beat, so that a
    beat costs the same in fleets of any size."""
    every = max(WHOLE_LOOK_BEATS, others // LOOKED_AT)
    shift = hash_of(me, every) if every > WHOLE_LOOK_BEATS else 0
    return (beats + shift) % every == every - 1


def hash_of(text: str, most: int) -> int:
    """Returns a number below ``most`` that is always the same for ``text``."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") * most >> 32


def surplus(me: str, mine: Mapping[str, int], members: Collection[MemberRow], role: str) -> dict[str, list[str]]:
    """Returns which of its granules the member ``me`` should hand over to whom, for loads of a role that are nearly even.

    Every member decides for itself, and gives until it has no more than the mean: together they never give anybody too much, whoever
    decides at the same time.

    Args:
        mine: the loads of the granules of ``role`` that ``me`` owns, each at least 1.
        members: the others that can take granules.
    """
    loads = _loads(members, role)
    load = sum(mine.values())
    if not loads:
        return {}
    mean = (load + sum(loads.values())) / (len(loads) + 1)
    margin = mean * UNEVEN_PERCENT / 100
    if load <= mean + margin and min(loads.values()) >= mean - margin:
        return {}
    takers, moves = _Takers(me, loads, len(mine)), dict[str, list[str]]()
    for name, weight in sorted(mine.items(), key=_heaviest_first):
        if load - weight >= mean:
            moves.setdefault(takers.give(weight), []).append(name)
            load -= weight
    return moves


def everything(me: str, mine: Mapping[str, int], members: Collection[MemberRow], role: str) -> dict[str, list[str]]:
    """Returns to whom the member ``me``, which leaves, hands over each of its granules of a role: to whoever has least to do. Empty when
    none of the other ``members`` works for that role."""
    loads = _loads(members, role)
    if not loads:
        return {}
    takers, moves = _Takers(me, loads, len(mine)), dict[str, list[str]]()
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
    """Members that granules are given to, each time to whoever has least to do; what several members give at once is spread over those
    that have equally little. Granules of one load go to the same member several at a time, as they come: whose names, and so rows, are neighbours.
    """

    def __init__(self, me: str, loads: Mapping[str, int], granules: int) -> None:
        self._heap = [(load, hashlib.sha256(f"{me}/{id}".encode()).digest(), id) for id, load in loads.items()]
        heapq.heapify(self._heap)
        self._run = max(1, min(RUN_MOST, granules // (RUNS_EACH * (len(loads) + 1))))
        self._taker: tuple[int, bytes, str] | None = None
        self._left, self._weight = 0, 0

    def give(self, load: int) -> str:
        """Returns who gets a granule of this load."""
        if self._left == 0 or load != self._weight:
            self._left, self._weight = self._run, load
            self._taker = (
                heapq.heappop(self._heap) if self._taker is None else heapq.heappushpop(self._heap, self._taker)
            )
        assert self._taker is not None
        before, order, id = self._taker
        self._taker, self._left = (before + load, order, id), self._left - 1
        return id
