"""Who owns a storage location: one row per normalised location, and no owner above or below another (I10).

    location   {key, kind, table_id, catalog, created, below, clones?, purging?, importing?}

Three sorts of row, and a location has at most one row:

    owner    ``table_id`` of the Delta table that lives there
    zone     no ``table_id``, ``below`` 0: a lake root. Everything below it is Turnstile's to give out
    marker   no ``table_id``, ``below`` n > 0: n owners or zones lie somewhere below

An owner outside a zone, or a zone, is written together with a marker on each of its ancestors, in one transaction: a
row on the location itself (owner above all, but also a marker: somebody is below) or an owner or zone on an ancestor
makes the clauses fail. So of two overlapping claims only one can be written, in whichever order they race. Managed
tables lie inside a zone and are disjoint by construction (``managed_location``): they write their owner row only, and
the zone keeps everybody else out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.keys import Space
from turnstile.store.core.locations import ancestors
from turnstile.store.core.writes import (
    Absent,
    AtLeast,
    Below,
    Change,
    Check,
    Clause,
    Drop,
    Equals,
    Erase,
    Exclude,
    Include,
    Insert,
    Present,
    Row,
    Set,
    SetSum,
    Write,
    new_row,
)

_APART: Final = "use a location that neither contains nor lies in that of another table"
_FINISH: Final = "run that import again, which finishes it, or use another location"


class Location(msgspec.Struct, frozen=True):
    """A parsed location row; ``table_id`` empty for zones and markers; ``clones`` and ``purging`` as in ``clone_holds``,
    ``importing`` as in ``import_claims``, empty without."""

    key: str
    table_id: str
    below: int
    clones: frozenset[str] = frozenset()
    purging: bool = False
    importing: str = ""

    @classmethod
    def from_row(cls, row: Row) -> Location:
        """Parse a refs row of kind ``location``."""
        return cls(
            key=row["key"],
            table_id=row.get("table_id") or "",
            below=row.get("below") or 0,
            clones=frozenset(row.get("clones", ())),
            purging="purging" in row,
            importing=row.get("importing") or "",
        )

    def keeps(self, held: Held) -> bool:
        """Whether what ``held`` names is still there, and nobody has begun to remove it: a clone may need it."""
        return self.table_id == held.owner and not self.purging

    @property
    def marker(self) -> bool:
        """Whether the row only says that something lies below."""
        return not self.table_id and self.below > 0

    @property
    def zone(self) -> bool:
        """Whether everything below is Turnstile's to give out."""
        return not self.table_id and self.below == 0


def owner_row(space: Space, location: str, table_id: str, catalog: str, now: int, *, importing: str = "") -> Insert:
    """The owner of a location; of a zone when ``table_id`` is empty; a claim of the import run ``importing``."""
    row = _row(space, location, catalog, now, below=0)
    if table_id:
        row["table_id"] = table_id
    if importing:
        row["importing"] = importing
    return Insert(row, (new_row("I10"),))


def _row(space: Space, location: str, catalog: str, now: int, below: int) -> Row:
    row: Row = {"key": space.location(location), "kind": "location", "created": now, "below": below}
    return {**row, "catalog": catalog} if catalog else row


def keys_above(space: Space, location: str) -> list[str]:
    """Keys that a claim on ``location`` must have read: the location's own and all its ancestors'."""
    return [space.location(location), *(space.location(above) for above in ancestors(location))]


def conflict(space: Space, location: str, rows: Mapping[str, Row]) -> StateConflict | None:
    """Why nobody may claim ``location``, from the rows under ``keys_above``; None when it is free."""
    own = rows.get(space.location(location))
    if own is not None:
        found = Location.from_row(own)
        if found.importing:
            return _owned(location, "is claimed by an import that has not finished", _FINISH, table_id=found.table_id)
        if found.table_id:
            return _owned(location, f"belongs to table {found.table_id}", table_id=found.table_id)
        return _owned(location, "contains locations of other tables" if found.below else "is a lake root")
    for above in ancestors(location):
        row = rows.get(space.location(above))
        higher = Location.from_row(row) if row is not None else None
        if higher is not None and not higher.marker:
            if higher.table_id:
                return _owned(location, f"lies below {above} of table {higher.table_id}", table_id=higher.table_id)
            return _owned(location, f"lies below the lake root {above}, where Turnstile chooses the locations")
    return None


def _owned(location: str, how: str, remedy: str = _APART, **details: str) -> StateConflict:
    return StateConflict(
        "LocationOwned",
        f"location {location} {how}",
        field="location",
        remedy=remedy,
        **details,
    )


def claim(
    space: Space, location: str, rows: Mapping[str, Row], *, table_id: str, catalog: str, now: int, importing: str = ""
) -> list[Write]:
    """The writes that make ``table_id`` the owner (or a zone), with a marker on every ancestor.

    Args:
        rows: which markers exist; when that has changed by the time of the write, a clause fails: read again.
        importing: the run of the import whose claim it is (``import_claims``).
    """
    writes: list[Write] = [owner_row(space, location, table_id, catalog, now, importing=importing)]
    for above in ancestors(location):
        key = space.location(above)
        if key in rows:
            marker = Clause("marker", "I10", "nobody owns what lies above", AtLeast(("below",), 1))
            writes.append(Change(key, (marker,), (SetSum(("below",), ("below",), 1),)))
        else:
            writes.append(Insert(_row(space, above, catalog, now, below=1), (new_row("I10"),)))
    return writes


def release(space: Space, location: str, table_id: str, rows: Mapping[str, Row]) -> list[Write]:
    """The writes that give a location up, if ``table_id`` still owns it: the reverse of ``claim``, and for a managed
    table, which left no markers, of ``owner_row``.

    A marker that counts this claim only goes with it. When ``rows`` (of ``keys_above``) has changed by the time of the
    write, a clause fails: read again.

    Raises:
        StateConflict: ``TableHasClones``: whoever came to the location next could remove what they need.
    """
    clones = rows.get(space.location(location), {}).get("clones")
    if clones:
        raise StateConflict(
            "TableHasClones",
            f"{len(clones)} clones need the files of table {table_id}",
            field="table",
            remedy="drop the clones first; a drop that purges waits for them",
            clones=sorted(clones),
        )
    own = Clause("own", "I10", "the location is still this table's", Equals(("table_id",), table_id))
    writes: list[Write] = [Erase(space.location(location), (own, uncloned()))]
    keys = [space.location(above) for above in ancestors(location)]
    above = [(key, Location.from_row(rows[key])) for key in keys if key in rows]
    if any(found.zone for _, found in above):
        return writes
    for key, found in above:
        if found.below == 1:
            last = Clause("last", "I10", "nothing else lies below", Below(("below",), 2))
            writes.append(Erase(key, (last,)))
        else:
            shared = Clause("shared", "I10", "something else lies below", AtLeast(("below",), 2))
            writes.append(Change(key, (shared,), (SetSum(("below",), ("below",), -1),)))
    return writes


# -- import claims ----------------------------------------------------------------------------------------------------
# The claim of an import that has not finished, in the row of its location's owner (``location_rows``).
#
#     importing    the run that took the import up last
#
# A claim comes before its table: the row names a uuid that has no HEAD yet. Owners without a HEAD are also tables that are
# only registered, and those of other formats; the mark tells a claim from them, and goes in the transaction that creates the
# HEAD. Whoever goes on with another run's import puts itself there first. So a run that finds the table unfit gives its
# claim back only while nobody else may be about to write the upgrade commit under that uuid (I10): a log that names a uuid
# which owns nothing could neither be imported nor written again.


_MARK: Final = ("importing",)


def take_up(space: Space, location: str, table_id: str, known: str, run: str) -> Change:
    """``run`` goes on with the import that makes ``table_id``.

    Args:
        known: the run that was read there; empty where there is no mark, as claims had none in the past.
    """
    unmoved = Equals(_MARK, known) if known else Absent(_MARK)
    return Change(
        space.location(location),
        (
            Clause("own", "I10", "the location is still this import's", Equals(("table_id",), table_id)),
            Clause("same run", "I10", "nobody finished it, or took it up, since it was read", unmoved),
        ),
        (Set(_MARK, run),),
    )


def take_over(space: Space, location: str, dropped: TableHead, table_id: str, run: str) -> tuple[Change, Check]:
    """The location of a dropped table goes to the import that brings it back as ``table_id``; markers stay as they are."""
    theirs = Clause("still theirs", "I10", "nobody else took it over", Equals(("table_id",), dropped.table_id))
    still_dropped = (
        Clause("dropped", "I10", "the earlier table takes no commits", Equals(("state",), "dropped")),
        Clause("published", "I4", "its last version is in _delta_log", Equals(("floor",), dropped.latest)),
        Clause("not purged", "I10", "nobody asked for its files to be purged", Absent(("reason",))),
    )
    change = Change(space.location(location), (theirs,), (Set(("table_id",), table_id), Set(_MARK, run)))
    return change, Check(dropped.key, still_dropped)


def finish(space: Space, location: str, table_id: str) -> Change:
    """What goes with creating the HEAD: the claim is the table's."""
    own = Clause("own", "I10", "the location is still this import's", Equals(("table_id",), table_id))
    return Change(space.location(location), (own,), (Drop(_MARK),))


def give_back(space: Space, location: str, table_id: str, run: str, rows: Mapping[str, Row]) -> list[Write]:
    """The writes that free the location again, if only ``run`` ever was about to use it and there is no table.

    Args:
        rows: under ``keys_above``; when they have changed by the time of the write, a clause fails.
    """
    own, *markers = release(space, location, table_id, rows)
    alone = Clause("same run", "I10", "nobody else took the import up", Equals(_MARK, run))
    unmade = Clause("unmade", "I10", "there is no such table", Absent(("key",)))
    return [replace(own, clauses=(*own.clauses, alone)), *markers, Check(space.table(table_id), (unmade,))]


# -- clone holds ------------------------------------------------------------------------------------------------------
# What keeps the files of a table for its clones: the uuids of those that need them, in the row of the location's owner.
#
# A clone has no files of its own when it is made: it shows those of its source. So the purge of a dropped source has to
# wait for them. Both go by one row, the owner's, in the transaction that makes a clone, drops it, or begins a purge:
#
#     clones     uuids of the clones that need what lies there
#     purging    gc has begun to remove it
#
# A clone holds only what nobody is purging, and a purge begins only where nobody holds. Whichever comes first decides, and
# no clone is ever forgotten or remembered for too long (I10).


MAX_CLONES: Final = 200
"""Clones that may need one location: 8 kB of its owner's row, which each of them writes once and gc reads."""


class Held(msgspec.Struct, frozen=True, array_like=True):
    """A location that a clone needs: where, and whose it is (the uuid in its owner's row)."""

    location: str
    owner: str


def uncloned() -> Clause:
    """What has to hold of a location before its files may go, or somebody else may own it."""
    return Clause("uncloned", "I10", "no clone needs what lies there", Absent(("clones",)))


def hold(space: Space, held: Held, clones: Iterable[str]) -> Change:
    """Keep the location for ``clones``, as long as nobody has begun to empty it. Again is accepted."""
    return Change(
        space.location(held.location),
        (
            Clause("own", "I10", "what is cloned still owns the location", Equals(("table_id",), held.owner)),
            Clause("unpurged", "I10", "nothing that lies there is being removed", Absent(("purging",))),
        ),
        (Include(("clones",), frozenset(clones)),),
    )


def let_go(space: Space, held: Held, clones: Iterable[str]) -> Change:
    """``clones`` need the location no more."""
    owned = Clause("owned", "I10", "a location that is needed has its owner", Present(("table_id",)))
    return Change(space.location(held.location), (owned,), (Exclude(("clones",), frozenset(clones)),))


def exchange(space: Space, held: Held, known: frozenset[str], *, come: Iterable[str], go: Iterable[str]) -> Change:
    """Some clones need the location again, others no more: both in one write, which a row allows a set once only.

    Args:
        known: the clones that were read there.
    """
    path = ("clones",)
    clones = frozenset(known).difference(go).union(come)
    return Change(
        space.location(held.location),
        (
            Clause("own", "I10", "what was cloned still owns the location", Equals(("table_id",), held.owner)),
            Clause("unpurged", "I10", "nothing that lies there is being removed", Absent(("purging",))),
            Clause(
                "same clones", "I10", "they are those that were read", Equals(path, known) if known else Absent(path)
            ),
        ),
        (Set(path, clones) if clones else Drop(path),),
    )


def begin_purge(space: Space, held: Held) -> Change:
    """No clone may need the location from now on. Again is accepted."""
    own = Clause("own", "I10", "the location is still this table's", Equals(("table_id",), held.owner))
    return Change(space.location(held.location), (own, uncloned()), (Set(("purging",), True),))
