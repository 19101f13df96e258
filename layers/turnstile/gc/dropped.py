"""Dropped tables past their grace period: announced in the HEAD, then the files, then the location's owner."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.location_rows import Held, Location, begin_purge, keys_above, release
from turnstile.catalog.core.rows import PURGED, PURGING, forget_catalog, mark_purged, mark_purging
from turnstile.delta.core.head import TableHead
from turnstile.gc.core import SETTLED_MS, Item, due
from turnstile.gc.kinds import Batch, Means, NotNow, Trouble, empty, size_of
from turnstile.gc.objs import lost_parts
from turnstile.gc.trees import PREFIXES
from turnstile.store.batches import batched
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


# -- gc catalogs ------------------------------------------------------------------------------------------------------
# Objs of dropped catalogs: commits, entities and segments go after their grace, then the note that they are there.
#
# What belongs to tables (metadata, inline content, identities) lies in the same partition and goes with the tables. A
# catalog that was created again under the name has the partition now, and its own history decides.


_BATCH: Final = 200


class GoneCatalogs:
    """Looks at one note at a time."""

    rows = "gone"

    def __init__(self, means: Means) -> None:
        self._means = means

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        grace = self._means.grace.history + SETTLED_MS
        if now - row["created"] < grace:
            return
        if not self._again(row):
            if not self._same(row):  # read after that: a catalog that came and went since has left a note of its own
                return
            for batch in batched(self._due(row, now, grace), _BATCH):
                yield Batch(batch, partial(self._remove, row, batch))
        yield Batch((), partial(self._end, row))

    def _due(self, row: Row, now: int, grace: int) -> Iterator[Item]:
        """Lost parts, then objs."""
        world, name = self._means.world, row["name"]
        yield from lost_parts(self._means, "catalogs", name, now)
        for prefix in PREFIXES:
            for obj in world.objs.list(world.space.objs(name), prefix):
                since = max(obj.created // 1000, row["created"])
                item = due("catalogs", f"{name}/{obj.id}", len(obj.payload), since=since, now=now, grace=grace)
                if item is not None:
                    yield item

    def _again(self, row: Row) -> bool:
        """Whether there is a catalog of that name."""
        return self._means.world.refs.read(self._means.world.space.catalog(row["name"])) is not None

    def _same(self, row: Row) -> bool:
        """Whether the note is still the one that was found."""
        found = self._means.world.refs.read(row["key"])
        return found is not None and found["created"] == row["created"]

    def _remove(self, row: Row, items: tuple[Item, ...]) -> None:
        world = self._means.world
        if self._again(row):
            raise NotNow("there is a catalog of that name again")
        for item in items:
            world.objs.delete(world.space.objs(row["name"]), item.id.removeprefix(f"{row['name']}/"))
            self._means.faults("collect.deleted")

    def _end(self, row: Row) -> None:
        self._means.faults("collect.emptied")
        self._means.world.refs.write(forget_catalog(row))
