"""Objs of dropped catalogs: commits, entities and segments go after their grace, then the note that they are there.

What belongs to tables (metadata, inline content, identities) lies in the same partition and goes with the tables. A
catalog that was created again under the name has the partition now, and its own history decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.catalog_rows import forget_catalog
from turnstile.gc.core_gc_plan import SETTLED_MS, Item, due
from turnstile.gc.gc_files import NotNow
from turnstile.gc.gc_history import PREFIXES
from turnstile.gc.gc_kinds import Batch, Means, Trouble
from turnstile.gc.gc_parts import lost_parts
from turnstile.store.batches import batched
from turnstile.store.core.writes import Row

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
