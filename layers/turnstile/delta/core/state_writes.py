"""A HEAD that cannot be published refuses commits until it can (design 2.1): the two writes that say so."""

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
)
from turnstile.delta.core.ratify_writes import named_change
from turnstile.store.core.writes import Absent, Action, AtLeast, Below, Change, Clause, Drop, Either, Equals, Set

_REASON: Final = re.compile(r"version (\d+): ")


def stuck_at(head: TableHead) -> int | None:
    """The version that could not be published, or None when the table is not stuck (or not by the publisher)."""
    match = _REASON.match(head.reason) if head.state == STUCK else None
    return int(match[1]) if match else None


def reason_of(version: int, why: str) -> str:
    """A ``reason`` that ``stuck_at`` understands."""
    return f"version {version}: {why}"


def mark_stuck(head: TableHead, version: int, why: str, now: int) -> Change:
    """No commits any more: ``version``, the first above the floor, cannot be published.

    Args:
        why: what was found, one sentence; becomes the HEAD's ``reason``.
        now: server clock (ms).
    """
    return Change(
        head.key,
        (
            Clause(
                "taking commits",
                "I11",
                "nobody dropped the table or lets it leave",
                Either((Equals(("state",), ACTIVE), Equals(("state",), STUCK))),
            ),
            Clause("same floor", "I11", "nobody published the version meanwhile", Equals(("floor",), head.floor)),
        ),
        (Set(("state",), STUCK), Set(("reason",), reason_of(version, why)), Set(("changed_at",), now)),
    )


def mark_unstuck(head: TableHead, now: int) -> Change:
    """Commits again: the version that was in the way is published.

    Raises:
        ValueError: when ``head`` is not stuck, or still is behind the version it is stuck at.
    """
    version = stuck_at(head)
    if version is None or head.floor < version:
        raise ValueError(f"{head.key} is {head.state} at floor {head.floor}: {head.reason}")
    return Change(
        head.key,
        (
            Clause("stuck", "I10", "nobody dropped the table", Equals(("state",), STUCK)),
            Clause("same reason", "I11", "it is not stuck at a later version", Equals(("reason",), head.reason)),
            Clause("past it", "I5", "the version is published", AtLeast(("floor",), version)),
        ),
        (Set(("state",), ACTIVE), Drop(("reason",)), Set(("changed_at",), now)),
    )


# -- recover ----------------------------------------------------------------------------------------------------------
# A HEAD that was restored behind its own log (design 2.7): the writes that bring it up to what is published.
#
#     active or stuck  ->  recovering          no commits any more; everything the HEAD knows is published
#     recovering       ->  recovering          one published version adopted: ratified and published in the same write
#     recovering       ->  active              nothing more is published
#     recovering       ->  stuck               the next published version cannot be one of this table
#
# Each names the version that it was planned for, so any number of recoverers may work side by side.


_RECOVERING: Final = Clause(
    "recovering", "I10", "nobody may extend the table but recovery", Equals(("state",), RECOVERING)
)


def may_recover(head: TableHead) -> bool:
    """Whether recovery can begin: all that the HEAD knows is published, and nobody stopped the table on purpose."""
    return head.floor == head.latest and (head.state == ACTIVE or stuck_at(head) is not None)


def begin_recovery(head: TableHead, now: int) -> Change:
    """No commits until the published versions after ``latest`` are adopted.

    Raises:
        ValueError: the HEAD may not recover.
    """
    if not may_recover(head):
        raise ValueError(f"{head.key} is {head.state} at {head.floor} of {head.latest}")
    return Change(
        head.key,
        (
            Clause("same state", "I10", "nobody dropped the table or lets it leave", Equals(("state",), head.state)),
            Clause("same latest", "I1", "nothing was ratified since the log was looked at", _at(head)),
            Clause("published", "I4", "the log holds what was ratified, up to here", Equals(("floor",), head.latest)),
        ),
        (
            Set(("state",), RECOVERING),
            Set(("reason",), f"the log goes beyond version {head.latest}: published versions are being adopted"),
            Set(("changed_at",), now),
        ),
    )


def adopt(key: str, proposal: Proposal, now: int) -> Change:
    """Make ``proposal``, read from ``_delta_log``, the next version: ratified as ever (every clause of ``named_change``
    but the state's), and published at once.

    Args:
        proposal: of the version after the latest one, in the bytes that were published.
    """
    ratify = named_change(key, proposal, now)
    version = proposal.version or 0
    return Change(
        key,
        (
            *(clause for clause in ratify.clauses if clause.name != "active"),
            _RECOVERING,
            Clause("published", "I5", "every version before it is in _delta_log", Equals(("floor",), version - 1)),
        ),
        (*ratify.actions, Set(("floor",), version)),
    )


def end_recovery(head: TableHead, now: int) -> Change:
    """Commits again: the log holds nothing after ``latest``."""
    return Change(
        head.key,
        (_RECOVERING, Clause("same latest", "I1", "nobody adopted another version since", _at(head))),
        (Set(("state",), ACTIVE), Drop(("reason",)), Set(("changed_at",), now)),
    )


def give_up_recovery(head: TableHead, why: str, now: int) -> Change:
    """Stuck at the version after ``latest``: what is published there cannot be adopted.

    Args:
        why: what was found, one sentence; becomes the HEAD's ``reason``.
    """
    return Change(
        head.key,
        (_RECOVERING, Clause("same latest", "I11", "nobody adopted that version meanwhile", _at(head))),
        (Set(("state",), STUCK), Set(("reason",), reason_of(head.latest + 1, why)), Set(("changed_at",), now)),
    )


def _at(head: TableHead) -> Equals:
    return Equals(("latest",), head.latest)


def mark_purging(head: TableHead) -> Change:
    """A dropped table that cannot come back. Again is accepted."""
    return Change(head.key, _still_dropped(head), (Set(("reason",), PURGING),))


def mark_purged(head: TableHead) -> Change:
    """The tombstone: the HEAD stays, its files and its location do not."""
    announced = Clause("purging", "I10", "its removal was announced", Equals(("reason",), PURGING))
    return Change(head.key, (*_still_dropped(head), announced), (Set(("reason",), PURGED),))


def _still_dropped(head: TableHead) -> tuple[Clause, ...]:
    return (
        Clause("dropped", "I10", "the table is not in use again", Equals(("state",), DROPPED)),
        Clause("same drop", "I10", "its grace period has not begun anew", Equals(("changed_at",), head.changed_at)),
    )


# -- table heads ------------------------------------------------------------------------------------------------------
# What catalog operations write to a Delta table's HEAD. Each goes into one transaction with the catalog's HEAD, so a
# name and the state of what it leads to never disagree (I9).


_ACTIVE: Final = Clause("active", "I10", "the table is in ordinary use", Equals(("state",), ACTIVE))
_SHOWN: Final = Either((Equals(("state",), ACTIVE), Equals(("state",), PINNED)))


def drop_head(key: str, now: int) -> Change:
    """Active, stuck or pinned to dropped: nothing is ratified any more. ``changed_at`` starts the grace period (I10)."""
    usable = Either((_SHOWN, Equals(("state",), STUCK)))
    return Change(
        key,
        (Clause("droppable", "I10", "the table is not leaving, recovering or dropped already", usable),),
        (Set(("state",), DROPPED), Set(("changed_at",), now)),
    )


def restore_head(key: str, name: str, now: int, state: State = ACTIVE, *, reason: str = "") -> Change:
    """Dropped to ``state`` again, under the full name ``name``: as long as gc has not begun to purge the table (I10).

    Args:
        reason: of the table that was stuck when it was dropped, as its HEAD still has it: it is stuck again, for nothing
            has been published since. Empty where the HEAD has none.
    """
    same = Equals(("reason",), reason) if reason else Absent(("reason",))
    return Change(
        key,
        (
            Clause("dropped", "I10", "the table was dropped, and is not in use", Equals(("state",), DROPPED)),
            Clause("unpurged", "I10", "nothing of it is being removed, and it was not exported", same),
        ),
        (Set(("state",), STUCK if reason else state), Set(("name",), name), Set(("changed_at",), now)),
    )


def drop_published_head(head: TableHead, now: int) -> Change:
    """As ``drop_head``, for a table whose files stay in use elsewhere: only while everything ratified is published,
    or an acknowledged commit would be in nobody's log (I11)."""
    change = drop_head(head.key, now)
    clauses = (
        *change.clauses,
        Clause("same latest", "I11", "nothing was ratified since it was published", Equals(("latest",), head.latest)),
        Clause("published", "I11", "everything ratified is in _delta_log", Equals(("floor",), head.latest)),
    )
    return Change(head.key, clauses, change.actions)


def rename_head(key: str, name: str, now: int) -> Change:
    """The full name for people; the catalog's index decides what the name leads to."""
    shown = Clause("shown", "I10", "the table is in ordinary use, or a clone that is read", _SHOWN)
    return Change(key, (shown,), (Set(("name",), name), Set(("changed_at",), now)))


def leave_head(head: TableHead, reason: str, now: int) -> Change:
    """Active to leaving: no commit is ratified any more, publishing goes on."""
    actions = (Set(("state",), LEAVING), Set(("reason",), reason), Set(("changed_at",), now))
    return Change(head.key, (_ACTIVE,), actions)


def stay_head(head: TableHead, reason: str, now: int) -> Change:
    """Leaving to active again: the table cannot be published now, and is not left in between (I11).

    Not once everything is published: then another run of the export may have written the release commit (I2).
    """
    return Change(
        head.key,
        (
            Clause("leaving", "I10", "the table is on its way out", Equals(("state",), LEAVING)),
            Clause("same export", "I10", "for that reason", Equals(("reason",), reason)),
            Clause("same latest", "I2", "the HEAD was read when it was leaving", Equals(("latest",), head.latest)),
            Clause("unpublished", "I2", "no release commit can be there yet", Below(("floor",), head.latest)),
        ),
        (Set(("state",), ACTIVE), Drop(("reason",)), Set(("changed_at",), now)),
    )


def left_head(head: TableHead, reason: str, now: int) -> Change:
    """Leaving to dropped, as a tombstone that owns no files: ``managed`` False, so nothing is ever purged (I10)."""
    clauses = (
        Clause("leaving", "I10", "the table takes no commits", Equals(("state",), LEAVING)),
        Clause(
            "same latest", "I4", "the release commit follows the last ratified one", Equals(("latest",), head.latest)
        ),
        Clause("published", "I4", "everything ratified is in _delta_log", Equals(("floor",), head.latest)),
    )
    actions: tuple[Action, ...] = (
        Set(("state",), DROPPED),
        Set(("managed",), False),
        Set(("reason",), reason),
        Set(("changed_at",), now),
    )
    return Change(head.key, clauses, actions)


def describe_head(head: TableHead, metadata: str, now: int) -> Change:
    """Another snapshot of the same metadata: what the catalog keeps beside the log changed, the log did not."""
    read = Clause(
        "same metadata", "I2", "metadata is what the change was computed from", Equals(("metadata",), head.metadata)
    )
    return Change(head.key, (_ACTIVE, read), (Set(("metadata",), metadata), Set(("changed_at",), now)))
