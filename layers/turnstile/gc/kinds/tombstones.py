"""HEADs of tables that are gone for good, once no late question is about them any more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from turnstile.catalog.core.location_rows import release
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.coordination.tasks import Tasks
from turnstile.delta.core.head import DROPPED, EXPORTED, PURGED, TableHead
from turnstile.delta.core.writes.state import forget_head
from turnstile.events.append import runs_key
from turnstile.events.core.rows import EventMark, forget_mark
from turnstile.gc.core import due
from turnstile.gc.scanner import Batch, GcContext, NotNow, Problem
from turnstile.maintenance.holders import snapshots_with
from turnstile.maintenance.work import forget_tasks
from turnstile.store.core.errors import NotFound
from turnstile.store.core.locations import is_of_branch
from turnstile.store.core.rows import FILE_INDEX, INLINE, METADATA
from turnstile.store.core.writes import Write
from turnstile.store.ports import Obj, SomeRejected


def is_over(head: TableHead) -> bool:
    """Whether nothing but the HEAD is left of a table: its files were removed, are another's, or
    were never its own. The files of an imported table that was dropped are there, and an import
    brings it back.
    """
    return head.state == DROPPED and (head.reason in (PURGED, EXPORTED) or bool(head.source))


class TombstoneCollector:
    """The part of kind ``dropped`` that ends a table.

    - Collects: the HEAD of a table that was purged or exported, or was a clone and was dropped; the
      objs that bear its uuid, its
      tasks, its marks in the log of events, and the owner of the location of a branch's table.
    - Unreachable since: the drop. ``Grace.tombstone_ms`` later no identity of its commits is
      remembered (I3), no HEAD of the kept
      history names it, and no lease, token, credential or write of that time is valid. Its uuid was
      random, or consumed with
      a staging row: none is used again. A clone that a named snapshot shows stays.
    - Announced by: nothing; one transaction removes the HEAD, as it was read, and its marks. Until
      the log of events has the
      drop, the HEAD stays (I13).
    - A crash leaves: the HEAD, and fewer objs.
    """

    def __init__(self, context: GcContext) -> None:
        self._context = context
        self._world = context.world
        self._reader = CatalogReader(context.world)
        self._trees = dict[str, Tree | None]()

    def scan(self, head: TableHead, now: int) -> Iterator[Batch | Problem]:
        """The items to remove at ``now`` (ms) with the HEAD of a table that ``is_over``."""
        since = head.changed_at
        grace = self._context.grace.tombstone_ms
        if now - since < grace or self._is_shown(head):
            return
        if not self._has_events(head):
            yield Problem("dropped", head.table_id, "the log of events does not have its drop yet, so its row stays")
            return
        size = sum(len(obj.payload) for obj in self._objs(head))
        item = due("dropped", head.table_id, size, since=since, now=now, grace=grace)
        if item is not None:
            yield Batch((item,), partial(self._remove, head))

    def _remove(self, head: TableHead) -> None:
        world = self._world
        faults = self._context.faults
        row = world.refs.read(head.key)
        if row is None or not is_over(again := TableHead.from_row(row)) or again.changed_at != head.changed_at:
            raise NotNow("it is not dropped any more, or was removed")
        self._context.delete_objs(head.catalog, [obj.id for obj in self._objs(head)])
        forget_tasks(Tasks(world), head.table_id)
        faults("collect.emptied")
        marks = [forget_mark(mark) for mark in self._marks(head)]
        writes = [forget_head(head), *marks, *self._location(head)]
        if isinstance(world.refs.transact(writes, world.ids.uuid()), SomeRejected):
            raise NotNow("it is not what it was")
        faults("collect.forgotten")

    def _location(self, head: TableHead) -> list[Write]:
        """The write that ends the location of a table that a promotion handed over."""
        if not is_of_branch(head.location):
            return []
        space = self._world.space
        rows = self._world.refs.read_many([space.location(head.location)])
        return release(space, head.location, head.table_id, rows) if rows else []

    def _is_shown(self, head: TableHead) -> bool:
        """Whether a reset to a named snapshot would bring the table back."""
        if not head.source:
            return False
        name = head.catalog.lower()
        if name not in self._trees:
            try:
                self._trees[name] = self._reader.current(head.catalog)
            except NotFound:
                self._trees[name] = None  # nor are there snapshots of it
        tree = self._trees[name]
        return tree is not None and any(True for _ in snapshots_with(head, tree, self._reader.store))

    def _has_events(self, head: TableHead) -> bool:
        """Whether the drop has its event; also where no events are written of this catalog."""
        key = self._world.space.event_mark(head.key)
        mark = next((mark for mark in self._marks(head) if mark.key == key), None)
        if mark is not None:
            return mark.state == DROPPED
        return self._world.refs.read(self._world.space.event_log(head.catalog)) is None

    def _marks(self, head: TableHead) -> list[EventMark]:
        """The rows of the log of events for the table, and for its runs of maintenance."""
        space = self._world.space
        keys = [space.event_mark(key) for key in (head.key, runs_key(self._world, head.table_id))]
        return [EventMark.from_row(row) for row in self._world.refs.read_many(keys).values()]

    def _objs(self, head: TableHead) -> Iterator[Obj]:
        space = self._world.space.objs(head.catalog)
        for type in (INLINE, FILE_INDEX, METADATA):
            yield from self._world.objs.list(space, type.id(f"{head.table_id}/"))
