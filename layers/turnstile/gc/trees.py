"""The HEADs of a catalog that gc leaves as they are (ADR 15).

    current    the present one
    edge       the one that was it when the kept history began
    others     recent ones that the row remembers, those that brought in what was older, those with a name

Whatever lies between edge and current leads to what one of these leads to, or to what was written since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from turnstile.catalog.core.rows import CatalogHead, begin_sweep
from turnstile.catalog.core.tree import CatalogCommit, Tree
from turnstile.catalog.history.log import AsOf, History, snapshots_of
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.core import SETTLED_MS, BloomFilter, Item, due
from turnstile.gc.kinds import Batch, Means, NotNow, Trouble
from turnstile.gc.objs import lost_parts
from turnstile.store.batches import batched
from turnstile.store.core.errors import NotFound
from turnstile.store.core.obj_types import prefixes
from turnstile.store.core.writes import Row
from turnstile.store.ports import Accepted, Refs


@dataclass(frozen=True, slots=True)
class KeptTrees:
    """The trees of one catalog, as of one look at its row; ``began`` where the kept history begins (ms)."""

    head: CatalogHead
    current: Tree
    edge: Tree
    began: int
    reader: CatalogReader

    @classmethod
    def of(cls, reader: CatalogReader, head: CatalogHead, began: int) -> KeptTrees | None:
        """Those that are kept when the history begins at ``began`` (ms). None when the catalog is younger, so that all of
        it is kept, or its history cannot be walked."""
        if head.created > began:
            return None
        try:
            edge = History(reader).tree(head.name, AsOf(time=began))
        except NotFound:
            return None
        return cls(head, reader.store.tree(head.name, head.head), edge, began, reader)

    def others(self) -> Iterator[Tree]:
        """The others; one may come several times."""
        yield from self._recent()
        yield from self._restoring()
        yield from self._named()

    def _recent(self) -> Iterator[Tree]:
        """The HEADs that the row remembers, for recovery by hand."""
        for id in self.head.recent[1:]:
            found = self.reader.store.find_tree(self.head.name, id)
            if found is not None:
                yield found

    def _restoring(self) -> Iterator[Tree]:
        """Commits since the edge that brought in what was not there before them."""
        id = self.current.commit.restored_by
        while id:
            tree = self.reader.store.find_tree(self.current.catalog, id)
            if tree is None or tree.commit.seq <= self.edge.commit.seq:
                return
            yield tree
            id = tree.commit.restored_by

    def _named(self) -> Iterator[Tree]:
        """HEADs that have a name for as long as it stays."""
        for snapshot in snapshots_of(self.current, self.reader.store):
            yield self.reader.store.tree(self.current.catalog, snapshot.head)


# -- gc fence ---------------------------------------------------------------------------------------------------------
# Between gc and what brings the past back: a reset, or a name for a HEAD of the past.
#
# A tree that was replaced within the kept history may be brought back without a name. Whoever does so has looked at the
# clock, and may then be held up for hours (a frozen sandbox), while gc takes the tree. So gc writes into the catalog's row
# from when on it leaves things alone, before it removes anything; swaps that bring something back are refused from then on
# if that was replaced before (``core.catalog_rows``). What came back before that is in the row by now: then gc's marks are
# too old, and the next run makes better ones (I9, I10). So are they when a change has landed that was on its way for longer
# than the kept history: what it wrote has no marks and looks old.


def require_same(refs: Refs, head: CatalogHead) -> None:
    """Raise NotNow unless the catalog is still the one that was looked at. One read."""
    row = refs.read(head.key)
    if row is None or row["created"] != head.created:
        raise NotNow("the catalog was dropped meanwhile")


class Fence:
    """Of one look at one catalog; put up with the first batch that is removed."""

    def __init__(self, refs: Refs, kept: KeptTrees) -> None:
        self._refs, self._kept = refs, kept
        self._up = False

    def require(self) -> None:
        """Put up the fence if it is not yet, and see that the catalog is still the one that was marked. One write the
        first time, and a read if it changed meanwhile; then one read.

        Raises:
            NotNow: it was dropped, a later run has begun, or something of the past has come back since the marks were made.
        """
        head = self._kept.head
        if self._up:
            require_same(self._refs, head)
            return
        answer = self._refs.write(begin_sweep(head.key, head.created, self._kept.began))
        if not isinstance(answer, Accepted) or answer.row is None:
            raise NotNow("the catalog was dropped meanwhile, or a later run has begun")
        now = CatalogHead.from_row(answer.row)
        if now.head != head.head:
            self._require_new(now)
        self._up = True

    def _require_new(self, now: CatalogHead) -> None:
        """Raise NotNow unless all that has become reachable since the marks were made was written within the kept history:
        nothing came back, and the first commit since, whose time is the earliest, was not frozen on its way for longer."""
        head, reader = self._kept.head, self._kept.reader
        commit = reader.store.find_commit(head.name, now.head)
        if commit is None or _restoring(now.head, commit) != _restoring(head.head, self._kept.current.commit):
            raise NotNow("something of the past has come back meanwhile")
        first = History(reader).tree(head.name, AsOf(seq=head.seq + 1))
        if first.commit.at <= self._kept.began * 1000:
            raise NotNow("a change of long ago has landed meanwhile")


def _restoring(id: str, commit: CatalogCommit) -> str:
    """The newest commit up to this one that brought something back."""
    return id if commit.restores else commit.restored_by


# -- gc history -------------------------------------------------------------------------------------------------------
# Objs of catalogs' trees that no HEAD of the last days leads to: old commits, what only they named, lost attempts.
#
#     1  edge     the commit that was the HEAD when the history that is kept began: a few reads (``gc_trees``)
#     2  mark     what HEAD, recent HEADs, edge, restoring commits and named snapshots lead to, in bounded memory
#     3  sweep    the objs in id order, oldest commits first: old and not marked
#
# Before anything is removed, ``gc_fence`` bars what was replaced before the edge from coming back.
#
# Commits between edge and HEAD need no marking: what they lead to was there at the edge, or was written since then, or was
# brought in by a restoring commit. What is written meanwhile is young, and a change starts from a HEAD, so nothing that is swept can be
# reached again (I10). A page token pins a HEAD for an hour, a change computes from one for seconds: both lie this side of
# the edge. Nothing is kept between runs: a run that dies has made the next one's work smaller.


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
