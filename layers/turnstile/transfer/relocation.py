"""Relocates tables: the files below one root were moved or copied below another, and the store
follows.

    1  plan      all rows and trees are read; nothing is changed. Reasons against the move are found
                 here, and a dry run ends here
    2  owners    each location below the new root gets the row of its owner; zones are claimed
    3  rows      HEADs, external tables and staging tables get their new locations
    4  trees     one change of each catalog gives its tables their new locations, and ends resets to
                 earlier states
    5  vacated   the owners of the old locations are erased; zones stay

No server may use the store meanwhile. Each step is a series of conditional writes, and may be
repeated: after a kill, the same relocation continues. Between 2 and 5 the owner of a table has both
locations, so no other can claim either (I10).

Iceberg's tables and views cannot be moved: their metadata, manifest lists and manifests hold
absolute paths. They stay unchanged, and are listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import ICEBERG_KINDS, TABLE, Entity, Table
from turnstile.catalog.core.location_rows import Location, conflict, copy_owner, keys_above, vacate
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.core.rows import CatalogHead, ExternalRow, StagingRow, begin_sweep
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.log import named_snapshots_of
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.head import ACTIVE, DROPPED, PINNED, TableHead, gone_for_good
from turnstile.delta.core.journal_rows import OPEN, JournalRow
from turnstile.delta.core.soundness import listing_faults
from turnstile.delta.log.files import list_log, sizes_of
from turnstile.delta.soundness.checkpoints import pointed_in
from turnstile.delta.soundness.judge import expired_upto, ratified_sizes
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict, TurnstileError
from turnstile.store.core.locations import ancestors, location_after_move, normalise, overlap
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Change, Clause, Equals, Row, Set, Write
from turnstile.store.ports import BATCH_GET_MAX, AllAccepted, World, in_batches

ROWS: Final = (TableHead, ExternalRow, StagingRow)
"""Rows that hold a location as an attribute; the row of an owner (``Location``) has it in its
key."""

_ENTITIES: Final = 500
_THREADS: Final = 8
_STOP: Final = "stop every server and function that uses this store, and run the same relocation again"


class Plan(msgspec.Struct, frozen=True):
    """The work of a relocation.

    Attributes:
        zones, owners: rows of lake roots, and of owners, below the old root, by the old location.
        rows: HEADs, external and staging rows that hold an old location.
        catalogs: the number of tables of each catalog's tree that hold an old location.
        sweeps: catalogs with old locations in their past.
        left: Iceberg's tables and views, which stay, and locations without a table that the store
            knows.
        problems: reasons against the relocation.
    """

    old: str
    new: str
    zones: Mapping[str, Row]
    owners: Mapping[str, Row]
    rows: tuple[Row, ...]
    catalogs: Mapping[str, int]
    sweeps: tuple[str, ...]
    left: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def empty(self) -> bool:
        """Whether nothing is left to be done."""
        return not (self.owners or self.rows or any(self.catalogs.values()))

    def report(self) -> dict[str, object]:
        """The report for people."""
        kinds = [str(row["kind"]) for row in self.rows]
        return {
            "old": self.old,
            "new": self.new,
            "lake_roots": len(self.zones),
            "locations": len(self.owners),
            "tables": kinds.count(TableHead.kind),
            "external": kinds.count(ExternalRow.kind),
            "staging": kinds.count(StagingRow.kind),
            "entities": sum(self.catalogs.values()),
            "left": list(self.left),
            "problems": list(self.problems),
        }


class Relocator:
    """Plans and makes relocations. Nothing else may use the store."""

    def __init__(self, world: World, reader: CatalogReader) -> None:
        self._world = world
        self._reader = reader
        self._committer = Committer(world, reader, queued=False)

    def plan(self, old: str, new: str) -> Plan:
        """Reads all rows and the present trees, and looks at the log of each table below ``new``.
        Raises InvalidRequest for roots that overlap, or that are not absolute locations;
        UnreadableRow: a row of these kinds is damaged, and may hold a location.
        """
        old = normalise(old)
        new = normalise(new)
        if overlap(old, new):
            raise InvalidRequest(f"{old} and {new} overlap", field="new", remedy="move the files beside the old root")
        locations = self._locations()
        zones = {
            at: row
            for at, row in locations.items()
            if Location.from_row(row).zone and location_after_move(at, old, new)
        }
        heads = [TableHead.from_row(row) for row in self._rows(TableHead)]
        rows = [row for kind in ROWS for row in self._rows(kind) if location_after_move(row["location"], old, new)]
        known = {head.table_id for head in heads} | {row["table_id"] for row in self._rows(ExternalRow)}
        below = {at: row for at, row in locations.items() if row.get("table_id") and location_after_move(at, old, new)}
        owners = {at: row for at, row in below.items() if row["table_id"] in known}
        problems = [*self._roots(old, new, locations, zones, owners), *_unfinished_imports(below)]
        problems += self._transactions()
        moving = [head for head in heads if location_after_move(head.location, old, new)]
        problems += [problem for head in moving if (problem := _unsettled_reason(head))]
        problems += self._logs([head for head in moving if head.state in (ACTIVE, PINNED)], old, new)
        catalogs = dict[str, int]()
        sweeps = list[str]()
        named = dict[str, str]()
        for tree in self._trees():
            tables = [table for _, table in self._entities(tree, (TABLE,))]
            at = [getattr(table, "location", "") for table in tables]
            catalogs[tree.catalog] = sum(location_after_move(location, old, new) is not None for location in at)
            dropped = any(head.catalog == tree.catalog for head in heads if _may_come_back(head, old, new))
            if dropped or any(_near(location, old, new) for location in at):
                sweeps.append(tree.catalog)
                problems += self._snapshots(tree)
            for path, entity in self._entities(tree, ICEBERG_KINDS):
                location = getattr(entity, "location", "")
                if location_after_move(location, old, new):
                    named[getattr(entity, "table_id", "")] = (
                        f"{dotted_name(tree.catalog, *path)} (Iceberg) at {location}"
                    )
        others = {at: row["table_id"] for at, row in below.items() if at not in owners}
        left = [named.pop(id, f"table {id} at {at}, which no catalog has") for at, id in others.items()]
        return Plan(
            old, new, zones, owners, tuple(rows), catalogs, tuple(sweeps), (*left, *named.values()), tuple(problems)
        )

    def apply(self, plan: Plan) -> None:
        """Carries out the plan. May be repeated with a fresh plan after an interruption.

        Raises:
            ValueError: the plan has problems.
            StateConflict: ``ConcurrentChange``: another process writes to the store.
        """
        if plan.problems:
            raise ValueError(f"the plan has problems: {plan.problems[0]}")
        if plan.empty:
            return
        for at, row in (*sorted(plan.zones.items()), *sorted(plan.owners.items())):
            self._copy(row, _to(plan, at))
        for row in plan.rows:
            self._write([_relocate(row, _to(plan, str(row["location"])))])
        for catalog, count in plan.catalogs.items():
            for _ in range(-(-count // _ENTITIES)):
                self._committer.commit(catalog, lambda view: self._edit(view, plan))
        for catalog in plan.sweeps:
            self._end_past(catalog)
        for at, row in sorted(plan.owners.items()):
            self._write(vacate(self._world.space, at, row, self._above(at)))

    # -- what is read -------------------------------------------------------------------------------------------------

    def _rows(self, of: type[StoredRow]) -> Iterator[Row]:
        """Every row of a kind. Raises UnreadableRow for a damaged one, which names its key."""
        for row in self._world.refs.scan(of.kind):
            of.from_row(row)
            yield row

    def _locations(self) -> dict[str, Row]:
        prefix = self._world.space.location("")
        return {str(row["key"]).removeprefix(prefix): row for row in self._rows(Location)}

    def _trees(self) -> Iterator[Tree]:
        for row in self._rows(CatalogHead):
            yield self._reader.unauthorized_at(str(row["name"]), row)

    def _entities(self, tree: Tree, kinds: tuple[str, ...]) -> Iterator[tuple[Path, Entity]]:
        items = ((path_of(key), entry.obj) for key, entry in tree.subtree(()) if entry.kind in kinds)
        for batch in in_batches(items, BATCH_GET_MAX):
            entities = self._reader.store.entities(tree.catalog, [obj for _, obj in batch])
            for path, obj in batch:
                yield path, entities[obj]

    def _roots(
        self, old: str, new: str, locations: Mapping[str, Row], zones: Mapping[str, Row], owners: Mapping[str, Row]
    ) -> Iterator[str]:
        """Problems of the roots: a part of a lake, or a new place that belongs to another table."""
        space = self._world.space
        rows = {self._world.space.location(at): row for at, row in locations.items()}
        for above in ancestors(old):
            if above in locations and Location.from_row(locations[above]).zone:
                yield f"{old} is a part of the lake {above}, which moves as a whole: name {above}"
                return
        inside = {at for at in owners if any(above in zones for above in ancestors(at))}
        for at, row in (*zones.items(), *owners.items()):
            to = location_after_move(at, old, new) or ""
            there = locations.get(to)
            if there is not None and _is_copy(there, row):
                continue  # copied by an earlier run, or claimed by a server that was started with this lake
            if at in inside:
                if there is not None:
                    yield f"location {to} belongs to table {there.get('table_id')}"
            elif (error := conflict(space, to, rows)) is not None:
                yield error.message

    def _transactions(self) -> Iterator[str]:
        for row in self._rows(JournalRow):
            if row["state"] == OPEN:
                yield f"transaction {row['id']} is open"

    def _snapshots(self, tree: Tree) -> Iterator[str]:
        names = [snapshot.name for snapshot in named_snapshots_of(tree, self._reader.store)]
        if names:
            first = ", ".join(names[:3])
            yield (
                f"catalog {tree.catalog} has named snapshots, whose tables would keep the old locations ({first}): "
                "drop them"
            )

    def _logs(self, heads: list[TableHead], old: str, new: str) -> Iterator[str]:
        with ThreadPoolExecutor(_THREADS, thread_name_prefix="relocate") as threads:
            for head, fault in zip(heads, threads.map(lambda head: self._fault(head, old, new), heads), strict=True):
                if fault:
                    yield f"table {head.name}: {fault}"

    def _fault(self, head: TableHead, old: str, new: str) -> str:
        """Versions of the HEAD that the log below the new root lacks, by a listing; empty for
        none."""
        to = location_after_move(head.location, old, new) or ""
        try:
            storage = self._world.storages.open(to)
            files = list_log(storage).upto(head.floor)
            if head.floor not in files.commits and not files.checkpoints:
                return f"version {head.floor} is not at {to}"
            expired = expired_upto(self._world, head) if min(files.commits, default=0) > 0 else None
            faults = listing_faults(
                sizes_of(files), head.floor, ratified_sizes(head), expired_upto=expired, pointed=pointed_in(storage)
            )
        except TurnstileError as error:
            return f"{to}: {error.message}"
        return f"at {to}: {faults[0].message}" if faults else ""

    # -- what is written ----------------------------------------------------------------------------------------------

    def _copy(self, row: Row, to: str) -> None:
        rows = self._above(to)
        there = rows.get(self._world.space.location(to))
        if there is None:
            self._write(copy_owner(self._world.space, row, to, rows, self._world.clock.now_ms()))

    def _above(self, location: str) -> dict[str, Row]:
        return self._world.refs.read_many(keys_above(self._world.space, location))

    def _write(self, writes: list[Write]) -> None:
        if not isinstance(self._world.refs.transact(writes, self._world.ids.uuid()), AllAccepted):
            problem = "something else has changed the store since the relocation began"
            raise StateConflict(ErrorType.CONCURRENT_CHANGE, problem, remedy=_STOP)

    def _edit(self, view: View, plan: Plan) -> Edit | None:
        put: dict[Path, Entity] = {}
        for path, entity in self._entities(view.tree, (TABLE,)):
            assert isinstance(entity, Table)
            to = location_after_move(entity.location, plan.old, plan.new)
            if to is not None and len(put) < _ENTITIES:
                put[path] = msgspec.structs.replace(entity, location=to)
        return Edit(f"relocate {plan.old} to {plan.new}", put=put) if put else None

    def _end_past(self, catalog: str) -> None:
        """From now on no reset brings back a tree that was replaced by now: it may hold old
        locations."""
        row = self._world.refs.read(self._reader.key(catalog))
        if row is None:
            return
        head = CatalogHead.from_row(row)
        tree = self._reader.unauthorized_at(catalog, row)
        now_ms = max(self._world.clock.now_ms(), tree.commit.at // 1000)
        if head.swept is None or head.swept < now_ms:
            self._write([begin_sweep(head.key, head.created, now_ms)])


def _near(location: str, old: str, new: str) -> bool:
    """Whether a location is below the old root or the new one."""
    return location_after_move(location, old, new) is not None or location_after_move(location, new, old) is not None


def _may_come_back(head: TableHead, old: str, new: str) -> bool:
    """Whether a reset could bring back a dropped table that was below the old root."""
    return head.state == DROPPED and not gone_for_good(head) and _near(head.location, old, new)


def _is_copy(there: Row, row: Row) -> bool:
    """Whether a row is of the same owner as ``row``, or a zone as that is."""
    return there.get("table_id", "") == row.get("table_id", "") and not Location.from_row(there).marker


def _to(plan: Plan, location: str) -> str:
    to = location_after_move(location, plan.old, plan.new)
    assert to is not None, "only locations below the old root are planned"
    return to


def _relocate(row: Row, to: str) -> Change:
    """Gives a row its new location, if it is as it was planned."""
    members = ("location", "state", "latest") if row["kind"] == TableHead.kind else ("location",)
    clauses = tuple(
        Clause(f"same {name}", "I10", "nothing has changed since the plan", Equals((name,), row[name]))
        for name in members
    )
    return Change(str(row["key"]), clauses, (Set(("location",), to),))


def _unfinished_imports(owners: Mapping[str, Row]) -> Iterator[str]:
    for at, row in owners.items():
        if row.get("importing"):
            yield f"an import of {at} has not finished: run it again, or give it up"
        if row.get("purging"):
            yield f"the files at {at} are being removed: let gc finish"


def _unsettled_reason(head: TableHead) -> str:
    """Why a table cannot be moved now; empty if it can."""
    if gone_for_good(head) or head.state == DROPPED:
        return ""
    if head.state not in (ACTIVE, PINNED):
        return f"table {head.name} is {head.state}: turnstile repair {head.name}"
    if head.floor < head.latest or head.undecided:
        return (
            f"table {head.name} has commits that are not published: start the server where the lake was, and wait, or "
            f"publish"
        )
    return ""
