"""Rows of the fleet, and the writes that change them (Marlin, sections 4.1 to 4.4).

    FleetRow      one: the members, and the number of granules of each role     (MTable, SysLog)
    MemberRow     one for each member: its heartbeat, its load, its number of granules
    GranuleRow    one for each granule that ever had an owner: its owner and epoch     (GTable)
    MovesRow      one for each transaction that took granules from a member: the granules and
                  their new owner     (GLog)

Every change of an owner is one transaction over the granules and both members (MarlinCommit). It
compares the epochs of the granules, and raises ``changes`` of both members, so that each of them
notices that its cache is old. The paper appends to a log of each member, under the number of the
last entry that it knows. Here a member's row has a counter, and each granule has its own row, which
other transactions can check (``owned_still``). One entry of the log saves other members from
reading up to 90 granules. It lives for an hour, and only speed depends on it.

Ownership never decides correctness. It assigns work so that it is done once; the effects of the
work have conditions of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, Literal

from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import (
    Absent,
    Action,
    Change,
    Check,
    Clause,
    Equals,
    Erase,
    Exclude,
    Include,
    Insert,
    Present,
    Set,
    SetSum,
    Write,
    new_row,
)

GRANULES_PER_WRITE: Final = 90
"""Granules that change hands in one transaction. A transaction has at most 100 writes: the
granules, two members, and the entry of a log."""

MOVES_S: Final = 3600
"""How long an entry of a log lives. A member that has not read it by then reads the granules."""


class FleetRow(StoredRow, frozen=True):
    """The members of the fleet.

    Attributes:
        granules: the number of granules of each role. It never changes, because a granule's number
            says which part of the work it is.
        created: when the first member joined (server clock, ms).
        members: the ids of all members.
    """

    kind: ClassVar[str] = "fleet"

    granules: dict[str, int]
    created: int
    members: frozenset[str] = frozenset()


class MemberRow(StoredRow, frozen=True):
    """A member: one process, from its joining until it leaves or is removed. A process that comes
    back is a new member.

    Attributes:
        id: random, never used again.
        name: the host and process, for people.
        state: ``active``, or ``leaving`` when it accepts no more granules.
        life: the heartbeat counter. Other members judge by its change alone, and compare no clocks.
        beat_ms: the longest time between two heartbeats of a healthy member.
        changes: counts the transactions that gave it granules or took some.
            While it is unchanged, the member's own cache of its granules is complete.
        moves: counts the transactions that took granules from it; each has an entry (``MovesRow``).
            While it is unchanged, every granule that others have cached as this member's is its
            own.
        owned: the number of granules that it owns.
        loads: by role, its load in units of work a minute.
        joined_at, shown_at: by its own clock (ms), for people.
        host, port: the address to which others forward changes of its catalogs; empty and 0: none.
        secret: proves to each side of a forwarded request that the other one can read this row.
            Never shown.
    """

    kind: ClassVar[str] = "fleet-member"

    id: str
    name: str
    state: Literal["active", "leaving"]
    life: int
    beat_ms: int
    changes: int
    owned: int
    loads: dict[str, int]
    joined_at: int
    shown_at: int
    host: str = ""
    port: int = 0
    secret: str = ""
    moves: int = 0


class GranuleRow(StoredRow, frozen=True):
    """A granule: a part of the work of a role.

    Attributes:
        name: ``<role>/<number>``.
        owner: the id of the member that owns it; empty: none.
        epoch: rises by one whenever the owner changes.
        since: when the owner received it (server clock, ms), for people.
    """

    kind: ClassVar[str] = "fleet-granule"

    name: str
    owner: str
    epoch: int
    since: int

    @property
    def role(self) -> str:
        return self.name.rpartition("/")[0]


class MovesRow(StoredRow, frozen=True):
    """An entry of a member's log: the granules that one transaction took from it. Its number is the
    value of ``moves`` in the member's row after the transaction.

    Attributes:
        to: the id of the new owner; empty: none.
        granules: by name, the epoch of each under the new owner.
        at: when (server clock, ms).
        expires: the table's time-to-live attribute, in seconds.
    """

    kind: ClassVar[str] = "fleet-moves"

    to: str
    granules: dict[str, int]
    at: int
    expires: int


# -- members -----------------------------------------------------------------------------------------------------------


def found_fleet(key: str, granules: Mapping[str, int], now: int) -> Insert:
    """Creates the fleet without members."""
    return Insert(FleetRow(key, dict(granules), now).to_row(), (new_row("I19"),))


def add_role(key: str, role: str, granules: int) -> Change:
    """A role that the fleet did not have."""
    clause = Clause("new role", "I19", "a role's number of granules never changes", Absent(("granules", role)))
    return Change(key, (_is_founded(), clause), (Set(("granules", role), granules),))


def join_fleet(key: str, member: MemberRow) -> tuple[Write, ...]:
    """A new member that owns nothing yet: one transaction."""
    listed = Change(key, (_is_founded(),), (Include(("members",), frozenset({member.id})),))
    return Insert(member.to_row(), (new_row("I19"),)), listed


def show_life(
    member: MemberRow, loads: Mapping[str, int] | None, beat_ms: int, now: int, *, leaving: bool = False
) -> Change:
    """A heartbeat of ``member``, as its process last wrote or read its row. With ``leaving`` the
    member accepts no more granules from here on.

    Refused when the member was removed, or when a copy of its process (restored from a snapshot)
    has made the same heartbeat.

    Args:
        loads: its load by role; None while it has not read all its granules. The write adds the
            difference to the row, so load that givers have added since ``member`` was read
            (``hand_over``) stays.
    """
    state = "leaving" if leaving else member.state
    shown = (Set(("beat_ms",), beat_ms), Set(("shown_at",), now), Set(("state",), state))
    measured = tuple(
        SetSum(("loads", role), ("loads", role), load - member.loads[role]) for role, load in (loads or {}).items()
    )
    return Change(member.key, (_own_life(member),), (SetSum(("life",), ("life",), 1), *measured, *shown))


def remove_member(key: str, member: MemberRow) -> tuple[Write, ...]:
    """Removes a member that leaves, or is silent, and owns nothing: one transaction. Refused when
    its heartbeat has changed since it was read as ``member``, or when it owns a granule, which
    would have an owner that can not give it away.
    """
    empty = Clause("owns nothing", "I19", "every granule's owner is a member, or there is none", Equals(("owned",), 0))
    clause = Clause("same life", "I19", "it has shown no life since it was read", Equals(("life",), member.life))
    return Erase(member.key, (clause, empty)), Change(
        key, (_is_founded(),), (Exclude(("members",), frozenset({member.id})),)
    )


def member_in_place(id: str, key: str, fleet: FleetRow, now: int, *, name: str, owned: int) -> MemberRow:
    """Returns a row in place of a member's damaged one. It says that a member leaves which shows no
    life: so the others take its granules over and remove it, as they do with a silent member. Its
    process, if there is one, finds that its heartbeat is refused, and joins as another member.

    Args:
        name: as it was read last.
        owned: the number of granules that have the member as their owner.
        now: begins its counters, above all that were given before.
    """
    loads = dict.fromkeys(fleet.granules, 0)
    return MemberRow(
        key, id, name, "leaving", life=now, beat_ms=1, changes=now, moves=now, owned=owned, loads=loads, joined_at=now,
        shown_at=now,
    )  # fmt: skip


# -- granules ----------------------------------------------------------------------------------------------------------


def claim(granules: Sequence[GranuleRow], to: MemberRow, now: int) -> tuple[Write, ...]:
    """Assigns granules without an owner (epoch 0: without a row) to ``to``: one transaction."""
    return *(_give(granule, to.id, now) for granule in granules), _receives(to, len(granules), {})


def hand_over(
    granules: Sequence[GranuleRow],
    source: MemberRow,
    to: MemberRow | None,
    now: int,
    *,
    entry: str,
    role: str = "",
    load: int = 0,
) -> tuple[Write, ...]:
    """Moves granules of ``source``, at the request of its own process, to ``to``, or leaves them
    without an owner (None): one transaction (MigrationTxn). It also counts as a heartbeat, since a
    long hand-over delays the regular one.

    Refused when the granules of ``source`` have changed: then its process reads them again. Refused
    when a copy of its process makes heartbeats.

    Args:
        entry: the key of the entry in the log of ``source``, number ``source.moves + 1``.
        role, load: the load that moves from the row of ``source`` to the row of ``to``, so that the
            sum of all loads stays right until both members measure again.
    """
    same = Clause(
        "same changes",
        "I19",
        "a member gives away only granules that it owns, by its latest row",
        Equals(("changes",), source.changes),
    )
    alive = (SetSum(("life",), ("life",), 1), Set(("shown_at",), now))
    loads = {role: load} if role else {}
    lighter = tuple(SetSum(("loads", role), ("loads", role), -load) for role, load in loads.items())
    less = Change(source.key, (same, _own_life(source)), (*_less(source, len(granules)), *alive, *lighter))
    more = _more(to, len(granules), loads)
    return *_give_writes(granules, to, now), less, *more, _note_writes(granules, to, now, entry)


def take_over(
    granules: Sequence[GranuleRow], source: MemberRow, to: MemberRow | None, now: int, *, entry: str
) -> tuple[Write, ...]:
    """Moves granules of the silent member ``source`` to ``to``, the member that noticed, or leaves
    them without an owner (None): one transaction (RecoveryMigrTxn).

    Refused when ``source`` has made a heartbeat since it was read, or another member takes granules
    from it. ``entry``: as in ``hand_over``.
    """
    clause = Clause("silent", "I19", "it has shown no life since it was found silent", Equals(("life",), source.life))
    less = Change(source.key, (clause,), _less(source, len(granules)))
    return *_give_writes(granules, to, now), less, *_more(to, len(granules), {}), _note_writes(granules, to, now, entry)


def owned_still(granule: GranuleRow) -> Check:
    """The fence of an owner: a check that it adds to a transaction, so that the transaction fails
    if the granule has another owner by then."""
    return Check(granule.key, (_same_epoch(granule),))


def _give_writes(granules: Sequence[GranuleRow], to: MemberRow | None, now: int) -> tuple[Write, ...]:
    return tuple(_give(granule, "" if to is None else to.id, now) for granule in granules)


def _less(source: MemberRow, count: int) -> tuple[Action, ...]:
    """``moves`` is set and not summed, since rows of an older release have none; the entry of that
    number, which has to be new, is its guard."""
    counted = SetSum(("changes",), ("changes",), 1), Set(("moves",), source.moves + 1)
    return SetSum(("owned",), ("owned",), -count), *counted


def _note_writes(granules: Sequence[GranuleRow], to: MemberRow | None, now: int, entry: str) -> Insert:
    epochs = {granule.name: granule.epoch + 1 for granule in granules}
    row = MovesRow(entry, "" if to is None else to.id, epochs, now, now // 1000 + MOVES_S)
    return Insert(row.to_row(), (new_row("I19"),))


def _more(to: MemberRow | None, count: int, loads: Mapping[str, int]) -> tuple[Write, ...]:
    return () if to is None else (_receives(to, count, loads),)


def _give(granule: GranuleRow, owner: str, now: int) -> Write:
    if granule.epoch == 0:
        return Insert(GranuleRow(granule.key, granule.name, owner, 1, now).to_row(), (new_row("I19"),))
    actions = (Set(("owner",), owner), SetSum(("epoch",), ("epoch",), 1), Set(("since",), now))
    return Change(granule.key, (_same_epoch(granule),), actions)


def _receives(to: MemberRow, count: int, loads: Mapping[str, int]) -> Change:
    clause = Clause("active", "I19", "a member that leaves or has left gets no granules", Equals(("state",), "active"))
    added = tuple(SetSum(("loads", role), ("loads", role), load) for role, load in loads.items())
    counts = (SetSum(("owned",), ("owned",), count), SetSum(("changes",), ("changes",), 1))
    return Change(to.key, (clause,), (*counts, *added))


def _own_life(member: MemberRow) -> Clause:
    return Clause("own life", "I19", "only one process shows this member's life", Equals(("life",), member.life))


def _same_epoch(granule: GranuleRow) -> Clause:
    return Clause(
        "same epoch", "I19", "the granule's owner is the one that was read", Equals(("epoch",), granule.epoch)
    )


def _is_founded() -> Clause:
    return Clause("founded", "I19", "there is a fleet", Present(("granules",)))
