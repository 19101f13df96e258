"""Catalogs: each is a tree of its own behind a HEAD of its own; the realm's tree lists them (Polaris, "System Managed
Entities").

The realm's tree is a catalog named ``.``, which no user can name. Listing catalogs so costs as little as listing
namespaces, where a scan would read every table's HEAD.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turnstile.core.catalog_rows import new_catalog
from turnstile.core.entities import CATALOG, Catalog
from turnstile.core.errors import AlreadyExists, NotFound
from turnstile.core.index import Index, pack
from turnstile.core.names import check_identifier
from turnstile.core.plan import Insert, Row
from turnstile.core.tree import CatalogCommit
from turnstile.ports import Rejected
from turnstile.services.catalog.change import Edit, View
from turnstile.services.catalog.committer import Committer
from turnstile.services.catalog.reader import CatalogReader
from turnstile.world import World

REALM_TREE: Final = "."


class Catalogs:
    """Creates and lists catalogs."""

    def __init__(self, world: World, reader: CatalogReader, committer: Committer) -> None:
        self._world, self._reader, self._committer = world, reader, committer

    def create(self, name: str) -> Catalog:
        """A new, empty catalog.

        Raises:
            InvalidRequest: not a name.
            AlreadyExists: the name is taken, perhaps in another case.
        """
        check_identifier(name, "name")
        made = Catalog(name, self._world.clock.now_ms())
        row = self._world.refs.read(self._reader.key(REALM_TREE)) or self._realm_row(made.created)
        if self._reader.at(REALM_TREE, row).find((name,)) is not None:
            raise _taken(name)  # before anything is written for nothing
        insert = self._first_commit(name, made.created)

        def change(_: View) -> Edit:
            return Edit(f"create catalog {name}", put={(name,): made}, writes=(insert,))

        def judge(failed: Mapping[int, Row | None]) -> None:
            if 0 in failed:
                raise _taken(name)

        self._committer.commit(REALM_TREE, change, row=row, judge=judge)
        return made

    def list(self) -> list[Catalog]:
        """All catalogs, by name."""
        try:
            tree = self._reader.current(REALM_TREE)
        except NotFound:
            return []
        ids = [entry.obj for _, entry in tree.children((), CATALOG)]
        found = self._reader.store.entities(REALM_TREE, ids)
        return [entity for entity in (found[id] for id in ids) if isinstance(entity, Catalog)]

    def _first_commit(self, name: str, now: int) -> Insert:
        """The row of a catalog that is empty; its commit obj is durable before any row names it (I9)."""
        store = self._reader.store
        id = store.new_commit_id()
        empty = CatalogCommit(0, (), f"create catalog {name}", at=now * 1000, embedded=pack(Index()))
        store.write(name, id, empty, {})
        return new_catalog(self._reader.key(name), name, id, now)

    def _realm_row(self, now: int) -> Row | None:
        """The row of the realm's tree, which the first catalog brings with it. Whoever loses the race uses the
        winner's."""
        answer = self._world.refs.write(self._first_commit(REALM_TREE, now))
        return answer.row if isinstance(answer, Rejected) else self._world.refs.read(self._reader.key(REALM_TREE))


def _taken(name: str) -> AlreadyExists:
    return AlreadyExists(f"catalog '{name}' exists", field="name", remedy="use it, or choose another name")
