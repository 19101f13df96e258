"""Rows of catalogs, staging tables and external tables, and the conditional writes on them. The
rows of storage locations are in ``location_rows``, the HEADs of Delta tables in ``delta.core``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec

from turnstile.store.core.rows import StoredRow
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
"""The number of HEADs in a catalog's row, the present one included: about 1 kB. Writers look there
whether a commit with an unknown outcome was accepted, and operators for a HEAD to go back to."""

SPILLED_BYTES: Final = 2048
"""A packed segment directory up to this size is kept in the row too, which stays under 4 kB."""

OPEN: Final = "open"
AWAITED: Final = "awaited"
COLLECTING: Final = "collecting"


class CatalogHead(StoredRow, frozen=True):
    """A catalog row. ``recent``: ids of the newest HEADs, newest first; ``recent[0]`` is ``head``.
    ``spilled``: the packed segment directory of the HEAD, as in its commit obj, so that a look-up
    can read commit and segment in one request; empty if there is none, or if it is too large for
    the row. ``turn``: the priority claim of a change that has lost often: others let it go first
    until ``turn_until`` (ms). ``swept``: where the kept history of the last gc run began
    (``begin_sweep``); ``taken_back``: how many such marks were taken back, because they were ahead
    (``end_sweep``). ``branch_of``: the catalog that a branch belongs to; empty for a catalog.
    """

    kind: ClassVar[str] = "catalog"

    name: str
    head: str
    seq: int
    recent: tuple[str, ...]
    created: int
    changed_at: int
    spilled: bytes = b""
    turn: str = ""
    turn_until: int = 0
    swept: int | None = None
    taken_back: int = 0
    branch_of: str = ""


class GoneCatalog(StoredRow, frozen=True):
    """The note that a dropped catalog's objs are still there since ``created`` (ms)."""

    kind: ClassVar[str] = "gone"

    name: str
    created: int


class StagingRow(StoredRow, frozen=True):
    """A table between the first and the last step of its creation."""

    kind: ClassVar[str] = "staging"

    table_id: str
    catalog: str
    namespace: str
    name: str
    location: str
    creator: str
    created: int
    state: str


class ExternalRow(StoredRow, frozen=True):
    """Leads from the uuid of an external table to its location."""

    kind: ClassVar[str] = "external"

    table_id: str
    catalog: str
    location: str
    created: int


def new_catalog(key: str, name: str, head: str, now: int) -> Insert:
    """Returns the first write of a catalog; ``head`` is its first commit."""
    row = CatalogHead(key, name, head, seq=0, recent=(head,), created=now, changed_at=now)
    return Insert(row.to_row(), (new_row("I9"),))


def drop_branch(key: str, head: str) -> Erase:
    """Erases the row of a branch while ``head`` is its HEAD."""
    same = Clause("same head", "I28", "nothing was changed on the branch meanwhile", Equals(("head",), head))
    return Erase(key, (same,))


def swap_head(
    at: CatalogHead,
    head: str,
    now: int,
    spilled: bytes = b"",
    *,
    turn: str = "",
    replaced: int | None = None,
    before: tuple[str, ...] = (),
) -> Change:
    """Makes ``head`` the catalog's HEAD if the HEAD is still ``at``. ``before``: the commits that
    lie between the two, newest first, which the same write makes part of the history. HEAD ids are
    never used twice, so once the row has moved on this write can never apply any more. It ends the
    priority claim ``turn`` of this change. Everything that a new HEAD leads to is in the present
    tree, was written at ``now``, or as ``commit.Edit.replaced`` says; so a swap that was delayed
    until gc removed it is refused; and so is one that was computed before a mark of gc was taken
    back (``end_sweep``).
    """
    unswept = Either((Absent(("swept",)), Below(("swept",), now if replaced is None else replaced)))
    clauses = (
        Clause(
            "same head", "I9", "the catalog is the one that the change was computed from", Equals(("head",), at.head)
        ),
        Clause("not swept", "I9", "gc has left alone all objs that were written or replaced by then", unswept),
        _same_sweeps(at),
    )
    actions: list[Action] = [
        Set(("head",), head),
        Set(("seq",), at.seq + 1 + len(before)),
        Set(("recent",), [head, *before, *at.recent][:RECENT]),
        Set(("changed_at",), now),
    ]
    if spilled and len(spilled) <= SPILLED_BYTES:
        actions.append(Set(("spilled",), spilled))
    elif at.spilled:
        actions.append(Drop(("spilled",)))
    if turn and turn == at.turn:
        actions += (Drop(("turn",)), Drop(("turn_until",)))
    return Change(at.key, clauses, tuple(actions))


def head_after(at: CatalogHead, heads: Sequence[str], spilled: bytes, now: int, turn: str = "") -> Row:
    """Returns the catalog's row as ``swap_head`` leaves it, for ``heads`` from the oldest to the
    newest."""
    ended = bool(turn) and turn == at.turn
    after = msgspec.structs.replace(
        at,
        head=heads[-1],
        seq=at.seq + len(heads),
        recent=(*reversed(heads), *at.recent)[:RECENT],
        changed_at=now,
        spilled=spilled if len(spilled) <= SPILLED_BYTES else b"",
        turn="" if ended else at.turn,
        turn_until=0 if ended else at.turn_until,
    )
    return after.to_row()


def claim_priority(key: str, change: str, until: int, now: int) -> Change:
    """Asks the other changes to let ``change`` go first until ``until`` (ms). This is no lock: a
    swap needs no claim, so safety does not depend on others seeing it (I9). Only one claim at a
    time. A stored claim that ends after ``until`` was made by a clock that is ahead; writers ignore
    it, so it may be replaced.
    """
    free = Either((Absent(("turn_until",)), AtMost(("turn_until",), now), AtLeast(("turn_until",), until + 1)))
    exists = Clause("catalog", "I9", "there is such a catalog", Present(("head",)))
    unclaimed = Clause("free turn", "I11", "no other change has a claim that counts", free)
    return Change(key, (exists, unclaimed), (Set(("turn",), change), Set(("turn_until",), until)))


def begin_sweep(key: str, created: int, began: int) -> Change:
    """From now on no entity can be brought back that was replaced before ``began`` (ms), the start
    of the kept history for a gc run that is about to remove objs which nothing since then leads to.
    A delayed reset is refused (I9).
    """
    older = Either((Absent(("swept",)), AtMost(("swept",), began)))
    same = Clause("same catalog", "I10", "it was not dropped and created again", Equals(("created",), created))
    latest = Clause("no later sweep", "I10", "no later run has begun", older)
    return Change(key, (same, latest), (Set(("swept",), began),))


def end_sweep(at: CatalogHead, now: int) -> Change:
    """Takes back the mark of a gc run that had a clock ahead of time, as ``swept_ahead`` finds it,
    and ends that run, which looks for its mark before each removal. Everything that the run can
    have removed was replaced, or written, before ``now`` (ms), which is the mark from then on. A
    change that has read the row before is refused, since the run may be removing objs that it wrote
    (I9).
    """
    same = Clause("same catalog", "I10", "it was not dropped and created again", Equals(("created",), at.created))
    mark = Clause("same mark", "I10", "the mark is the one that is ahead", Equals(("swept",), at.swept or 0))
    actions = (Set(("swept",), now - 1), Set(("taken_back",), at.taken_back + 1))
    return Change(at.key, (same, mark, _same_sweeps(at)), actions)


def swept_ahead(row: Row | None, now: int) -> int:
    """Returns by how much (ms) the row's sweep mark is ahead of the clock ``now``; 0: it is not.
    The mark of a right clock is hours behind it: where the kept history began
    (``gc.core.Grace.history_ms``).
    """
    swept = None if row is None else row.get("swept")
    return 0 if swept is None else max(0, int(swept) - now)


def is_swept(row: Row, replaced: int, now: int) -> bool:
    """Returns whether gc may have removed objs of a tree that was replaced at ``replaced`` (ms): no
    swap brings it back, as ``swap_head`` says. A mark that is ahead of the clock ``now`` does not
    count: a change takes it back first.
    """
    swept = row.get("swept")
    return swept is not None and replaced <= int(swept) <= now


def _same_sweeps(at: CatalogHead) -> Clause:
    same = Equals(("taken_back",), at.taken_back) if at.taken_back else Absent(("taken_back",))
    return Clause("same sweeps", "I9", "no mark of gc was taken back since the row was read", same)


def drop_catalog(key: str, gone: str, name: str, head: str, now: int) -> tuple[Erase, Insert]:
    """Erases the catalog's row while ``head`` is its HEAD, and inserts a note under the key
    ``gone`` that its objs are still there; their grace counts from then. The note replaces an older
    one: the objs of an earlier catalog of the same name are among the objs of this one, and became
    unreachable only now (I10).
    """
    same = Clause("same head", "I9", "nothing was created in it meanwhile", Equals(("head",), head))
    return Erase(key, (same,)), Insert(GoneCatalog(gone, name, now).to_row(), ())


def forget_catalog(row: Row) -> Erase:
    """Erases the note of a dropped catalog, after its objs are deleted."""
    same = Clause("same note", "I10", "it is the note that was read", Equals(("created",), row["created"]))
    return Erase(row["key"], (same,))


def new_external(key: str, table_id: str, catalog: str, location: str, now: int) -> Insert:
    """The row that leads from the uuid of an external table to its location."""
    return Insert(ExternalRow(key, table_id, catalog, location, now).to_row(), (new_row("I9"),))


def new_staging(
    *, key: str, table_id: str, catalog: str, namespace: str, name: str, location: str, creator: str, now: int
) -> Insert:
    """A staging table: a fresh uuid and a location for version 0. The name is not reserved."""
    row = StagingRow(key, table_id, catalog, namespace, name, location, creator, now, OPEN)
    return Insert(row.to_row(), (new_row("I2"),))


def use_staging(key: str) -> Erase:
    """Consumes a staging table: once, and not while gc removes it (I10)."""
    return Erase(key, (_open(),))


def await_version_zero(key: str) -> Change:
    """Makes a staging table one that has a name, and that awaits its version 0: it can be adopted
    by nothing but that name (I9)."""
    return Change(key, (_open(),), (Set(("state",), AWAITED),))


def _open() -> Clause:
    return Clause("open", "I10", "it was neither used nor collected", Equals(("state",), OPEN))


def _still_awaited() -> Clause:
    return Clause(
        "awaited", "I25", "its version 0 is awaited: it was neither adopted nor given up", Equals(("state",), AWAITED)
    )


def adopt_staging(key: str) -> Erase:
    """Consumes a staging table after its version 0 has arrived: once, and not after gc removed it
    (I25)."""
    return Erase(key, (_still_awaited(),))


def give_up_staging(key: str) -> Change:
    """Leaves a staging table that awaits its version 0 to gc: its name was dropped, so it is never
    adopted (I25)."""
    return Change(key, (_still_awaited(),), (Set(("state",), COLLECTING),))


def mark_collecting(row: Row) -> Change:
    """Announces that gc removes a staging table: from now on it cannot be registered, and a crash
    of gc is found by the next run (I10). May be repeated."""
    untouched = Either(tuple(Equals(("state",), state) for state in (OPEN, AWAITED, COLLECTING)))
    unregistered = Clause("not registered", "I10", "the staging table has no version 0 that is a table's", untouched)
    same = Clause("same table", "I10", "it is the row that was read", Equals(("created",), row["created"]))
    return Change(row["key"], (unregistered, same), (Set(("state",), COLLECTING),))


def erase_collected(row: Row) -> Erase:
    """Erases the row of a staging table, after its files are deleted."""
    announced = Clause("collecting", "I10", "its removal was announced", Equals(("state",), COLLECTING))
    return Erase(row["key"], (announced,))
