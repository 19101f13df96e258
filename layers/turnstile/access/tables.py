"""Rights on a table that is named by its uuid: the hot path, where a commit is one request (I12).

The uuid leads to the catalog, which never changes; the catalog's HEAD leads to the rights. That
HEAD is read when this sandbox has not read it for ``STALE_MS``: one request for all tables of a
catalog, none for admins. So a right that was revoked may serve for ``STALE_MS`` more, counted from
the response to that read. A new grant or table serves at once: a refusal never comes from a cached
HEAD. Credentials outlive their request, so they never come from one either (``fresh``).

The name of a uuid is looked up by the name it had before, then by the one in the table's own row,
which changes in one transaction with the catalog. Only registered tables without a HEAD are
searched for in the whole index, once a sandbox and after a rename.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from turnstile.access.authorizer import Authorizer, Target
from turnstile.catalog.core.paths import Path
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import TableHead
from turnstile.rights.grants import Principal
from turnstile.rights.rules import Chain, Rule, is_permitted, see_table
from turnstile.store.cache import Lru
from turnstile.store.core.errors import NotFound, PermissionDenied, UnreadableRow
from turnstile.store.core.rows import require_readable
from turnstile.store.ports import World, parse_rows

STALE_MS: Final = 5_000
"""For how long a HEAD that was read once authorizes requests by uuid."""


class TableAuthorizer:
    """Authorizes requests that name a table by uuid. One per sandbox, sharing the reader's caches.
    ``stale_ms``: 0 reads the catalog's HEAD for every request."""

    def __init__(self, world: World, reader: CatalogReader, authorizer: Authorizer, stale_ms: int = STALE_MS) -> None:
        self._refs = world.refs
        self._space = world.space
        self._clock = world.clock
        self._reader = reader
        self._authorizer = authorizer
        self._stale_ms = stale_ms
        self._names: Lru[str, Target] = Lru(8 * 1024 * 1024)
        self._chains: Lru[str, tuple[str, Chain | None]] = Lru(16 * 1024 * 1024)

    def authorize(
        self, principal: Principal, rules: Sequence[Rule], table_id: str, *, fresh: bool = False
    ) -> Chain | None:
        """Returns the rights along the table's name if every rule permits ``principal`` on it
        (None: it is an admin).

        Args:
            fresh: use the present HEAD, and no cached one.

        Raises:
            NotFound: no name leads to this uuid. A uuid cannot be guessed, so this reveals nothing.
            PermissionDenied: a rule does not hold.
        """
        if principal.admin:
            return None
        catalog = self._name(table_id).catalog
        chain = None if fresh else self._chain(self._cached_tree(catalog), table_id)
        if chain is not None and all(is_permitted(rule, principal, chain) for rule in rules):
            return chain
        chain = self._chain(self._authorizer.current(catalog), table_id)
        if chain is None:
            raise _missing(table_id)
        for rule in rules:
            if not is_permitted(rule, principal, chain):
                what = self._visible_name(principal, chain, table_id)
                problem = f"'{principal.name}' may not {rule.__name__.replace('_', ' ')}: table {what}"
                raise PermissionDenied(
                    problem, remedy="ask its owner, or the owner of its namespace or catalog, for a grant"
                )
        return chain

    def _visible_name(self, principal: Principal, chain: Chain, table_id: str) -> str:
        """The table's full name for principals that may see it, else its uuid, which the request
        had (I12)."""
        name = self._names.get(table_id)
        if name is None or not name.path or not is_permitted(see_table, principal, chain):
            return table_id
        return f"'{name}' ({table_id})"

    def rights_in(self, tree: Tree, table_id: str) -> Chain | None:
        """Returns the rights along the table's name in ``tree``; None when no name there leads to
        it. A damaged row of the table is not needed: the whole index is searched for the name."""
        try:
            return self._chain(tree, table_id)
        except NotFound:
            return None
        except UnreadableRow:
            path = tree.name_of(table_id)
            chain = None if path is None else self._authorizer.chain(tree, Target(tree.catalog, path[:-1], path[-1]))
            self._chains.put(table_id, (tree.head, chain), 1024)
            return chain

    def learn(self, heads: Iterable[TableHead]) -> None:
        """Takes the names of tables from HEADs that were read: authorizing these tables next reads
        none of them again."""
        for head in heads:
            catalog, *path = (head.name or head.catalog).split(".")
            self._keep(head.table_id, catalog, tuple(path))

    def prefetch(self, table_ids: Sequence[str]) -> None:
        """Reads the names of tables that are not known, of many in one request: authorizing them
        next reads none of them."""
        unknown = [id for id in table_ids if self._names.get(id) is None]
        if len(unknown) > 1:
            rows = self._refs.read_many([self._space.table(id) for id in unknown])
            self.learn(parse_rows(TableHead, rows.values(), []))

    def _cached_tree(self, catalog: str) -> Tree | None:
        last = self._reader.last_head(catalog)
        if last is None or not 0 <= self._clock.now_ms() - last.at < self._stale_ms:
            return None
        return self._reader.store.cached_tree(catalog, last.head)

    def _chain(self, tree: Tree | None, table_id: str) -> Chain | None:
        """The rights along the table's name in ``tree``, computed once for each HEAD; None when no
        name leads to it."""
        if tree is None:
            return None
        cached = self._chains.get(table_id)
        if cached is not None and cached[0] == tree.head:
            return cached[1]
        path = self._path(tree, table_id)
        chain = None if path is None else self._authorizer.chain(tree, Target(tree.catalog, path[:-1], path[-1]))
        self._chains.put(table_id, (tree.head, chain), 1024)
        return chain

    def _path(self, tree: Tree, table_id: str) -> Path | None:
        last = self._name(table_id)
        if _leads(tree, last.path, table_id):
            return last.path
        try:
            now = self._read(table_id)
        except NotFound:
            return None
        if now.path:
            return now.path if _leads(tree, now.path, table_id) else None
        path = tree.name_of(table_id)
        return None if path is None else self._keep(table_id, now.catalog, path).path

    def _name(self, table_id: str) -> Target:
        """The catalog that the table was created in, where it stays as long as it exists; its name
        as it was read last, empty while none is known."""
        return self._names.get(table_id) or self._read(table_id)

    def _read(self, table_id: str) -> Target:
        """The same from the table's row: one request. Raises NotFound, UnreadableRow."""
        rows = self._refs.read_many([self._space.table(table_id), self._space.external(table_id)])
        for row in map(require_readable, rows.values()):
            catalog, *path = str(row.get("name") or row["catalog"]).split(".")
            return self._keep(table_id, catalog, tuple(path))
        raise _missing(table_id)

    def _keep(self, table_id: str, catalog: str, path: Path) -> Target:
        name = Target(catalog, path[:-1], path[-1] if path else "")
        self._names.put(table_id, name, 512)
        return name


def _leads(tree: Tree, path: Path, table_id: str) -> bool:
    entry = tree.find(path) if path else None
    return entry is not None and entry.table_id == table_id


def _missing(table_id: str) -> NotFound:
    return NotFound("table", table_id, field="table_id", remedy="load the table by name again")
