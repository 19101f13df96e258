"""A member of the fleet: one process that shares work with others by means of its rows.

    beat     1  write a heartbeat                  one write; the answer shows changes of granules
             2  look at the fleet and at others    one read
             3  read granules that changed hands   reads, only if there are some
             4  take over from silent members      transactions, only if there are some
             5  hand over surplus granules         now and then, and when a new member is well
    look     1  look at the watched members        one read, between two heartbeats
    leave    1  announce it: no member gives it granules any more
             2  hand over everything
             3  remove its row

Each of the steps 3 to 5 takes at most the time of a heartbeat and one transaction, and goes on
after the next heartbeat. So a member with many granules to read, take or give keeps its heartbeat,
and makes progress on a slow store.

A crash after any step leaves rows that the others understand: a member without a heartbeat. A
process that was frozen finds its member removed, or its granules with other epochs, and starts
again. Its work of the time between is harmless when it is done twice, or was fenced
(``core.rows.owned_still``).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from turnstile.fleet.core import rows
from turnstile.fleet.core.decisions import (
    SUSPECTED_BEATS,
    Observation,
    everything,
    granule_names,
    granule_of,
    is_whole_look,
    members_to_watch,
    surplus,
    unseen,
    updated_observations,
)
from turnstile.fleet.core.owners import Address, Owners
from turnstile.fleet.core.rows import FleetRow, GranuleRow, MemberRow
from turnstile.fleet.core.shares import Ownership, Share, Shares
from turnstile.fleet.exchange import Exchange, Monotonic, View, moves
from turnstile.fleet.read import FleetReader, parse_members
from turnstile.store.core.errors import ErrorType, StateConflict, Throttled, UnreadableRow
from turnstile.store.ports import AllAccepted, DamagedRow, World

JOIN_TRIES: Final = 8


class Beat(msgspec.Struct, frozen=True):
    """The changes that one heartbeat found.

    Attributes:
        gained: granules that this member owns and did not own before.
        unsure: whether the owners of some granules are in doubt that were not before.
        removed: whether this member had been removed, and joined again.
        replaced: damaged rows of members that this one has replaced (``rows.member_in_place``).
    """

    gained: tuple[str, ...] = ()
    unsure: bool = False
    removed: bool = False
    replaced: tuple[DamagedRow, ...] = ()


class Member:
    """The member that this process is. ``beat``, ``look`` and ``leave`` are for one thread; the
    rest is safe for threads."""

    def __init__(
        self, world: World, monotonic: Monotonic, *, name: str, granules: Mapping[str, int], beat_ms: int,
        alone_beat_ms: int, address: Address | None = None,
    ) -> None:  # fmt: skip
        """
        Args:
            name: the host and process, for people.
            granules: the roles that it works for, and the number of granules of each role for a
                fleet that does not have the role yet.
            beat_ms: how often the caller is going to call ``beat``.
            alone_beat_ms: the same while it is the only member, when no other member waits for it.
            address: where others can send requests to this process, if they can.
        """
        self._world = world
        self._monotonic = monotonic
        self._name = name
        self._wanted = dict(granules)
        self._beat_ms = beat_ms
        self._alone_beat_ms = alone_beat_ms
        self._address = address or Address("", 0, "")
        self._key = world.space.fleet()
        self._reader = FleetReader(world)
        self._exchange = Exchange(world, monotonic, beat_ms, granules)
        self._beats = 0
        self._life_unknown = False
        self._damaged = list[DamagedRow]()
        self._returned_mine = set[str]()
        self._returned_doubted = set[str]()
        self._work = dict[str, int]()
        self._mutex = threading.Lock()

    # -- questions ----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id of the member; empty before it has joined."""
        return "" if self._exchange.view is None else self._exchange.view.me.id

    def whose(self, role: str, subject: str, work: int = 1) -> Ownership:
        """Returns which member should do the work of a role on a subject (a table's id, a catalog's
        name), and counts ``work`` as load if it is this member. It is a hint: an answer may be old
        when it is used.
        """
        view = self._exchange.view
        if view is None or role not in view.fleet.granules:
            return Ownership.UNSURE
        name = granule_of(role, subject, view.fleet.granules[role])
        answer = self._whose(view, name)
        if answer is Ownership.MINE:
            with self._mutex:
                self._work[name] = self._work.get(name, 0) + work
        return answer

    def granule_of(self, role: str, subject: str) -> str:
        """Returns the name of the granule that a subject is in, as far as this member knows the
        role; else an empty text."""
        view = self._exchange.view
        if view is None or role not in view.fleet.granules:
            return ""
        return granule_of(role, subject, view.fleet.granules[role])

    def granule(self, role: str, subject: str) -> GranuleRow | None:
        """Returns the granule of a subject if this member owns it, as far as its cache says. An
        owner gives it to ``core.rows.owned_still`` and adds that fence to a transaction that must
        fail if the granule has another owner by then.
        """
        granule = self._exchange.granules.get(self.granule_of(role, subject))
        return None if granule is None or granule.owner != self.id else granule

    def owned_granules(self) -> tuple[str, ...]:
        """Returns the names of the granules that this member owns, as it knows."""
        view = self._exchange.view
        return () if view is None else tuple(granule.name for granule in self._exchange.granules.owned_by(view.me.id))

    def owners(self, role: str) -> Owners:
        """Returns the owners to which requests for the subjects of a role can be forwarded, and
        until when that is valid."""
        view = self._exchange.view
        if view is None or role not in view.fleet.granules:
            return Owners()
        members = {
            view.me.id: view.me,
            **{id: row for id, row in view.others.items() if not view.observations[id].is_suspected(row)},
        }
        owners = {
            granule.name: Address(owner.host, owner.port, owner.secret)
            for granule in self._exchange.granules.all()
            if granule.role == role and (owner := members.get(granule.owner)) is not None and owner.port
        }
        return Owners(view.began_ms + SUSPECTED_BEATS * view.me.beat_ms, view.fleet.granules[role], owners)

    def shares(self, *roles: str) -> Shares:
        """Returns the answers of ``whose`` for some of its roles, for other processes that do this
        member's work."""
        view = self._exchange.view
        shares = dict[str, Share]()
        if view is None:
            return Shares()
        for role in roles:
            names = granule_names({role: view.fleet.granules[role]})
            whose = {name: self._whose(view, name) for name in names}
            mine, others = (
                frozenset(name for name in names if whose[name] is who) for who in (Ownership.MINE, Ownership.OTHERS)
            )
            shares[role] = Share(len(names), mine, others)
        return Shares(view.began_ms + SUSPECTED_BEATS * view.me.beat_ms, shares)

    def members(self) -> int:
        """Returns how many members the fleet has, as this one knows; 0 before it has joined."""
        view = self._exchange.view
        return 0 if view is None else 1 + len(view.others)

    def next_beat_ms(self) -> int:
        """Returns after how long ``beat`` is to be called again. At once, while it has granules to
        take or give, or is alone and has some to read; and where it is not alone any more and its
        row still says that it shows life as slowly as one that is: others would doubt it as late.
        """
        view = self._exchange.view
        if self._exchange.has_more_to_do() or (view is not None and view.others and view.me.beat_ms > self._beat_ms):
            return 0
        return self._beat_ms if view is None else min(self._alone_beat_ms, view.me.beat_ms)  # as its row says

    def _whose(self, view: View, name: str) -> Ownership:
        granule = self._exchange.granules.get(name)
        if self._monotonic() - view.began_ms >= SUSPECTED_BEATS * view.me.beat_ms or granule is None:
            return Ownership.UNSURE
        if granule.owner == view.me.id:
            return Ownership.MINE
        owner = view.others.get(granule.owner)
        if owner is None or view.observations[owner.id].is_suspected(owner):
            return Ownership.UNSURE
        return Ownership.OTHERS

    # -- beats --------------------------------------------------------------------------------------------------------

    def beat(self) -> Beat:
        """Makes a heartbeat, looks at the others, and does the work that is due for them. Joins
        first if it is no member.

        Raises:
            Throttled, OutcomeUnknown: the store does not answer. Call again: this member's cache
                becomes invalid by itself when that lasts.
        """
        began_ms = self._monotonic()
        before = self._exchange.view
        removed = is_due = False
        if before is not None:
            shown = self._show_life(before)
            if shown is None:
                self._exchange.view = None
                removed = True
            else:
                is_due = self._look(before, shown, began_ms)
        if self._exchange.view is None:
            self._join(began_ms)
        was_behind = self._exchange.is_behind
        self._exchange.is_behind = False
        for id in sorted(_silent(self._exchange.joined_view)):
            self._exchange.take_over(id)
        self._beats += 1
        if is_due or was_behind:
            self._exchange.claim()
            if not self._exchange.has_more_to_do():
                self._balance()
        self._exchange.carry_out()
        return self._changes(removed=removed, replaced=self._replace_damaged())

    def _replace_damaged(self) -> tuple[DamagedRow, ...]:
        """Replaces the damaged rows of members that were found since the last call; returns those
        that it has replaced."""
        fleet = self._exchange.joined_view.fleet
        found = [row for row in self._damaged if row.key.rpartition("/")[2] in fleet.members]
        self._damaged.clear()
        return tuple(row for row in found if self._exchange.replace_damaged(row, fleet))

    def _changes(self, *, removed: bool, replaced: tuple[DamagedRow, ...]) -> Beat:
        """The differences from the last returned ``Beat``."""
        view = self._exchange.joined_view
        mine = set(self.owned_granules())
        doubted = {id for id, other in view.others.items() if view.observations[id].is_suspected(other)}
        gained = tuple(sorted(mine - self._returned_mine))
        answer = Beat(gained, bool(doubted - self._returned_doubted), removed, replaced)
        self._returned_mine = mine
        self._returned_doubted = doubted
        return answer

    def _show_life(self, view: View, *, leaving: bool = False) -> MemberRow | None:
        """The own row after a sign of life; None when the member was removed, its row is damaged,
        or another process shows its life."""
        me = view.me
        if self._life_unknown:  # the answer to the last one was lost: only its row says what came of it
            own = self._reader.members([me.id], []).get(me.id)
            if own is None:
                return None
            me = own
        beat_ms = self._beat_ms if view.others else self._alone_beat_ms
        now = self._world.clock.now_ms()
        loads = self._loads(me.id) if self._exchange.granules.is_noticed(me) else None
        self._life_unknown = True
        try:
            response = self._world.refs.write(rows.show_life(me, loads, beat_ms, now, leaving=leaving))
        except Throttled:
            self._life_unknown = False
            raise
        except UnreadableRow:
            self._life_unknown = False
            return None
        self._life_unknown = False
        if response.row is None:
            return None
        shown = MemberRow.from_row(response.row)
        return (
            shown if (shown.life, shown.shown_at) == (me.life + 1, now) else None
        )  # refused too, if it was sent twice

    def _look(self, before: View, me: MemberRow, began_ms: int) -> bool:
        """Replaces the view by the rows of the fleet and the watched members; by the rows of all
        members now and then, and when this member was given granules.

        Returns:
            whether it is time to claim and to balance: now and then, and when new members are well
                and should receive granules.
        """
        is_due = is_whole_look(me.id, self._beats, len(before.others))
        whole = is_due or me.changes != before.me.changes
        looked_at = {
            *members_to_watch(me.id, before.others, _silent(before)),
            *unseen(me.id, before.others, before.observations),
        }
        ids = before.others if whole else looked_at
        rows = self._world.refs.read_many([self._key, *map(self._world.space.fleet_member, sorted(ids))])
        if self._key not in rows:
            raise _fleet_is_gone()
        fleet = FleetRow.from_row(rows.pop(self._key))
        rows_seen = parse_members(rows.values(), self._damaged, before.others)
        if strangers := fleet.members - before.others.keys() - {me.id}:
            rows_seen.extend(self._reader.members(strangers, self._damaged).values())
        others = _present(fleet, {**before.others, **{row.id: row for row in rows_seen}})
        observations = updated_observations(before.observations, rows_seen, began_ms, fleet.members)
        if _are_new_ones_well(before.observations, observations) and self._has_surplus(me, others, observations):
            is_due = True
            if not whole:  # what it gives is judged by what all have now
                whole = True
                rest = list(self._reader.members(others.keys() - {row.id for row in rows_seen}, []).values())
                others = _present(fleet, {**others, **{row.id: row for row in rest}})
                observations = updated_observations(observations, rest, began_ms, fleet.members)
                rows_seen = rows_seen + rest
        self._exchange.look(View(fleet, me, others, observations, began_ms), rows_seen, whole=whole)
        return is_due

    def _has_surplus(
        self, me: MemberRow, others: Mapping[str, MemberRow], observations: Mapping[str, Observation]
    ) -> bool:
        """Whether this member should hand over something, as far as it knows."""
        weights = self._weights(me.id)
        takers = _takers(others, observations)
        return any(surplus(me.id, weights[role], takers, role) for role in self._wanted)

    def look(self) -> bool:
        """Looks at the watched members between two heartbeats, so that a silent member is suspected
        half a heartbeat sooner. Returns whether a member is suspected that was not at the last
        heartbeat. Raises the errors of reads; call it again after the next heartbeat.
        """
        view = self._exchange.view
        if view is None or not view.others:
            return False
        ids = sorted(members_to_watch(view.me.id, view.others, _silent(view)))
        began_ms = self._monotonic()
        rows = self._world.refs.read_many([*map(self._world.space.fleet_member, ids)])
        members = parse_members(rows.values(), [], view.others)
        view = replace(
            view, observations=updated_observations(view.observations, members, began_ms, view.fleet.members)
        )
        self._exchange.view = view
        return any(
            view.observations[id].is_suspected(view.others[id]) for id in ids if id not in self._returned_doubted
        )

    # -- joining ------------------------------------------------------------------------------------------------------

    def _join(self, began_ms: int) -> None:
        """Becomes a member under a new id, and claims granules without an owner."""
        now = self._world.clock.now_ms()
        space = self._world.space
        fleet = self._find_fleet()
        id = self._world.ids.uuid()
        me = MemberRow(
            space.fleet_member(id), id, self._name, "active", life=0, beat_ms=self._beat_ms, changes=0, moves=0,
            owned=0,
            loads=dict.fromkeys(self._wanted, 0), joined_at=now, shown_at=now, host=self._address.host,
            port=self._address.port, secret=self._address.secret,
        )  # fmt: skip
        if not isinstance(self._world.refs.transact(rows.join_fleet(self._key, me), id), AllAccepted):
            raise _fleet_is_gone()
        others = self._reader.members(fleet.members, self._damaged)
        observations = updated_observations({}, others.values(), began_ms, fleet.members)
        self._beats = 0
        with self._mutex:
            self._work.clear()
        self._exchange.start(View(fleet, me, others, observations, began_ms))
        self._exchange.claim()

    def _find_fleet(self) -> FleetRow:
        """The row of the fleet, which has every role that this member works for."""
        for _ in range(JOIN_TRIES):
            fleet = self._reader.fleet()
            if fleet is None:
                self._world.refs.write(rows.found_fleet(self._key, self._wanted, self._world.clock.now_ms()))
                continue
            missing = [role for role in self._wanted if role not in fleet.granules]
            if not missing:
                return fleet
            self._world.refs.write(rows.add_role(self._key, missing[0], self._wanted[missing[0]]))
        raise StateConflict(
            ErrorType.CONCURRENT_CHANGE, "the fleet's row changes too often", remedy="try again", retry_after_ms=1_000
        )

    def _balance(self) -> None:
        """Plans to hand over the granules beyond this member's part."""
        view = self._exchange.joined_view
        takers = _takers(view.others, view.observations)
        weights = self._weights(view.me.id)
        for role in self._wanted:
            self._exchange.plan += moves(role, weights[role], surplus(view.me.id, weights[role], takers, role))
        with self._mutex:  # what was measured long ago counts for less
            self._work = {name: half for name, work in self._work.items() if (half := work // 2)}

    # -- leaving ------------------------------------------------------------------------------------------------------

    def leave(self) -> bool:
        """Hands over everything and leaves; whether it did. If not, the others find it silent.
        Raises Throttled, OutcomeUnknown."""
        view = self._exchange.view
        if view is None:
            return True
        shown = self._show_life(view, leaving=True)
        if shown is None:
            self._exchange.view = None
            return True
        self._exchange.read_again()
        view = self._exchange.joined_view
        takers = _takers(view.others, view.observations)
        for role, weights in self._weights(view.me.id).items():
            planned = moves(role, weights, everything(view.me.id, weights, takers, role))
            if not all(self._exchange.hand_over(move) for move in planned):
                break
        left = self._exchange.release()
        self._exchange.view = None
        return left

    # -- load ---------------------------------------------------------------------------------------------------------

    def _weights(self, me: str) -> dict[str, dict[str, int]]:
        """The loads of the granules that this member owns, by role."""
        weights = {role: dict[str, int]() for role in self._wanted}
        with self._mutex:
            for granule in self._exchange.granules.owned_by(me):
                weights[granule.role][granule.name] = 1 + self._work.get(granule.name, 0)
        return weights

    def _loads(self, me: str) -> dict[str, int]:
        """The sums of ``_weights``."""
        granules = self._exchange.granules
        loads = {role: granules.counts(me).get(role, 0) for role in self._wanted}
        with self._mutex:
            for name, work in self._work.items():
                if (granule := granules.get(name)) is not None and granule.owner == me:
                    loads[granule.role] += work
        return loads


def _silent(view: View) -> set[str]:
    """The members that are silent, so that others take over their granules."""
    return {id for id, other in view.others.items() if view.observations[id].silent(other)}


def _takers(others: Mapping[str, MemberRow], observations: Mapping[str, Observation]) -> list[MemberRow]:
    """The members that can receive granules: active, and not suspected."""
    return [
        other for id, other in others.items() if other.state == "active" and not observations[id].is_suspected(other)
    ]


def _present(fleet: FleetRow, others: Mapping[str, MemberRow]) -> dict[str, MemberRow]:
    return {id: row for id, row in others.items() if id in fleet.members}


def _are_new_ones_well(before: Mapping[str, Observation], now: Mapping[str, Observation]) -> bool:
    """Returns whether a new member has just been seen alive and no other new member is still
    unconfirmed."""
    return all(observation.seen_alive for observation in now.values()) and any(
        id not in before or not before[id].seen_alive for id in now
    )


def _fleet_is_gone() -> StateConflict:
    return StateConflict(
        ErrorType.CONCURRENT_CHANGE, "the row of the fleet is gone", remedy="restart the servers that share this store"
    )
