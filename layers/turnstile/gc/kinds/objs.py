"""Objs of Delta tables that no HEAD refers to any more: inline content and earlier metadata."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import partial

from turnstile.delta.commits import transaction_of, unpack
from turnstile.delta.core.head import PURGED, TableHead
from turnstile.delta.core.undecided import undecided_of
from turnstile.gc.core import Item, due
from turnstile.gc.scanner import Batch, NotNow, Problem, Scanner, batches, left_tail
from turnstile.store.core.names import LOG, published_path
from turnstile.store.core.rows import INLINE, METADATA
from turnstile.store.core.writes import Row
from turnstile.store.ports import Obj


class InlineObjScanner(Scanner):
    """Kind ``objs``.

    - Collects: inline content in objs: of published commits, and of proposals that were refused.
    - Unreachable since: the commit left the tail, or the obj was written if that was later. Objs
      are listed before the
      HEAD is read, because an obj is written before the row refers to it; one that is written and
      not yet referred to
      is younger than the grace period (``keys.inline_obj``).
    - Announced by: nothing; the HEAD is read again.
    - A crash leaves: fewer objs.
    """

    row_kind = "table"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        world = self._world
        grace = self._context.grace.objs_ms
        catalog = row["catalog"]
        old: dict[str, tuple[int, int, str]] = {}  # obj id -> (bytes, written at in ms, transaction)
        for obj in world.objs.list(world.space.objs(catalog), INLINE.id(f"{row['table_id']}/")):
            if now - obj.created_us // 1000 >= grace:
                old[obj.id] = (len(obj.payload), obj.created_us // 1000, _transaction(obj))
        if not old:
            return
        kept, carried = self._objs_to_keep(row["key"])
        unreferenced = {id: entry for id, entry in old.items() if id not in kept and entry[2] not in carried}
        transactions = sorted({txn for _, _, txn in unreferenced.values() if txn})
        left = left_tail(world, catalog, row["table_id"], transactions)
        items = (
            due("objs", id, size, since=max(written, left.get(txn, 0)), now=now, grace=grace)
            for id, (size, written, txn) in unreferenced.items()
        )
        yield from batches(items, partial(self._remove, row["key"], catalog))

    def _objs_to_keep(self, key: str) -> tuple[set[str], set[str]]:
        """Objs that the HEAD refers to, and transactions it still carries; nothing once the table
        was purged."""
        row = self._world.refs.read(key)
        if row is None:
            raise NotNow("the HEAD is gone")
        head = TableHead.from_row(row)
        if head.reason == PURGED:
            return set(), set()
        undecided = undecided_of(head)
        entries = (*head.tail, *((undecided.entry,) if undecided is not None and undecided.entry is not None else ()))
        return {entry.obj for entry in entries if entry.obj}, {entry.txn for entry in entries}

    def _remove(self, key: str, catalog: str, items: tuple[Item, ...]) -> None:
        kept, _ = self._objs_to_keep(key)
        self._context.delete_objs(catalog, (item.id for item in items if item.id not in kept))


def _transaction(obj: Obj) -> str:
    try:
        return transaction_of(unpack(obj.payload))
    except zlib.error:
        return ""


class OldMetadataScanner(Scanner):
    """Kind ``metadata``.

    - Collects: table metadata of versions before the present metadata's. A writer may put metadata
      of the present or of
      a later version that lies there already, and refer to it a moment later; to metadata of an
      earlier version no
      write can refer successfully (I2).
    - Unreachable since: the version of the present metadata was ratified: at the latest when it was
      published.
    - Announced by: nothing; the HEAD is read again.
    - A crash leaves: fewer objs.
    """

    row_kind = "table"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        head = TableHead.from_row(row)
        objs = self._world.objs
        grace = self._context.grace.objs_ms
        space = self._world.space.objs(head.catalog)
        prefix = METADATA.id(f"{head.table_id}/")
        if not head.metadata.startswith(prefix):
            return
        old = {
            obj.id: (len(obj.payload), obj.created_us // 1000)
            for obj in objs.list(space, prefix)
            if _version(obj.id) < _version(head.metadata)
        }
        published = self._publish_time(head) if old else None
        if published is None:
            return
        items = (
            due("metadata", id, size, since=max(written, published), now=now, grace=grace)
            for id, (size, written) in old.items()
        )
        yield from batches(items, partial(self._remove, head))

    def _publish_time(self, head: TableHead) -> int | None:
        """The time (ms) of the log file of the present metadata's version, or of the next one that
        is still there. None if it is not published yet, or its log is gone."""
        if head.floor < _version(head.metadata):
            return None
        storage = self._world.storages.open(head.location)
        path = published_path(_version(head.metadata))
        file = storage.stat(path) or next(iter(storage.list(LOG, after=path)), None)
        return file.modified_ms if file is not None else None

    def _remove(self, head: TableHead, items: tuple[Item, ...]) -> None:
        row = self._world.refs.read(head.key)
        if row is None or _version(row["metadata"]) < _version(head.metadata):
            raise NotNow("the HEAD is not what it was")
        self._context.delete_objs(head.catalog, (item.id for item in items))


def _version(id: str) -> int:
    """The version in the id of a metadata obj (``keys.metadata_obj``)."""
    return int(id.rpartition("/")[2].partition(".")[0])
