"""Staged files at or below the floor: losers, and the published winners (design 2.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.rows import COLLECTING, erase_collected, mark_collecting
from turnstile.delta.core.head import TableHead, positioned
from turnstile.gc.core import Item, Staged, due, staged_candidates, staged_since, version_of
from turnstile.gc.kinds import Batch, Means, NotNow, Trouble, delete_all, empty, left_tail, size_of
from turnstile.store.batches import batched
from turnstile.store.core.locations import LOG, STAGED, published_path, staged_path
from turnstile.store.core.obj_types import METADATA
from turnstile.store.core.writes import Row
from turnstile.store.ports import LogStorage, Rejected

_PUBLISHED: Final = re.compile(r"(\d{20})\.json")
_BATCH: Final = 200
_NOT_NOW: Final = ("dropped", "recovering", "pinned")


class StagedFiles:
    """Looks at every table that is in use. A dropped table's files go with the table, a restored one's floor may be
    older than its log; and the files where a clone is are its source's."""

    rows = "table"

    def __init__(self, means: Means) -> None:
        self._means = means

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        head = TableHead.from_row(row)
        if head.state in _NOT_NOW:
            return
        storage = self._means.world.storages.open(head.location)
        files = (Staged(stat.path.removeprefix(STAGED), stat.size, stat.modified) for stat in storage.list(STAGED))
        carried = frozenset(place.name for place in positioned(head))
        candidates = staged_candidates(files, head.floor, carried)
        if not candidates:
            return
        published = _published(storage, min(version_of(file) or 0 for file in candidates))
        items, unclear = self._judge(head, candidates, published, now)
        if unclear:
            yield Trouble(
                "staged", head.table_id, f"cannot say when these were decided, kept: {', '.join(unclear[:3])}"
            )
        for batch in batched(items, _BATCH):
            yield Batch(batch, partial(self._remove, head, storage, batch))

    def _judge(
        self, head: TableHead, candidates: list[Staged], published: dict[int, int], now: int
    ) -> tuple[list[Item], list[str]]:
        grace = self._means.grace.staged
        old, unclear = [], []
        for file in candidates:
            since = staged_since(file, published, None)
            if since is None:
                unclear.append(file.name)
            elif now - since >= grace:
                old.append(file)
        left = left_tail(self._means.world, head.catalog, head.table_id, [file.name for file in old])
        items = []
        for file in old:
            since = staged_since(file, published, left.get(file.name))
            item = due("staged", f"{head.table_id}/{file.name}", file.size, since=since or now, now=now, grace=grace)
            if item is not None:
                items.append(item)
        return items, unclear

    def _remove(self, head: TableHead, storage: LogStorage, items: tuple[Item, ...]) -> None:
        world = self._means.world
        row = world.refs.read(head.key)
        again = TableHead.from_row(row) if row is not None else None
        if again is None or again.state in _NOT_NOW or again.floor < head.floor:
            raise NotNow("the table is dropped, being recovered, or behind where it was")
        names = [item.id.removeprefix(f"{head.table_id}/") for item in items]
        means = self._means
        delete_all(storage, map(staged_path, names), workers=means.workers, faults=means.faults)


def _published(storage: LogStorage, first: int) -> dict[int, int]:
    """version -> modification time (ms) of the log's files from ``first`` on."""
    found = {}
    for stat in storage.list(LOG, after=published_path(first - 1) if first > 0 else ""):
        match = _PUBLISHED.fullmatch(stat.path.removeprefix(LOG))
        if match:
            found[int(match[1])] = stat.modified
    return found


# -- gc staging -------------------------------------------------------------------------------------------------------
# Staging tables that nobody registered: announced in the row, then the files and what a registration that failed half-way
# had written of its metadata, then the row.


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
