"""Named snapshots: made, read, dropped. Reading as of one is ``moments``."""

from __future__ import annotations

from typing import Final

from turnstile.catalog.change import Edit, View
from turnstile.catalog.commit import Committer
from turnstile.catalog.core.entities import TABLE, encode
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import AsOf, Snapshot, snapshot_path
from turnstile.catalog.history.log import Kept, snapshot_of
from turnstile.catalog.history.moments import Moments
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import AlreadyExists, TooLarge
from turnstile.store.core.names import check_comment, check_identifier
from turnstile.store.ports import World

MAX_BYTES: Final = 262_144
"""Bytes of a snapshot with the versions of its tables: about ten thousand."""


class CatalogSnapshots:
    """Names HEADs, and takes names away. Many of them are listed by ``Listings``."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer, moments: Moments) -> None:
        self._world, self._reader, self._committer, self._moments = world, reader, committer, moments

    def create(self, catalog: str, name: str, *, of: AsOf | None = None, comment: str | None = None) -> Snapshot:
        """Name the present HEAD, or the one of a moment.

        The present HEAD's Delta tables are recorded with their versions, each as it is read, after the HEAD.

        Raises:
            InvalidRequest: not a name; not a moment.
            NotFound: no such catalog; no such moment, never or no more.
            AlreadyExists: the name is taken.
            TooLarge: the comment, or too many tables to record.
        """
        check_identifier(name, "name")
        check_comment(comment)
        versions: dict[str, int] = {}
        made: list[Snapshot] = []

        def change(view: View) -> Edit:
            if view.tree.find(snapshot_path(name)) is not None:
                raise AlreadyExists(f"snapshot '{name}' exists", field="name", remedy="choose another name, or drop it")
            named = Kept(view.tree) if of is None else self._moments.kept(view.tree, of)
            if of is None:
                self._read(view.tree, versions)
            head, commit = named.tree.head, named.tree.commit
            snapshot = Snapshot(name, head, commit.seq, commit.at, self._world.clock.now_ms(), comment, versions)
            made[:] = [_fitting(snapshot)]
            message, put = f"snapshot {name} of {head}", {snapshot_path(name): snapshot}
            return Edit(message, put=put, restores=True, replaced=named.replaced)

        self._committer.commit(catalog, change)
        return made[0]

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
