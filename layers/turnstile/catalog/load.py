"""Load a table by its name: metadata, tail and latest in one consistent view (design 2.3, 2.4).

    warm    one batch: the catalog's HEAD, and the table HEAD that the cached index names. The mapping counts only if
            the catalog's HEAD is still the one the index came from.
    cold    three rounds: catalog HEAD; its commit obj; table HEAD and newest metadata snapshot side by side, and the
            rights along the name with them.

One more round where the newest snapshot belongs to a proposal that lost. Absence is never cached (I6, I9). Nothing is
answered before whoever asks was judged by the tree that the name was found in (I12).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from turnstile.access.authorizer import Guard
from turnstile.access.core.rules import read_table
from turnstile.catalog.core.entities import Table
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader, ResolvedTable
from turnstile.delta.commits import Commits, Listing
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.metadata import MetadataStore
from turnstile.store.core.errors import NotFound, UnsupportedTable
from turnstile.store.core.names import MAX_VERSION
from turnstile.store.core.obj_types import METADATA
from turnstile.store.core.writes import Row
from turnstile.store.ports import World


class TableState(msgspec.Struct, frozen=True):
    """A table as of one HEAD; ``listing`` holds that HEAD and its tail."""

    head: TableHead
    snapshot: DeltaMetadata
    listing: Listing


class RegisteredTable(msgspec.Struct, frozen=True):
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

    def __init__(self, world: World, reader: CatalogReader, snapshots: MetadataStore, commits: Commits) -> None:
        self._refs, self._objs, self._space = world.refs, world.objs, world.space
        self.reader, self._snapshots, self._commits = reader, snapshots, commits
        self._beside = ThreadPoolExecutor(2, thread_name_prefix="load")
        self.guard: Guard | None = None

    def guarded(self, guard: Guard) -> Loader:
        """The same loader for one request, which ``guard`` judges."""
        mine = copy.copy(self)
        mine.guard, mine.reader = guard, self.reader.authorized_by(guard)
        return mine

    def load(self, catalog: str, namespace: Sequence[str], table: str, *, content: bool = False) -> TableState:
        """The table that the name leads to now.

        Args:
            content: return inline content instead of making files, to those who may read the table.

        Raises:
            NotFound: catalog, namespace or table, whichever is missing first.
            PermissionDenied: the request's guard says so, whether or not there is such a table (I12).
            StateConflict: the HEAD is being recovered.
            UnsupportedTable: the table is external.
            StorageFault: an inline commit's file could not be written; try again.
        """
        found = self.find(catalog, namespace, table)
        if isinstance(found, RegisteredTable):
            raise UnsupportedTable(
                f"table '{table}' is external: its commits are not coordinated here",
                field="table",
                remedy="read it by its location; to commit to it here, drop it first (its files stay), then import it",
            )
        return self.loaded(found, content=content and (self.guard is None or self.guard.may(read_table)))

    def loaded(self, head: TableHead, *, content: bool = False) -> TableState:
        """The table as of a HEAD that was just read or written. Raises as ``load``."""
        snapshot = self._snapshots.get(head.catalog, head.metadata)
        return TableState(head, snapshot, self._commits.of(head, 0, MAX_VERSION, content=content))

    def find(self, catalog: str, namespace: Sequence[str], table: str) -> TableHead | RegisteredTable:
        """What the name leads to now: a HEAD, or a table that is registered only. Raises NotFound."""
        path = tuple(namespace)
        found, row = self._rows(catalog, path, table)
        if row is None or row["state"] == "dropped":  # dropped between the two reads: the name may lead elsewhere now
            found = self.reader.resolve(catalog, path, table)
            row = self._refs.read(self._space.table(found.table_id))
        if row is None:
            entity = self.reader.store.entity(found.catalog, found.entity)
            if isinstance(entity, Table) and entity.external is not None:
                return RegisteredTable(found.catalog, entity, found.entity)
        if row is None or row["state"] == "dropped":
            raise NotFound("table", table, field="table", remedy="list the namespace; names may have changed")
        return TableHead.from_row(row)

    def _rows(self, catalog: str, namespace: tuple[str, ...], table: str) -> tuple[ResolvedTable, Row | None]:
        """What the name leads to, and the row of its HEAD."""
        guess = self.reader.guess(catalog, namespace, table)
        keys = [self.reader.key(catalog)]
        if guess is not None:
            keys.append(self._space.table(guess.table_id))
        rows = self._refs.read_many(keys)
        tree = self.reader.unauthorized_at(catalog, rows.get(keys[0]), (*namespace, table))
        try:
            found = self.reader.find(tree, namespace, table)
        except NotFound:
            self._judge(tree)  # what is missing is not for everybody to know
            raise
        if guess is not None and guess.table_id == found.table_id:
            self._judge(tree)
            return found, rows.get(keys[1])
        judged = self._beside.submit(self._judge, tree)
        newest = self._beside.submit(
            self._objs.newest, self._space.objs(found.catalog), METADATA.id(f"{found.table_id}/")
        )
        row = self._refs.read(self._space.table(found.table_id))
        judged.result()
        obj = newest.result()
        if obj is not None:
            self._snapshots.adopt(found.catalog, obj)
        return found, row

    def _judge(self, tree: Tree) -> None:
        if self.guard is not None:
            self.guard.authorize(tree)
