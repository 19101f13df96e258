"""Rows of the fleet, and the writes that change them (Marlin, sections 4.1 to 4.4).

    FleetRow      one: who is a member, and how many granules each role has     (MTable, SysLog)
    MemberRow     one for each member: its signs of life, its load, how many granules it owns
    GranuleRow    one for each granule that was ever owned: its owner and its epoch     (GTable)
    MovesRow      one for each transaction that took granules from a member: which, and whose they are now     (GLog)

Every change of an owner is one transaction over the granules and both members (MarlinCommit): the granule's epoch is the version that it
compares, and the members' ``changes`` say to each of them that what it remembers of its granules is old. The paper appends to a log
of each member, under the number of the last entry that it knows; here a row of each member counts, a granule has a row of its own, which
others can check in a transaction of theirs (``owned_still``), and the log says in one row what others would have to read of up to 90. It is there for an
hour, and nothing but speed depends on it.

Ownership never decides what is true. It says who should do a work, so that it is done once; what the work changes has conditions of
its own.
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
"""How many granules change hands in one transaction, which holds 100 writes: theirs, those of two members, and the entry of a log."""

MOVES_S: Final = 3600
"""How long an entry of a log is kept. Whoever has not read it by then reads granules."""


class FleetRow(StoredRow, frozen=True):
    """Who is a member.

    Attributes:
        granules: the number of granules of each role. It never changes, since a granule's name says which part of the work it is.
        created: when the first member joined (server clock, ms).
        members: the ids of all members.
    """

    kind: ClassVar[str] = "fleet"

    granules: dict[str, int]
    created: int
    members: frozenset[str] = frozenset()


class MemberRow(StoredRow, frozen=True):
    """A member: one process, from when it joins to when it leaves or is removed. A process that comes back is a new member.

    Attributes:
        id: random, never used again.
        name: where it runs, for people.
        state: ``active``; ``leaving`` when it takes no more granules.
        life: counts its signs of life. That it changes is all that others judge by: no clock is compared.
        beat_ms: how long the member is silent at most while it is well.
        changes: counts the transactions that gave it granules or took some.
            As long as it is the same, what its own process believes that it owns is all that it owns.
        moves: counts the transactions that took granules from it, each of which has an entry (``MovesRow``).
            As long as it is the same, what others believe that it owns is its own.
        owned: how many granules have it as their owner.
        loads: by role that it works for: what it has to do, in units of work a minute.
        joined_at, shown_at: by its own clock (ms), for people.
        host, port: where other members can ask it to apply changes of catalogs that it owns; empty and 0: nowhere.
        secret: by which it and whoever asks it know that the other one reads this row, too. Never shown.
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
        owner: the id of the member that owns it; empty: nobody does.
        epoch: rises by one whenever the owner changes.
        since: when the owner got it (server clock, ms), for people.
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
    """What one transaction took from a member: an entry of its log, under the number that its row's ``moves`` has after it.

    Attributes:
        to: the id of the new owner; empty: nobody.
        granules: by name, the epoch of each under that owner.
        at: when (server clock, ms).
        expires: the table's time-to-live attribute, in seconds.
    """

    kind: ClassVar[str] = "fleet-moves"

    to: str
    granules: dict[str, int]
    at: int
    expires: int


# -- members ------------------------------------------------------------------------------------------------------------


def found_fleet(key: str, granules: Mapping[str, int], now: int) -> Insert:
    """The fleet, before anybody is a member."""
    return Insert(FleetRow(key, dict(granules), now).to_row(), (new_row("I19"),))


def add_role(key: str, role: str, granules: int) -> Change:
    """A role that the fleet did not have."""
    clause = Clause("new role", "I19", "a role's number of granules never changes", Absent(("granules", role)))
    return Change(key, (_founded(), clause), (Set(("granules", role), granules),))


def join_fleet(key: str, member: MemberRow) -> tuple[Write, ...]:
    """A new member that owns nothing yet: one transaction."""
    listed = Change(key, (_founded(),), (Include(("members",), frozenset({member.id})),))
    return Insert(member.to_row(), (new_row("I19"),)), listed


def show_life(
    member: MemberRow, loads: Mapping[str, int] | None, beat_ms: int, now: int, *, leaving: bool = False
) -> Change:
    """A sign of life of ``member``, as its process wrote or read it last; with ``leaving`` it takes no more granules from here on.

    Refused when the member was removed, or when a copy of its process (restored from a snapshot) shows the same life.

    Args:
        loads: what it has to do, of roles that its row has; None while it does not know all that it owns. The difference is added: so what givers added since
            ``member`` was read (``hand_over``) stays.
    """
    state = "leaving" if leaving else member.state
    shown = (Set(("beat_ms",), beat_ms), Set(("shown_at",), now), Set(("state",), state))
    measured = tuple(
        SetSum(("loads", role), ("loads", role), load - member.loads[role]) for role, load in (loads or {}).items()
    )
    return Change(member.key, (_own_life(member),), (SetSum(("life",), ("life",), 1), *measured, *shown))


def remove_member(key: str, member: MemberRow) -> tuple[Write, ...]:
    """Removes a member that leaves, or is silent, and owns nothing: one transaction. Refused when it has shown life since it was
    read as ``member``, or owns a granule, whose owner would be nobody who can give it away."""
    empty = Clause("owns nothing", "I19", "every granule's owner is a member, or there is none", Equals(("owned",), 0))
    clause = Clause("same life", "I19", "it has shown no life since it was read", Equals(("life",), member.life))
    return Erase(member.key, (clause, empty)), Change(
        key, (_founded(),), (Exclude(("members",), frozenset({member.id})),)
    )


# -- granules -----------------------------------------------------------------------------------------------------------


def claim(granules: Sequence[GranuleRow], to: MemberRow, now: int) -> tuple[Write, ...]:
    """Granules that nobody owns (epoch 0: that have no row) become those of ``to``: one transaction."""
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
    """Granules of ``source``, whose process asks for it, become those of ``to``, or nobody's (None): one transaction (MigrationTxn).
    It also counts as a heartbeat, since a long hand-over delays the regular one.

    Refused when anything has changed that ``source`` owns: its process has to read anew what that is; and when a copy of its process
    shows its life.

    Args:
        entry: the key of the entry in the log of ``source``, number ``source.moves + 1``.
        role, load: the load that moves from ``source`` to ``to``, so that the sum of all loads stays right until both measure
            again.
    """
    same = Clause(
        "same changes",
        "I19",
        "a member gives away what it owns, as it knows it",
        Equals(("changes",), source.changes),
    )
    alive = (SetSum(("life",), ("life",), 1), Set(("shown_at",), now))
    loads = {role: load} if role else {}
    lighter = tuple(SetSum(("loads", role), ("loads", role), -load) for role, load in loads.items())
    less = Change(source.key, (same, _own_life(source)), (*_less(source, len(granules)), *alive, *lighter))
    more = _more(to, len(granules), loads)
    return *_given(granules, to, now), less, *more, _noted(granules, to, now, entry)


def take_over(
    granules: Sequence[GranuleRow], source: MemberRow, to: MemberRow | None, now: int, *, entry: str
) -> tuple[Write, ...]:
    """Granules of the silent member ``source`` become those of ``to``, whose process noticed, or nobody's (None): one transaction
    (RecoveryMigrTxn).

    Refused when ``source`` has shown life since it was read, or another member takes something from it. ``entry`` as of ``hand_over``.
    """
    clause = Clause("silent", "I19", "it has shown no life since it was found silent", Equals(("life",), source.life))
    less = Change(source.key, (clause,), _less(source, len(granules)))
    return *_given(granules, to, now), less, *_more(to, len(granules), {}), _noted(granules, to, now, entry)


def owned_still(granule: GranuleRow) -> Check:
    """What an owner adds to a transaction that must have no effect when the granule is another's meanwhile: its fence."""
    return Check(granule.key, (_same_epoch(granule),))


def _given(granules: Sequence[GranuleRow], to: MemberRow | None, now: int) -> tuple[Write, ...]:
    return tuple(_give(granule, "" if to is None else to.id, now) for granule in granules)


def _less(source: MemberRow, count: int) -> tuple[Action, ...]:
    """``moves`` is set and not summed, since rows of an older release have none; the entry of that number, which has to be new, is its guard."""
    counted = SetSum(("changes",), ("changes",), 1), Set(("moves",), source.moves + 1)
    return SetSum(("owned",), ("owned",), -count), *counted


def _noted(granules: Sequence[GranuleRow], to: MemberRow | None, now: int, entry: str) -> Insert:
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


def _founded() -> Clause:
    return Clause("founded", "I19", "there is a fleet", Present(("granules",)))
