"""Named snapshots: made, listed, dropped. Reading one is ``history``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnstile.core.entities import TABLE, encode
from turnstile.core.errors import AlreadyExists, NotFound, TooLarge
from turnstile.core.names import check_identifier
from turnstile.core.snapshots import ALL, Snapshot, snapshot_path
from turnstile.core.tree import Tree
from turnstile.services.catalog.change import Edit, View
from turnstile.services.catalog.committer import Committer
from turnstile.services.catalog.reader import CatalogReader
from turnstile.services.catalog.store import CatalogStore
from turnstile.world import World

MAX_BYTES: Final = 262_144
"""Bytes of a snapshot with the versions of its tables: about ten thousand."""


def snapshots_of(tree: Tree, store: CatalogStore) -> Iterator[Snapshot]:
    """The snapshots that a tree names, in name order."""
    ids = [entry.obj for _, entry in tree.index.iterate(*ALL)]
    found = store.entities(tree.catalog, ids)
    return (entity for entity in (found[id] for id in ids) if isinstance(entity, Snapshot))


def snapshot_of(tree: Tree, store: CatalogStore, name: str) -> Snapshot:
    """The snapshot ``name``. Raises NotFound."""
    entry = tree.find(snapshot_path(name))
    entity = store.entity(tree.catalog, entry.obj) if entry is not None else None
    if not isinstance(entity, Snapshot):
        raise NotFound("snapshot", f"{tree.catalog}@{name}", field="snapshot", remedy="list the catalog's snapshots")
    return entity


def require_named(view: View, store: CatalogStore, name: str | None, head: str) -> None:
    """Whether a HEAD of the past that was found by a snapshot's ``name`` still has it in the tree that a change starts from.
    Without its name gc may be taking it, and the change was put off by others for who knows how long (I9). None: it was
    found by other means, which ``Moments`` has judged.

    Raises:
        NotFound: the name is gone, or leads elsewhere by now.
    """
    if name is not None and snapshot_of(view.tree, store, name).head != head:
        raise NotFound("snapshot", f"{view.tree.catalog}@{name}", field="snapshot", remedy="it was replaced; ask again")


class CatalogSnapshots:
    """Names HEADs, and takes names away."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer) -> None:
        self._world, self._reader, self._committer = world, reader, committer

    def create(
        self, catalog: str, name: str, *, past: Tree | None = None, by: str | None = None, comment: str | None = None
    ) -> Snapshot:
        """Name the present HEAD, or one of the past as ``Moments`` has it, ``by`` what snapshot it was found.

        The present HEAD's Delta tables are recorded with their versions, each as it is read, after the HEAD.

        Raises:
            InvalidRequest: not a name.
            NotFound: no such catalog; the snapshot ``by`` has lost its name meanwhile.
            AlreadyExists: the name is taken.
            TooLarge: too many tables to record.
        """
        check_identifier(name, "name")
        versions: dict[str, int] = {}
        made: list[Snapshot] = []

        def change(view: View) -> Edit:
            if view.tree.find(snapshot_path(name)) is not None:
                raise AlreadyExists(f"snapshot '{name}' exists", field="name", remedy="choose another name, or drop it")
            named = view.tree if past is None else past
            if past is None:
                self._read(view.tree, versions)
            require_named(view, self._reader.store, by, named.head)
            commit = named.commit
            snapshot = Snapshot(name, named.head, commit.seq, commit.at, self._world.clock.now_ms(), comment, versions)
            made[:] = [_fitting(snapshot)]
            return Edit(f"snapshot {name} of {named.head}", put={snapshot_path(name): snapshot}, restores=True)

        self._committer.commit(catalog, change)
        return made[0]

    def list(self, catalog: str) -> list[Snapshot]:
        """All of a catalog, by name. Raises NotFound."""
        return list(snapshots_of(self._reader.current(catalog), self._reader.store))

    def get(self, catalog: str, name: str) -> Snapshot:
        """One of them. Raises NotFound."""
        return snapshot_of(self._reader.current(catalog), self._reader.store, name)

    def drop(self, catalog: str, name: str) -> None:
        """Take the name away; what only it led to goes with gc. Raises NotFound."""

        def change(view: View) -> Edit:
            snapshot_of(view.tree, self._reader.store, name)
            return Edit(f"drop snapshot {name}", remove=(snapshot_path(name),))

        self._committer.commit(catalog, change)

    def _read(self, tree: Tree, versions: dict[str, int]) -> None:
        """Add the versions of the tree's tables that are not known yet; those without a HEAD have none."""
        ids = [
            entry.table_id for _, entry in tree.subtree(()) if entry.kind == TABLE and entry.table_id not in versions
        ]
        keys = {self._world.space.table(id): id for id in ids}
        for key, row in self._world.refs.read_many(list(keys)).items():
            versions[keys[key]] = row["latest"]


def _fitting(snapshot: Snapshot) -> Snapshot:
    size = len(encode(snapshot))
    if size > MAX_BYTES:
        raise TooLarge(
            f"snapshot '{snapshot.name}' of {len(snapshot.versions)} tables would take {size} bytes",
            field="name",
            remedy="name the HEAD by its time instead: versions are not recorded then",
            limit=MAX_BYTES,
            size=size,
        )
    return snapshot
