"""refs rows of the catalog: its HEAD and staging tables, and the conditional writes on them.

    catalog    {key, kind, name, head, seq, recent, created, changed_at, spilled?, turn?, turn_until?,
                swept?}
    gone       {key, kind, name, created}
    staging    {key, kind, table_id, catalog, namespace, name, location, creator, created, state}

Owners of storage locations are in ``location_rows``; HEADs of Delta tables in ``head`` and ``catalog_heads``.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.store.core.writes import (
    Absent,
    Action,
    AtLeast,
    AtMost,
    Below,
    Change,
    Clause,
    Drop,
    Either,
    Equals,
    Erase,
    Insert,
    Present,
    Row,
    Set,
    new_row,
)

RECENT: Final = 20
"""How many HEADs a catalog's row remembers, the present one included: about 1 kB, for recovery by hand and for writers
who must learn whether a lost answer was a success."""

SPILLED_BYTES: Final = 2048
"""How large a directory of index segments may be to ride in the row, which stays under 4 kB."""

OPEN: Final = "open"


class CatalogHead(msgspec.Struct, frozen=True):
    """A parsed catalog row; ``recent`` newest first, ``recent[0]`` is ``head``; times in ms.

    ``spilled`` is the packed directory of the HEAD's index segments, as in its commit obj: whoever looks for a name can
    ask for commit and segment at once. Empty when there is none, or when it is too large for the row.

    ``turn`` names a change that others let go first until ``turn_until`` (ms), because it has lost for long.
    """

    key: str
    name: str
    head: str
    seq: int
    recent: tuple[str, ...]
    created: int
    changed_at: int
    spilled: bytes = b""
    turn: str = ""
    turn_until: int = 0

    @classmethod
    def from_row(cls, row: Row) -> CatalogHead:
        """Parse a refs row of kind ``catalog``."""
        return cls(
            key=row["key"],
            name=row["name"],
            head=row["head"],
            seq=row["seq"],
            recent=tuple(row["recent"]),
            created=row["created"],
            changed_at=row["changed_at"],
            spilled=row.get("spilled", b""),
            turn=row.get("turn", ""),
            turn_until=row.get("turn_until", 0),
        )


def new_catalog(key: str, name: str, head: str, now: int) -> Insert:
    """The first write of a catalog whose first commit is ``head``."""
    row: Row = {
        "key": key,
        "kind": "catalog",
        "name": name,
        "head": head,
        "seq": 0,
        "recent": [head],
        "created": now,
        "changed_at": now,
    }
    return Insert(row, (new_row("I9"),))


def swap_head(
    at: CatalogHead, head: str, now: int, spilled: bytes = b"", *, turn: str = "", replaced: int | None = None
) -> Change:
    """Make ``head`` the catalog's HEAD, if it is still ``at``. HEAD ids are never used twice, so once the row has moved
    on this write can never apply any more.

    Args:
        spilled: the packed directory of the new HEAD's segments; left out when it is too large for the row.
        turn: the change whose turn it was, if it was: it is over then.
        replaced: when the tree of the past that the new HEAD leads to was replaced (ms), if it leads to one that only
            the kept history keeps. Of others all is in the present tree, or was written at ``now``: a swap that was
            frozen on its way for so long that gc took that is refused as well.
    """
    left = Either((Absent(("swept",)), Below(("swept",), now if replaced is None else replaced)))
    clauses = (
        Clause("same head", "I9", "the catalog is what the change was computed from", Equals(("head",), at.head)),
        Clause("not swept", "I9", "gc has left alone what was written or replaced by then", left),
    )
    actions: tuple[Action, ...] = (
        Set(("head",), head),
        Set(("seq",), at.seq + 1),
        Set(("recent",), [head, *at.recent[: RECENT - 1]]),
        Set(("changed_at",), now),
    )
    if spilled and len(spilled) <= SPILLED_BYTES:
        actions = (*actions, Set(("spilled",), spilled))
    elif at.spilled:
        actions = (*actions, Drop(("spilled",)))
    if turn and turn == at.turn:
        actions = (*actions, Drop(("turn",)), Drop(("turn_until",)))
    return Change(at.key, clauses, actions)


def begin_sweep(key: str, created: int, began: int) -> Change:
    """From now on nothing comes back that was replaced before ``began`` (ms), where the kept history begins for a gc run
    that is about to remove what nothing since then leads to. However long a reset was held up: its swap is refused (I9)."""
    older = Either((Absent(("swept",)), AtMost(("swept",), began)))
    return Change(
        key,
        (
            Clause("same catalog", "I10", "it was not dropped and made again meanwhile", Equals(("created",), created)),
            Clause("no later sweep", "I10", "no later run has begun", older),
        ),
        (Set(("swept",), began),),
    )


def drop_catalog(key: str, gone: str, name: str, head: str, now: int) -> tuple[Erase, Insert]:
    """The catalog's row goes while ``head`` is its HEAD; a note that its objs are still there takes its place, under
    the key ``gone``, from which on their grace counts. It takes the place of an older note, too: what an earlier catalog
    of the name has left lies among the objs of this one, which nothing led to only from now on (I10)."""
    same = Clause("same head", "I9", "nothing was created in it meanwhile", Equals(("head",), head))
    note: Row = {"key": gone, "kind": "gone", "name": name, "created": now}
    return Erase(key, (same,)), Insert(note, ())


def forget_catalog(row: Row) -> Erase:
    """The note goes, after the objs."""
    return Erase(
        row["key"],
        (Clause("same note", "I10", "it is the one that was looked at", Equals(("created",), row["created"])),),
    )


def take_turn(key: str, change: str, until: int, now: int) -> Change:
    """Ask the others to let ``change`` go first until ``until`` (ms). A request and no lock: a swap needs no turn, and
    who does not look does no harm (I9). One at a time, or nobody would go. A turn that ends after ``until`` was asked for
    by a clock that is ahead: nobody heeds it, so it is no turn."""
    free = Either((Absent(("turn_until",)), AtMost(("turn_until",), now), AtLeast(("turn_until",), until + 1)))
    return Change(
        key,
        (
            Clause("catalog", "I9", "there is such a catalog", Present(("head",))),
            Clause("free turn", "I11", "nobody else has asked, or the time is not now", free),
        ),
        (Set(("turn",), change), Set(("turn_until",), until)),
    )


def new_staging(
    *, key: str, table_id: str, catalog: str, namespace: str, name: str, location: str, creator: str, now: int
) -> Insert:
    """A staging table: a fresh uuid and a place for version 0. The name is not reserved."""
    row: Row = {
        "key": key,
        "kind": "staging",
        "table_id": table_id,
        "catalog": catalog,
        "namespace": namespace,
        "name": name,
        "location": location,
        "creator": creator,
        "created": now,
        "state": OPEN,
    }
    return Insert(row, (new_row("I2"),))


def use_staging(key: str) -> Erase:
    """Consume a staging table: once, and not while gc is removing it (I10)."""
    return Erase(key, (Clause("open", "I10", "nobody used or collected the staging table", Equals(("state",), OPEN)),))


# -- gc rows ----------------------------------------------------------------------------------------------------------
# gc's conditional writes on staging rows and on HEADs of dropped tables. Every removal is announced in the row first,
# so that whoever races with it loses or wins cleanly, and a crash in the middle is found by the next run (I10).


COLLECTING: Final = "collecting"


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
