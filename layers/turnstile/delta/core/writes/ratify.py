"""The conditional writes that ratify, and the one that raises the floor: one UpdateItem each, every
clause with its invariant.

``named_change`` extends a table by the version that the proposer chose, ``ticket_change`` by the
next one, whichever that is. Both accept exactly when ``decide`` returns a fresh Ratified (a
property test holds them together). The publisher writes ``raise_floor`` after it saw versions in
``_delta_log`` (I4, I5).
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.delta.core.decide import Proposal
from turnstile.delta.core.head import (
    ACTIVE,
    DROPPED,
    EXPORTED,
    KEEP_PUBLISHED,
    ROWS_KEPT,
    ROWS_OFF,
    ROWS_UNREAD,
    TableHead,
    cost,
    mark_after,
    tail_by_version,
)
from turnstile.delta.core.reservations import LEASE_MOST_MS
from turnstile.store.core.names import MAX_ROW_ID
from turnstile.store.core.terms import SLACK_MS
from turnstile.store.core.writes import (
    Absent,
    Action,
    Append,
    AtLeast,
    AtMost,
    Below,
    Change,
    Check,
    Clause,
    Drop,
    Either,
    Equals,
    Exclude,
    Include,
    Lacks,
    Set,
    SetSum,
    Test,
)


def settled_clause() -> Clause:
    """Of every write that extends a table, or makes it leave or mean something else."""
    says = "no undecided commit of a group waits on the table"
    return Clause("settled", "I8", says, Absent(("undecided",)))


def active() -> Clause:
    """The table takes commits."""
    return Clause("active", "I10", "the table takes commits", Equals(("state",), ACTIVE))


def same_metadata(metadata: str) -> Clause:
    """The table's metadata is the one that a proposal was judged by."""
    return Clause("same metadata", "I2", "metadata is the one that the proposer read", Equals(("metadata",), metadata))


def new_identity(txn: str) -> Clause:
    """The tail has no commit of this transaction."""
    return Clause("new identity", "I3", "this transaction is not in the tail", Lacks(("ids",), txn))


def remembers_clause(oldest_needed: int) -> Clause:
    """The tail has every commit from a version on."""
    says = "no identity was evicted that could be this one"
    return Clause("remembered", "I3", says, AtMost(("tail_from",), oldest_needed))


def room(free_at: int) -> Clause:
    """The tail has no more than these bytes."""
    return Clause("room", "I11", "the row stays within its budget", AtMost(("bytes",), free_at))


def same_epoch(base: int) -> Clause:
    """No commit since a ticket's base has changed metadata."""
    return Clause("same epoch", "I2", "metadata is the one that the proposer read", AtMost(("epoch",), base))


def own_application(app: str, base: int) -> Clause:
    """No commit since a ticket's base is of this streaming application."""
    says = "no later commit carries this streaming application's txn"
    return Clause("own application", "I3", says, Either((Absent(("apps", app)), AtMost(("apps", app), base))))


def _common(proposal: Proposal, size_bytes: int) -> tuple[Clause, ...]:
    return (
        *((same_metadata(proposal.asserts),) if proposal.asserts is not None else ()),
        active(),
        new_identity(proposal.entry.txn),
        remembers_clause(proposal.oldest_needed),
        room(proposal.room - size_bytes),
        settled_clause(),
    )


def unreserved_clause(proposal: Proposal) -> Clause:
    """Not of tickets: an append that names no version takes nothing from the one that has reserved
    the table. A lease that ends later than any can was written by a clock that was ahead, and is
    over.
    """
    now = proposal.entry.ratified_ms
    free: list[Test] = [
        Absent(("reserved_by",)),
        AtMost(("reserved_until",), now),
        AtLeast(("reserved_until",), now + LEASE_MOST_MS + SLACK_MS + 1),
    ]
    if proposal.holder:
        free.append(Equals(("reserved_by",), proposal.holder))
    return Clause(
        "unreserved", "I18", "no other transaction has reserved the table, or its lease is over", Either(tuple(free))
    )


def named_change(key: str, proposal: Proposal, now: int) -> Change:
    """Ratify ``proposal.version``. ``now`` (ms) is kept for operators; no clause depends on it."""
    version = proposal.version
    entry = proposal.entry
    if version is None:
        raise ValueError("a ticket has no version")
    packed = entry.pack()
    size_bytes = cost(entry, packed)
    clauses = [
        Clause("next", "I1", "the version before this one is the latest", Equals(("latest",), version - 1)),
        Clause("later", "I7", "the in-commit timestamp increases", Below(("last_ict",), entry.ict)),
        unreserved_clause(proposal),
        *_common(proposal, size_bytes),
    ]
    actions: list[Action] = [
        Set(("latest",), version),
        Set(("last_ict",), entry.ict),
        Append(("tail",), (packed,)),
        Include(("ids",), frozenset({entry.txn})),
        SetSum(("bytes",), ("bytes",), size_bytes),
        Set(("pending",), version),
        Set(("changed_at",), now),
    ]
    if proposal.metadata is not None:
        actions.append(Set(("metadata",), proposal.metadata))
    if entry.changed in ("metadata", "unread"):
        actions.append(Set(("epoch",), version))
    if entry.hwm == ROWS_OFF:
        actions.append(Drop(("row_hwm",)))
    elif entry.hwm != ROWS_KEPT:
        fresh = Either((Absent(("row_hwm",)), AtMost(("row_hwm",), entry.hwm), AtLeast(("row_hwm",), ROWS_UNREAD)))
        clauses.append(Clause("fresh rows", "I2", "no row id is assigned twice", fresh))
        actions.append(Set(("row_hwm",), entry.hwm))
    actions.extend(Set(("apps", app), version) for app in proposal.apps)
    return Change(key, tuple(clauses), tuple(actions))


def ticket_change(key: str, proposal: Proposal, now: int, *, clock_behind: bool) -> Change:
    """Ratify the next version, whichever it is (design 2.2).

    The in-commit timestamp is max(own, predecessor + 1). An update expression has no max, so there
    are two forms: the entry's own timestamp is later than the last (``clock_behind=False``), or it
    is not and the last plus one counts. ``last_ict`` never falls, so a refusal of the first form
    makes the second one certain to fit.
    """
    entry = proposal.entry
    packed = entry.pack()
    size_bytes = cost(entry, packed)
    clauses = [
        Clause("based", "I6", "the proposer's base exists", AtLeast(("latest",), proposal.base)),
        same_epoch(proposal.base),
        *(own_application(app, proposal.base) for app in proposal.apps),
        *_common(proposal, size_bytes),
    ]
    actions: list[Action] = [
        SetSum(("latest",), ("latest",), 1),
        SetSum(("pending",), ("latest",), 1),
        Append(("tail",), (packed,)),
        Include(("ids",), frozenset({entry.txn})),
        SetSum(("bytes",), ("bytes",), size_bytes),
        Set(("changed_at",), now),
        *(SetSum(("apps", app), ("latest",), 1) for app in proposal.apps),
    ]
    if clock_behind:
        clauses.append(Clause("clock behind", "I7", "own timestamp is not later", AtLeast(("last_ict",), entry.ict)))
        actions.append(SetSum(("last_ict",), ("last_ict",), 1))
    else:
        clauses.append(Clause("later", "I7", "own timestamp is later than the last", Below(("last_ict",), entry.ict)))
        actions.append(Set(("last_ict",), entry.ict))
    if entry.rows >= 0:
        clauses.append(
            Clause("row tracking on", "I2", "row ids can follow", AtMost(("row_hwm",), MAX_ROW_ID - entry.rows))
        )
        actions.append(SetSum(("row_hwm",), ("row_hwm",), entry.rows))
    else:
        clauses.append(Clause("row tracking off", "I2", "no row ids are assigned", Absent(("row_hwm",))))
    return Change(key, tuple(clauses), tuple(actions))


def unchanged_check(key: str, version: int, slack: int = 0) -> Check:
    """Nothing was ratified since ``version``, which a group of commits read, of a table that it
    does not write; or no more than ``slack`` commits, by which the group has declared that the read
    may be behind.
    """
    if slack == 0:
        clause = Clause(
            "unchanged", "I8", "the version that the group read is still the latest", Equals(("latest",), version)
        )
        return Check(key, (clause, settled_clause()))
    within = AtMost(("latest",), version + slack)
    return Check(
        key,
        (
            Clause(
                "within slack", "I8", "the version that the group read is behind by no more than it declared", within
            ),
            Clause("reached", "I8", "the version that the group read is there", AtLeast(("latest",), version)),
            settled_clause(),
        ),
    )


def hand_over_head(key: str, version: int, now: int) -> Change:
    """Active to dropped, as a tombstone that owns no files: a group of commits has made the commits
    of a table those of another one, up to ``version`` (I28)."""
    same = Clause("same latest", "I28", "nothing was ratified since it was read", Equals(("latest",), version))
    actions = (
        Set(("state",), DROPPED),
        Set(("managed",), False),
        Set(("reason",), EXPORTED),
        Set(("changed_at",), now),
    )
    return Change(key, (active(), settled_clause(), same), actions)


# -- the floor --------------------------------------------------------------------------------------------------------

FORGOTTEN_MAX: Final = 64
"""Streaming applications that one floor write forgets. Each is named in the expressions, and
DynamoDB takes 4 kB and 300 operators of those; the publisher's step bounds the other names there.
"""


class Keep(msgspec.Struct, frozen=True):
    """The number of published entries that stay in a tail after a commit that named its version, or
    was a ticket. A proposal with a base farther behind is looked up in the identity index;
    tickets of many writers always are far behind.
    """

    named: int
    tickets: int

    def of(self, head: TableHead) -> int:
        """How many stay in this HEAD's tail."""
        return self.tickets if head.tail and head.tail[-1].ticket else self.named


def count_evicted(head: TableHead, published: int, keep: int | None = None) -> int:
    """How many entries leave the tail when everything up to ``published`` is in ``_delta_log``, and
    the last ``keep`` of it stay (by default ``KEEP_PUBLISHED``)."""
    return max(0, published - (KEEP_PUBLISHED if keep is None else keep) - head.tail_from + 1)


def raise_floor(head: TableHead, published: int, *, idle: bool, keep: int | None = None) -> Change:
    """The write after publication up to ``published``.

    It evicts all but the last ``keep`` published entries, strips the kept ones of their bytes, and
    lowers ``bytes``. With ``idle`` it also removes ``pending``, under the clause that nothing was
    ratified since ``head`` was read; without, it leaves ``pending`` for the commits that came in
    between. When it is refused, make it anew from the returned row.
    """
    if not head.floor <= published <= head.latest:
        raise ValueError(f"floor {head.floor} cannot move to {published} (latest {head.latest})")
    gone = count_evicted(head, published, keep)
    places = tail_by_version(head)
    clauses = [
        Clause("same floor", "I5", "the floor has not moved since it was read", Equals(("floor",), head.floor)),
        Clause("same tail", "I4", "list positions mean the same versions", Equals(("tail_from",), head.tail_from)),
    ]
    actions: list[Action] = [Set(("floor",), published)]
    freed = 0
    for index, entry in enumerate(head.tail[: published - head.tail_from + 1]):
        if index < gone:
            freed += cost(entry)
        elif entry.data or entry.obj:
            freed += cost(entry) - cost(entry.without_content())
            actions.append(Set(("tail", index), entry.without_content().pack()))
    if gone:
        last = places[gone - 1]
        actions += [Set(("tail_from",), head.tail_from + gone), Set(("tail_ict",), last.ict)]
        mark = hwm_after(head, gone)
        if mark is not None:
            actions.append(Set(("tail_hwm",), mark))
        elif head.tail_hwm is not None:
            actions.append(Drop(("tail_hwm",)))
        # Descending: one emulator shifts positions while it removes; in this order every backend
        # agrees.
        actions += [Drop(("tail", index)) for index in reversed(range(gone))]
        actions.append(Exclude(("ids",), frozenset(entry.txn for entry in head.tail[:gone])))
    if freed:
        actions.append(SetSum(("bytes",), ("bytes",), -freed))
    forgotten = _forgettable(head, head.tail_from + gone)
    actions += [Drop(("apps", app)) for app in forgotten]
    if idle:
        clauses.append(Clause("idle", "I11", "nothing was ratified since", Equals(("latest",), published)))
        if head.pending is not None:
            actions.append(Drop(("pending",)))
    else:
        clauses += [
            Clause("same application", "I3", "no later commit carries its txn", Equals(("apps", app), version))
            for app, version in forgotten.items()
        ]
    return Change(head.key, tuple(clauses), tuple(actions))


def _forgettable(head: TableHead, since: int) -> dict[str, int]:
    """Streaming applications last seen before ``since``. They are not needed, since a ticket with a
    ``txn`` needs the tail from its base on. When there are many, the oldest ones: the next writes
    forget the rest.
    """
    old = sorted((version, app) for app, version in head.apps.items() if version < since)
    return {app: version for version, app in old[:FORGOTTEN_MAX]}


def hwm_after(head: TableHead, count: int) -> int | None:
    """Row-id high-water mark after the first ``count`` entries of the tail (None without row
    tracking)."""
    mark = head.tail_hwm
    for entry in head.tail[:count]:
        mark = mark_after(mark, entry)
    return mark


def with_name(write: Change, name: str) -> Change:
    """Returns a write of a HEAD that gives its table another full name, too; the same for none."""
    return Change(write.key, write.clauses, (*write.actions, Set(("name",), name))) if name else write
