"""Creates, reads and drops named snapshots. Reading as of one is ``history.reader``."""

from __future__ import annotations

from typing import Final

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.branches import refuse_branch
from turnstile.catalog.core.entities import TABLE, encode
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf, NamedSnapshot, snapshot_path
from turnstile.catalog.history.log import KeptTree, find_named_snapshot, named_snapshots_of
from turnstile.catalog.history.reader import AsOfReader
from turnstile.catalog.reader import CatalogReader, View
from turnstile.delta.core.head import TableHead
from turnstile.delta.undecided import as_readers_see
from turnstile.store.core.errors import AlreadyExists, ErrorType, InvalidRequest, StateConflict, TooLarge
from turnstile.store.core.names import BRANCH_SIGN, check_comment, check_identifier
from turnstile.store.ports import World

MAX_BYTES: Final = 262_144
"""Bytes of a snapshot, with the versions of about ten thousand tables."""


class NamedSnapshots:
    """Names HEADs, and removes names. ``Listings`` lists them."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer, as_of_reader: AsOfReader) -> None:
        self._world = world
        self._reader = reader
        self._committer = committer
        self._as_of_reader = as_of_reader

    def create(self, catalog: str, name: str, *, of: AsOf | None = None, comment: str | None = None) -> NamedSnapshot:
        """Names the present HEAD, or the one as of a moment. Returns the snapshot. For the present
        HEAD the versions of Delta tables are recorded, each as it is read, after the HEAD; for one
        that only has a name, the versions recorded for the name.

        Raises:
            InvalidRequest, NotFound: as ``History.tree``; an invalid name.
            AlreadyExists: the name is taken.
            TooLarge: the comment, or too many tables to record.
        """
        check_identifier(name, "name")
        check_comment(comment)
        refuse_branch(catalog, "snapshots")
        if name.startswith(BRANCH_SIGN):
            remedy = f"begin it with another character than '{BRANCH_SIGN}'"
            raise InvalidRequest(f"name {name!r} is that of a branch's base", field="name", remedy=remedy)
        versions: dict[str, int] = {}
        snapshots: list[NamedSnapshot] = []

        def change(view: View) -> Edit:
            if view.tree.find(snapshot_path(name)) is not None:
                raise AlreadyExists(f"snapshot '{name}' exists", field="name", remedy="choose another name, or drop it")
            source = KeptTree(view.tree) if of is None else self._as_of_reader.kept_tree(view.tree, of)
            recorded = versions
            if of is None:
                self._read(view.tree, versions)
            else:
                recorded = self._recorded_versions(view.tree, source, of)
            head = source.tree.head
            commit = source.tree.commit
            snapshot = NamedSnapshot(name, head, commit.seq, commit.at, self._world.clock.now_ms(), comment, recorded)
            snapshots[:] = [_check_size(snapshot)]
            message = f"snapshot {name} of {head}"
            put = {snapshot_path(name): snapshot}
            return Edit(message, put=put, restores=True, replaced=source.replaced)

        self._committer.commit(catalog, change)
        return snapshots[0]

    def get(self, catalog: str, name: str) -> NamedSnapshot:
        return find_named_snapshot(self._reader.current(catalog), self._reader.store, name)

    def drop(self, catalog: str, name: str) -> None:
        """Removes the name; gc removes the objs that only it led to. Raises NotFound."""

        def change(view: View) -> Edit:
            snapshot = find_named_snapshot(view.tree, self._reader.store, name)
            if snapshot.branch:
                problem = f"snapshot '{name}' is the base of branch '{snapshot.branch}'"
                raise StateConflict(ErrorType.HAS_BRANCH, problem, field="snapshot", remedy="drop the branch")
            return Edit(f"drop snapshot {name}", remove=(snapshot_path(name),))

        self._committer.commit(catalog, change)

    def _recorded_versions(self, present: Tree, source: KeptTree, of: AsOf) -> dict[str, int]:
        """The versions of a HEAD that exists only because it has a name: the versions recorded for
        that name. None were recorded for another HEAD of the past."""
        store = self._reader.store
        if of.snapshot is not None:
            return find_named_snapshot(present, store, of.snapshot).versions
        if source.replaced is not None or source.tree.head == present.head:
            return {}
        named = (snapshot for snapshot in named_snapshots_of(present, store) if snapshot.head == source.tree.head)
        return next((snapshot.versions for snapshot in named), {})

    def _read(self, tree: Tree, versions: dict[str, int]) -> None:
        """Add the versions of the tree's tables that are not in ``versions`` yet; tables without a
        HEAD have none."""
        ids = (entry.table_id for _, entry in tree.subtree(()) if entry.kind == TABLE)
        keys = {self._world.space.table(id): id for id in ids if id not in versions}
        rows = self._world.refs.read_many(list(keys))
        for key, head in as_readers_see(
            self._world, {key: TableHead.from_row(row) for key, row in rows.items()}
        ).items():
            versions[keys[key]] = head.latest


def _check_size(snapshot: NamedSnapshot) -> NamedSnapshot:
    size = len(encode(snapshot))
    if size > MAX_BYTES:
        problem = f"snapshot '{snapshot.name}' of {len(snapshot.versions)} tables would take {size} bytes"
        remedy = "name the HEAD by its time instead: versions are not recorded then"
        raise TooLarge(problem, field="name", remedy=remedy, limit=MAX_BYTES, size=size)
    return snapshot
