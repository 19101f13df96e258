"""Objs of catalogs' trees that no HEAD of the kept history leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.core import SETTLED_MS, BloomFilter, Item, due
from turnstile.gc.scanner import Batch, GcContext, Problem, Scanner, batches, lost_parts
from turnstile.gc.trees import Fence, KeptTrees, require_same
from turnstile.store.core.rows import prefixes
from turnstile.store.core.writes import Row

_PREFIXES: Final = prefixes("history")
"""Commits, entities, segments, in this order: a commit goes before what it leads to, so that a HEAD of the past is whole
or gone."""

_BITS: Final = 1 << 26  # at most, 8 MB: at three million objs one in ten thousand stays for another run
_BITS_PER_OBJ: Final = 20
_ENTRY_BYTES: Final = 20  # of a packed index, at least


class HistoryScanner(Scanner):
    """Kind ``history``. A mark and a sweep (``KeptTrees``):

        1  edge     the commit that was the HEAD when the kept history began: a few reads
        2  mark     everything that a kept tree leads to, in bounded memory
        3  sweep    the objs in id order, oldest commits first: old and not marked

    - Collects: old commits, entities and segments that only these named, lost attempts, lost parts.
    - Unreachable since: they were replaced, at the latest at the edge; or since they were written.
    - Announced by: the ``Fence`` in the catalog's row, which keeps what was replaced before the edge from coming back.
    - A crash leaves: fewer objs. Nothing is kept between runs.

    Commits between edge and HEAD need no marks: what they lead to was there at the edge, was written since, or was
    brought in by a restoring commit, which is marked. What is written during the sweep is young, and a change starts from
    a HEAD, so nothing that is swept can become reachable again (I10). A page token pins a HEAD for an hour, a change
    computes from one for seconds: both lie on this side of the edge.
    """

    row_kind = "catalog"

    def __init__(self, context: GcContext) -> None:
        super().__init__(context)
        self._reader = CatalogReader(context.world)

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        began = now - self._context.grace.history_ms - SETTLED_MS
        head = CatalogHead.from_row(row)
        same = partial(require_same, self._context.world.refs, head)
        yield from self._batches(head, lost_parts(self._context, "history", head.name, now), same)
        kept = KeptTrees.of(self._reader, head, began)
        if kept is None:  # objs of a dropped catalog of the same name could be among a younger one's
            return
        marks = self._marks(kept, now)
        self._context.faults("collect.marked")
        fence = Fence(self._context.world.refs, kept)
        for prefix in _PREFIXES:
            yield from self._batches(head, self._unmarked(kept, prefix, marks, now), fence.require)

    def _unmarked(self, kept: KeptTrees, prefix: str, marks: BloomFilter, now: int) -> Iterator[Item]:
        """Objs that are older than the kept history and that nothing in it leads to."""
        grace, head = self._context.grace.history_ms, kept.head
        for obj in self._context.world.objs.list(self._context.world.space.objs(head.name), prefix):
            written = obj.created_us // 1000
            if obj.id in marks or written > now - grace - 2 * SETTLED_MS:
                continue
            since = max(written, kept.edge.commit.at // 1000)
            item = due("history", f"{head.name}/{obj.id}", len(obj.payload), since=since, now=now, grace=grace)
            if item is not None:
                yield item

    def _marks(self, kept: KeptTrees, now: int) -> BloomFilter:
        segments: set[str] = set()
        both = (kept.current, kept.edge)
        objs = sum(segment.weight for tree in both for segment in tree.index.directory) // _ENTRY_BYTES
        objs += (len(kept.current.index.embedded) + 1) * len(kept.head.recent)
        marks = BloomFilter(min(_BITS, objs * _BITS_PER_OBJ), now)
        for tree in (*both, *kept.others()):
            self._mark(tree, marks, segments)
        return marks

    def _mark(self, tree: Tree, marks: BloomFilter, segments: set[str]) -> None:
        """Mark everything the tree leads to. Segments are shared by many trees; each is read once, as a whole."""
        marks.add(tree.head)
        for _, entry in tree.index.embedded.iterate():
            marks.add(entry.obj)
        for segment in tree.index.directory:
            if segment.obj and segment.obj not in segments:
                segments.add(segment.obj)
                marks.add(segment.obj)
                for _, entry in self._reader.store.segment(tree.catalog, segment.obj).iterate():
                    marks.add(entry.obj)

    def _batches(self, head: CatalogHead, items: Iterable[Item], require: Callable[[], None]) -> Iterator[Batch]:
        return batches(items, partial(self._remove, head, require))

    def _remove(self, head: CatalogHead, require: Callable[[], None], items: tuple[Item, ...]) -> None:
        require()
        space = self._context.world.space.objs(head.name)
        self._context.delete_objs(space, (item.id.removeprefix(f"{head.name}/") for item in items))
