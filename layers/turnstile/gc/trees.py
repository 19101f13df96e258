"""The trees of a catalog that gc keeps, and the fence that keeps others from bringing back what it removes (ADR 15).

    current    the present one
    edge       the one that was current when the kept history began
    others     recent ones that the row remembers, those that brought in what was older, those with a name

Every tree between edge and current leads to what one of these leads to, or to what was written since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnstile.catalog.core.rows import CatalogHead, begin_sweep
from turnstile.catalog.core.tree import CatalogCommit, Tree
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.history.log import History, named_snapshots_of
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.scanner import NotNow
from turnstile.store.core.errors import NotFound
from turnstile.store.ports import Accepted, Refs


@dataclass(frozen=True, slots=True)
class KeptTrees:
    """The trees of one catalog, as of one read of its row; ``began`` is where the kept history begins (ms)."""

    head: CatalogHead
    current: Tree
    edge: Tree
    began: int
    reader: CatalogReader

    @classmethod
    def of(cls, reader: CatalogReader, head: CatalogHead, began: int) -> KeptTrees | None:
        """The trees that are kept when the history begins at ``began`` (ms). None when the catalog is younger, so that
        all of it is kept, or its history cannot be walked."""
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
            tree = self.reader.store.find_tree(self.head.name, id)
            if tree is not None:
                yield tree

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
        """HEADs that have a name, for as long as they have it."""
        for snapshot in named_snapshots_of(self.current, self.reader.store):
            yield self.reader.store.tree(self.current.catalog, snapshot.head)


def require_same(refs: Refs, head: CatalogHead) -> None:
    """Raises NotNow unless the catalog is still the one of ``head``. One read."""
    row = refs.read(head.key)
    if row is None or row["created"] != head.created:
        raise NotNow("the catalog was dropped meanwhile")


class Fence:
    """Stands between gc and what brings the past back: a reset, or a name for a HEAD of the past. One for each scan of a
    catalog; put up before the first batch is removed.

    A tree that was replaced within the kept history may be brought back without a name. The writer that does so has read
    the clock, and may then be held up for hours (a frozen sandbox) while gc removes the tree. So gc first writes into
    the catalog's row from when on it keeps everything. From then on a swap that brings something back is refused if that
    was replaced before (``catalog/core/rows.py``). What came back before the fence is in the row by then: gc's marks are
    too old in that case, and the next run makes better ones (I9, I10). They are too old as well when a change has landed
    that was in flight for longer than the kept history: what it wrote has no marks and looks old.
    """

    def __init__(self, refs: Refs, kept: KeptTrees) -> None:
        self._refs, self._kept = refs, kept
        self._up = False

    def require(self) -> None:
        """Put up the fence if it is not up yet, and check that the catalog is still the one that was marked. One write the
        first time, and reads if it changed meanwhile; later one read.

        Raises:
            NotNow: it was dropped, a later run has begun, or something of the past has come back since the marks were made.
        """
        head = self._kept.head
        if self._up:
            require_same(self._refs, head)
            return
        response = self._refs.write(begin_sweep(head.key, head.created, self._kept.began))
        if not isinstance(response, Accepted) or response.row is None:
            raise NotNow("the catalog was dropped meanwhile, or a later run has begun")
        present = CatalogHead.from_row(response.row)
        if present.head != head.head:
            self._require_new(present)
        self._up = True

    def _require_new(self, present: CatalogHead) -> None:
        """Raises NotNow unless all that has become reachable since the marks were made was written within the kept
        history: nothing came back, and the first commit since then, whose time is the earliest, was not frozen in flight
        for longer."""
        head, reader = self._kept.head, self._kept.reader
        commit = reader.store.find_commit(head.name, present.head)
        if commit is None or _restoring(present.head, commit) != _restoring(head.head, self._kept.current.commit):
            raise NotNow("something of the past has come back meanwhile")
        first = History(reader).tree(head.name, AsOf(seq=head.seq + 1))
        if first.commit.at <= self._kept.began * 1000:
            raise NotNow("a change of long ago has landed meanwhile")


def _restoring(id: str, commit: CatalogCommit) -> str:
    """The newest commit up to this one that brought something back."""
    return id if commit.restores else commit.restored_by
