"""Loads tables by name: metadata, tail and latest version in one consistent view (design 2.3, 2.4).

    warm    one batch: the catalog's HEAD, and the table HEAD that the cached tree names. The
            mapping counts only if the
            catalog's HEAD is still the one that the tree came from.
    cold    three rounds: catalog HEAD; its commit obj; table HEAD and newest metadata in parallel,
            and with them the rights
            along the name.

One more round where the newest metadata belongs to a proposal that lost. Absence is never cached
(I6, I9). Nothing is answered before the request is authorized on the tree that the name was found
in (I12).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec

from turnstile.catalog.core.entities import Table, is_awaited, without_head
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader, ResolvedTable, TreeAuthorizer
from turnstile.delta.commits import Commits, Listing
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata
from turnstile.delta.metadata import MetadataStore
from turnstile.delta.undecided import seen_one
from turnstile.rights.rules import Rule, read_table
from turnstile.store.cache import Lru
from turnstile.store.core.errors import NotFound
from turnstile.store.core.names import MAX_VERSION, is_branch
from turnstile.store.core.rows import METADATA, require_readable
from turnstile.store.core.writes import Row
from turnstile.store.ports import World

_LOCATIONS = 10_000
"""The number of tables with cached locations."""


class TableState(msgspec.Struct, frozen=True):
    """A table as of one HEAD; ``listing`` has that HEAD and its tail."""

    head: TableHead
    metadata: DeltaMetadata
    listing: Listing


class RegisteredTable(msgspec.Struct, frozen=True):
    """An external table in its catalog; its entity's obj id is its etag."""

    catalog: str
    table: Table
    etag: str


class Found(msgspec.Struct, frozen=True):
    """The entity of a name, the tree that has it, and the row of its location's owner (None: not
    read)."""

    table: TableHead | RegisteredTable
    tree: Tree
    owner: Row | None = None


class LoadGuard(TreeAuthorizer, Protocol):
    """Authorizes one request, and says whether it may also do more; see
    ``access.authorizer.Guard``."""

    def may(self, rule: Rule) -> bool:
        """Whether the request, once authorized, also passes ``rule`` on its table."""


class _Beside(msgspec.Struct, frozen=True):
    tree: Tree
    owner: Row | None = None


class Loader:
    """Loads tables by name. One per sandbox, and one for each request that is authorized; they
    share caches and threads (for parallel reads). Without a ``guard`` there is no request, or it is
    an operator's.
    """

    def __init__(
        self,
        world: World,
        reader: CatalogReader,
        metadata: MetadataStore,
        commits: Commits,
        *,
        guard: LoadGuard | None = None,
        threads: ThreadPoolExecutor | None = None,
        locations: Lru[str, str] | None = None,
        adopt: Callable[[str, Path, Table], bool] | None = None,
    ) -> None:
        self._world = world
        self.reader = reader
        self._metadata = metadata
        self._commits = commits
        self._guard = guard
        self._threads = threads or ThreadPoolExecutor(2, thread_name_prefix="load")
        self._locations = locations or Lru[str, str](_LOCATIONS)
        self._adopt = adopt

    def authorized_by(self, guard: LoadGuard) -> Loader:
        reader = self.reader.authorized_by(guard)
        return Loader(
            self._world,
            reader,
            self._metadata,
            self._commits,
            guard=guard,
            threads=self._threads,
            locations=self._locations,
            adopt=self._adopt,
        )

    def load(self, catalog: str, namespace: Sequence[str], table: str, *, content: bool = False) -> TableState:
        """Returns the table that the name leads to now. ``content``: return inline content instead
        of writing files, if the request may read the table. Raises PermissionDenied, whether or not
        there is such a table (I12); NotFound for the first missing level; UnsupportedTable if it is
        external; StateConflict if it is being recovered, or has no version yet; StorageFault if an
        inline commit's file could not be written.
        """
        head = self.find(catalog, namespace, table)
        if isinstance(head, RegisteredTable):
            remedy = "read it by its location; to commit to it here, drop it first (its files stay), then import it"
            raise without_head(head.table, remedy)
        return self.state_at(head, content=content and (self._guard is None or self._guard.may(read_table)))

    def state_at(self, head: TableHead, *, content: bool = False) -> TableState:
        """Returns the table as of a HEAD that was just read or written. Raises as ``load``."""
        metadata = self._metadata.get(head.catalog, head.metadata)
        return TableState(head, metadata, self._commits.of(head, 0, MAX_VERSION, content=content))

    def find(self, catalog: str, namespace: Sequence[str], table: str) -> TableHead | RegisteredTable:
        """Returns the present entity of the name: a HEAD, or a table that is registered only.
        Raises NotFound; InvalidCommit if the awaited version 0 is there, and breaks the contract.
        """
        return self.find_details(catalog, namespace, table).table

    def find_details(self, catalog: str, namespace: Sequence[str], table: str) -> Found:
        """As ``find``, with everything else that was read on the way."""
        path = tuple(namespace)
        resolved, row, beside = self._resolve(catalog, path, table)
        if row is None or require_readable(row)["state"] == "dropped":
            # dropped between the two reads: the name may lead elsewhere now
            resolved = self.reader.resolve(catalog, path, table)
            row = self._world.refs.read(self._world.space.table(resolved.table_id))
        if row is None:
            entity = self.reader.store.entity(resolved.catalog, resolved.entity)
            if is_awaited(entity) and self._adopt is not None:
                assert isinstance(entity, Table)
                if self._adopt(resolved.catalog, (*path, table), entity):
                    return self.find_details(catalog, namespace, table)
            if isinstance(entity, Table) and entity.external is not None:
                return Found(RegisteredTable(resolved.catalog, entity, resolved.entity), beside.tree)
        if row is None or row["state"] == "dropped":
            raise NotFound("table", table, field="table", remedy="list the namespace; names may have changed")
        head = TableHead.from_row(row)
        head = seen_one(self._world, head) if head.undecided else head
        self._locations.put(head.table_id, head.location)
        return Found(head, beside.tree, beside.owner)

    def _resolve(
        self, catalog: str, namespace: tuple[str, ...], table: str
    ) -> tuple[ResolvedTable, Row | None, _Beside]:
        world = self._world
        guess = self.reader.guess(catalog, namespace, table)
        keys = [self.reader.key(catalog)]
        location = None
        if guess is not None:
            keys.append(world.space.table(guess.table_id))
            location = self._locations.get(guess.table_id)
        if location is not None:
            keys.append(world.space.location(location))
        rows = world.refs.read_many(keys)
        tree = self.reader.unauthorized_at(catalog, rows.get(keys[0]), (*namespace, table))
        if is_branch(tree.catalog):  # the look-up may write a log for the table
            self._authorize(tree)
        try:
            resolved = self.reader.find(tree, namespace, table)
        except NotFound:
            self._authorize(tree)  # not everybody may know what is missing
            raise
        if guess is not None and guess.table_id == resolved.table_id:
            self._authorize(tree)
            return resolved, rows.get(keys[1]), _Beside(tree, None if location is None else rows.get(keys[2]))
        authorized = self._threads.submit(self._authorize, tree)
        newest = self._threads.submit(
            world.objs.newest, world.space.objs(resolved.catalog), METADATA.id(f"{resolved.table_id}/")
        )
        row = world.refs.read(world.space.table(resolved.table_id))
        authorized.result()
        obj = newest.result()
        if obj is not None:
            self._metadata.adopt(resolved.catalog, obj)
        return resolved, row, _Beside(tree)

    def _authorize(self, tree: Tree) -> None:
        if self._guard is not None:
            self._guard.authorize(tree)
