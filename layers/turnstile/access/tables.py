"""Rights on a table that is named by its uuid: the hot path, where a commit is one request (I12).

The uuid leads to the catalog, which never changes; the catalog's HEAD leads to the rights. That HEAD is read when this
sandbox has not read it for ``STALE_MS``, by whatever request: one request for all tables of a catalog, none for admins.
So a right that was taken away may serve for ``STALE_MS`` more, counted from the answer to that read. A right
that was given, or a table that was made, serves at once: nobody is refused by what was cached. Keys for storage outlive
their request, so they are never given out by a cached HEAD (``fresh``).

The name that a uuid has in a HEAD is found by the name it had before, then by the one in the table's own row, which
changes in one transaction with the catalog; so an index of a hundred thousand names is not searched. Only tables that
are registered and have no HEAD are looked for in the whole index, once a sandbox and after a rename.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from turnstile.access.authorizer import AccessControl, Target
from turnstile.access.core.grants import Principal
from turnstile.access.core.rules import Chain, Rule, permitted
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.store.cache import Lru
from turnstile.store.core.errors import NotFound, PermissionDenied
from turnstile.store.ports import World

STALE_MS: Final = 5_000
"""How long a HEAD that was read once says what may be done with tables by uuid, in ms."""


class _Place(msgspec.Struct, frozen=True):
    """Where a table is; ``path`` empty while no name is known."""

    catalog: str
    path: Path


class TableAccess:
    """Judges requests that name a table by uuid. One per sandbox, sharing the reader's caches.

    Args:
        stale_ms: 0 reads the catalog's HEAD for every request.
    """

    def __init__(self, world: World, reader: CatalogReader, access: AccessControl, stale_ms: int = STALE_MS) -> None:
        self._refs, self._space, self._clock = world.refs, world.space, world.clock
        self._reader, self._access, self._stale_ms = reader, access, stale_ms
        self._places: Lru[str, _Place] = Lru(8 * 1024 * 1024)
        self._chains: Lru[str, tuple[str, Chain | None]] = Lru(16 * 1024 * 1024)

    def judge(self, principal: Principal, rules: Sequence[Rule], table_id: str, *, fresh: bool = False) -> Chain | None:
        """Let ``principal`` pass if every rule permits it on the table, and say by which rights (None: as admin).

        Args:
            fresh: judge by the HEAD as it is now, whatever is cached.

        Raises:
            NotFound: no name leads to this uuid. A uuid cannot be guessed, so this tells nothing.
            PermissionDenied: a rule does not hold.
        """
        if principal.admin:
            return None
        catalog = self._place(table_id).catalog
        cached = None if fresh else self._cached(catalog)
        if cached is not None:
            chain = self._chain(cached, table_id)
            if chain is not None and all(permitted(rule, principal, chain) for rule in rules):
                return chain
        tree = self._access.current(catalog)
        chain = None if tree is None else self._chain(tree, table_id)
        if chain is None:
            raise _missing(table_id)
        for rule in rules:
            if not permitted(rule, principal, chain):
                raise PermissionDenied(
                    f"'{principal.name}' may not {rule.__name__.replace('_', ' ')}: table {table_id}",
                    remedy="ask its owner, or the owner of what it is in, for a grant",
                )
        return chain

    def _cached(self, catalog: str) -> Tree | None:
        seen = self._reader.seen(catalog)
        if seen is None or not 0 <= self._clock.now_ms() - seen.at < self._stale_ms:
            return None
        return self._reader.store.cached_tree(catalog, seen.head)

    def _chain(self, tree: Tree, table_id: str) -> Chain | None:
        """The rights along the table's name in ``tree``: computed once for each of its HEADs."""
        known = self._chains.get(table_id)
        if known is not None and known[0] == tree.head:
            return known[1]
        path = self._path(tree, table_id)
        chain = None if path is None else self._access.chain(tree, Target(tree.catalog, path[:-1], path[-1]))
        self._chains.put(table_id, (tree.head, chain), 1024)
        return chain

    def _path(self, tree: Tree, table_id: str) -> Path | None:
        """The table's full name in ``tree``; None when no name leads to it."""
        known = self._place(table_id)
        if _leads(tree, known.path, table_id):
            return known.path
        try:
            now = self._read(table_id)
        except NotFound:
            return None
        if now.path:
            return now.path if _leads(tree, now.path, table_id) else None
        path = tree.named(table_id)
        if path is not None:
            self._places.put(table_id, _Place(now.catalog, path), 512)
        return path

    def _place(self, table_id: str) -> _Place:
        """The catalog that the table was made in, and is in as long as it lives; its name as it was seen last."""
        return self._places.get(table_id) or self._read(table_id)

    def _read(self, table_id: str) -> _Place:
        """The same from the table's row: one request. Raises NotFound."""
        rows = self._refs.read_many([self._space.table(table_id), self._space.external(table_id)])
        for row in rows.values():
            catalog, *path = str(row.get("name") or row["catalog"]).split(".")
            found = _Place(catalog, tuple(path))
            self._places.put(table_id, found, 512)
            return found
        raise _missing(table_id)


def _leads(tree: Tree, path: Path, table_id: str) -> bool:
    entry = tree.find(path) if path else None
    return entry is not None and entry.table_id == table_id


def _missing(table_id: str) -> NotFound:
    return NotFound("table", table_id, field="table_id", remedy="load the table by name again")
