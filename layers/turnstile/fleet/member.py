"""A member of the fleet: one process that shares work with others by what its rows say.

    beat     1  show life                          one write; its answer says whether the granules changed
             2  look at the fleet and at others    one read
             3  take over from who is silent       transactions, only then
             4  hand over what is too much         now and then
    leave    1  say so: nobody gives it granules any more
             2  hand over everything
             3  remove the own row

A crash after any step leaves rows that the others understand: a member that shows no life. A process that was frozen and goes on finds its
member removed, or its granules with other epochs, and begins anew. What it did meanwhile is either harmless when it is done twice, or was
fenced (``core.rows.owned_still``).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import Final

import msgspec

from turnstile.fleet.core import rows
from turnstile.fleet.core.decisions import (
    SUSPECTED_BEATS,
    Sight,
    batches,
    everything,
    granule_of,
    looked,
    owned_by,
    surplus,
    unowned,
    watched,
)
from turnstile.fleet.core.owners import Address, Owners
from turnstile.fleet.core.rows import GRANULES_PER_WRITE, FleetRow, GranuleRow, MemberRow
from turnstile.fleet.read import FleetReader
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, Throttled
from turnstile.store.core.writes import Write
from turnstile.store.ports import AllAccepted, World

WHOLE_LOOK_BEATS: Final = 5
"""Every so many beats a member looks at all members and granules: to balance, and to find granules that nobody owns."""

JOIN_TRIES: Final = 8

Monotonic = Callable[[], int]
"""A clock in ms that never steps back."""


class Whose(Enum):
    """Who should do the work on a subject."""

    MINE = "this member"
    OTHERS = "another member, which is well"
    UNSURE = "nobody knows: whoever is asked does it"


class Beat(msgspec.Struct, frozen=True):
    """What one beat found.

    Attributes:
        gained: granules that this member owns and did not before.
        unsure: whether some granules' owners are in doubt that were not before.
        removed: whether this member had been removed, and joined anew.
    """

    gained: tuple[str, ...] = ()
    unsure: bool = False
    removed: bool = False


class _View(msgspec.Struct, frozen=True):
    """What a member believes; replaced as a whole, so that other threads may read it."""

    fleet: FleetRow
    me: MemberRow
    others: Mapping[str, MemberRow]
    granules: Mapping[str, GranuleRow]
    sights: Mapping[str, Sight]
    began_ms: int


class Member:
    """The member that this process is. ``beat`` and ``leave`` are for one thread; the rest is safe for threads."""

    def __init__(
        self, world: World, monotonic: Monotonic, *, name: str, granules: Mapping[str, int], beat_ms: int,
        alone_beat_ms: int, address: Address | None = None,
    ) -> None:  # fmt: skip
        """
        Args:
            name: where it runs, for people.
            granules: the roles that it works for, and into how many granules the work of each is cut where no member said so before.
            beat_ms: how often it is going to call ``beat``.
            alone_beat_ms: the same while it is alone: nobody waits for it.
            address: where others can ask this process, if they can.
        """
        self._world, self._monotonic = world, monotonic
        self._name, self._wanted = name, dict(granules)
        self._beat_ms, self._alone_beat_ms = beat_ms, alone_beat_ms
        self._address = address or Address("", 0, "")
        self._key, self._reader = world.space.fleet(), FleetReader(world)
        self._view: _View | None = None
        self._beats = 0
        self._life_unknown = False
        self._returned_mine, self._returned_doubted = set[str](), set[str]()
        self._work, self._mutex = dict[str, int](), threading.Lock()

    # -- questions ----------------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id of the member; empty before it has joined."""
        return "" if self._view is None else self._view.me.id

    def whose(self, role: str, subject: str) -> Whose:
        """Returns who should do the work of a role on a subject (a table's id, a catalog's name), and counts it as load if it is this
        member. A hint: an answer may be old when it is used."""
        view = self._view
        if view is None or role not in view.fleet.granules:
            return Whose.UNSURE
        name = granule_of(role, subject, view.fleet.granules[role])
        answer = self._whose(view, name)
        if answer is Whose.MINE:
            with self._mutex:
                self._work[name] = self._work.get(name, 0) + 1
        return answer

    def granule(self, role: str, subject: str) -> GranuleRow | None:
        """Returns the granule of a subject, if this member owns it as it knows: what ``core.rows.owned_still`` makes a fence of, which an
        owner adds to a transaction that must not be applied when the granule is another's by then."""
        view = self._view
        if view is None or role not in view.fleet.granules:
            return None
        granule = view.granules.get(granule_of(role, subject, view.fleet.granules[role]))
        return None if granule is None or granule.owner != view.me.id else granule

    def owned(self) -> tuple[str, ...]:
        """Returns the names of the granules that this member owns, as it knows."""
        view = self._view
        return () if view is None else tuple(granule.name for granule in owned_by(view.me.id, view.granules.values()))

    def owners(self, role: str) -> Owners:
        """Returns who can be asked for the subjects of a role, and until when that may be believed."""
        view = self._view
        if view is None or role not in view.fleet.granules:
            return Owners()
        members = {
            view.me.id: view.me,
            **{id: row for id, row in view.others.items() if not view.sights[id].suspected(row)},
        }
        owners = {
            granule.name: Address(owner.host, owner.port, owner.secret)
            for granule in view.granules.values()
            if granule.role == role and (owner := members.get(granule.owner)) is not None and owner.port
        }
        return Owners(view.began_ms + SUSPECTED_BEATS * view.me.beat_ms, view.fleet.granules[role], owners)

    def members(self) -> int:
        """Returns how many members the fleet has, as this one knows; 0 before it has joined."""
        view = self._view
        return 0 if view is None else 1 + len(view.others)

    def next_beat_ms(self) -> int:
        """Returns after how long ``beat`` is to be called again."""
        view = self._view
        if view is None or view.others:
            return self._beat_ms
        return min(self._alone_beat_ms, view.me.beat_ms)  # no longer than its row says

    def _whose(self, view: _View, name: str) -> Whose:
        granule = view.granules.get(name)
        if self._monotonic() - view.began_ms >= SUSPECTED_BEATS * view.me.beat_ms or granule is None:
            return Whose.UNSURE
        if granule.owner == view.me.id:
            return Whose.MINE
        owner = view.others.get(granule.owner)
        if owner is None or view.sights[owner.id].suspected(owner):
            return Whose.UNSURE
        return Whose.OTHERS

    # -- beats --------------------------------------------------------------------------------------------------------

    def beat(self) -> Beat:
        """Shows life, looks at the others, and does what has to be done for them; joins first, if it is no member.

        Raises:
            Throttled, OutcomeUnknown: the store does not answer. Call again: what this member believes is in doubt by itself when
                that lasts.
        """
        began_ms, before = self._monotonic(), self._view
        removed = False
        if before is not None:
            shown = self._show_life(before)
            if shown is None:
                self._view, removed = None, True
            else:
                self._look(before, shown, began_ms)
        if self._view is None:
            self._join(began_ms)
        view = self._view
        assert view is not None
        for id in sorted(_silent(view)):
            self._take_over(id)
        self._beats += 1
        if self._beats % WHOLE_LOOK_BEATS == 0:
            self._balance()
        return self._changes(removed=removed)

    def _changes(self, *, removed: bool) -> Beat:
        """What is different from what the last beat returned."""
        view = self._view
        assert view is not None
        mine = set(self.owned())
        doubted = {id for id, other in view.others.items() if view.sights[id].suspected(other)}
        answer = Beat(tuple(sorted(mine - self._returned_mine)), bool(doubted - self._returned_doubted), removed)
        self._returned_mine, self._returned_doubted = mine, doubted
        return answer

    def _show_life(self, view: _View, *, leaving: bool = False) -> MemberRow | None:
        """The own row after a sign of life; None when the member was removed, or another process shows its life."""
        me = view.me
        if self._life_unknown:  # the answer to the last one was lost: only its row says what came of it
            row = self._world.refs.read(me.key)
            if row is None:
                return None
            me = msgspec.structs.replace(me, life=row["life"])
        beat_ms = self._beat_ms if view.others else self._alone_beat_ms
        now = self._world.clock.now_ms()
        self._life_unknown = True
        try:
            response = self._world.refs.write(rows.show_life(me, self._loads(view), beat_ms, now, leaving=leaving))
        except Throttled:
            self._life_unknown = False
            raise
        self._life_unknown = False
        if response.row is None:
            return None
        shown = MemberRow.from_row(response.row)
        return (
            shown if (shown.life, shown.shown_at) == (me.life + 1, now) else None
        )  # refused too, if it was sent twice

    def _look(self, before: _View, me: MemberRow, began_ms: int) -> None:
        """Replaces the view by what the fleet and the watched members say now."""
        whole = self._beats % WHOLE_LOOK_BEATS == WHOLE_LOOK_BEATS - 1
        ids = before.others if whole else watched(me.id, before.others, _silent(before))
        rows = self._world.refs.read_many([self._key, *map(self._world.space.fleet_member, sorted(ids))])
        if self._key not in rows:
            raise _fleet_is_gone()
        fleet = FleetRow.from_row(rows.pop(self._key))
        rows_seen = [MemberRow.from_row(row) for row in rows.values()]
        if strangers := fleet.members - before.others.keys() - {me.id}:
            rows_seen.extend(self._reader.members(strangers).values())
        others = {**before.others, **{row.id: row for row in rows_seen}}
        others = {id: row for id, row in others.items() if id in fleet.members}
        sights = looked(before.sights, rows_seen, began_ms, fleet.members)
        same = me.changes == before.me.changes and fleet.members == before.fleet.members and not whole
        granules = before.granules if same else self._reader.granules(fleet, self._wanted)
        self._view = _View(fleet, me, others, granules, sights, began_ms)

    # -- joining ------------------------------------------------------------------------------------------------------

    def _join(self, began_ms: int) -> None:
        """Becomes a member under a new id, and claims what nobody owns."""
        now, space = self._world.clock.now_ms(), self._world.space
        fleet = self._found()
        id = self._world.ids.uuid()
        me = MemberRow(
            space.fleet_member(id), id, self._name, "active", life=0, beat_ms=self._beat_ms, changes=0, owned=0,
            loads=dict.fromkeys(self._wanted, 0), joined_at=now, shown_at=now, host=self._address.host,
            port=self._address.port, secret=self._address.secret,
        )  # fmt: skip
        self._world.refs.transact(rows.join_fleet(self._key, me), id)  # refused: the next sign of life finds no member
        others = self._reader.members(fleet.members)
        sights = looked({}, others.values(), began_ms, fleet.members)
        self._beats = 0
        with self._mutex:
            self._work.clear()
        self._view = _View(fleet, me, others, self._reader.granules(fleet, self._wanted), sights, began_ms)
        self._claim()

    def _found(self) -> FleetRow:
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
            "ConcurrentChange", "the fleet's row changes too often", remedy="try again", retry_after_ms=1_000
        )

    def _claim(self) -> None:
        """Claims the granules of its roles that nobody owns."""
        view = self._view
        assert view is not None
        free = [granule for granule in unowned(view.granules.values()) if granule.role in self._wanted]
        for batch in batches(free, GRANULES_PER_WRITE):
            if not self._transact(rows.claim(batch, view.me, self._world.clock.now_ms())):
                break
        if free:
            self._read_again()

    # -- granules that change hands -----------------------------------------------------------------------------------

    def _take_over(self, id: str) -> None:
        """Takes the granules of a silent member, and removes it. Granules of roles that this member does not work for become nobody's."""
        view = self._view
        assert view is not None
        source = view.others[id]
        theirs = owned_by(id, self._reader.granules(view.fleet, view.fleet.granules).values())
        mine = [granule for granule in theirs if granule.role in self._wanted]
        rest = [granule for granule in theirs if granule.role not in self._wanted]
        for part, to in ((mine, view.me), (rest, None)):
            for batch in batches(part, GRANULES_PER_WRITE):
                if not self._transact(rows.take_over(batch, source, to, self._world.clock.now_ms())):
                    self._read_again()
                    return
        self._transact(rows.remove_member(self._key, source))
        if mine:
            self._read_again()

    def _balance(self) -> None:
        """Claims what nobody owns, and hands over what is more than this member's part."""
        self._claim()
        view = self._view
        assert view is not None
        takers = _takers(view)
        weights = self._weights(view)
        for role in self._wanted:
            self._hand_over(surplus(view.me.id, weights[role], takers, role))
        with self._mutex:  # what was measured long ago counts for less
            self._work = {name: half for name, work in self._work.items() if (half := work // 2)}

    def _hand_over(self, moves: Mapping[str, Collection[str]]) -> bool:
        """Gives granules away; whether every transaction was applied. This member does not count on a granule from before it is
        another's."""
        for to, names in moves.items():
            view = self._view
            assert view is not None
            mine = [view.granules[name] for name in names if name in view.granules]
            kept = {name: row for name, row in view.granules.items() if name not in set(names)}
            self._view = msgspec.structs.replace(view, granules=kept)
            for batch in batches(mine, GRANULES_PER_WRITE):
                now, me = self._world.clock.now_ms(), self._view.me
                if not self._transact(rows.hand_over(batch, me, view.others[to], now)):
                    self._read_again()
                    return False
                own = msgspec.structs.replace(me, changes=me.changes + 1)
                self._view = msgspec.structs.replace(self._view, me=own)
        return True

    # -- leaving ------------------------------------------------------------------------------------------------------

    def leave(self) -> bool:
        """Hands over everything and leaves; whether it did. If not, the others find it silent. Raises Throttled, OutcomeUnknown."""
        view = self._view
        if view is None:
            return True
        shown = self._show_life(view, leaving=True)
        if shown is None:
            self._view = None
            return True
        self._read_again()
        view = self._view
        assert view is not None
        takers = _takers(view)
        for role, weights in self._weights(view).items():
            if not self._hand_over(everything(view.me.id, weights, takers, role)):
                break
        left = self._release()
        self._view = None
        return left

    def _release(self) -> bool:
        """Gives what nobody takes to nobody, and removes the own row."""
        for _ in range(JOIN_TRIES):
            self._read_again()
            view = self._view
            assert view is not None
            rest = owned_by(view.me.id, self._reader.granules(view.fleet, view.fleet.granules).values())
            now = self._world.clock.now_ms()
            if not rest:
                return self._transact(rows.remove_member(self._key, view.me))
            self._transact(rows.hand_over(rest[:GRANULES_PER_WRITE], view.me, None, now))
        return False

    # -- rows ---------------------------------------------------------------------------------------------------------

    def _transact(self, writes: Sequence[Write]) -> bool:
        """Whether the transaction was applied; False also when nobody knows. What this member owns has to be read again then."""
        try:
            return isinstance(self._world.refs.transact(writes, self._world.ids.uuid()), AllAccepted)
        except (OutcomeUnknown, Throttled):
            return False

    def _read_again(self) -> None:
        """Reads the own row and all granules: what was changed just now is known at once."""
        view = self._view
        assert view is not None
        row = self._world.refs.read(view.me.key)
        me = view.me if row is None else MemberRow.from_row(row)
        self._view = msgspec.structs.replace(view, me=me, granules=self._reader.granules(view.fleet, self._wanted))

    # -- load ---------------------------------------------------------------------------------------------------------

    def _weights(self, view: _View) -> dict[str, dict[str, int]]:
        """The loads of the granules that this member owns, by role."""
        weights = {role: dict[str, int]() for role in self._wanted}
        with self._mutex:
            for granule in owned_by(view.me.id, view.granules.values()):
                weights[granule.role][granule.name] = 1 + self._work.get(granule.name, 0)
        return weights

    def _loads(self, view: _View) -> dict[str, int]:
        return {role: sum(weights.values()) for role, weights in self._weights(view).items()}


def _silent(view: _View) -> set[str]:
    """The members whose granules are to be taken over."""
    return {id for id, other in view.others.items() if view.sights[id].silent(other)}


def _takers(view: _View) -> list[MemberRow]:
    """The members that granules may be given to: that stay, and nobody suspects."""
    return [
        other for id, other in view.others.items() if other.state == "active" and not view.sights[id].suspected(other)
    ]


def _fleet_is_gone() -> StateConflict:
    return StateConflict(
        "ConcurrentChange", "the row of the fleet is gone", remedy="restart the servers that share this store"
    )
