"""Between gc and what brings the past back: a reset, or a name for a HEAD of the past.

A tree that was replaced within the kept history may be brought back without a name. Whoever does so has looked at the
clock, and may then be held up for hours (a frozen sandbox), while gc takes the tree. So gc writes into the catalog's row
from when on it leaves things alone, before it removes anything; swaps that bring something back are refused from then on
if that was replaced before (``core.catalog_rows``). What came back before that is in the row by now: then gc's marks are
too old, and the next run makes better ones (I9, I10). So are they when a change has landed that was on its way for longer
than the kept history: what it wrote has no marks and looks old.
"""

from __future__ import annotations

from turnstile.catalog.core.catalog_rows import CatalogHead, begin_sweep
from turnstile.catalog.core.tree import CatalogCommit
from turnstile.catalog.history.history import AsOf, History
from turnstile.gc.gc_files import NotNow
from turnstile.gc.gc_trees import KeptTrees
from turnstile.store.ports import Accepted, Refs


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
