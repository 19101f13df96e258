"""What catalog operations write to a Delta table's HEAD. Each goes into one transaction with the catalog's HEAD, so a
name and the state of what it leads to never disagree (I9)."""

from __future__ import annotations

from typing import Final

from turnstile.catalog.core.rows import PURGED, PURGING
from turnstile.delta.core.head import ACTIVE, PINNED, State, TableHead
from turnstile.store.core.writes import Absent, Action, Below, Change, Clause, Drop, Either, Equals, Set

DROPPED: Final = "dropped"
LEAVING: Final = "leaving"
STUCK: Final = "stuck"
EXPORTED: Final = "exported"
"""``reason`` of a table that left with its files."""

_GONE: Final = (PURGING, PURGED, EXPORTED)
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


def gone_for_good(head: TableHead) -> bool:
    """Whether a table was dropped and can never be ``restore_head``'s again: its files are another's, or being removed. Any
    other reason is that of a table which was stuck when it was dropped."""
    return head.state == DROPPED and head.reason in _GONE


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
