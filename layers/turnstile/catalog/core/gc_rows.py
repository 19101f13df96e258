"""gc's conditional writes on staging rows and on HEADs of dropped tables. Every removal is announced in the row first,
so that whoever races with it loses or wins cleanly, and a crash in the middle is found by the next run (I10)."""

from __future__ import annotations

from typing import Final

from turnstile.delta.core.head import TableHead
from turnstile.store.core.writes import Change, Clause, Either, Equals, Erase, Row, Set

COLLECTING: Final = "collecting"
PURGING: Final = "purging"
PURGED: Final = "purged"


def mark_collecting(row: Row) -> Change:
    """A staging table that can no longer be registered. Again is accepted."""
    untouched = Either((Equals(("state",), "open"), Equals(("state",), COLLECTING)))
    return Change(
        row["key"],
        (
            Clause("not registered", "I10", "nobody registered the staging table", untouched),
            Clause("same table", "I10", "it is the one that was looked at", Equals(("created",), row["created"])),
        ),
        (Set(("state",), COLLECTING),),
    )


def erase_collected(row: Row) -> Erase:
    """The staging row goes, after its files."""
    announced = Clause("collecting", "I10", "its removal was announced", Equals(("state",), COLLECTING))
    return Erase(row["key"], (announced,))


def mark_purging(head: TableHead) -> Change:
    """A dropped table that cannot come back. Again is accepted."""
    return Change(head.key, _still_dropped(head), (Set(("reason",), PURGING),))


def mark_purged(head: TableHead) -> Change:
    """The tombstone: the HEAD stays, its files and its location do not."""
    announced = Clause("purging", "I10", "its removal was announced", Equals(("reason",), PURGING))
    return Change(head.key, (*_still_dropped(head), announced), (Set(("reason",), PURGED),))


def _still_dropped(head: TableHead) -> tuple[Clause, ...]:
    return (
        Clause("dropped", "I10", "the table is not in use again", Equals(("state",), "dropped")),
        Clause("same drop", "I10", "its grace period has not begun anew", Equals(("changed_at",), head.changed_at)),
    )
