"""Objs of catalogs' trees that no HEAD of the last days leads to: old commits, what only they named, lost attempts.

    1  edge     the commit that was the HEAD when the history that is kept began: a few reads (``gc_trees``)
    2  mark     what HEAD, recent HEADs, edge, restoring commits and named snapshots lead to, in bounded memory
    3  sweep    the objs in id order, oldest commits first: old and not marked

Before anything is removed, ``gc_fence`` bars what was replaced before the edge from coming back.

Commits between edge and HEAD need no marking: what they lead to was there at the edge, or was written since then, or was
brought in by a restoring commit. What is written meanwhile is young, and a change starts from a HEAD, so nothing that is swept can be
reached again (I10). A page token pins a HEAD for an hour, a change computes from one for seconds: both lie this side of
the edge. Nothing is kept between runs: a run that dies has made the next one's work smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.catalog_rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.core_bloom import BloomFilter
from turnstile.gc.core_gc_plan import SETTLED_MS, Item, due
from turnstile.gc.gc_fence import Fence, require_same
from turnstile.gc.gc_kinds import Batch, Means, Trouble
from turnstile.gc.gc_parts import lost_parts
from turnstile.gc.gc_trees import KeptTrees
from turnstile.store.batches import batched
from turnstile.store.core.obj_types import prefixes
from turnstile.store.core.writes import Row

PREFIXES: Final = prefixes("history")
"""Commits, entities, segments, in this order: a commit goes before what it leads to, so that a HEAD of the past is whole or gone."""

_BATCH: Final = 200
_BITS: Final = 1 << 26  # at most, 8 MB: at three million objs one in ten thousand stays for another run
_BITS_EACH: Final = 20
_ENTRY_BYTES: Final = 20  # of a packed index, at least


class HistoryObjs:
    """Looks at one catalog at a time."""

    rows = "catalog"

    def __init__(self, means: Means) -> None:
        self._means = means
        self._reader = CatalogReader(means.world)

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        began = now - self._means.grace.history - SETTLED_MS
        head = CatalogHead.from_row(row)
        same = partial(require_same, self._means.world.refs, head)
        yield from self._batches(head, lost_parts(self._means, "history", head.name, now), same)
        kept = KeptTrees.of(self._reader, head, began)
        if kept is None:  # objs of a dropped catalog of the same name could be among a younger one's
            return
        marked = self._marked(kept, now)
        self._means.faults("collect.marked")
        fence = Fence(self._means.world.refs, kept)
        for prefix in PREFIXES:
            yield from self._batches(head, self._unmarked(kept, prefix, marked, now), fence.require)

    def _unmarked(self, kept: KeptTrees, prefix: str, marked: BloomFilter, now: int) -> Iterator[Item]:
        """Objs that are older than the kept history and that nothing in it leads to."""
        grace, head = self._means.grace.history, kept.head
        for obj in self._means.world.objs.list(self._means.world.space.objs(head.name), prefix):
            created = obj.created // 1000
            if obj.id in marked or created > now - grace - 2 * SETTLED_MS:
                continue
            since = max(created, kept.edge.commit.at // 1000)
            item = due("history", f"{head.name}/{obj.id}", len(obj.payload), since=since, now=now, grace=grace)
            if item is not None:
                yield item

    def _batches(self, head: CatalogHead, items: Iterable[Item], may_go_on: Callable[[], None]) -> Iterator[Batch]:
        for batch in batched(items, _BATCH):
            yield Batch(batch, partial(self._remove, head, batch, may_go_on))

    def _marked(self, kept: KeptTrees, now: int) -> BloomFilter:
        segments: set[str] = set()
        two = (kept.current, kept.edge)
        about = sum(segment.weight for tree in two for segment in tree.index.directory) // _ENTRY_BYTES
        about += (len(kept.current.index.embedded) + 1) * len(kept.head.recent)
        marked = BloomFilter(min(_BITS, about * _BITS_EACH), now)
        for tree in (*two, *kept.others()):
            self._mark(tree, marked, segments)
        return marked

    def _mark(self, tree: Tree, marked: BloomFilter, segments: set[str]) -> None:
        """Everything the tree leads to. Segments are shared by many trees; each is read once, as a whole."""
        marked.add(tree.head)
        for _, entry in tree.index.embedded.iterate():
            marked.add(entry.obj)
        for segment in tree.index.directory:
            if segment.obj and segment.obj not in segments:
                segments.add(segment.obj)
                marked.add(segment.obj)
                for _, entry in self._reader.store.segment(tree.catalog, segment.obj).iterate():
                    marked.add(entry.obj)

    def _remove(self, head: CatalogHead, items: tuple[Item, ...], may_go_on: Callable[[], None]) -> None:
        may_go_on()
        world = self._means.world
        for item in items:
            world.objs.delete(world.space.objs(head.name), item.id.removeprefix(f"{head.name}/"))
            self._means.faults("collect.deleted")
