"""Metadata snapshots that a table has left behind: one for every version that changed its schema, protocol or properties.

Only those of versions before the present snapshot's go. A writer may put a snapshot of the present version, or of a later
one, that lies there already, and refer to it a moment later; one of an earlier version it can only refer to in vain (I2).
They are unreachable since the present one's version was ratified: at the latest when it was published.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from turnstile.delta.core.head import TableHead
from turnstile.gc.core_gc_plan import Item, due
from turnstile.gc.gc_files import NotNow
from turnstile.gc.gc_kinds import Batch, Means, Trouble
from turnstile.store.batches import batched
from turnstile.store.core.obj_types import METADATA
from turnstile.store.core.paths import LOG, published_path
from turnstile.store.core.writes import Row

_BATCH: Final = 200


class OldMetadata:
    """Looks at one table at a time."""

    rows = "table"

    def __init__(self, means: Means) -> None:
        self._means = means

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        head, world, grace = TableHead.from_row(row), self._means.world, self._means.grace.objs
        space, prefix = world.space.objs(head.catalog), METADATA.id(f"{head.table_id}/")
        if not head.metadata.startswith(prefix):
            return
        old = {
            obj.id: (len(obj.payload), obj.created // 1000)
            for obj in world.objs.list(space, prefix)
            if _version(obj.id) < _version(head.metadata)
        }
        ratified = self._published(head) if old else None
        if ratified is None:
            return
        items = [
            item
            for id, (size, created) in old.items()
            if (item := due("metadata", id, size, since=max(created, ratified), now=now, grace=grace)) is not None
        ]
        for batch in batched(items, _BATCH):
            yield Batch(batch, partial(self._remove, head, space, batch))

    def _published(self, head: TableHead) -> int | None:
        """When the version of the present snapshot was in the log (ms), or the next one that there still is; None: it is
        not published yet, or its log is gone."""
        if head.floor < _version(head.metadata):
            return None
        storage, path = self._means.world.storages.open(head.location), published_path(_version(head.metadata))
        found = storage.stat(path) or next(iter(storage.list(LOG, after=path)), None)
        return found.modified if found is not None else None

    def _remove(self, head: TableHead, space: str, items: tuple[Item, ...]) -> None:
        row = self._means.world.refs.read(head.key)
        if row is None or _version(row["metadata"]) < _version(head.metadata):
            raise NotNow("the HEAD is not what it was")
        for item in items:
            self._means.world.objs.delete(space, item.id)
            self._means.faults("collect.deleted")


def _version(id: str) -> int:
    """The version in the id of a metadata snapshot (``keys.metadata_obj``)."""
    return int(id.rpartition("/")[2].partition(".")[0])
