"""How granules change hands: a member's cache of members and granules, and the transactions that
give, take and claim granules.

The rows decide each transaction (``core.rows``). A transaction that is refused, or has an unknown
outcome, shows that the cache is old: the rows that it named are read again. Long work stops after
the time of a heartbeat, and goes on after the next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Final

import msgspec
from msgspec.structs import replace

from turnstile.fleet.core import rows
from turnstile.fleet.core.decisions import Observation, batches, granule_names, hash_of
from turnstile.fleet.core.granules import Granules
from turnstile.fleet.core.rows import GRANULES_PER_WRITE, FleetRow, GranuleRow, MemberRow
from turnstile.fleet.read import FleetReader
from turnstile.store.core.errors import OutcomeUnknown, Throttled, UnreadableRow
from turnstile.store.core.writes import Write
from turnstile.store.ports import AllAccepted, DamagedRow, World

READ_AT_ONCE: Final = 1_000
"""Granules that are read before the time is looked at."""

ENTRIES_AT_ONCE: Final = 100
"""Entries of logs that are read before the time is looked at."""

READING_PART: Final = 8
"""Which part of a beat a member that is not alone reads granules in: the others own them, and it
does their work until it knows."""

RELEASE_TRIES: Final = 8

Monotonic = Callable[[], int]
"""A clock in ms that never steps back."""


class View(msgspec.Struct, frozen=True):
    """A member's cache of the fleet's members. It is replaced as a whole, so that other threads may
    read it."""

    fleet: FleetRow
    me: MemberRow
    others: Mapping[str, MemberRow]
    observations: Mapping[str, Observation]
    began_ms: int


class Move(msgspec.Struct, frozen=True):
    """Granules of a role that a member is going to hand over in one transaction, with their
    load."""

    to: str
    role: str
    names: Sequence[str]
    load: int


class Exchange:
    """One member's cache, and its transactions over granules. For one thread; other threads may
    read ``view`` and call ``granules.get``.

    Attributes:
        view: the cache of members; None before it has joined.
        granules: the cache of the granules of its roles.
        plan: the granules that it will hand over.
        is_behind: whether a heartbeat had no time for all granules that it should claim or take
            over.
    """

    def __init__(self, world: World, monotonic: Monotonic, beat_ms: int, roles: Iterable[str]) -> None:
        self._world = world
        self._monotonic = monotonic
        self._beat_ms = beat_ms
        self._roles = frozenset(roles)
        self._key = world.space.fleet()
        self._reader = FleetReader(world)
        self.view: View | None = None
        self.granules = Granules()
        self.plan = list[Move]()
        self.is_behind = False

    @property
    def joined_view(self) -> View:
        """The view of a process that has joined."""
        assert self.view is not None
        return self.view

    def start(self, view: View) -> None:
        """Starts with the view of a new member."""
        self.plan.clear()
        names = granule_names({role: view.fleet.granules[role] for role in sorted(self._roles)})
        self.granules = Granules(view.me.id, names, self._world.space.fleet_granule)
        self.view = view
        self.look(view, view.others.values(), whole=True)

    def look(self, view: View, members: Iterable[MemberRow], *, whole: bool) -> None:
        """Replaces the view, with the rows of ``members`` that were read for it, and reads the
        granules that changed hands.

        Args:
            whole: whether ``members`` is complete. Then granules without an owner are looked for,
                too.
        """
        self.view = view
        self.granules.notice(view.me, members, {view.me.id, *view.others})
        if whole and not self.is_behind:  # else it claims what it has read already
            self.granules.doubt("")
        self._read()

    def _read(self, *, in_time: bool = True) -> None:
        """Reads logs, and granules that have to be read. With ``in_time`` it reads one part in any
        case, and more while there is time."""
        while wanted := self.granules.entries(ENTRIES_AT_ONCE):
            self.granules.apply(wanted, self._reader.entries(wanted))
            if in_time and not self._has_time():
                return
        while names := self.granules.unread(READ_AT_ONCE):
            found = self._reader.granules(names, [])
            self.granules.skip(name for name in names if name not in found)
            for granule in found.values():
                self.granules.put(granule)
            if in_time and not self._has_time(READING_PART if self.joined_view.others else 1):
                break

    def _has_time(self, part: int = 1) -> bool:
        view = self.view
        return view is not None and self._monotonic() - view.began_ms < self._beat_ms // part

    # -- granules that change hands -----------------------------------------------------------------------------------

    def has_more_to_do(self) -> bool:
        """Returns whether a heartbeat had no time for urgent work: granules to claim, take over,
        hand over, or its own to read. Reads of other members' granules are not urgent."""
        view = self.view
        is_alone = view is not None and not view.others
        return bool(self.plan or self.is_behind or self.granules.entries(1) or (is_alone and self.granules.unread(1)))

    def claim(self) -> None:
        """Claims the granules of its roles that have no owner. Each member starts at another
        granule, because several may claim at once."""
        free = self.granules.owned_by("")
        start = hash_of(self.joined_view.me.id, len(free)) if len(free) > GRANULES_PER_WRITE else 0
        for number, batch in enumerate(batches(free[start:] + free[:start], GRANULES_PER_WRITE)):
            if number and not self._has_time():
                self.is_behind = True
                return
            if self.transact(rows.claim(batch, self.joined_view.me, self._world.clock.now_ms())):
                self._note_received(batch)
            else:
                self.granules.read_again([granule.name for granule in batch])  # somebody else claims them, too

    def take_over(self, id: str) -> None:
        """Takes the granules of a silent member, and removes it. Granules of roles that this member
        does not work for lose their owner."""
        for number, batch in enumerate(batches(self.granules.owned_by(id), GRANULES_PER_WRITE)):
            if number and not self._has_time():
                self.is_behind = True
                return
            if not self._take(batch, self.joined_view.others[id], self.joined_view.me):
                return
            self._note_received(batch)
        if self._release_rest(id):
            self.transact(rows.remove_member(self._key, self.joined_view.others[id]))

    def _release_rest(self, id: str) -> bool:
        """Releases granules of a silent member that are of roles which this one does not work for.
        Returns whether none is left."""
        view = self.joined_view
        source = view.others[id]
        foreign = {role: view.fleet.granules[role] for role in source.loads if role not in self._roles}
        if source.owned == 0 or not foreign:
            return True
        rest = [row for row in self._reader.granules(granule_names(foreign), []).values() if row.owner == id]
        return all(self._take(batch, self.joined_view.others[id], None) for batch in batches(rest, GRANULES_PER_WRITE))

    def _take(self, granules: Sequence[GranuleRow], source: MemberRow, to: MemberRow | None) -> bool:
        """Takes granules from a silent member. Returns whether the transaction was applied. If not,
        the member is alive, or another member takes them."""
        entry = self._world.space.fleet_moves(source.id, source.moves + 1)
        now = self._world.clock.now_ms()
        if self.transact(rows.take_over(granules, source, to, now, entry=entry)):
            self._note_lost(source, len(granules))
            return True
        now_source = self._reader.members([source.id], []).get(source.id)
        if now_source is None or now_source.life != source.life:
            return False
        view = self.joined_view
        if now_source.moves == source.moves:  # no other member took any: the cache is wrong
            self.granules.doubt(source.id)
        self.view = replace(view, others={**view.others, source.id: now_source})
        self.granules.notice(view.me, [now_source], {view.me.id, *view.others})
        return False

    def carry_out(self) -> None:
        """Hands over the planned granules: one transaction in any case, and more while there is
        time."""
        is_first = True
        while self.plan and (is_first or self._has_time()):
            is_first = False
            if not self.hand_over(self.plan.pop(0)):
                self.plan.clear()

    def hand_over(self, move: Move) -> bool:
        """Gives granules away; whether that was applied, or is not to be done any more. This member
        does not count on a granule from before it is another's."""
        view = self.joined_view
        me = view.me
        to = view.others.get(move.to)
        mine = [row for name in move.names if (row := self.granules.get(name)) is not None and row.owner == me.id]
        if to is None or to.state != "active" or view.observations[move.to].is_suspected(to) or not mine:
            return True
        self.granules.drop([granule.name for granule in mine])
        now = self._world.clock.now_ms()
        entry = self._world.space.fleet_moves(me.id, me.moves + 1)
        if not self.transact(rows.hand_over(mine, me, to, now, entry=entry, role=move.role, load=move.load)):
            self.read_again()
            return False
        for granule in mine:
            self.granules.put(replace(granule, owner=to.id, epoch=granule.epoch + 1, since=now))
        own = replace(
            _less(me, len(mine), life=1), loads={**me.loads, move.role: me.loads.get(move.role, 0) - move.load}
        )
        loads = {**to.loads, move.role: to.loads.get(move.role, 0) + move.load}
        other = replace(to, changes=to.changes + 1, owned=to.owned + len(mine), loads=loads)
        self.view = replace(view, me=own, others={**view.others, to.id: other})
        self.granules.record_transaction(own)
        return True

    def _note_received(self, granules: Sequence[GranuleRow]) -> None:
        """Notes that this member owns granules which it has claimed or taken over."""
        view = self.joined_view
        now = self._world.clock.now_ms()
        me = replace(view.me, changes=view.me.changes + 1, owned=view.me.owned + len(granules))
        for row in granules:
            self.granules.put(replace(row, owner=me.id, epoch=row.epoch + 1, since=now))
        self.granules.record_transaction(me)
        self.view = replace(view, me=me)

    def _note_lost(self, source: MemberRow, count: int) -> None:
        """Notes that granules were taken from a silent member."""
        view = self.joined_view
        less = _less(source, count)
        self.granules.took(less)
        self.view = replace(view, others={**view.others, source.id: less})

    def release(self) -> bool:
        """Releases granules that have no taker, then removes this member's row."""
        for _ in range(RELEASE_TRIES):
            self.read_again()
            for batch in batches(self.granules.owned_by(self.joined_view.me.id), GRANULES_PER_WRITE):
                me = self.joined_view.me
                entry = self._world.space.fleet_moves(me.id, me.moves + 1)
                if not self.transact(rows.hand_over(batch, me, None, self._world.clock.now_ms(), entry=entry)):
                    break
                self.view = replace(self.joined_view, me=_less(me, len(batch), life=1))
            else:
                return self.transact(rows.remove_member(self._key, self.joined_view.me))
        return False

    # -- rows ---------------------------------------------------------------------------------------------------------

    def transact(self, writes: Sequence[Write]) -> bool:
        """Returns whether the transaction was applied; False also for an unknown outcome, and for a
        damaged row. Then this member's granules have to be read again."""
        try:
            return isinstance(self._world.refs.transact(writes, self._world.ids.uuid()), AllAccepted)
        except (OutcomeUnknown, Throttled, UnreadableRow):
            return False

    def replace_damaged(self, damaged: DamagedRow, fleet: FleetRow) -> bool:
        """Puts ``rows.member_in_place`` in place of a member's damaged row. Returns whether it did:
        another member may have done it, or has taken granules since they were counted."""
        content = self._world.refs.read_damaged(MemberRow, damaged.key)
        if content is None:
            return False
        id = damaged.key.rpartition("/")[2]
        known = self.joined_view.others.get(id)
        found = self._reader.granules(granule_names(fleet.granules), []).values()
        owned = sum(granule.owner == id for granule in found)
        name = "" if known is None else known.name
        row = rows.member_in_place(id, damaged.key, fleet, self._world.clock.now_ms(), name=name, owned=owned)
        return self._world.refs.replace_damaged(row.to_row(), content)

    def read_again(self) -> None:
        """Reads this member's row, the rows of all members, and every granule that changed
        hands."""
        view = self.joined_view
        me = self._reader.members([view.me.id], []).get(view.me.id, view.me)
        others = self._reader.members(view.others, [])
        self.view = replace(view, me=me, others=others)
        self.granules.notice(me, others.values(), {me.id, *others})
        self._read(in_time=False)


def _less(member: MemberRow, count: int, *, life: int = 0) -> MemberRow:
    """A member's row after granules were taken from it."""
    counts = {"changes": member.changes + 1, "moves": member.moves + 1, "owned": member.owned - count}
    return replace(member, life=member.life + life, **counts)


def moves(role: str, weights: Mapping[str, int], chosen: Mapping[str, Sequence[str]]) -> list[Move]:
    """The transactions that hand over the chosen granules, one recipient after another."""
    each = [
        [Move(to, role, part, sum(weights[name] for name in part)) for part in batches(names, GRANULES_PER_WRITE)]
        for to, names in chosen.items()
    ]
    return [move for moves in zip_longest(*each) for move in moves if move is not None]
