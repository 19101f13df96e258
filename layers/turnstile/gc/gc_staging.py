"""Staging tables that nobody registered: announced in the row, then the files and what a registration that failed half-way
had written of its metadata, then the row."""

from __future__ import annotations

from collections.abc import Iterator

from turnstile.catalog.core.gc_rows import COLLECTING, erase_collected, mark_collecting
from turnstile.gc.core_gc_plan import due
from turnstile.gc.gc_files import NotNow, empty, size_of
from turnstile.gc.gc_kinds import Batch, Means, Trouble
from turnstile.store.core.obj_types import METADATA
from turnstile.store.core.writes import Row
from turnstile.store.ports import Rejected


class StagingTables:
    """Registration needs the row to be open and consumes it in its own transaction. So whichever comes first decides:
    a registration before the announcement leaves no row to announce on, one after it is refused."""

    rows = "staging"

    def __init__(self, means: Means) -> None:
        self._means = means

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        grace = self._means.grace.staging
        if now - row["created"] < grace and row["state"] != COLLECTING:
            return
        size = size_of(self._means.world.storages.open(row["location"]))
        item = due("staging", row["table_id"], size, since=row["created"], now=now, grace=0)
        if item is not None:
            yield Batch((item,), lambda: self._remove(row))

    def _remove(self, row: Row) -> None:
        means, world = self._means, self._means.world
        if isinstance(world.refs.write(mark_collecting(row)), Rejected):
            raise NotNow("it was registered meanwhile")
        means.faults("collect.marked")
        storage = world.storages.open(row["location"])
        empty(storage, lambda: self._stop(row), workers=means.workers, faults=means.faults)
        means.faults("collect.emptied")
        space = world.space.objs(row["catalog"])
        for obj in world.objs.list(space, METADATA.id(f"{row['table_id']}/")):
            world.objs.delete(space, obj.id)
            means.faults("collect.deleted")
        world.refs.write(erase_collected(row))

    def _stop(self, row: Row) -> str | None:
        """Why not to go on. No table is known under this uuid and nothing owns its location, or somebody else does."""
        if self._means.over():
            return "the time is up"
        world = self._means.world
        others = world.refs.read_many([world.space.location(row["location"]), world.space.table(row["table_id"])])
        return f"{', '.join(others)} exists" if others else None
