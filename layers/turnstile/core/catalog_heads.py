"""What catalog operations write to a Delta table's HEAD. Each goes into one transaction with the catalog's HEAD, so a
name and the state of what it leads to never disagree (I9)."""

from __future__ import annotations

from typing import Final

from turnstile.core.head import ACTIVE, TableHead
from turnstile.core.plan import Absent, Action, Change, Clause, Either, Equals, Set

DROPPED: Final = "dropped"
LEAVING: Final = "leaving"
STUCK: Final = "stuck"

_ACTIVE: Final = Clause("active", "I10", "the table is in ordinary use", Equals(("state",), ACTIVE))


def drop_head(key: str, now: int) -> Change:
    """Active or stuck to dropped: nothing is ratified any more. ``changed_at`` starts the grace period (I10)."""
    usable = Either((Equals(("state",), ACTIVE), Equals(("state",), STUCK)))
    return Change(
        key,
        (Clause("droppable", "I10", "the table is not leaving, recovering or dropped already", usable),),
        (Set(("state",), DROPPED), Set(("changed_at",), now)),
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
    return Change(key, (_ACTIVE,), (Set(("name",), name), Set(("changed_at",), now)))


def leave_head(key: str, reason: str, now: int) -> Change:
    """Active to leaving: no commit is ratified any more, publishing goes on. Again by the same export is accepted."""
    same = Either((Equals(("state",), ACTIVE), Equals(("reason",), reason)))
    clauses = (
        Clause("active or mine", "I10", "the table takes commits, or this export stopped it", same),
        Clause(
            "not gone",
            "I10",
            "the table was not dropped",
            Either((Equals(("state",), ACTIVE), Equals(("state",), LEAVING))),
        ),
    )
    return Change(key, clauses, (Set(("state",), LEAVING), Set(("reason",), reason), Set(("changed_at",), now)))


def left_head(head: TableHead, reason: str, now: int) -> Change:
    """Leaving to dropped, as a tombstone that owns no files: ``managed`` False, so nothing is ever purged (I10)."""
    clauses = (
        Clause("leaving", "I10", "this export stopped the table", Equals(("state",), LEAVING)),
        Clause("published", "I4", "everything ratified is in _delta_log", Equals(("floor",), head.latest)),
        Clause("idle", "I11", "no publication is pending", Absent(("pending",))),
    )
    actions: tuple[Action, ...] = (
        Set(("state",), DROPPED),
        Set(("managed",), False),
        Set(("reason",), reason),
        Set(("changed_at",), now),
    )
    return Change(head.key, clauses, actions)
