"""Checks which locations are served, claims lake roots, and finds the owner of a location (I10)."""

from __future__ import annotations

from typing import Final

from turnstile.catalog.core.entities import ICEBERG_KINDS
from turnstile.catalog.core.location_rows import Location, claim, conflict, keys_above
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict
from turnstile.store.core.locations import normalise
from turnstile.store.core.writes import Row
from turnstile.store.ports import BATCH_GET_MAX, AllAccepted, World, in_batches

_ATTEMPTS: Final = 8


def require_served(location: str, lake_root: str, *, only_registered: bool = False) -> str:
    """Returns ``location`` normalised. Raises InvalidRequest unless the deployment serves its
    scheme: S3's, and that of ``lake_root``. So ``file:`` leads to the server's own disk only where
    the lake is there; the refusal is about the scheme, the same for all files that the disk may
    hold (I12). ``only_registered``: nothing is read there, so other object stores may be named.
    """
    location = normalise(location)
    scheme = location.partition(":")[0]
    served = {"s3", normalise(lake_root).partition(":")[0]}
    if scheme in served or (only_registered and scheme != "file"):
        return location
    raise InvalidRequest(
        f"locations that begin with {scheme}: are not served: this deployment keeps tables at "
        f"{' and '.join(sorted(served))}",
        field="location",
        remedy="copy the files there, and name that location",
    )


class Zones:
    """Claims lake roots as zones: only Turnstile assigns the locations below. A zone is never given
    up, so one that was read once is not read again."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._claimed: set[str] = set()

    def ensure(self, root: str) -> str:
        """Claims ``root`` and returns it normalised: no request once this sandbox knows it, else
        one read, and one transaction the first time ever. Raises InvalidRequest; StateConflict
        ``LocationOwned`` if it overlaps others' locations.
        """
        root = normalise(root)
        world = self._world
        if root in self._claimed:
            return root
        for _ in range(_ATTEMPTS):
            rows = world.refs.read_many(keys_above(world.space, root))
            row = rows.get(world.space.location(root))
            if row is None or not Location.from_row(row).zone:
                if (error := conflict(world.space, root, rows)) is not None:
                    raise error
                writes = claim(world.space, root, rows, table_id="", catalog="", now=world.clock.now_ms())
                if not isinstance(world.refs.transact(writes, world.ids.uuid()), AllAccepted):
                    continue  # a location nearby was claimed meanwhile, perhaps this very zone: read again
            self._claimed.add(root)
            return root
        raise StateConflict(
            ErrorType.CONCURRENT_CHANGE,
            f"locations around {root} kept changing",
            remedy="try again",
            retry_after_ms=200,
        )


def owning_table(world: World, reader: CatalogReader, own: Row, location: str) -> StateConflict | None:
    """Returns why an import may not continue with the uuid in ``own``, the owner's row of
    ``location``; None if it may.

    ``own`` has no HEAD and no import run. So its owner is an external table, an Iceberg table or
    view, or the import of a version that did not store the run. The first three come and go with
    their names, in one transaction with the owner's row; so the tree, read after that row, tells
    them from the last (I9). Nothing leads from their uuids to their names, so the whole catalog is
    read; only an import of an existing table waits for that.
    """
    row = world.refs.read(reader.key(own["catalog"]))
    if row is None:
        return None
    tree = reader.unauthorized_at(own["catalog"], row)
    path = tree.name_of(own["table_id"])
    what = "external table"
    files = "its files stay"
    if path is None:
        path = _iceberg(reader, tree, own["table_id"])
        what = "Iceberg table or view"
        files = "its files stay without a purge"
    if path is None:
        return None
    return StateConflict(
        ErrorType.LOCATION_OWNED,
        f"location {location} belongs to the {what} '{dotted_name(tree.catalog, *path)}'",
        field="location",
        remedy=f"drop the {what} first ({files}), then import",
        table_id=own["table_id"],
    )


def _iceberg(reader: CatalogReader, tree: Tree, table_id: str) -> Path | None:
    items = ((key, entry.obj) for key, entry in tree.subtree(()) if entry.kind in ICEBERG_KINDS)
    for batch in in_batches(items, BATCH_GET_MAX):  # the index has the uuids of Delta tables only
        entities = reader.store.entities(tree.catalog, [obj for _, obj in batch])
        for key, obj in batch:
            if getattr(entities[obj], "table_id", "") == table_id:
                return path_of(key)
    return None
