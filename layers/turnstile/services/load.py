"""Load a table by its name: metadata, tail and latest in one consistent view (design 2.3, 2.4).

    warm    one batch: the catalog's HEAD, and the table HEAD that the cached index names. The mapping counts only if
            the catalog's HEAD is still the one the index came from.
    cold    three rounds: catalog HEAD; its commit obj; table HEAD and newest metadata snapshot side by side.

One more round where the newest snapshot belongs to a proposal that lost. Absence is never cached (I6, I9).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from turnstile.core.entities import Table
from turnstile.core.errors import NotFound, UnsupportedTable
from turnstile.core.head import TableHead
from turnstile.core.metadata import MetadataSnapshot
from turnstile.core.names import MAX_VERSION
from turnstile.core.plan import Row
from turnstile.services.catalog.reader import CatalogReader, Found
from turnstile.services.commits import Commits, Listing
from turnstile.services.metadata import Snapshots
from turnstile.world import World


class Loaded(msgspec.Struct, frozen=True):
    """A table as of one HEAD; ``listing`` holds that HEAD and its tail."""

    head: TableHead
    snapshot: MetadataSnapshot
    listing: Listing


class Registered(msgspec.Struct, frozen=True):
    """An external table in its catalog; its entity's obj id is its etag."""

    catalog: str
    table: Table
    etag: str


class Loader:
    """Loads tables by name. One per sandbox, sharing its caches with the other services.

    Args:
        reader: names to tables.
        snapshots: metadata by etag.
        commits: tails, materialised.
    """

    def __init__(self, world: World, reader: CatalogReader, snapshots: Snapshots, commits: Commits) -> None:
        self._refs, self._objs, self._space = world.refs, world.objs, world.space
        self._reader, self._snapshots, self._commits = reader, snapshots, commits
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="load")

    def load(self, catalog: str, namespace: Sequence[str], table: str, *, content: bool = False) -> Loaded:
        """The table that the name leads to now.

        Args:
            content: return inline content instead of making files.

        Raises:
            NotFound: catalog, namespace or table, whichever is missing first.
            StateConflict: the HEAD is being recovered.
            UnsupportedTable: the table is external.
            StorageFault: an inline commit's file could not be written; try again.
        """
        found = self.find(catalog, namespace, table)
        if isinstance(found, Registered):
            raise UnsupportedTable(
                f"table '{table}' is external: its commits are not coordinated here",
                field="table",
                remedy="read it by its location, or import it",
            )
        return self.loaded(found, content=content)

    def loaded(self, head: TableHead, *, content: bool = False) -> Loaded:
        """The table as of a HEAD that was just read or written. Raises as ``load``."""
        snapshot = self._snapshots.get(head.catalog, head.metadata)
        return Loaded(head, snapshot, self._commits.of(head, 0, MAX_VERSION, content=content))

    def find(self, catalog: str, namespace: Sequence[str], table: str) -> TableHead | Registered:
        """What the name leads to now: a HEAD, or a table that is registered only. Raises NotFound."""
        path = tuple(namespace)
        found, row = self._rows(catalog, path, table)
        if row is None or row["state"] == "dropped":  # dropped between the two reads: the name may lead elsewhere now
            found = self._reader.resolve(catalog, path, table)
            row = self._refs.read(self._space.table(found.table_id))
        if row is None:
            entity = self._reader.store.entity(found.catalog, found.entity)
            if isinstance(entity, Table) and entity.external is not None:
                return Registered(found.catalog, entity, found.entity)
        if row is None or row["state"] == "dropped":
            raise NotFound("table", table, field="table", remedy="list the namespace; names may have changed")
        return TableHead.from_row(row)

    def _rows(self, catalog: str, namespace: tuple[str, ...], table: str) -> tuple[Found, Row | None]:
        """What the name leads to, and the row of its HEAD."""
        guess = self._reader.guess(catalog, namespace, table)
        keys = [self._reader.key(catalog)]
        if guess is not None:
            keys.append(self._space.table(guess.table_id))
        rows = self._refs.read_many(keys)
        found = self._reader.confirm(catalog, rows.get(keys[0]), namespace, table)
        if guess is not None and guess.table_id == found.table_id:
            return found, rows.get(keys[1])
        newest = self._beside.submit(self._objs.newest, self._space.objs(found.catalog), f"metadata/{found.table_id}/")
        row = self._refs.read(self._space.table(found.table_id))
        obj = newest.result()
        if obj is not None:
            self._snapshots.adopt(found.catalog, obj)
        return found, row
