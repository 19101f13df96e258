"""Names to tables (design 2.4, "Load by name").

A mapping counts only while the catalog's HEAD is the one the index came from, and absence is never cached. Load by
name is therefore one batch read when warm:

    guess = reader.guess(catalog, namespace, table)                 no request
    rows  = refs.read_many([reader.key(catalog), HEAD of guess])    one request
    found = reader.confirm(catalog, rows.get(...), namespace, table)   none if the HEAD is cached, else one
    found.table_id == guess.table_id: the batch already holds the table's HEAD; otherwise read it

and cold at most: catalog row; commit obj and index segment in one request; table HEAD. (A catalog whose directory of
segments is too large for its row, beyond some hundred thousand tables, takes one request more.)
"""

from __future__ import annotations

import msgspec

from turnstile.core.catalog_paths import Path, fold, key_of
from turnstile.core.catalog_rows import CatalogHead
from turnstile.core.errors import NotFound
from turnstile.core.plan import Row
from turnstile.core.segments import segment_of, unpack_directory
from turnstile.core.tree import Tree
from turnstile.services.catalog.lru import Lru
from turnstile.services.catalog.store import CatalogStore
from turnstile.world import World


class Found(msgspec.Struct, frozen=True):
    """Where a table's name leads: its uuid and the entity's obj id, true at catalog HEAD ``head``."""

    catalog: str
    head: str
    table_id: str
    entity: str


class CatalogReader:
    """Reads catalogs at their current HEAD. One per sandbox; safe for threads.

    Args:
        store: share one with the other catalog services of the sandbox, for its caches.
    """

    def __init__(self, world: World, store: CatalogStore | None = None) -> None:
        self._refs, self._space = world.refs, world.space
        self.store = store or CatalogStore(world)
        self._last: Lru[str, str] = Lru(1024 * 1024)

    def key(self, catalog: str) -> str:
        """refs key of the catalog's HEAD."""
        return self._space.catalog(catalog)

    def guess(self, catalog: str, namespace: Path, table: str) -> Found | None:
        """What the newest cached HEAD says, without a request. Only worth something once ``confirm`` agrees."""
        head = self._last.get(fold(catalog))
        tree = self.store.cached_tree(catalog, head) if head else None
        entry = tree.remember((*namespace, table)) if tree else None
        if tree is None or entry is None or not entry.table_id:
            return None
        return Found(catalog, tree.head, entry.table_id, entry.obj)

    def confirm(self, catalog: str, row: Row | None, namespace: Path, table: str) -> Found:
        """What the catalog row just read says: at most one request (its commit obj and the one index segment that the
        name may be in, unless cached).

        Raises:
            NotFound: catalog, namespace or table, whichever is missing first.
        """
        tree = self.at(catalog, row, (*namespace, table))
        entry = tree.table(namespace, table)
        return Found(tree.catalog, tree.head, entry.table_id, entry.obj)

    def resolve(self, catalog: str, namespace: Path, table: str) -> Found:
        """Where the name leads now: one request warm, two cold. Raises as ``confirm``."""
        return self.confirm(catalog, self._refs.read(self.key(catalog)), namespace, table)

    def current(self, catalog: str) -> Tree:
        """The tree at the catalog's current HEAD: one request warm, two cold. Raises NotFound."""
        return self.at(catalog, self._refs.read(self.key(catalog)))

    def at(self, catalog: str, row: Row | None, path: Path = ()) -> Tree:
        """The tree of a catalog row: at most one request. Raises NotFound when ``row`` is None.

        Args:
            path: a name that will be looked up next; what that takes comes along in the same request.
        """
        if row is None:
            raise NotFound("catalog", catalog, field="catalog", remedy="create it first, or check the name")
        head = CatalogHead.from_row(row)
        segment = segment_of(unpack_directory(head.spilled), key_of(path)) if path and head.spilled else ""
        tree = self.store.tree(head.name, head.head, segment)
        self._last.put(fold(catalog), head.head, 256)
        return tree

    def adopt(self, tree: Tree) -> None:
        """The tree that this sandbox just made the catalog's HEAD: the next guess comes from it."""
        self.store.adopt(tree)
        self._last.put(fold(tree.catalog), tree.head, 256)
