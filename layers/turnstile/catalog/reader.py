"""Resolves names to tables (design 2.4, "Load by name").

A cached mapping counts only while the catalog's HEAD is the one that its tree came from, and
absence is never cached. So loading by name is one batch read when warm:

    guess = reader.guess(catalog, namespace, table)                    no request
    rows  = refs.read_many([reader.key(catalog), HEAD of guess])       one request
    tree  = reader.at(catalog, rows.get(...), (*namespace, table))     none if the tree is cached,
                                                                       else one
    table = reader.find(tree, namespace, table)                        no request
    table.table_id == guess.table_id: the batch already holds the table's HEAD; otherwise read it

and when cold at most: catalog row; commit obj and index segment in one request; table HEAD. (A
catalog with a segment directory too large for its row, beyond some hundred thousand tables, takes
one request more.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from turnstile.catalog.core.branches import InheritedTable, is_inherited
from turnstile.catalog.core.entities import Entity, Namespace, Table
from turnstile.catalog.core.index import segment_of, unpack_directory
from turnstile.catalog.core.paths import Path, fold, key_of
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import CatalogCommit, Tree
from turnstile.catalog.store import CatalogStore
from turnstile.store.cache import Lru
from turnstile.store.core.errors import NotFound, UnsupportedTable
from turnstile.store.core.names import branched_catalog, is_branch
from turnstile.store.core.writes import Row
from turnstile.store.ports import World


class ResolvedTable(msgspec.Struct, frozen=True):
    """Where a table's name leads at catalog HEAD ``head``: the table's uuid and the entity's obj
    id."""

    catalog: str
    head: str
    table_id: str
    entity: str


class TreeAuthorizer(Protocol):
    """Authorizes one request on every tree that it uses (I12); see ``access.authorizer.Guard``."""

    def authorize(self, tree: Tree) -> None:
        """Raises PermissionDenied if the request may not be answered from this tree."""

    def authorize_missing(self, catalog: str) -> None:
        """Raises PermissionDenied if the request must not learn that there is no such catalog."""

    def visible(self, now: Tree, parent: Path, entities: Sequence[Entity]) -> list[bool]:
        """Returns which children of ``parent`` may be listed, by the rights in the present tree."""


class LastHead(msgspec.Struct, frozen=True):
    """A catalog's HEAD and when it was read (ms)."""

    head: str
    at: int


@dataclass(frozen=True, slots=True)
class ReaderCaches:
    """The caches that all readers of a sandbox share: the HEAD of each catalog that was read last,
    and commits that a walk through the history has read, without their index."""

    heads: Lru[str, LastHead] = field(default_factory=lambda: Lru(1024 * 1024))
    commits: Lru[tuple[str, str], CatalogCommit] = field(default_factory=lambda: Lru(4 * 1024 * 1024))


class CatalogReader:
    """Reads catalogs at their current HEAD. Safe for threads. One per sandbox, and one for each
    request that is authorized: by ``authorizer``, on every tree before anything is answered from
    it. Without one there is no request, or it is an admin's. Store and caches are shared.
    """

    def __init__(
        self,
        world: World,
        store: CatalogStore | None = None,
        *,
        authorizer: TreeAuthorizer | None = None,
        caches: ReaderCaches | None = None,
    ) -> None:
        self._world = world
        self.store = store or CatalogStore(world)
        self.authorizer = authorizer
        self.caches = caches or ReaderCaches()

    def authorized_by(self, authorizer: TreeAuthorizer) -> CatalogReader:
        return CatalogReader(self._world, self.store, authorizer=authorizer, caches=self.caches)

    def without_authorizer(self) -> CatalogReader:
        """Returns a reader for a caller that authorizes each of several requests itself."""
        return CatalogReader(self._world, self.store, caches=self.caches)

    def last_head(self, catalog: str) -> LastHead | None:
        return self.caches.heads.get(fold(catalog))

    def key(self, catalog: str) -> str:
        return self._world.space.catalog(catalog)

    def guess(self, catalog: str, namespace: Path, table: str) -> ResolvedTable | None:
        """Returns the mapping of the newest cached tree; no request. Only valid once ``find``
        agrees."""
        last = self.last_head(catalog)
        tree = self.store.cached_tree(catalog, last.head) if last else None
        entry = tree.peek((*namespace, table)) if tree else None
        if tree is None or entry is None or not entry.table_id or is_inherited(tree, entry):
            return None
        return ResolvedTable(catalog, tree.head, entry.table_id, entry.obj)

    def find(self, tree: Tree, namespace: Path, table: str) -> ResolvedTable:
        """Returns the mapping of a tree; no request, if the tree was read for this name. A Delta
        table of a branch gets a HEAD of its own first. Raises NotFound for the first missing
        level."""
        entry = tree.table(namespace, table)
        if is_inherited(tree, entry):
            tree = self.store.make_own(tree.catalog, (*namespace, table))
            entry = tree.table(namespace, table)
        return ResolvedTable(tree.catalog, tree.head, entry.table_id, entry.obj)

    def resolve(self, catalog: str, namespace: Path, table: str) -> ResolvedTable:
        """Returns where the name leads now: one request warm, two cold. Raises as ``at`` and
        ``find``."""
        row = self._world.refs.read(self.key(catalog))
        return self.find(self.at(catalog, row, (*namespace, table)), namespace, table)

    def current(self, catalog: str) -> Tree:
        """Returns the tree at the catalog's current HEAD: one request warm, two cold. Raises as
        ``at``."""
        return self.at(catalog, self._world.refs.read(self.key(catalog)))

    def find_inherited(self, catalog: str, path: Path) -> tuple[Tree, Table | None]:
        """Returns the current tree of a branch, and the table at ``path`` if it needs a HEAD of its
        own there: requests as ``current``, and one for the entity when cold. Raises NotFound."""
        tree = self.current(catalog)
        entry = tree.table(path[:-1], path[-1])
        table = self.store.entity(tree.catalog, entry.obj)
        assert isinstance(table, Table)
        return tree, table if is_inherited(tree, entry) and table.external is None else None

    def at(self, catalog: str, row: Row | None, path: Path = ()) -> Tree:
        """Returns the tree of a catalog row, authorized: at most one request, and the requests of
        the authorizer. The segment for the look-up of ``path`` is read in the same request. Raises
        PermissionDenied, before anything else; NotFound if ``row`` is None.
        """
        tree = self.unauthorized_at(catalog, row, path)
        if self.authorizer is not None:
            self.authorizer.authorize(tree)
        return tree

    def unauthorized_at(self, catalog: str, row: Row | None, path: Path = ()) -> Tree:
        """As ``at``, for a caller that authorizes the request on the tree itself before it uses it,
        in parallel to other reads."""
        read_at = self._world.clock.now_ms()
        if row is None:
            if self.authorizer is not None:
                self.authorizer.authorize_missing(catalog)
            remedy = "create it first, or check the name"
            if is_branch(catalog):
                remedy = f"list: turnstile branch list {branched_catalog(catalog)}; it may be promoted, dropped or over"
            raise NotFound("catalog", catalog, field="catalog", remedy=remedy)
        head = CatalogHead.from_row(row)
        if is_branch(head.name) and not head.branch_of:
            raise _name_of_branch(head.name)
        segment = segment_of(unpack_directory(head.spilled), key_of(path)) if path and head.spilled else ""
        tree = self.store.tree(head.name, head.head, segment)
        self.caches.heads.put(fold(catalog), LastHead(head.head, read_at), 256)
        return tree

    def adopt(self, tree: Tree) -> None:
        """Caches the tree that this sandbox has just made the catalog's HEAD: the next guess comes
        from it."""
        self.store.adopt(tree)
        self.caches.heads.put(fold(tree.catalog), LastHead(tree.head, self._world.clock.now_ms()), 256)


class View:
    """The view of a change function: the tree that it would change, and the entities of that
    tree."""

    def __init__(self, tree: Tree, store: CatalogStore) -> None:
        self.tree = tree
        self.store = store

    def entity(self, obj: str) -> Entity:
        """Cached, so another attempt reads only what has changed."""
        return self.store.entity(self.tree.catalog, obj)

    def entities(self, objs: Sequence[str]) -> dict[str, Entity]:
        return self.store.entities(self.tree.catalog, objs)

    def namespace(self, path: Path) -> Namespace:
        """Raises NotFound."""
        entity = self.entity(self.tree.namespace(path).obj)
        assert isinstance(entity, Namespace)
        return entity

    def table(self, namespace: Path, name: str) -> Table:
        """Raises NotFound; InheritedTable, which the committer handles."""
        entry = self.tree.table(namespace, name)
        entity = self.entity(entry.obj)
        assert isinstance(entity, Table)
        if entity.external is None and is_inherited(self.tree, entry):
            raise InheritedTable((*namespace, name))
        return entity

    def written_levels(self, namespace: Path) -> Path:
        """Returns the levels of an existing namespace as they were written. Raises NotFound."""
        levels = [self.tree.namespace(namespace[: end + 1]).obj for end in range(len(namespace))]
        entities = self.entities(levels)
        return tuple(entity.name for entity in (entities[obj] for obj in levels) if isinstance(entity, Namespace))


def _name_of_branch(catalog: str) -> UnsupportedTable:
    """The refusal of a catalog that an older release made under the name of a branch."""
    problem = f"'{catalog}' is a catalog, and since this release a name with '@' is that of a branch"
    remedy = "export its tables with the release that made it, and import them into a catalog with another name"
    return UnsupportedTable(problem, field="catalog", remedy=remedy)
