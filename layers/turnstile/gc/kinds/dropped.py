"""The remains of dropped tables, dropped catalogs and deleted references after their grace
periods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.location_rows import HeldLocation, Location, begin_purge, keys_above, release
from turnstile.catalog.core.rows import forget_catalog
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.coordination.core.named_ref import DELETED, NamedRef, forget
from turnstile.delta.core.head import PURGING, TableHead
from turnstile.delta.core.writes.state import mark_purged, mark_purging
from turnstile.gc.core import SETTLED_MS, Item, due
from turnstile.gc.kinds.tombstones import TombstoneCollector, is_over
from turnstile.gc.scanner import Batch, GcContext, NotNow, Problem, Scanner, batches, bytes_of, ids_in, lost_parts
from turnstile.maintenance.holders import holders_of
from turnstile.store.core.errors import NotFound
from turnstile.store.core.locations import normalise
from turnstile.store.core.rows import prefixes
from turnstile.store.core.writes import Row
from turnstile.store.ports import Rejected, SomeRejected

_CATALOG_OBJS: Final = prefixes("history")
"""Commits before the objs that they lead to. Objs of tables lie in the same partition and go with
the tables."""


class DroppedTableScanner(Scanner):
    """Kind ``dropped``.

    - Collects: all files of dropped tables, then the owner of the location. The HEAD stays as a
      tombstone, for a month
      (``tombstones``). Imported tables are left out unless their ids were given: their files were
      there before the catalog.
    - Unreachable since: the drop.
    - Announced by: the HEAD, in one transaction with the location's owner row, which must name this
      table and no clone
      or reader that needs the files. Named snapshots that show it are looked for before: none can
      come that does.
    - A crash leaves: the announced HEAD, which the next run takes up without waiting.
    """

    row_kind = "table"

    def __init__(self, context: GcContext) -> None:
        super().__init__(context)
        self._reader = CatalogReader(context.world)
        self._trees = dict[str, Tree]()
        self._tombstones = TombstoneCollector(context)

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        head = TableHead.from_row(row)
        context = self._context
        if is_over(head):
            yield from self._tombstones.scan(head, now)
            return
        if head.state != "dropped":
            return
        if not head.managed and head.table_id not in context.imported:
            return
        if now - head.changed_at < context.grace.dropped_ms and head.reason != PURGING:
            return
        owner = self._owner(head)
        reason = f"{head.location} is not this table's" if owner is None else self._needing_entity(head, owner, now)
        if owner is None or reason:
            yield Problem("dropped", head.table_id, f"{reason}, nothing is purged")
            return
        size = bytes_of(self._world.storages.open(head.location))
        item = due("dropped", head.table_id, size, since=head.changed_at, now=now, grace=0)
        if item is not None:
            yield Batch((item,), partial(self._remove, head, owner))

    def _needing_entity(self, head: TableHead, owner: Location, now: int) -> str:
        """The entity that needs files of a dropped table; empty for none, and once the purge has
        begun, because no new one can be added then."""
        if head.reason == PURGING:
            return ""
        tree = self._trees.get(head.catalog.lower())
        if tree is None:
            try:
                tree = self._trees[head.catalog.lower()] = self._reader.current(head.catalog)
            except NotFound:
                tree = None  # nor are there snapshots of it
        holders = list(holders_of(head, tree, self._reader.store, owner, now))
        kinds = Counter(holder.kind for holder in holders)
        return f"{', '.join(f'{count} {kind}s' for kind, count in kinds.items())} need its files" if kinds else ""

    def _remove(self, head: TableHead, owner: Location) -> None:
        context = self._context
        world = self._world
        location = normalise(head.location)
        held = HeldLocation(location, head.table_id)
        begin = [mark_purging(head), begin_purge(world.space, held, owner.revision)]
        if isinstance(world.refs.transact(begin, world.ids.uuid()), SomeRejected):
            raise NotNow("it is not dropped any more, or a clone or a reader needs its files")
        context.faults("collect.marked")
        context.delete_all_files(world.storages.open(head.location), partial(self._require_owned, head))
        context.faults("collect.emptied")
        rows = world.refs.read_many(keys_above(world.space, location))
        end = [*release(world.space, location, head.table_id, rows), mark_purged(head)]
        if isinstance(world.refs.transact(end, world.ids.uuid()), SomeRejected):
            raise NotNow("the location's owner changed")
        context.faults("collect.released")

    def _require_owned(self, head: TableHead) -> None:
        if self._owner(head) is None:
            raise NotNow("the location is another table's by now")

    def _owner(self, head: TableHead) -> Location | None:
        """The owner row of the table's location, if it names this table."""
        row = self._world.refs.read(self._world.space.location(normalise(head.location)))
        return Location.from_row(row) if row is not None and row.get("table_id") == head.table_id else None


class DroppedCatalogScanner(Scanner):
    """Kind ``catalogs``.

    - Collects: commits, entities and segments of dropped catalogs, and lost parts, then the row
      (kind ``gone``) that
      says that they are there.
    - Unreachable since: the drop, which wrote that row. If there is a catalog of the name again it
      has the partition,
      and kind ``history`` decides; only the row goes.
    - Announced by: nothing; the name leads nowhere.
    - A crash leaves: the row, and fewer objs.
    """

    row_kind = "gone"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        grace = self._context.grace.history_ms + SETTLED_MS
        if now - row["created"] < grace:
            return
        if not self._again(row):
            present = self._world.refs.read(row["key"])  # after that: one that came and went since has left its own row
            if present is None or present["created"] != row["created"]:
                return
            yield from batches(self._due(row, now, grace), partial(self._remove, row))
        yield Batch((), partial(self._end, row))

    def _due(self, row: Row, now: int, grace: int) -> Iterator[Item | None]:
        world = self._world
        name = row["name"]
        yield from lost_parts(self._context, "catalogs", name, now)
        for prefix in _CATALOG_OBJS:
            for obj in world.objs.list(world.space.objs(name), prefix):
                since = max(obj.created_us // 1000, row["created"])
                yield due("catalogs", f"{name}/{obj.id}", len(obj.payload), since=since, now=now, grace=grace)

    def _again(self, row: Row) -> bool:
        """Whether there is a catalog of that name."""
        return self._world.refs.read(self._world.space.catalog(row["name"])) is not None

    def _remove(self, row: Row, items: tuple[Item, ...]) -> None:
        if self._again(row):
            raise NotNow("there is a catalog of that name again")
        self._context.delete_objs(row["name"], ids_in(items, row["name"]))

    def _end(self, row: Row) -> None:
        self._context.faults("collect.emptied")
        self._world.refs.write(forget_catalog(row))


class DeletedRefScanner(Scanner):
    """Kind ``refs``.

    - Collects: tombstones of deleted references.
    - Unreachable since: the deletion. Until the grace is over a tombstone answers repetitions of
      requests (I3).
      Afterwards a late swap or delete is answered that there is no such reference, and the name can
      be created anew. No
      token of before is valid then (``coordination/core/named_ref.py``): that does not depend on
      the grace period.
    - Announced by: nothing; one conditional write removes the row.
    - A crash leaves: the row or none.
    """

    row_kind = "ref"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        ref = NamedRef.from_row(row)
        if ref.state != DELETED:
            return
        size = sum(map(len, row["recent"]))
        item = due("refs", ref.name, size, since=ref.current.at, now=now, grace=self._context.grace.refs_ms)
        if item is not None:
            yield Batch((item,), partial(self._remove, row["key"], ref))

    def _remove(self, key: str, ref: NamedRef) -> None:
        if isinstance(self._world.refs.write(forget(key, ref)), Rejected):
            raise NotNow("it was created again")
        self._context.faults("collect.forgotten")
