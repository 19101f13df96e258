"""The HEADs of a catalog that gc leaves as they are (ADR 15).

    current    the present one
    edge       the one that was it when the kept history began
    others     recent ones that the row remembers, those that brought in what was older, those with a name

Whatever lies between edge and current leads to what one of these leads to, or to what was written since.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from turnstile.catalog.core.catalog_rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.history import AsOf, History
from turnstile.catalog.history.named import snapshots_of
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import NotFound


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
