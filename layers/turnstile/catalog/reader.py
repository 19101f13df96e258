"""Names to tables (design 2.4, "Load by name").

A mapping counts only while the catalog's HEAD is the one the index came from, and absence is never cached. Load by
name is therefore one batch read when warm:

    guess = reader.guess(catalog, namespace, table)                 no request
    rows  = refs.read_many([reader.key(catalog), HEAD of guess])    one request
    found = reader.confirm(catalog, rows.get(...), namespace, table)   none if the HEAD is cached, else one
    found.table_id == guess.table_id: the batch already holds the table's HEAD; otherwise read it

and cold at most: catalog row; commit obj and index segment in one request; table HEAD. (A catalog whose directory of
segments is too large for its row, beyond some hundred thousand tables, takes one request more.)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from turnstile.catalog.core.entities import Entity
from turnstile.catalog.core.index import segment_of, unpack_directory
from turnstile.catalog.core.paths import Path, fold, key_of
from turnstile.catalog.core.rows import CatalogHead, swap_head
from turnstile.catalog.core.tree import CatalogCommit, Tree, parents_after
from turnstile.catalog.history.core import AsOf
from turnstile.catalog.store import CatalogStore
from turnstile.store.cache import Lru
from turnstile.store.core.errors import NotFound, StateConflict
from turnstile.store.core.writes import Row
from turnstile.store.ports import Accepted, World


class Found(msgspec.Struct, frozen=True):
    """Where a table's name leads: its uuid and the entity's obj id, true at catalog HEAD ``head``."""

    catalog: str
    head: str
    table_id: str
    entity: str


class Watch(Protocol):
    """Judges every tree before it is used for a request (I12); ``services.access`` has the real ones."""

    def judge(self, tree: Tree) -> None:
        """Raise PermissionDenied when the request may not be answered from this tree."""

    def judge_missing(self, catalog: str) -> None:
        """Raise PermissionDenied when the request may not be told that there is no such catalog."""

    def visible(self, now: Tree, parent: Path, entities: Sequence[Entity]) -> list[bool]:
        """Which children of ``parent`` may be listed, by the rights in the tree as it is now."""


class Seen(msgspec.Struct, frozen=True):
    """A catalog's HEAD and when it was read (ms)."""

    head: str
    at: int


class CatalogReader:
    """Reads catalogs at their current HEAD. One per sandbox; safe for threads.

    Args:
        store: share one with the other catalog services of the sandbox, for its caches.
    """

    def __init__(self, world: World, store: CatalogStore | None = None) -> None:
        self._refs, self._space, self._clock = world.refs, world.space, world.clock
        self.store = store or CatalogStore(world)
        self.watch: Watch | None = None
        self._last: Lru[str, Seen] = Lru(1024 * 1024)
        self.passed: Lru[tuple[str, str], CatalogCommit] = Lru(4 * 1024 * 1024)  # by ``history``; without their index

    def watched(self, watch: Watch) -> CatalogReader:
        """The same reader for one request: nothing is answered from a tree that ``watch`` has not let pass."""
        mine = copy.copy(self)
        mine.watch = watch
        return mine

    def seen(self, catalog: str) -> Seen | None:
        """The HEAD that this sandbox read last, without a request."""
        return self._last.get(fold(catalog))

    def key(self, catalog: str) -> str:
        """refs key of the catalog's HEAD."""
        return self._space.catalog(catalog)

    def guess(self, catalog: str, namespace: Path, table: str) -> Found | None:
        """What the newest cached HEAD says, without a request. Only worth something once ``confirm`` agrees."""
        seen = self.seen(catalog)
        tree = self.store.cached_tree(catalog, seen.head) if seen else None
        entry = tree.remember((*namespace, table)) if tree else None
        if tree is None or entry is None or not entry.table_id:
            return None
        return Found(catalog, tree.head, entry.table_id, entry.obj)

    def confirm(self, catalog: str, row: Row | None, namespace: Path, table: str) -> Found:
        """What the catalog row just read says: at most one request (its commit obj and the one index segment that the
        name may be in, unless cached).

        Raises:
            NotFound: catalog, namespace or table, whichever is missing first.
        """
        return self.find(self.at(catalog, row, (*namespace, table)), namespace, table)

    def find(self, tree: Tree, namespace: Path, table: str) -> Found:
        """What a tree says; no request, if the tree was read for this name. Raises as ``confirm``."""
        entry = tree.table(namespace, table)
        return Found(tree.catalog, tree.head, entry.table_id, entry.obj)

    def resolve(self, catalog: str, namespace: Path, table: str) -> Found:
        """Where the name leads now: one request warm, two cold. Raises as ``confirm``."""
        return self.confirm(catalog, self._refs.read(self.key(catalog)), namespace, table)

    def current(self, catalog: str) -> Tree:
        """The tree at the catalog's current HEAD: one request warm, two cold. Raises NotFound."""
        return self.at(catalog, self._refs.read(self.key(catalog)))

    def at(self, catalog: str, row: Row | None, path: Path = ()) -> Tree:
        """The tree of a catalog row: at most one request, and what the watch needs. Raises NotFound when ``row`` is
        None, PermissionDenied before anything else.

        Args:
            path: a name that will be looked up next; what that takes comes along in the same request.
        """
        tree = self.unwatched(catalog, row, path)
        if self.watch is not None:
            self.watch.judge(tree)
        return tree

    def unwatched(self, catalog: str, row: Row | None, path: Path = ()) -> Tree:
        """As ``at``, for those who have the tree judged before they use it: side by side with other reads."""
        read = self._clock.now_ms()
        if row is None:
            if self.watch is not None:
                self.watch.judge_missing(catalog)
            raise NotFound("catalog", catalog, field="catalog", remedy="create it first, or check the name")
        head = CatalogHead.from_row(row)
        segment = segment_of(unpack_directory(head.spilled), key_of(path)) if path and head.spilled else ""
        tree = self.store.tree(head.name, head.head, segment)
        self._last.put(fold(catalog), Seen(head.head, read), 256)
        return tree

    def adopt(self, tree: Tree) -> None:
        """The tree that this sandbox just made the catalog's HEAD: the next guess comes from it."""
        self.store.adopt(tree)
        self._last.put(fold(tree.catalog), Seen(tree.head, self._clock.now_ms()), 256)


# -- lost head --------------------------------------------------------------------------------------------------------
# After a loss of objs (a replica that lags behind its refs) a catalog's HEAD may lead nowhere. Then the tree of a recent
# HEAD that is whole is taken as it is, and the log goes on from there.


SAID: Final = "reset to "
"""How the message of a reset's commit begins; the HEAD gone back to follows."""


class LostHead:
    """Looks past the caches: they may still have what is lost."""

    def __init__(self, world: World, reader: CatalogReader) -> None:
        self._world, self._reader = world, reader

    def stored(self, catalog: str, head: str) -> bool:
        """Whether the commit is in the table (a list is never cached). One request."""
        found = self._world.objs.newest(self._world.space.objs(catalog), head)
        return found is not None and found.id == head

    def go_on(self, at: CatalogHead, to: AsOf) -> tuple[str, str, int]:
        """Go on from a recent HEAD as if nothing had come after it; it, the new HEAD and its number.

        Raises:
            StateConflict: ``CannotReset``: not a recent HEAD, or not whole; ``ConcurrentChange``.
            OutcomeUnknown: it may have happened.
        """
        if to.head is None or to.head not in at.recent:
            raise StateConflict(
                "CannotReset",
                f"the HEAD of catalog '{at.name}' leads nowhere",
                field="to",
                remedy="name a recent HEAD that is whole: the catalog's row lists them",
                recent=list(at.recent),
            )
        store = self._reader.store
        past = store.tree(at.name, to.head)
        self._whole(past)
        id, now = store.new_commit_id(), self._world.clock.now_ms()
        commit = msgspec.structs.replace(
            past.commit,
            seq=past.commit.seq + 1,
            parents=parents_after(past.commit.seq, past.head, past.commit.parents),
            message=f"{SAID}{past.head}, what followed is lost",
            at=max(now * 1000, past.commit.at + 1),
            restored_by=past.head if past.commit.restores else past.commit.restored_by,
            restores=True,
        )
        store.write(at.name, id, commit, {})
        recent = at.recent[at.recent.index(past.head) :]
        onto = msgspec.structs.replace(at, seq=past.commit.seq, recent=recent)
        answer = self._world.refs.write(swap_head(onto, id, now, commit.segments))
        if isinstance(answer, Accepted) or (answer.row is not None and id in answer.row["recent"]):
            return past.head, id, commit.seq  # refused by its own swap, whose answer was lost, it is done as well
        raise StateConflict("ConcurrentChange", f"catalog '{at.name}' changed", remedy="send the request again")

    def _whole(self, tree: Tree) -> None:
        """Raises StateConflict when something that the tree leads to is missing (I9)."""
        space = self._world.space.objs(tree.catalog)
        wanted = {entry.obj for _, entry in tree.index.iterate()}
        wanted |= {segment.obj for segment in tree.index.directory if segment.obj}
        for prefix in {id.partition("/")[0] + "/" for id in wanted}:
            wanted.difference_update(obj.id for obj in self._world.objs.list(space, prefix))
        if wanted:
            raise StateConflict(
                "CannotReset",
                f"{len(wanted)} objs of HEAD {tree.head} are missing, as {min(wanted)}",
                field="to",
                remedy="name an older one of the recent HEADs",
            )
