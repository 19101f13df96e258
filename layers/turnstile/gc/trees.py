"""The trees of a catalog that gc keeps, and the fence that keeps others from bringing back removed
ones (ADR 15)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

from turnstile.catalog.core.rows import CatalogHead, begin_sweep, end_sweep, swept_ahead
from turnstile.catalog.core.tree import CatalogCommit, Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.log import History, named_snapshots_of
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.core import SETTLED_MS
from turnstile.gc.scanner import GcContext, NotNow
from turnstile.store.core.errors import NotFound
from turnstile.store.ports import Accepted, World


@dataclass(frozen=True, slots=True)
class KeptTrees:
    """The trees of one catalog, as of one read of its row: the present one, that of the ``edge``
    (current when the kept history ``began``, ms), and ``others``. Every tree between edge and
    current leads to objs that one of these leads to, or to objs that were written since.
    ``branches``: those of the catalog's branches, which share its objs; the edge of a branch that
    is younger than the kept history is its base.
    """

    head: CatalogHead
    current: Tree
    edge: Tree
    began: int
    reader: CatalogReader
    branches: tuple[KeptTrees, ...] = ()

    @classmethod
    def of(cls, context: GcContext, head: CatalogHead, now: int) -> KeptTrees | None:
        """The trees that are kept at ``now`` (ms). None when the catalog is younger than the kept
        history, so that all of it is kept, or its history cannot be walked."""
        began = now - context.grace.history_ms - SETTLED_MS
        if head.created > began:
            return None
        reader = CatalogReader(context.world)
        try:
            edge = History(reader).tree(head.name, AsOf(time=began))
        except NotFound:
            return None
        current = reader.store.tree(head.name, head.head)
        return cls(head, current, edge, began, reader, tuple(cls._of_branches(context, current, began, reader)))

    @classmethod
    def _of_branches(cls, context: GcContext, current: Tree, began: int, reader: CatalogReader) -> Iterator[KeptTrees]:
        bases = [snapshot for snapshot in named_snapshots_of(current, reader.store) if snapshot.branch]
        rows = context.world.refs.read_many([reader.key(base.branch) for base in bases])
        for base in bases:
            row = rows.get(reader.key(base.branch))
            if row is None:  # it was dropped meanwhile
                continue
            head = CatalogHead.from_row(row)
            younger = head.created > began
            edge = (
                reader.store.tree(head.name, base.head)
                if younger
                else History(reader).tree(head.name, AsOf(time=began))
            )
            yield cls(head, reader.store.tree(head.name, head.head), edge, began, reader)

    def others(self) -> Iterator[Tree]:
        """Recent HEADs, trees that brought in older objs, trees with a name; one may come several
        times."""
        return chain(self._recent(), self._restoring(), self._named_trees(), self._of_branch_trees())

    def _of_branch_trees(self) -> Iterator[Tree]:
        for branch in self.branches:
            yield from (branch.current, branch.edge, *branch.others())

    def _recent(self) -> Iterator[Tree]:
        """The HEADs that the row remembers, for recovery by hand."""
        trees = (self.reader.store.find_tree(self.head.name, id) for id in self.head.recent[1:])
        return (tree for tree in trees if tree is not None)

    def _restoring(self) -> Iterator[Tree]:
        """Commits since the edge that brought in objs which were not there before them."""
        id = self.current.commit.restored_by
        while id:
            tree = self.reader.store.find_tree(self.current.catalog, id)
            if tree is None or tree.commit.seq <= self.edge.commit.seq:
                return
            yield tree
            id = tree.commit.restored_by

    def _named_trees(self) -> Iterator[Tree]:
        for snapshot in named_snapshots_of(self.current, self.reader.store):
            yield self.reader.store.tree(self.current.catalog, snapshot.head)


DROPPED: Final = "the catalog was dropped meanwhile"


def require_same(world: World, head: CatalogHead) -> CatalogHead:
    """Returns the catalog's row as it is now. Raises NotNow unless it is still the catalog of
    ``head``. One read."""
    row = world.refs.read(head.key)
    if row is None or row["created"] != head.created:
        raise NotNow(DROPPED)
    return CatalogHead.from_row(row)


class Fence:
    """Stands between gc and changes that bring the past back: a reset, or a name for a HEAD of the
    past. One for each scan of a catalog.

    The writer that brings a tree back without a name has read the clock, and may then be held up
    for hours (a frozen sandbox) while gc removes the tree. So gc first writes into the catalog's
    row from when on it keeps everything; a swap that brings back earlier objs is refused from then
    on (``catalog/core/rows.py``). Objs that came back before the fence are in the row by then: gc's
    marks are too old, and the next run makes better ones (I9, I10). They are too old as well when a
    change has landed that was in flight for longer than the kept history: it has no marks and looks
    old.
    """

    def __init__(self, world: World, kept: KeptTrees) -> None:
        self._world = world
        self._kept = kept
        self._mark: int | None = None
        self._ended = ""  # why no batch of this scan may go any more
        self._of_branches = [Fence(world, branch) for branch in kept.branches]

    def require(self) -> None:
        """Put up the fence, or check that it stands. Raises NotNow if the catalog was dropped, a
        later run has begun, the mark of this run was taken back (its clock is ahead of another's),
        or something of the past has come back. One write the first time, later one read; and as
        many for each branch.
        """
        for branch in self._of_branches:
            branch.require()
        head = self._kept.head
        if self._ended:
            raise NotNow(self._ended)
        if self._mark is not None:
            if require_same(self._world, head).swept != self._mark:
                raise NotNow("another run has begun, or the mark of this one was taken back by a clock that is behind")
            return
        present = self._begin()
        if present.head != head.head:
            self._require_new(present)
        self._mark = present.swept

    def _begin(self) -> CatalogHead:
        """Writes the mark; returns the catalog's row with it. A mark that is later than the kept
        history begins, and was there when the catalog was read, was taken back (``end_sweep``), and
        keeps out this run's own mark.
        """
        head = self._kept.head
        refs = self._world.refs
        response = refs.write(begin_sweep(head.key, head.created, self._kept.began))
        if response.row is None or response.row["created"] != head.created:
            raise NotNow(DROPPED)
        present = CatalogHead.from_row(response.row)
        if isinstance(response, Accepted):
            return present
        now = self._world.clock.now_ms()
        if ahead_ms := swept_ahead(response.row, now):
            refs.write(end_sweep(present, now))
            self._ended = (
                f"the mark of an earlier run is {ahead_ms // 1000} s ahead of this clock, so that run had a clock that "
                f"was ahead: "
                "the mark was taken back, and the next run goes on"
            )
            raise NotNow(self._ended)
        if present.swept != head.swept:
            raise NotNow("a later run has begun")
        return present

    def _require_new(self, present: CatalogHead) -> None:
        """Raises NotNow unless every obj that has become reachable since the marks were made was
        written within the kept history: no obj came back, and the first commit since then, with the
        earliest time, was not frozen.
        """
        head = self._kept.head
        reader = self._kept.reader
        commit = reader.store.find_commit(head.name, present.head)
        if commit is None or _restoring(present.head, commit) != _restoring(head.head, self._kept.current.commit):
            raise NotNow("something of the past has come back meanwhile")
        first = History(reader).tree(head.name, AsOf(seq=head.seq + 1))
        if first.commit.at <= self._kept.began * 1000:
            raise NotNow("a change of long ago has landed meanwhile")


def _restoring(id: str, commit: CatalogCommit) -> str:
    """The newest commit up to this one that brought something back."""
    return id if commit.restores else commit.restored_by
