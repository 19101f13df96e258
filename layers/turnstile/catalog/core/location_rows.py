"""Ownership of storage locations: one row for each normalised location, and no owner above or below
another (I10).

A location has at most one row, of one of three sorts:

    owner    has a ``table_id``: the table that lives there
    zone     no ``table_id``, ``below`` 0: a lake root. Only Turnstile assigns the locations below
             it
    marker   no ``table_id``, ``below`` n > 0: n owners or zones lie somewhere below

An owner outside a zone, or a zone, is written in one transaction with a marker on each of its
ancestors. The clauses fail if the location itself has a row (an owner, a zone, or a marker of
owners below) or if an ancestor is an owner or a zone. So of two overlapping claims only one can be
written, in any order. Managed tables lie inside a zone and are disjoint by construction
(``managed_location``): only their owner row is written, and the zone keeps other claims out.

The row of an owner has more facts:

    importing    the run of an import that has not created its table yet ("import claims" below)
    clones       uuids of the clones that need the files there; ``purging``: gc has begun to remove
                 them ("clones" below)
    readers      versions that readers registered; ``readable_from``, ``kept``: the versions that
                 may still be registered
                 ("marks" below)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from turnstile.delta.core.head import TableHead
from turnstile.store.core.errors import ErrorType, StateConflict
from turnstile.store.core.locations import ancestors, is_of_branch
from turnstile.store.core.rows import Space, StoredRow
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

MAX_CLONES: Final = 200
"""Clones that may need one location: 8 kB of its owner's row, which each of them writes once and gc
reads."""

_APART: Final = "use a location that neither contains nor lies in that of another table"
_FINISH: Final = "run that import again, which finishes it, or use another location"
_IMPORTING: Final = ("importing",)
_CLONES: Final = ("clones",)


class HeldLocation(msgspec.Struct, frozen=True, array_like=True):
    """A location that a clone needs, and its owner (the uuid in the owner's row)."""

    location: str
    owner: str


class Reader(msgspec.Struct, frozen=True, array_like=True):
    """Versions ``first`` to ``last`` (-1: and all that follow) that ``principal`` needs until
    ``until`` (ms), under a name of its own choice, ``holder``."""

    holder: str
    principal: str
    first: int
    last: int
    until: int

    def pack(self) -> bytes:
        """The bytes stored in the row."""
        return msgspec.msgpack.encode(self)


class Location(StoredRow, frozen=True):
    """A location row; ``table_id`` is empty for zones and markers, ``importing`` if no import is
    running.

    Attributes:
        readers: versions that readers registered; expired ones are removed with the next change.
        readable_from: the lowest version that no vacuum may have touched; below it only the
            versions in ``kept`` are whole.
        first_life: whether the catalog chose the location for this owner: no other table has ever
            had files there.
        revision: rises with every change of ``readers`` and of the marks.
    """

    kind: ClassVar[str] = "location"

    created: int
    below: int
    table_id: str = ""
    catalog: str = ""
    clones: frozenset[str] = frozenset()
    purging: bool = False
    importing: str = ""
    readers: tuple[Reader, ...] = ()
    readable_from: int = 0
    kept: frozenset[str] = frozenset()
    revision: int = 0
    first_life: bool = False

    @classmethod
    def from_row(cls, row: Row) -> Location:
        """Parses a row; one of an early release may lack ``below``."""
        return super().from_row({"below": 0, **row})

    def keeps(self, held: HeldLocation) -> bool:
        """Whether the files of ``held`` are still there and their removal has not begun: a clone
        may need them."""
        return self.table_id == held.owner and not self.purging

    def readable(self, version: int) -> bool:
        """Whether no vacuum may have removed files that ``version`` of the owner's log needs."""
        return version >= self.readable_from or str(version) in self.kept

    @property
    def marker(self) -> bool:
        return not self.table_id and self.below > 0

    @property
    def zone(self) -> bool:
        return not self.table_id and self.below == 0


def owner_row(
    space: Space, location: str, table_id: str, catalog: str, now: int, *, importing: str = "", first_life: bool = False
) -> Insert:
    """The row of a location's owner; of a zone if ``table_id`` is empty; of a claim by the import
    run ``importing``; of one that was chosen for this owner, ``first_life``."""
    row = Location(space.location(location), now, 0, table_id, catalog, importing=importing, first_life=first_life)
    return Insert(row.to_row(), (new_row("I10"),))


def keys_above(space: Space, location: str) -> list[str]:
    """Keys to read before a claim on ``location``: the location's own and the keys of all its
    ancestors."""
    return [space.location(location), *(space.location(above) for above in ancestors(location))]


def conflict(space: Space, location: str, rows: Mapping[str, Row]) -> StateConflict | None:
    """Returns why ``location`` cannot be claimed, from the rows under ``keys_above``; None if it is
    free."""
    row = rows.get(space.location(location))
    if row is not None:
        own = Location.from_row(row)
        if own.importing:
            return _already_owned(
                location, "is claimed by an import that has not finished", _FINISH, table_id=own.table_id
            )
        if own.table_id:
            return _already_owned(location, f"belongs to table {own.table_id}", table_id=own.table_id)
        return _already_owned(location, "contains locations of other tables" if own.below else "is a lake root")
    for above in ancestors(location):
        row = rows.get(space.location(above))
        higher = Location.from_row(row) if row is not None else None
        if higher is not None and not higher.marker:
            if higher.table_id:
                return _already_owned(
                    location, f"lies below {above} of table {higher.table_id}", table_id=higher.table_id
                )
            return _already_owned(location, f"lies below the lake root {above}, where Turnstile chooses the locations")
    return None


def _already_owned(location: str, how: str, remedy: str = _APART, **details: str) -> StateConflict:
    return StateConflict(
        ErrorType.LOCATION_OWNED, f"location {location} {how}", field="location", remedy=remedy, **details
    )


def claim(
    space: Space, location: str, rows: Mapping[str, Row], *, table_id: str, catalog: str, now: int, importing: str = ""
) -> list[Write]:
    """The writes that make ``table_id`` the owner (empty: make a zone), with a marker on every
    ancestor. ``rows`` are the rows under ``keys_above``; if they have changed by the time of the
    write, a clause fails: read again. So with ``release`` and ``give_back``. ``importing`` is the
    import run that claims the location.
    """
    writes: list[Write] = [owner_row(space, location, table_id, catalog, now, importing=importing)]
    for above in ancestors(location):
        key = space.location(above)
        if key in rows:
            marker = Clause("marker", "I10", "no owner or zone lies above", AtLeast(("below",), 1))
            writes.append(Change(key, (marker,), (SetSum(("below",), ("below",), 1),)))
        else:
            row = Location(key, now, below=1, catalog=catalog)
            writes.append(Insert(row.to_row(), (new_row("I10"),)))
    return writes


def release(space: Space, location: str, table_id: str, rows: Mapping[str, Row]) -> list[Write]:
    """The writes that give a location up if ``table_id`` still owns it: the reverse of ``claim``,
    and for a managed table, which has no markers, of ``owner_row``. A marker that counts only this
    claim is erased too.

    Raises StateConflict ``TableHasClones``: the next owner of the location could remove the files
    that they need.
    """
    clones = rows.get(space.location(location), {}).get("clones")
    if clones:
        problem = f"{len(clones)} clones need the files of table {table_id}"
        remedy = "drop the clones first; a drop that purges waits for them"
        raise StateConflict(ErrorType.TABLE_HAS_CLONES, problem, field="table", remedy=remedy, clones=sorted(clones))
    own = Clause("own", "I10", "the location is still this table's", Equals(("table_id",), table_id))
    return [Erase(space.location(location), (own, uncloned_clause())), *_unmark(space, location, rows)]


def _unmark(space: Space, location: str, rows: Mapping[str, Row]) -> list[Write]:
    """The writes that count one claim less above ``location``; none in a zone, and none in the
    folder of branches of a table, whose own claim is the one that counts."""
    higher = {key: Location.from_row(rows[key]) for key in keys_above(space, location)[1:] if key in rows}
    if is_of_branch(location) or any(row.zone for row in higher.values()):
        return []
    writes: list[Write] = []
    for key, row in higher.items():
        if row.below == 1:
            last = Clause("last", "I10", "nothing else lies below", Below(("below",), 2))
            writes.append(Erase(key, (last,)))
        else:
            shared = Clause("shared", "I10", "something else lies below", AtLeast(("below",), 2))
            writes.append(Change(key, (shared,), (SetSum(("below",), ("below",), -1),)))
    return writes


# -- a lake that moved ------------------------------------------------------------------------------------------------
# The owner's row is copied to its new key before anything leads there, and erased after nothing
# leads to the old one: one owner has both locations meanwhile, and no other can claim either.


def copy_owner(space: Space, row: Row, to: str, rows: Mapping[str, Row], now: int) -> list[Write]:
    """The writes that give the owner, or zone, of ``row`` the location ``to`` as well, with all
    facts of the row. ``rows``: the rows under ``keys_above`` of ``to``."""
    copy = Insert({**row, "key": space.location(to)}, (new_row("I10"),))
    if any(Location.from_row(rows[key]).zone for key in keys_above(space, to)[1:] if key in rows):
        return [copy]
    return [copy, *claim(space, to, rows, table_id="", catalog="", now=now)[1:]]


def vacate(space: Space, location: str, row: Row, rows: Mapping[str, Row]) -> list[Write]:
    """The writes that end the ownership of ``location`` after its owner has moved to another one,
    if its row is still as it was copied: ``row``."""
    own = Clause("own", "I10", "the location is still this owner's", Equals(("table_id",), row["table_id"]))
    marks = Equals(("revision",), row["revision"]) if "revision" in row else Absent(("revision",))
    clones = Equals(_CLONES, row["clones"]) if row.get("clones") else Absent(_CLONES)
    same = Clause("same marks", "I10", "no reader or mark has come since it was copied", marks)
    needed = Clause("same clones", "I10", "no clone has come or gone since it was copied", clones)
    return [Erase(space.location(location), (own, same, needed)), *_unmark(space, location, rows)]


# -- import claims ----------------------------------------------------------------------------------------------------
# An import claims the location before its table exists: the row names a uuid without a HEAD. So do
# the rows of tables that are only registered and of other formats; ``importing`` tells a claim from
# them, and is dropped in the transaction that creates the HEAD. A run that continues another run's
# import first writes its own id there. So a run that finds the table unfit can give its claim back
# only while no other run may be about to write the upgrade commit under that uuid (I10): a log that
# names a uuid which owns nothing could neither be imported nor written again.


def take_up(space: Space, location: str, table_id: str, stored: str, run: str) -> Change:
    """``run`` continues the import that makes ``table_id`` and that ``stored`` was seen to run;
    empty: a claim of a version that did not store the run."""
    unmoved = Equals(_IMPORTING, stored) if stored else Absent(_IMPORTING)
    own = Clause("own", "I10", "the location is still this import's", Equals(("table_id",), table_id))
    same = Clause("same run", "I10", "it was not finished or taken up since it was read", unmoved)
    return Change(space.location(location), (own, same), (Set(_IMPORTING, run),))


def take_over(space: Space, location: str, dropped: TableHead, table_id: str, run: str) -> tuple[Change, Check]:
    """The location of a dropped table goes to the import that brings it back as ``table_id``;
    markers stay as they are."""
    theirs = Clause("still theirs", "I10", "it was not taken over", Equals(("table_id",), dropped.table_id))
    still_dropped = (
        Clause("dropped", "I10", "the earlier table takes no commits", Equals(("state",), "dropped")),
        Clause("published", "I4", "its last version is in _delta_log", Equals(("floor",), dropped.latest)),
        Clause("not purged", "I10", "its files are not to be purged", Absent(("reason",))),
    )
    change = Change(space.location(location), (theirs,), (Set(("table_id",), table_id), Set(_IMPORTING, run)))
    return change, Check(dropped.key, still_dropped)


def still_owned(key: str, table_id: str) -> Check:
    """The dropped table ``table_id`` comes back where no import has taken its location over."""
    own = Clause("still its own", "I10", "no import has taken the location over", Equals(("table_id",), table_id))
    return Check(key, (own, Clause("no import", "I10", "no import is under way", Absent(_IMPORTING))))


def finish(space: Space, location: str, table_id: str) -> Change:
    """Goes with creating the HEAD: the location is the table's."""
    own = Clause("own", "I10", "the location is still this import's", Equals(("table_id",), table_id))
    return Change(space.location(location), (own,), (Drop(_IMPORTING),))


def give_back(space: Space, location: str, table_id: str, run: str, rows: Mapping[str, Row]) -> list[Write]:
    """The writes that free the location, if ``run`` is still the run in the row and there is no
    table."""
    own, *markers = release(space, location, table_id, rows)
    alone = Clause("same run", "I10", "no other run took the import up", Equals(_IMPORTING, run))
    unmade = Clause("unmade", "I10", "there is no such table", Absent(("key",)))
    return [replace(own, clauses=(*own.clauses, alone)), *markers, Check(space.table(table_id), (unmade,))]


# -- clones -----------------------------------------------------------------------------------------------------------
# A new clone has no files of its own: it shows those of its source. So the purge of a dropped
# source has to wait for its clones. Making a clone, dropping it, and beginning a purge all write
# the row of the location's owner in their transaction: a clone can only be made of files that are
# not being purged, and a purge can only begin where no clone is. Whichever comes first wins, and no
# clone is forgotten or remembered for too long (I10).


def uncloned_clause() -> Clause:
    """Has to hold of a location before its files are removed or it gets another owner."""
    return Clause("uncloned", "I10", "no clone needs the files there", Absent(_CLONES))


def hold(space: Space, held: HeldLocation, clones: Iterable[str], revision: int | None = None) -> Change:
    """Keeps the location for ``clones``, if its purge has not begun. ``revision``: of the row that
    says that the versions which they show are whole (``Location.readable``); None where there are
    no versions. May be repeated.
    """
    same = () if revision is None else (same_marks(revision),)
    return Change(space.location(held.location), (*holdable(held), *same), (Include(_CLONES, frozenset(clones)),))


def let_go(space: Space, held: HeldLocation, clones: Iterable[str]) -> Change:
    """``clones`` no longer need the location."""
    owned = Clause("owned", "I10", "a location that is needed has its owner", Present(("table_id",)))
    return Change(space.location(held.location), (owned,), (Exclude(_CLONES, frozenset(clones)),))


def exchange(space: Space, held: HeldLocation, stored: Location, *, come: Iterable[str], go: Iterable[str]) -> Change:
    """Some clones need the location again, others no longer; ``stored`` is the row that was read.
    One write, because a write changes a set only once."""
    clones = stored.clones.difference(go).union(come)
    action = Set(_CLONES, clones) if clones else Drop(_CLONES)
    clauses = (*holdable(held), same_clones(stored.clones), same_marks(stored.revision))
    return Change(space.location(held.location), clauses, (action,))


def begin_purge(space: Space, held: HeldLocation, revision: int) -> Change:
    """From now on no clone can be made of the location, and no reader can register. ``revision``:
    of the row in which no reader was left. May be repeated."""
    own = Clause("own", "I10", "the location is still this table's", Equals(("table_id",), held.owner))
    return Change(
        space.location(held.location), (own, uncloned_clause(), same_marks(revision)), (Set(("purging",), True),)
    )


# -- marks -------------------------------------------------------------------------------------------------------------
# Before a vacuum removes anything it writes here from which version on it leaves everything, and
# which older ones it leaves (``maintenance.core.pins``), under the clauses that clones and
# readers are those that it knew. A clone or a reader that comes needs a version that is whole by
# the row, under the clause that the marks have not changed. So of the two, one comes first, and the
# other sees it (I10).


def same_clones(clones: frozenset[str]) -> Clause:
    """Has to hold where something was decided by the clones of a location."""
    unchanged = Equals(_CLONES, clones) if clones else Absent(_CLONES)
    return Clause("same clones", "I10", "they are those that were read", unchanged)


def same_marks(revision: int) -> Clause:
    """Has to hold where something was decided by the readers or the marks of a location."""
    unchanged = Equals(("revision",), revision) if revision else Absent(("revision",))
    return Clause("same marks", "I10", "no reader and no vacuum has come since it was read", unchanged)


def holdable(held: HeldLocation) -> tuple[Clause, ...]:
    """The conditions on a location before an entity may need the files there."""
    return (
        Clause("own", "I10", "the source still owns the location", Equals(("table_id",), held.owner)),
        Clause("unpurged", "I10", "nothing that lies there is being removed", Absent(("purging",))),
    )
