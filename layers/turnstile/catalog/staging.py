"""Create, phase 1 of 3: a fresh uuid and a location for a table that does not exist yet.

    1  staging table      this module: one row, nothing else; the name is not reserved
    2  version 0          the client writes ``_delta_log/00000000000000000000.json`` below the location
    3  registration       ``register``: judges version 0 and makes the table

A client that crashes before 3 leaves a staging row and perhaps files: gc collects both after a while.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from turnstile.catalog.change import View
from turnstile.catalog.core.catalog_rows import new_staging
from turnstile.catalog.core.paths import Path, dotted
from turnstile.catalog.namespaces import check_path, require_free
from turnstile.catalog.reader import CatalogReader
from turnstile.catalog.zones import Zones
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.locations import managed_location
from turnstile.store.core.names import check_identifier
from turnstile.store.ports import Rejected
from turnstile.store.world import World

REQUIRED_FEATURES: Final = ("catalogManaged", "inCommitTimestamp")
"""Table features that version 0 must list; what ``core.content.check_protocol`` checks."""

UUID_PROPERTY: Final = "io.unitycatalog.tableId"


class StagingTable(msgspec.Struct, frozen=True):
    """What the client needs to write version 0."""

    table_id: str
    location: str
    required_features: tuple[str, ...]
    required_properties: dict[str, str]


class Staging:
    """Creates staging tables.

    Args:
        lake_root: storage location below which managed tables live.
    """

    def __init__(self, world: World, reader: CatalogReader, zones: Zones, lake_root: str) -> None:
        self._world, self._reader, self._zones, self._root = world, reader, zones, lake_root

    def create(
        self,
        catalog: str,
        namespace: Path,
        name: str,
        *,
        creator: str = "",
        check: Callable[[str, str], object] = lambda _table_id, _location: None,
    ) -> StagingTable:
        """A fresh staging table. Two requests when warm. A repetition makes another one; the first is collected later.

        Args:
            creator: who may register it; empty for admins only.
            check: is told uuid and location before anything is written; what it raises leaves nothing to be collected.

        Raises:
            InvalidRequest: not a name.
            NotFound: no such catalog or namespace.
            AlreadyExists: the name is taken now (it may also be taken later: names are not reserved).
        """
        check_path(namespace)
        check_identifier(name, "name")
        root = self._zones.ensure(self._root)
        view = View(self._reader.current(catalog), self._reader.store)
        view.tree.parent(namespace)
        require_free(view, (*namespace, name), "name")
        written = view.written(namespace)
        table_id = self._world.ids.uuid()
        location = managed_location(root, view.tree.catalog, written, table_id)
        check(table_id, location)
        answer = self._world.refs.write(
            new_staging(
                key=self._world.space.staging(table_id),
                table_id=table_id,
                catalog=view.tree.catalog,
                namespace=dotted(*written),
                name=name,
                location=location,
                creator=creator,
                now=self._world.clock.now_ms(),
            )
        )
        if isinstance(answer, Rejected) and (answer.row or {}).get("location") != location:
            raise TurnstileError(f"uuid {table_id} was given out twice")
        return StagingTable(
            table_id,
            location,
            REQUIRED_FEATURES,
            {"delta.enableInCommitTimestamps": "true", UUID_PROPERTY: table_id},
        )
