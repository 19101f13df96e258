"""A catalog's past: the log of its commits, and the tree as of any of them (TreeCat, "Versioning").

Every HEAD that a catalog ever had is a complete tree for as long as gc leaves it
(``Grace.history``); going back to one is a matter of finding its id. A thousand commits back that
takes a dozen reads, without an index of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from turnstile.catalog.core.paths import fold
from turnstile.catalog.core.tree import CatalogCommit, Tree, ancestors
from turnstile.catalog.history.core import ALL, FIELD, AsOf, NamedSnapshot, report_field, snapshot_path
from turnstile.catalog.paging import page_size
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.store import CatalogStore
from turnstile.store.core.errors import InvalidRequest, NotFound
from turnstile.store.core.names import is_branch

_NO_SNAPSHOT: Final = "list them: turnstile catalog snapshots CATALOG; a time is time:2026-11-01T00:00:00Z"


def named_snapshots_of(tree: Tree, store: CatalogStore) -> Iterator[NamedSnapshot]:
    """Returns the snapshots that a tree names, in name order. Returns none for a branch: its tree
    has the catalog's."""
    if is_branch(tree.catalog):
        return iter(())
    ids = [entry.obj for _, entry in tree.index.iterate(*ALL)]
    entities = store.entities(tree.catalog, ids)
    return (entity for id in ids if isinstance(entity := entities[id], NamedSnapshot))


def find_named_snapshot(tree: Tree, store: CatalogStore, name: str, field: str = "snapshot") -> NamedSnapshot:
    """Returns the snapshot ``name``. Raises NotFound for ``field``, which gave the name."""
    entry = None if is_branch(tree.catalog) else tree.find(snapshot_path(name))
    entity = store.entity(tree.catalog, entry.obj) if entry is not None else None
    if not isinstance(entity, NamedSnapshot):
        raise NotFound("snapshot", f"{tree.catalog}@{name}", field=field, remedy=_NO_SNAPSHOT)
    return entity


class LogEntry(msgspec.Struct, frozen=True):
    """One commit of a catalog: its HEAD id, its number, its time (microseconds), and its
    changes."""

    head: str
    seq: int
    at: int
    message: str


class LogPage(msgspec.Struct, frozen=True):
    """Some commits in order; ``next_seq`` is where to go on, None at the end (or where gc has ended
    the past)."""

    commits: tuple[LogEntry, ...]
    next_seq: int | None


class KeptTree(msgspec.Struct, frozen=True):
    """A tree that gc leaves alone: it is the present one; or it has a name in the present one,
    which keeps it for as long as that is the HEAD; or, for a while, it was ``replaced`` (ms) within
    the kept history.
    """

    tree: Tree
    replaced: int | None = None


_Commit = tuple[str, CatalogCommit]
"""A commit with its id."""


class History:
    """Reads the past of catalogs."""

    def __init__(self, reader: CatalogReader) -> None:
        self._reader = reader

    def tree(self, catalog: str, as_of: AsOf) -> Tree:
        """Returns the tree that the catalog had. Raises InvalidRequest for an invalid moment;
        NotFound for a catalog, commit or snapshot that does not exist, never or no more."""
        return self._tree_at(self._reader.current(catalog), as_of)

    def log(
        self, catalog: str, *, start: int | None = None, oldest_first: bool = False, max_results: int | None = None
    ) -> LogPage:
        """Returns commits from number ``start`` on (by default the newest, or with ``oldest_first``
        the oldest that still exists): one read a commit, and a few to get to the first. Raises
        NotFound, also for a ``start`` that is gone.
        """
        now = self._reader.current(catalog)
        size = min(page_size(max_results), 100)
        newest = now.commit.seq
        if start is not None and not 0 <= start <= newest:
            raise _moment_gone(now.catalog, f"number {start}", "start")
        with report_field("start"):
            if not oldest_first:
                commits = self._down(now, newest if start is None else start, size)
                return LogPage(tuple(commits), commits[-1].seq - 1 if commits[-1].seq > 0 else None)
            if start is None:
                start = self._oldest(now)
            last = min(newest, start + size - 1)
            commits = self._down(now, last, last - start + 1)[::-1]
            return LogPage(tuple(commits), last + 1 if last < newest else None)

    def kept_tree(self, now: Tree, as_of: AsOf, since_ms: int) -> KeptTree:
        """Returns the tree as of a moment, of the catalog with the present tree ``now``, if gc
        leaves it alone: a named snapshot's, or one that was not replaced before ``since_ms``. gc
        may be about to take other trees, and may have taken a part of them. No request if the
        HEAD's tree is cached. Raises as ``tree``.
        """
        by_head = as_of.head is not None and as_of == AsOf(head=as_of.head)
        # the HEAD of a snapshot may be so old that nothing else can show any more that it was a
        # HEAD
        past = self._tree(now, as_of.head or "") if by_head else self._tree_at(now, as_of)
        if as_of.snapshot is not None or past.head == now.head:
            return KeptTree(past)
        old = past.commit.at < since_ms * 1000
        if old and any(snapshot.head == past.head for snapshot in named_snapshots_of(now, self._reader.store)):
            return KeptTree(past)
        replaced_us = self._replaced_at(now, past)
        if replaced_us is None or replaced_us < since_ms * 1000:
            raise _moment_gone(now.catalog, past.head)
        return KeptTree(past, replaced_us // 1000)

    def _replaced_at(self, now: Tree, past: Tree) -> int | None:
        """When another HEAD replaced ``past`` (microseconds); None if it never was a HEAD, or its
        successor is gone."""
        if past.commit.seq >= now.commit.seq:
            return None
        try:
            _, successor = self._commit_of(now, past.commit.seq + 1)
        except NotFound:
            return None
        # an attempt that lost its race has a commit obj, too, but no successor
        return successor.at if successor.parents[0] == past.head else None

    def _tree_at(self, now: Tree, as_of: AsOf) -> Tree:
        if sum(member is not None for member in msgspec.structs.astuple(as_of)) != 1:
            problem = "name one of head, seq, time and snapshot"
            raise InvalidRequest(problem, field=FIELD, remedy="leave the others out")
        if as_of.snapshot is not None:
            return self._tree(now, find_named_snapshot(now, self._reader.store, as_of.snapshot, FIELD).head)
        if as_of.head is not None:
            past = self._tree(now, as_of.head)
            if past.head != now.head and self._replaced_at(now, past) is None:
                raise _moment_gone(now.catalog, as_of.head)
            return past
        if as_of.seq is not None:
            if not 0 <= as_of.seq <= now.commit.seq:
                raise _moment_gone(now.catalog, f"number {as_of.seq}")
            return self._tree(now, self._commit_of(now, as_of.seq)[0])
        time_us = (as_of.time or 0) * 1000 + 999
        return self._tree(now, self._back(now, lambda commit: commit.at > time_us)[0])

    def _tree(self, now: Tree, head: str) -> Tree:
        past = now if head == now.head else self._reader.store.find_tree(now.catalog, head)
        if past is None:
            raise _moment_gone(now.catalog, head)
        return past

    def _commit_of(self, now: Tree, seq: int) -> _Commit:
        """Commit ``seq``, which is not after ``now``."""
        return self._back(now, lambda commit: commit.seq > seq, seq)

    def _back(self, now: Tree, later: Callable[[CatalogCommit], bool], least: int = 0) -> _Commit:
        """The newest commit for which ``later`` does not hold; its number is ``least`` or more."""
        at: _Commit = (now.head, now.commit)
        while later(at[1]):
            at = self._nearer(now.catalog, at, later, least)
        return at

    def _nearer(self, catalog: str, at: _Commit, later: Callable[[CatalogCommit], bool], least: int) -> _Commit:
        """The farthest ancestor named by ``at`` that is still later, or is the least; its direct
        parent if none is."""
        for seq, id in ancestors(at[1].seq, at[1].parents):
            commit = self._commit_on_way(catalog, id) if seq >= least else None
            if commit is not None and (seq in (at[1].seq - 1, least) or later(commit)):
                return id, commit
        raise _moment_gone(catalog, f"a moment before number {at[1].seq}")

    def _commit_on_way(self, catalog: str, id: str) -> CatalogCommit | None:
        """A commit on the way, without its index. It is cached, since requests as of one moment all
        go the same way."""
        key = (fold(catalog), id)
        commit = self._reader.caches.commits.get(key)
        if commit is None and (commit := self._reader.store.find_commit(catalog, id)) is not None:
            self._reader.caches.commits.put(key, msgspec.structs.replace(commit, embedded=b"", segments=b""), 1024)
        return commit

    def _down(self, now: Tree, seq: int, count: int) -> list[LogEntry]:
        """``count`` commits from number ``seq`` backwards, as far as there are any."""
        id, commit = self._commit_of(now, seq)
        entries = [LogEntry(id, commit.seq, commit.at, commit.message)]
        while len(entries) < count and commit.parents:
            id = commit.parents[0]
            parent = self._reader.store.find_commit(now.catalog, id)
            if parent is None:
                break
            commit = parent
            entries.append(LogEntry(id, commit.seq, commit.at, commit.message))
        return entries

    def _oldest(self, now: Tree) -> int:
        """The number of the oldest commit that can still be reached."""
        find = self._reader.store.find_commit
        commit = now.commit
        while True:
            reachable = (find(now.catalog, id) for _, id in ancestors(commit.seq, commit.parents))
            farthest = next(filter(None, reachable), None)
            if farthest is None:
                return commit.seq
            commit = farthest


def _moment_gone(catalog: str, what: str, field: str = FIELD) -> NotFound:
    remedy = "list the catalog's log; commits that are older than its history are gone"
    return NotFound("catalog commit", f"{catalog} at {what}", field=field, remedy=remedy)
