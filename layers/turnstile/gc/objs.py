"""Parts of large objs that nothing names: of a write that died before the obj's own row, of a removal that died after it,
of a writer that was refused (``adapters/parts.py``).

Since when they are unreachable is not stored; it is at least since they were written, or since before a removal that was
due already. Parts of an obj that is there are never among them, however old it is (I10).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.rows import PURGED
from turnstile.delta.content import transaction_of, unpack
from turnstile.delta.core.head import TableHead
from turnstile.gc.core import SETTLED_MS, Item, Kind, due
from turnstile.gc.kinds import Batch, Means, NotNow, Trouble, left_tail
from turnstile.store.batches import batched
from turnstile.store.core.locations import LOG, published_path
from turnstile.store.core.obj_types import INLINE, METADATA
from turnstile.store.core.writes import Row
from turnstile.store.ports import Obj


def lost_parts(means: Means, kind: Kind, catalog: str, now: int) -> Iterator[Item]:
    """Lost parts among the objs of ``catalog`` that are as old as a HEAD of its past may be, as items of ``kind``."""
    world, grace = means.world, means.grace.history + SETTLED_MS
    for part in world.objs.lost_parts(world.space.objs(catalog), (now - grace) * 1000):
        since = part.created // 1000
        item = due(kind, f"{catalog}/{part.id}", len(part.payload), since=since, now=now, grace=grace)
        if item is not None:
            yield item


# -- gc objs ----------------------------------------------------------------------------------------------------------
# Inline content in objs that no HEAD refers to: of published commits, and of proposals that were refused.


_BATCH: Final = 200


class InlineObjs:
    """Looks at the objs first and at the HEAD afterwards: an obj is written before the row refers to it. One that is
    written, and not yet referred to, is younger than the grace period (``keys.inline_obj``)."""

    rows = "table"

    def __init__(self, means: Means) -> None:
        self._means = means

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        world, grace = self._means.world, self._means.grace.objs
        space = world.space.objs(row["catalog"])
        sizes: dict[str, tuple[int, int, str]] = {}
        for obj in world.objs.list(space, INLINE.id(f"{row['table_id']}/")):
            if now - obj.created // 1000 >= grace:
                sizes[obj.id] = (len(obj.payload), obj.created // 1000, _transaction(obj))
        if not sizes:
            return
        kept, carried = self._kept(row["key"])
        gone = {id: found for id, found in sizes.items() if id not in kept and found[2] not in carried}
        left = left_tail(world, row["catalog"], row["table_id"], sorted({txn for _, _, txn in gone.values() if txn}))
        items: list[Item] = []
        for id, (size, created, txn) in gone.items():
            item = due("objs", id, size, since=max(created, left.get(txn, 0)), now=now, grace=grace)
            if item is not None:
                items.append(item)
        for batch in batched(items, _BATCH):
            yield Batch(batch, partial(self._remove, row["key"], space, batch))

    def _kept(self, key: str) -> tuple[set[str], set[str]]:
        """objs that the HEAD refers to, and transactions it still carries; nothing once the table was purged."""
        row = self._means.world.refs.read(key)
        if row is None:
            raise NotNow("the HEAD is gone")
        head = TableHead.from_row(row)
        if head.reason == PURGED:
            return set(), set()
        return {entry.obj for entry in head.tail if entry.obj}, {entry.txn for entry in head.tail}

    def _remove(self, key: str, space: str, items: tuple[Item, ...]) -> None:
        kept, _ = self._kept(key)
        for item in items:
            if item.id not in kept:
                self._means.world.objs.delete(space, item.id)
                self._means.faults("collect.deleted")


def _transaction(obj: Obj) -> str:
    try:
        return transaction_of(unpack(obj.payload))
    except zlib.error:
        return ""


# -- gc metadata ------------------------------------------------------------------------------------------------------
# Metadata snapshots that a table has left behind: one for every version that changed its schema, protocol or properties.
#
# Only those of versions before the present snapshot's go. A writer may put a snapshot of the present version, or of a later
# one, that lies there already, and refer to it a moment later; one of an earlier version it can only refer to in vain (I2).
# They are unreachable since the present one's version was ratified: at the latest when it was published.


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
