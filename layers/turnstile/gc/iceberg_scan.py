"""Common parts of the kinds of garbage of Iceberg tables and views: their entities in a tree, with
the owners of their locations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from turnstile.catalog.core.entities import ICEBERG_TABLE, IcebergEntity, IcebergTable, IcebergView
from turnstile.catalog.core.paths import Path, path_of
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.scanner import GcContext, NotNow
from turnstile.gc.trees import Fence, KeptTrees
from turnstile.store.core.writes import Row
from turnstile.store.ports import BATCH_GET_MAX, in_batches


@dataclass
class IcebergScan:
    """The scan of one catalog at ``now`` (ms)."""

    context: GcContext
    kept: KeptTrees
    now: int
    fence: Fence

    def managed_entities(self, kinds: Collection[str]) -> Iterator[tuple[IcebergEntity, Row | None]]:
        """Yields the managed entities of these ``kinds`` in the present tree, each with the row of
        its location's owner, if there is one. One read for a hundred."""
        for entities in in_batches(entities_of(self.kept.reader, self.kept.current, kinds), BATCH_GET_MAX):
            managed = [entity for entity in entities if entity.managed]
            owners = self.context.world.refs.read_many([self._owner_key(entity) for entity in managed])
            for entity in managed:
                yield entity, owners.get(self._owner_key(entity))

    def owns(self, entity: IcebergEntity, owner: Row) -> bool:
        """Whether the row of a location's owner is that of ``entity``, in this catalog."""
        head = self.kept.head
        return owner.get("table_id") == entity.table_id and owner.get("catalog", "").lower() == head.name.lower()

    def require_same_life(self, entity: IcebergEntity, owner: Row) -> Row:
        """Puts up the fence, and returns the present row of the location's owner. Call it before
        files are removed. Raises NotNow unless the entity still owns its location, in the life that
        ``owner`` was read in.
        """
        self.fence.require()
        present = self.context.world.refs.read(self._owner_key(entity))
        if present is None or not self.owns(entity, present) or present["created"] != owner["created"]:
            raise NotNow(f"{entity.location} has another owner, or begun another life")
        return present

    def _owner_key(self, entity: IcebergEntity) -> str:
        return self.context.world.space.location(entity.location)


def entities_of(
    reader: CatalogReader, tree: Tree, kinds: Collection[str], *, unlike: Tree | None = None
) -> Iterator[IcebergEntity]:
    """Yields the Iceberg tables and views of ``tree`` of the given ``kinds``, without the ones that
    are the same in ``unlike``."""
    entries = (
        entry.obj
        for key, entry in tree.subtree(())
        if entry.kind in kinds and (unlike is None or unlike.index.get(key) != entry)
    )
    for objs in in_batches(entries, BATCH_GET_MAX):
        entities = reader.store.entities(tree.catalog, objs)
        yield from (entity for obj in objs if isinstance(entity := entities[obj], IcebergTable | IcebergView))


def managed_tables(reader: CatalogReader, head: CatalogHead) -> Iterator[tuple[Path, IcebergTable]]:
    """Yields the managed Iceberg tables of a catalog's present tree, with their full names as they
    are written. One read for a hundred."""
    tree = reader.store.tree(head.name, head.head)
    entries = ((key, entry.obj) for key, entry in tree.subtree(()) if entry.kind == ICEBERG_TABLE)
    for some in in_batches(entries, BATCH_GET_MAX):
        entities = reader.store.entities(head.name, [obj for _, obj in some])
        for key, obj in some:
            entity = entities[obj]
            if isinstance(entity, IcebergTable) and entity.managed:
                yield (*path_of(key)[:-1], entity.name), entity
