"""Objs of catalogs' trees that no HEAD of the kept history leads to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from turnstile.catalog.branches import Branches
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.catalog.history.log import named_snapshots_of
from turnstile.catalog.history.reader import AsOfReader
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.core import SETTLED_MS, BloomFilter, Item, due
from turnstile.gc.scanner import Batch, NotNow, Problem, Scanner, batches, ids_in, lost_parts
from turnstile.gc.trees import Fence, KeptTrees, require_same
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.names import BRANCH_SIGN
from turnstile.store.core.rows import prefixes
from turnstile.store.core.writes import Row

_PREFIXES: Final = prefixes("history")
"""Commits, entities, segments, in this order: a commit goes before the objs that it leads to, so
that a HEAD of the past is whole or gone."""

ENDED_MS: Final = 24 * 3_600_000
"""For how long a branch is there after its end: for owners that come late, and for a clock that is
ahead."""

_BITS: Final = 1 << 26  # at most, 8 MB: at three million objs one in ten thousand stays for another run
_BITS_PER_OBJ: Final = 20
_ENTRY_BYTES: Final = 20  # of a packed index, at least


class HistoryScanner(Scanner):
    """Kind ``history``: marks everything that ``KeptTrees`` lead to, in bounded memory, and sweeps
    the objs that are old and not marked, in id order, oldest commits first.

    - Collects: old commits, entities and segments that only these named, lost attempts, lost parts;
      branches that ended.
    - Unreachable since: they were replaced, at the latest at the edge; or since they were written.
    - Announced by: the ``Fence`` in the catalog's row, which keeps objs that were replaced before
      the edge from coming back.
    - A crash leaves: fewer objs. Nothing is kept between runs.

    Commits between edge and HEAD need no marks: the objs that they lead to were there at the edge,
    were written since, or were brought in by a restoring commit, which is marked. Objs that are
    written during the sweep are young, and a change starts from a HEAD, so no swept obj can become
    reachable again (I10). A page token pins a HEAD for an hour, a change computes from one for
    seconds: both lie on this side of the edge.
    """

    row_kind = "catalog"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        head = CatalogHead.from_row(row)
        same = partial(require_same, self._world, head)
        yield from self._ended_branches(head, now)
        yield from batches(lost_parts(self._context, "history", head.name, now), partial(self._remove, head, same))
        kept = KeptTrees.of(self._context, head, now)
        if kept is None:  # objs of a dropped catalog of the same name could be among a younger one's
            return
        marks = self._marks(kept, now)
        self._context.faults("collect.marked")
        remove = partial(self._remove, head, Fence(self._world, kept).require)
        for prefix in _PREFIXES:
            yield from batches(self._unmark_items(kept, prefix, marks, now), remove)

    def _ended_branches(self, head: CatalogHead, now: int) -> Iterator[Batch]:
        """Branches that ended more than ``ENDED_MS`` ago; the items have no bytes."""
        reader = CatalogReader(self._world)
        for base in named_snapshots_of(reader.store.tree(head.name, head.head), reader.store):
            if base.branch:
                item = due("history", base.branch, 0, since=base.until, now=now, grace=ENDED_MS)
                yield from batches([item], partial(self._drop_branch, reader, head.name, base))

    def _drop_branch(self, reader: CatalogReader, catalog: str, base: NamedSnapshot, _items: tuple[Item, ...]) -> None:
        world = self._world
        committer = Committer(world, reader, pause=self._context.pause)
        present = AsOfReader(reader, world.clock, self._context.grace.history_ms)
        branches = Branches(world, reader, committer, present, committer)
        name = base.branch.partition(BRANCH_SIGN)[2]
        try:
            if branches.get(catalog, name).until == base.until:  # it was not renewed
                branches.drop(catalog, name)
        except StateConflict as error:
            raise NotNow(error.message) from error

    def _unmark_items(self, kept: KeptTrees, prefix: str, marks: BloomFilter, now: int) -> Iterator[Item | None]:
        grace = self._context.grace.history_ms
        head = kept.head
        for obj in self._world.objs.list(self._world.space.objs(head.name), prefix):
            written = obj.created_us // 1000
            if obj.id not in marks and written <= now - grace - 2 * SETTLED_MS:
                since = max(written, kept.edge.commit.at // 1000)
                yield due("history", f"{head.name}/{obj.id}", len(obj.payload), since=since, now=now, grace=grace)

    def _marks(self, kept: KeptTrees, now: int) -> BloomFilter:
        segments = set[str]()
        both = (kept.current, kept.edge)
        objs = sum(segment.weight for tree in both for segment in tree.index.directory) // _ENTRY_BYTES
        objs += (len(kept.current.index.embedded) + 1) * len(kept.head.recent)
        marks = BloomFilter(min(_BITS, objs * _BITS_PER_OBJ), now)
        for tree in (*both, *kept.others()):
            marks.add(tree.head)
            for _, entry in tree.index.embedded.iterate():
                marks.add(entry.obj)
            for segment in tree.index.directory:
                if segment.obj and segment.obj not in segments:  # shared by many trees; read once, as a whole
                    segments.add(segment.obj)
                    marks.add(segment.obj)
                    for _, entry in kept.reader.store.segment(tree.catalog, segment.obj).iterate():
                        marks.add(entry.obj)
        return marks

    def _remove(self, head: CatalogHead, require: Callable[[], object], items: tuple[Item, ...]) -> None:
        require()
        self._context.delete_objs(head.name, ids_in(items, head.name))
