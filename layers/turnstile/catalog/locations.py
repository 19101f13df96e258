"""The lake root as a zone: everything below it is Turnstile's to give out, nobody else may own anything there (I10)."""

from __future__ import annotations

from turnstile.catalog.core.entities import ICEBERG_KINDS as ICEBERG
from turnstile.catalog.core.entities import TABLE
from turnstile.catalog.core.location_rows import Location, claim, conflict, keys_above
from turnstile.catalog.core.paths import dotted, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.store.batches import batched
from turnstile.store.core.errors import StateConflict
from turnstile.store.core.locations import normalise
from turnstile.store.core.writes import Row
from turnstile.store.ports import BATCH_GET_MAX, AllAccepted, World

_ATTEMPTS = 8


class Zones:
    """Claims lake roots. Zones are never given up, so what was seen once stays true."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: set[str] = set()

    def ensure(self, root: str) -> str:
        """The normalised ``root``, claimed: no request once this sandbox knows, else one read, and one transaction
        the first time ever.

        Raises:
            InvalidRequest: not a location.
            StateConflict: ``LocationOwned``: an imported table or another lake root lies above or below.
        """
        root = normalise(root)
        if root in self._seen:
            return root
        for _ in range(_ATTEMPTS):
            rows = self._world.refs.read_many(keys_above(self._world.space, root))
            own = rows.get(self._world.space.location(root))
            if own is None or not Location.from_row(own).zone:
                found = conflict(self._world.space, root, rows)
                if found is not None:
                    raise found
                writes = claim(self._world.space, root, rows, table_id="", catalog="", now=self._world.clock.now_ms())
                if not isinstance(self._world.refs.transact(writes, self._world.ids.uuid()), AllAccepted):
                    continue  # somebody claimed something nearby, perhaps this very zone: look again
            self._seen.add(root)
            return root
        raise StateConflict(
            "ConcurrentChange", f"locations around {root} kept changing", remedy="try again", retry_after_ms=200
        )


# -- owners -----------------------------------------------------------------------------------------------------------
# Whose a location is, where its owner has no HEAD and no mark of an import: an external table's, an Iceberg table's or
# view's, or an import's that was begun before claims had a mark.
#
# The first three come and go with their names, in one transaction with the owner's row. So the tree, read after that row,
# tells them from the last (I9). Nothing leads from their uuids to their names: the whole catalog is looked through, for which
# nobody waits but those who try to import what is a table already.


def owning_table(world: World, reader: CatalogReader, own: Row, location: str) -> StateConflict | None:
    """Why an import may not go on with the uuid in ``own``, the owner's row of ``location``; None if no table has it."""
    row = world.refs.read(reader.key(own["catalog"]))
    if row is None:
        return None
    tree = reader.unauthorized_at(own["catalog"], row)
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
    for some in batched(found, BATCH_GET_MAX):
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
