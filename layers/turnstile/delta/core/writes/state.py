"""The conditional writes that change a HEAD's state.

    active               ->  stuck, and back            a version cannot be published (design 2.1)
    active, stuck        ->  recovering                 the HEAD was restored, and is or may be
                                                        behind its log (design 2.7)
    recovering           ->  recovering                 one published version adopted: ratified and
                                                        published in one write
    recovering           ->  active, or stuck           nothing more is published, or the next
                                                        version cannot be adopted
    stuck, recovering    ->  recovering                 unpublished commits are taken back, by an
                                                        operator's choice
    active, stuck, pinned -> dropped, and back          with the catalog's HEAD in one transaction
    active               ->  leaving, and back          an export
    leaving              ->  dropped                    the export is done
    dropped              ->  dropped                    purging, purged: gc removes the files
    dropped              ->  no row                     a month after the drop

Each carries clauses on the values that it was computed from, so any number of processes may work
side by side.
"""

from __future__ import annotations

import re
from typing import Final

from turnstile.delta.core.decide import Proposal
from turnstile.delta.core.head import (
    ACTIVE,
    DROPPED,
    LEAVING,
    PINNED,
    PURGED,
    PURGING,
    RECOVERING,
    STUCK,
    State,
    TableHead,
    cost,
    tail_by_version,
)
from turnstile.delta.core.writes.ratify import hwm_after, named_change, settled_clause
from turnstile.store.core.writes import (
    Absent,
    AtLeast,
    Below,
    Change,
    Clause,
    Drop,
    Either,
    Equals,
    Erase,
    Exclude,
    Set,
    SetSum,
)

_REASON: Final = re.compile(r"version (\d+): ")


def stuck_at(head: TableHead) -> int | None:
    """The version that could not be published, or None when the table is not stuck (or not by the
    publisher)."""
    match = _REASON.match(head.reason) if head.state == STUCK else None
    return int(match[1]) if match else None


def reason_of(version: int, why: str) -> str:
    """A ``reason`` that ``stuck_at`` understands."""
    return f"version {version}: {why}"


def mark_stuck(head: TableHead, version: int, why: str, now: int) -> Change:
    """Active to stuck: ``version``, the first above the floor, cannot be published; ``why`` in one
    sentence."""
    usable = Either((Equals(("state",), ACTIVE), Equals(("state",), STUCK)))
    clauses = (
        Clause("taking commits", "I11", "the table was not dropped, and is not leaving", usable),
        Clause("same floor", "I11", "the version was not published meanwhile", Equals(("floor",), head.floor)),
    )
    actions = (Set(("state",), STUCK), Set(("reason",), reason_of(version, why)), Set(("changed_at",), now))
    return Change(head.key, clauses, actions)


def mark_unstuck(head: TableHead, now: int) -> Change:
    """Stuck to active: the version that was in the way is published. Raises ValueError if it is
    not."""
    version = stuck_at(head)
    if version is None or head.floor < version:
        raise ValueError(f"{head.key} is {head.state} at floor {head.floor}: {head.reason}")
    clauses = (
        Clause("stuck", "I10", "the table was not dropped", Equals(("state",), STUCK)),
        Clause("same reason", "I11", "it is not stuck at a later version", Equals(("reason",), head.reason)),
        Clause("past it", "I5", "the version is published", AtLeast(("floor",), version)),
    )
    return Change(head.key, clauses, (Set(("state",), ACTIVE), Drop(("reason",)), Set(("changed_at",), now)))


# -- recovery ---------------------------------------------------------------------------------------------------------

_RECOVERING: Final = Clause("recovering", "I10", "only recovery extends the table", Equals(("state",), RECOVERING))


def may_recover(head: TableHead) -> bool:
    """Whether recovery can begin: all that the HEAD knows is published, and the table was not
    stopped on purpose."""
    return head.floor == head.latest and may_be_restored(head)


def mark_restored(head: TableHead, now: int) -> Change:
    """Active or stuck to recovering, before anything is ratified on a HEAD that was restored and
    may be behind its log, which has not been checked yet. Raises ValueError if the table takes no
    commits anyway.
    """
    if not may_be_restored(head):
        raise ValueError(f"{head.key} is {head.state}: {head.reason}")
    same = Clause("same state", "I10", "the table was not dropped, and is not leaving", Equals(("state",), head.state))
    reason = "the HEAD was restored: published versions that it does not know are being looked for"
    return Change(head.key, (same,), (Set(("state",), RECOVERING), Set(("reason",), reason), Set(("changed_at",), now)))


def may_be_restored(head: TableHead) -> bool:
    """Whether the table takes commits, or would as soon as the version is published at which it is
    stuck."""
    return head.state == ACTIVE or stuck_at(head) is not None


def begin_recovery(head: TableHead, now: int) -> Change:
    """Active or stuck to recovering, until the published versions after ``latest`` are adopted.
    Raises ValueError if the HEAD may not recover."""
    if not may_recover(head):
        raise ValueError(f"{head.key} is {head.state} at {head.floor} of {head.latest}")
    clauses = (
        Clause("same state", "I10", "the table was not dropped, and is not leaving", Equals(("state",), head.state)),
        Clause("same latest", "I1", "nothing was ratified since the log was looked at", _at(head)),
        Clause("published", "I4", "the log holds the ratified commits, up to here", _still_published(head)),
        settled_clause(),
    )
    reason = f"the log goes beyond version {head.latest}: published versions are being adopted"
    return Change(head.key, clauses, (Set(("state",), RECOVERING), Set(("reason",), reason), Set(("changed_at",), now)))


def adopt(key: str, proposal: Proposal, now: int) -> Change:
    """Makes ``proposal``, read from ``_delta_log``, the version after the latest: with every clause
    of ``named_change`` but the state's, and published in the same write."""
    ratify = named_change(key, proposal, now)
    version = proposal.version or 0
    clauses = (
        *(clause for clause in ratify.clauses if clause.name != "active"),
        _RECOVERING,
        Clause("published", "I5", "every version before it is in _delta_log", Equals(("floor",), version - 1)),
    )
    return Change(key, clauses, (*ratify.actions, Set(("floor",), version)))


def end_recovery(head: TableHead, now: int) -> Change:
    """Recovering to active: the log holds nothing after ``latest``."""
    same = Clause("same latest", "I1", "no other version was adopted since", _at(head))
    actions = (Set(("state",), ACTIVE), Drop(("reason",)), Set(("changed_at",), now))
    return Change(head.key, (_RECOVERING, same), actions)


def take_back(head: TableHead, metadata: str, now: int) -> Change:
    """Stuck or recovering to recovering, by an operator's choice: every version above the floor is
    ratified no more, because ``_delta_log`` holds other commits under their numbers. These are
    adopted next. ``metadata`` is that of the floor.

    The only write that takes back ratified commits (I2): it needs the choice of an operator who has
    seen both sides. Raises ValueError if nothing is to be taken back or the table takes commits.
    """
    if head.floor == head.latest or head.state not in (STUCK, RECOVERING):
        raise ValueError(f"{head.key} is {head.state} at {head.floor} of {head.latest}")
    clauses = (
        Clause("same state", "I10", "the table was not dropped, and is not leaving", Equals(("state",), head.state)),
        Clause("same latest", "I2", "nothing was ratified since both sides were shown", _at(head)),
        Clause("same floor", "I5", "nothing of it was published meanwhile", Equals(("floor",), head.floor)),
        settled_clause(),
    )
    count = head.floor + 1 - head.tail_from
    kept = head.tail[:count]
    gone = head.tail[count:]
    mark = hwm_after(head, count)
    reason = f"an operator chose _delta_log over the commits that were ratified from version {head.floor + 1} on"
    actions = (
        Set(("latest",), head.floor),
        Set(("last_ict",), tail_by_version(head)[count - 1].ict if count else head.tail_ict),
        Set(("tail",), [entry.pack() for entry in kept]),
        Exclude(("ids",), frozenset(entry.txn for entry in gone)),
        SetSum(("bytes",), ("bytes",), -sum(cost(entry) for entry in gone)),
        # Which earlier version a streaming application had is not known here: the floor is no
        # earlier.
        Set(("apps",), {app: min(version, head.floor) for app, version in head.apps.items()}),
        Set(("metadata",), metadata),
        Set(("epoch",), min(head.epoch, head.floor)),
        *((Set(("row_hwm",), mark),) if mark is not None else (Drop(("row_hwm",)),)),
        Drop(("pending",)),
        Set(("state",), RECOVERING),
        Set(("reason",), reason),
        Set(("changed_at",), now),
    )
    return Change(head.key, clauses, actions)


def give_up_recovery(head: TableHead, why: str, now: int) -> Change:
    """Recovering to stuck: the version after ``latest`` is published and cannot be adopted; ``why``
    in one sentence."""
    same = Clause("same latest", "I11", "that version was not adopted meanwhile", _at(head))
    actions = (Set(("state",), STUCK), Set(("reason",), reason_of(head.latest + 1, why)), Set(("changed_at",), now))
    return Change(head.key, (_RECOVERING, same), actions)


def _at(head: TableHead) -> Equals:
    return Equals(("latest",), head.latest)


def _still_published(head: TableHead) -> Equals:
    return Equals(("floor",), head.latest)


# -- the catalog's operations ------------------------------------------------------------------------------------------
# Each goes into one transaction with the catalog's HEAD, so a name and the state of what it leads
# to never disagree (I9).

_ACTIVE: Final = Clause("active", "I10", "the table is in ordinary use", Equals(("state",), ACTIVE))
_SHOWN: Final = Either((Equals(("state",), ACTIVE), Equals(("state",), PINNED)))


def drop_head(key: str, now: int) -> Change:
    """Active, stuck or pinned to dropped: nothing is ratified any more. ``changed_at`` starts the
    grace period (I10)."""
    usable = Either((_SHOWN, Equals(("state",), STUCK)))
    droppable = Clause("droppable", "I10", "the table is not leaving, recovering or dropped already", usable)
    return Change(key, (droppable, settled_clause()), (Set(("state",), DROPPED), Set(("changed_at",), now)))


def restore_head(key: str, name: str, now: int, state: State = ACTIVE, *, reason: str = "") -> Change:
    """Dropped to ``state`` again, under the full name ``name``: as long as gc has not begun to
    purge the table (I10).

    ``reason`` is the HEAD's, if the table was stuck when it was dropped: it is stuck again, since
    nothing has been published meanwhile. Empty where the HEAD has none.
    """
    same = Equals(("reason",), reason) if reason else Absent(("reason",))
    clauses = (
        Clause("dropped", "I10", "the table was dropped, and is not in use", Equals(("state",), DROPPED)),
        Clause("unpurged", "I10", "nothing of it is being removed, and it was not exported", same),
    )
    actions = (Set(("state",), STUCK if reason else state), Set(("name",), name), Set(("changed_at",), now))
    return Change(key, clauses, actions)


def drop_published_head(head: TableHead, now: int) -> Change:
    """As ``drop_head``, for a table whose files stay in use elsewhere: only while everything
    ratified is published, or an acknowledged commit would be in no log (I11)."""
    change = drop_head(head.key, now)
    clauses = (
        *change.clauses,
        Clause("same latest", "I11", "nothing was ratified since it was published", _at(head)),
        Clause("published", "I11", "everything ratified is in _delta_log", _still_published(head)),
    )
    return Change(head.key, clauses, change.actions)


def rename_head(key: str, name: str, now: int) -> Change:
    """The full name for people; the catalog's index decides where the name leads."""
    shown = Clause("shown", "I10", "the table is in ordinary use, or a clone that is read", _SHOWN)
    return Change(key, (shown,), (Set(("name",), name), Set(("changed_at",), now)))


def leave_head(head: TableHead, reason: str, now: int) -> Change:
    """Active to leaving: no commit is ratified any more, publishing goes on."""
    actions = (Set(("state",), LEAVING), Set(("reason",), reason), Set(("changed_at",), now))
    return Change(head.key, (_ACTIVE, settled_clause()), actions)


def stay_head(head: TableHead, reason: str, now: int) -> Change:
    """Leaving to active again: the table cannot be published now, and is not left in between (I11).

    Not once everything is published: then another run of the export may have written the release
    commit (I2).
    """
    clauses = (
        Clause("leaving", "I10", "the table is on its way out", Equals(("state",), LEAVING)),
        Clause("same export", "I10", "for that reason", Equals(("reason",), reason)),
        Clause("same latest", "I2", "the HEAD was read when it was leaving", _at(head)),
        Clause("unpublished", "I2", "no release commit can be there yet", Below(("floor",), head.latest)),
    )
    return Change(head.key, clauses, (Set(("state",), ACTIVE), Drop(("reason",)), Set(("changed_at",), now)))


def left_head(head: TableHead, reason: str, now: int) -> Change:
    """Leaving to dropped, as a tombstone that owns no files: ``managed`` False, so nothing is ever
    purged (I10)."""
    clauses = (
        Clause("leaving", "I10", "the table takes no commits", Equals(("state",), LEAVING)),
        Clause("same latest", "I4", "the release commit follows the last ratified one", _at(head)),
        Clause("published", "I4", "everything ratified is in _delta_log", _still_published(head)),
    )
    actions = (
        Set(("state",), DROPPED),
        Set(("managed",), False),
        Set(("reason",), reason),
        Set(("changed_at",), now),
    )
    return Change(head.key, clauses, actions)


def adopt_head(key: str, catalog: str, name: str, now: int, latest: int | None = None) -> Change:
    """The table is one of another catalog from now on, under the full name ``name`` (I28).
    ``latest``: the version that it must still have, where its rows were checked."""
    clauses = [Clause("shown", "I10", "the table is in ordinary use, or a clone that is read", _SHOWN)]
    if latest is not None:
        same = Equals(("latest",), latest)
        clauses += [
            Clause("checked", "I28", "nothing was ratified since its rows were checked", same),
            settled_clause(),
        ]
    return Change(key, tuple(clauses), (Set(("catalog",), catalog), Set(("name",), name), Set(("changed_at",), now)))


def describe_head(head: TableHead, metadata: str, now: int) -> Change:
    """Other table metadata for the same version: the catalog's metadata beside the log changed, the
    log did not."""
    read = Equals(("metadata",), head.metadata)
    same = Clause("same metadata", "I2", "metadata is the one that the change was computed from", read)
    return Change(
        head.key, (_ACTIVE, same, settled_clause()), (Set(("metadata",), metadata), Set(("changed_at",), now))
    )


# -- gc ---------------------------------------------------------------------------------------------------------------
# Every removal is announced in the row first, so that a write that races with it is accepted or
# refused as a whole, and the next run goes on after a crash (I10).


def mark_purging(head: TableHead) -> Change:
    """A dropped table that cannot come back. Again is accepted."""
    return Change(head.key, _still_dropped(head), (Set(("reason",), PURGING),))


def mark_purged(head: TableHead) -> Change:
    """The tombstone: the HEAD stays, its files and its location do not."""
    announced = Clause("purging", "I10", "its removal was announced", Equals(("reason",), PURGING))
    return Change(head.key, (*_still_dropped(head), announced), (Set(("reason",), PURGED),))


def forget_head(head: TableHead) -> Erase:
    """Erases the HEAD of a table of which nothing else is left, a grace period after all late
    questions about it."""
    same = Equals(("reason",), head.reason) if head.reason else Absent(("reason",))
    ended = Clause("same reason", "I10", "it was purged, exported, or never had files of its own", same)
    return Erase(head.key, (*_still_dropped(head), ended))


def _still_dropped(head: TableHead) -> tuple[Clause, ...]:
    return (
        Clause("dropped", "I10", "the table is not in use again", Equals(("state",), DROPPED)),
        Clause("same drop", "I10", "its grace period has not begun anew", Equals(("changed_at",), head.changed_at)),
    )
