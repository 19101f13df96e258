"""Whose a location is, where its owner has no HEAD and no mark of an import: an external table's, an Iceberg table's or
view's, or an import's that was begun before claims had a mark.

The first three come and go with their names, in one transaction with the owner's row. So the tree, read after that row,
tells them from the last (I9). Nothing leads from their uuids to their names: the whole catalog is looked through, for which
nobody waits but those who try to import what is a table already.
"""

from __future__ import annotations

from typing import Final

from turnstile.catalog.core.entities import TABLE
from turnstile.catalog.core.iceberg_entities import KINDS as ICEBERG
from turnstile.catalog.core.paths import dotted, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.store.batches import batched
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.writes import Row
from turnstile.store.world import World

_AT_ONCE: Final = 100
"""Entities of Iceberg that are read with one request; the index says the uuids of Delta's tables only."""


def registered(world: World, reader: CatalogReader, own: Row, location: str) -> StateConflict | None:
    """Why an import may not go on with the uuid in ``own``, the owner's row of ``location``; None if no table has it."""
    row = world.refs.read(reader.key(own["catalog"]))
    if row is None:
        return None
    tree = reader.unwatched(own["catalog"], row)
    key = _external(tree, own["table_id"])
    if key is not None:
        return _taken(own, location, "external table", dotted(tree.catalog, *path_of(key)), "its files stay")
    key = _iceberg(reader, tree, own["table_id"])
    if key is not None:
        full = dotted(tree.catalog, *path_of(key))
        return _taken(own, location, "Iceberg table or view", full, "its files stay without a purge")
    return None


def _external(tree: Tree, table_id: str) -> str | None:
    return next(
        (key for key, entry in tree.subtree(()) if entry.kind == TABLE and entry.table_id == table_id),
        None,
    )


def _iceberg(reader: CatalogReader, tree: Tree, table_id: str) -> str | None:
    found = ((key, entry.obj) for key, entry in tree.subtree(()) if entry.kind in ICEBERG)
    for some in batched(found, _AT_ONCE):
        entities = reader.store.entities(tree.catalog, [obj for _, obj in some])
        for key, obj in some:
            if getattr(entities[obj], "table_id", "") == table_id:
                return key
    return None


def _taken(own: Row, location: str, what: str, full: str, stays: str) -> StateConflict:
    return StateConflict(
        "LocationOwned",
        f"location {location} belongs to the {what} '{full}'",
        field="location",
        remedy=f"drop the {what} first ({stays}), then import",
        table_id=own["table_id"],
    )
