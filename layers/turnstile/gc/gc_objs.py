"""Inline content in objs that no HEAD refers to: of published commits, and of proposals that were refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.gc_rows import PURGED
from turnstile.delta.content import transaction_of
from turnstile.delta.core.head import TableHead
from turnstile.delta.packing import unpack
from turnstile.gc.core_gc_plan import Item, due
from turnstile.gc.gc_files import NotNow
from turnstile.gc.gc_kinds import Batch, Means, Trouble, left_tail
from turnstile.store.batches import batched
from turnstile.store.core.obj_types import INLINE
from turnstile.store.core.writes import Row
from turnstile.store.ports import Obj

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
