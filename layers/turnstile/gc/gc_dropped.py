"""Dropped tables past their grace period: announced in the HEAD, then the files, then the location's owner."""

from __future__ import annotations

from collections.abc import Iterator

from turnstile.catalog.core.clone_holds import Held, begin_purge
from turnstile.catalog.core.gc_rows import PURGED, PURGING, mark_purged, mark_purging
from turnstile.catalog.core.location_rows import Location, keys_above, release
from turnstile.delta.core.head import TableHead
from turnstile.gc.core_gc_plan import due
from turnstile.gc.gc_files import NotNow, empty, size_of
from turnstile.gc.gc_kinds import Batch, Means, Trouble
from turnstile.store.core.locations import normalise
from turnstile.store.core.writes import Row
from turnstile.store.ports import SomeRejected


class DroppedTables:
    """Purges only while the location's owner row names the purged uuid and no clone that needs the files, and never what was imported unless its id was
    given: those files were there before the catalog. The HEAD stays as a tombstone."""

    rows = "table"

    def __init__(self, means: Means) -> None:
        self._means = means

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        head = TableHead.from_row(row)
        if head.state != "dropped" or head.reason == PURGED:
            return
        if not head.managed and head.table_id not in self._means.imported:
            return
        if now - head.changed_at < self._means.grace.dropped and head.reason != PURGING:
            return
        owner = self._owner(head)
        if owner is None or owner.table_id != head.table_id:
            yield Trouble("dropped", head.table_id, f"{head.location} is not this table's, nothing is purged")
            return
        if owner.clones:
            yield Trouble("dropped", head.table_id, f"{len(owner.clones)} clones need its files, nothing is purged")
            return
        size = size_of(self._means.world.storages.open(head.location))
        item = due("dropped", head.table_id, size, since=head.changed_at, now=now, grace=0)
        if item is not None:
            yield Batch((item,), lambda: self._remove(head))

    def _remove(self, head: TableHead) -> None:
        means, world = self._means, self._means.world
        held = Held(normalise(head.location), head.table_id)
        begun = [mark_purging(head), begin_purge(world.space, held)]
        if isinstance(world.refs.transact(begun, world.ids.uuid()), SomeRejected):
            raise NotNow("it is not dropped any more, or a clone needs its files")
        means.faults("collect.marked")
        storage = world.storages.open(head.location)
        empty(storage, lambda: self._stop(head), workers=means.workers, faults=means.faults)
        means.faults("collect.emptied")
        location = normalise(head.location)
        rows = world.refs.read_many(keys_above(world.space, location))
        writes = [*release(world.space, location, head.table_id, rows), mark_purged(head)]
        if isinstance(world.refs.transact(writes, world.ids.uuid()), SomeRejected):
            raise NotNow("the location's owner changed")
        means.faults("collect.released")

    def _stop(self, head: TableHead) -> str | None:
        if self._means.over():
            return "the time is up"
        owner = self._owner(head)
        owned = owner is not None and owner.table_id == head.table_id
        return None if owned else "the location is another table's by now"

    def _owner(self, head: TableHead) -> Location | None:
        space = self._means.world.space
        row = self._means.world.refs.read(space.location(normalise(head.location)))
        return None if row is None else Location.from_row(row)
