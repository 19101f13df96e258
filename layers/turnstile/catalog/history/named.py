"""Reading named snapshots: those that a tree names."""

from __future__ import annotations

from collections.abc import Iterator

from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core_snapshots import ALL, Snapshot, snapshot_path
from turnstile.catalog.store import CatalogStore
from turnstile.store.core.errors import NotFound


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
