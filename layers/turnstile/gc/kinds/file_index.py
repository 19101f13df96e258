"""Roots and leaves of file indexes that no root needs any more."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from turnstile.delta.core.head import DROPPED, PINNED, TableHead, gone_for_good
from turnstile.gc.core import Item, due
from turnstile.gc.scanner import FILES_MAX, Batch, NotNow, Problem, Scanner, batches
from turnstile.planning.core.roots import FOLDER, Root, unpack_root
from turnstile.store.core.rows import FILE_INDEX
from turnstile.store.core.writes import Row
from turnstile.store.ports import Obj


class FileIndexScanner(Scanner):
    """Kind ``file-index``.

    - Collects: roots that the newest one does not keep for questions about the past, all roots of a
      table that is gone; leaves that no root
      names: of roots that went, and of workers that died. Leaves of a table that is gone go with
          its files.
    - Unreachable since: a root since the next one was written; a leaf since it was written, as
      nothing more exact is known. A worker has fewer
      minutes from a leaf to its root than the grace has hours.
    - Announced by: nothing. A planner that meets a missing leaf reads the log: an index decides
      nothing (I16).
    - A crash leaves: fewer roots; their leaves are found by the next run.
    """

    row_kind = "table"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        head = TableHead.from_row(row)
        grace = self._context.grace.objs_ms
        if head.state == PINNED:  # a clone has its source's index
            return
        roots = self._roots(head)
        kept = set[str]() if gone_for_good(head) else _roots_to_keep(roots)
        ended = _end_times(roots, now if gone_for_good(head) else None)
        items = (
            due("file-index", obj.id, len(obj.payload), since=ended[obj.id], now=now, grace=grace)
            for obj, _ in roots
            if obj.id not in kept
        )
        yield from batches(items, partial(self._remove_roots, head))
        if head.state != DROPPED:
            yield from batches(self._leaves(head, roots, now), partial(self._remove_leaves, head))

    def _roots(self, head: TableHead) -> list[tuple[Obj, Root | None]]:
        """The roots of a table, ascending."""
        space = self._world.space.objs(head.catalog)
        objs = self._world.objs.list(space, FILE_INDEX.id(f"{head.table_id}/"))
        return [(obj, unpack_root(obj.payload)) for obj in objs]

    def _leaves(self, head: TableHead, roots: list[tuple[Obj, Root | None]], now: int) -> Iterator[Item | None]:
        """Leaves that no root names. A root of a format that is not known here may name any: then
        none goes."""
        if any(root is None for _, root in roots):
            return
        names = {name for _, root in roots if root is not None for name in root.names}
        storage = self._world.storages.open(head.location)
        for count, stat in enumerate(storage.list(FOLDER)):
            if count == FILES_MAX:
                return
            if stat.path.removeprefix(FOLDER) not in names:
                grace = self._context.grace.objs_ms
                yield due("file-index", stat.path, stat.size, since=stat.modified_ms, now=now, grace=grace)

    def _remove_roots(self, head: TableHead, items: tuple[Item, ...]) -> None:
        kept = set[str]() if gone_for_good(self._again(head)) else _roots_to_keep(self._roots(head))
        self._context.delete_objs(head.catalog, (item.id for item in items if item.id not in kept))

    def _remove_leaves(self, head: TableHead, items: tuple[Item, ...]) -> None:
        if self._again(head).state == DROPPED:
            raise NotNow("the table was dropped")
        roots = self._roots(head)
        if any(root is None for _, root in roots):
            raise NotNow("a root is not known here")
        names = {name for _, root in roots if root is not None for name in root.names}
        paths = [item.id for item in items if item.id.removeprefix(FOLDER) not in names]
        self._context.delete_files(self._world.storages.open(head.location), paths)

    def _again(self, head: TableHead) -> TableHead:
        row = self._world.refs.read(head.key)
        if row is None:
            raise NotNow("the HEAD is gone")
        return TableHead.from_row(row)


def _roots_to_keep(roots: list[tuple[Obj, Root | None]]) -> set[str]:
    """The newest root, and the roots that it keeps."""
    if not roots:
        return set()
    newest, root = roots[-1]
    return {newest.id} | (
        {earlier.id for earlier in root.earlier} if root is not None else {obj.id for obj, _ in roots}
    )


def _end_times(roots: list[tuple[Obj, Root | None]], gone_ms: int | None) -> dict[str, int]:
    """By root when the next one was written, in ms; of a table that is gone, when it was written
    itself."""
    times = [obj.created_us // 1000 for obj, _ in roots]
    following = times if gone_ms is not None else [*times[1:], *times[-1:]]
    return {obj.id: max(own, after) for (obj, _), own, after in zip(roots, times, following, strict=True)}
