"""Reading named snapshots: those that a tree names."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from turnstile.catalog.core.paths import fold
from turnstile.catalog.core.tree import CatalogCommit, Tree, ancestors
from turnstile.catalog.history.core import ALL, FIELD, AsOf, Snapshot, snapshot_path, told_of
from turnstile.catalog.paging import page_size
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.store import CatalogStore
from turnstile.store.core.errors import InvalidRequest, NotFound

__all__ = ["AsOf", "History", "Log", "Logged"]


def snapshots_of(tree: Tree, store: CatalogStore) -> Iterator[Snapshot]:
    """The snapshots that a tree names, in name order."""
    ids = [entry.obj for _, entry in tree.index.iterate(*ALL)]
    found = store.entities(tree.catalog, ids)
    return (entity for entity in (found[id] for id in ids) if isinstance(entity, Snapshot))


def snapshot_of(tree: Tree, store: CatalogStore, name: str, field: str = "snapshot") -> Snapshot:
    """The snapshot ``name``, which ``field`` of the request gave. Raises NotFound."""
    entry = tree.find(snapshot_path(name))
    entity = store.entity(tree.catalog, entry.obj) if entry is not None else None
    if not isinstance(entity, Snapshot):
        raise NotFound("snapshot", f"{tree.catalog}@{name}", field=field, remedy="list the catalog's snapshots")
    return entity


# -- history ----------------------------------------------------------------------------------------------------------
# A catalog's past: the log of its commits, and the tree as of any of them (TreeCat, "Versioning").
#
# Every HEAD that a catalog ever had is a complete tree for as long as gc leaves it (``Grace.history``); going back to one is
# a matter of finding its id. A thousand commits back that takes a dozen reads, without an index of its own.


class Logged(msgspec.Struct, frozen=True):
    """One commit of a catalog: the HEAD it was, its number, when (microseconds), and what it changed."""

    head: str
    seq: int
    at: int
    message: str


class Log(msgspec.Struct, frozen=True):
    """Some commits in order; ``next_seq`` where to go on, None at the end (or where gc has ended the past)."""

    commits: tuple[Logged, ...]
    next_seq: int | None


class Kept(msgspec.Struct, frozen=True):
    """A tree that gc leaves alone: since it is the present one, or has a name in the present one, which keeps it for as
    long as that is the HEAD; or, for a while, since it was ``replaced`` (ms) within the kept history."""

    tree: Tree
    replaced: int | None = None


_At = tuple[str, CatalogCommit]


class History:
    """Reads the past of catalogs."""

    def __init__(self, reader: CatalogReader) -> None:
        self._reader = reader

    def tree(self, catalog: str, as_of: AsOf) -> Tree:
        """The tree that the catalog had.

        Raises:
            InvalidRequest: not exactly one of HEAD, number, time and snapshot.
            NotFound: no such catalog; or no such commit or snapshot, never or no more.
        """
        return self._tree_at(self._reader.current(catalog), as_of)

    def log(
        self, catalog: str, *, start: int | None = None, oldest_first: bool = False, max_results: int | None = None
    ) -> Log:
        """Commits from number ``start`` on (the newest, or with ``oldest_first`` the oldest there still is).

        One read a commit, and a few to get to the first of them. Raises NotFound, also for a ``start`` that is gone.
        """
        now, size = self._reader.current(catalog), min(page_size(max_results), 100)
        newest = now.commit.seq
        if start is not None and not 0 <= start <= newest:
            raise _gone(now.catalog, f"number {start}", "start")
        with told_of("start"):
            if not oldest_first:
                commits = self._down(now, newest if start is None else start, size)
                return Log(tuple(commits), _below(commits))
            if start is None:
                start = self._oldest(now)
            last = min(newest, start + size - 1)
            commits = self._down(now, last, last - start + 1)[::-1]
            return Log(tuple(commits), last + 1 if last < newest else None)

    def kept(self, now: Tree, as_of: AsOf, since: int) -> Kept:
        """The tree that the catalog whose present one is ``now`` had, if gc leaves it alone: a snapshot's, or one that was
        not replaced before ``since`` (ms). gc may be about to take others, and may have taken a part of them.

        A HEAD that was found once takes no request again, as long as its tree is cached.

        Raises:
            InvalidRequest: not exactly one of HEAD, number, time and snapshot.
            NotFound: no such commit or snapshot, never or no more.
        """
        by_head = as_of.head is not None and as_of == AsOf(head=as_of.head)
        # what a snapshot names may be so old that nothing else says any more that it was a HEAD
        found = self._tree(now, as_of.head or "") if by_head else self._tree_at(now, as_of)
        if as_of.snapshot is not None or found.head == now.head:
            return Kept(found)
        old = found.commit.at < since * 1000
        if old and any(one.head == found.head for one in snapshots_of(now, self._reader.store)):
            return Kept(found)
        replaced = self._replaced(now, found)
        if replaced is None or replaced < since * 1000:
            raise _gone(now.catalog, found.head)
        return Kept(found, replaced // 1000)

    def _replaced(self, now: Tree, past: Tree) -> int | None:
        """When another HEAD followed on ``past`` (microseconds); None if it never was one, or its successor is gone."""
        if past.commit.seq >= now.commit.seq:
            return None
        try:
            _, successor = self._numbered(now, past.commit.seq + 1)
        except NotFound:
            return None
        # an attempt that was lost has a commit obj, too, but nothing follows on it
        return successor.at if successor.parents[0] == past.head else None

    def _tree_at(self, now: Tree, as_of: AsOf) -> Tree:
        given = [one for one in (as_of.head, as_of.seq, as_of.time, as_of.snapshot) if one is not None]
        if len(given) != 1:
            raise InvalidRequest(
                "name one of head, seq, time and snapshot", field="as_of", remedy="leave the others out"
            )
        if as_of.snapshot is not None:
            return self._tree(now, snapshot_of(now, self._reader.store, as_of.snapshot, FIELD).head)
        if as_of.head is not None:
            return self._by_head(now, as_of.head)
        if as_of.seq is not None:
            if not 0 <= as_of.seq <= now.commit.seq:
                raise _gone(now.catalog, f"number {as_of.seq}")
            return self._tree(now, self._numbered(now, as_of.seq)[0])
        micros = (as_of.time or 0) * 1000 + 999
        return self._tree(now, self._back(now, lambda commit: commit.at > micros)[0])

    def _by_head(self, now: Tree, head: str) -> Tree:
        found = self._tree(now, head)
        if found.head != now.head and self._replaced(now, found) is None:
            raise _gone(now.catalog, head)
        return found

    def _tree(self, now: Tree, head: str) -> Tree:
        if head == now.head:
            return now
        found = self._reader.store.find_tree(now.catalog, head)
        if found is None:
            raise _gone(now.catalog, head)
        return found

    def _numbered(self, now: Tree, seq: int) -> _At:
        """Commit ``seq``, which is not after ``now``."""
        return self._back(now, lambda commit: commit.seq > seq, seq)

    def _back(self, now: Tree, later: Callable[[CatalogCommit], bool], least: int = 0) -> _At:
        """The newest commit that is not ``later`` than what is looked for, which has number ``least`` at least."""
        at: _At = (now.head, now.commit)
        while later(at[1]):
            at = self._nearer(now.catalog, at, later, least)
        return at

    def _nearer(self, catalog: str, at: _At, later: Callable[[CatalogCommit], bool], least: int) -> _At:
        """The farthest ancestor named by ``at`` that is still later, or is the least; its direct parent if none is."""
        for seq, id in ancestors(at[1].seq, at[1].parents):
            found = self._passed(catalog, id) if seq >= least else None
            if found is not None and (seq in (at[1].seq - 1, least) or later(found)):
                return id, found
        raise _gone(catalog, f"anything before number {at[1].seq}")

    def _passed(self, catalog: str, id: str) -> CatalogCommit | None:
        """A commit on the way, without its index: remembered, since requests as of one moment all go the same way."""
        key = (fold(catalog), id)
        found = self._reader.passed.get(key)
        if found is None:
            found = self._reader.store.find_commit(catalog, id)
            if found is not None:
                self._reader.passed.put(key, msgspec.structs.replace(found, embedded=b"", segments=b""), 1024)
        return found

    def _down(self, now: Tree, seq: int, count: int) -> list[Logged]:
        """``count`` commits from number ``seq`` backwards, as far as there are any."""
        found: list[Logged] = []
        id, commit = self._numbered(now, seq)
        while True:
            found.append(Logged(id, commit.seq, commit.at, commit.message))
            if len(found) == count or not commit.parents:
                return found
            before = self._reader.store.find_commit(now.catalog, commit.parents[0])
            if before is None:
                return found
            id, commit = commit.parents[0], before

    def _oldest(self, now: Tree) -> int:
        """The number of the oldest commit that can still be reached."""
        commit = now.commit
        while True:
            for _, id in ancestors(commit.seq, commit.parents):
                found = self._reader.store.find_commit(now.catalog, id)
                if found is not None:
                    commit = found
                    break
            else:
                return commit.seq


def _below(commits: list[Logged]) -> int | None:
    return commits[-1].seq - 1 if commits[-1].seq > 0 else None


def _gone(catalog: str, what: str, field: str = FIELD) -> NotFound:
    return NotFound(
        "catalog commit",
        f"{catalog} at {what}",
        field=field,
        remedy="list the catalog's log; what is older than its history is kept is gone",
    )
