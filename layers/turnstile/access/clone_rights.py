"""Rights to clone (I12): to read every source, and to create the clone.

Reading a namespace with everything below it is one rule, on rights that hold for everything below
as well. So a refusal reveals nothing about the entities there. The catalog's past is for its owner,
like its log and its snapshots.
"""

from __future__ import annotations

from functools import partial

from turnstile.access.authorizer import Authorizer, Target
from turnstile.catalog.core.entities import ICEBERG_TABLE, NAMESPACE, IcebergTable
from turnstile.catalog.core.location_rows import HeldLocation
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.rights.grants import Principal
from turnstile.rights.rules import (
    create_schema,
    create_table,
    edit_catalog,
    is_permitted,
    may_go_on,
    read_schema,
    read_table,
)
from turnstile.store.core.errors import PermissionDenied
from turnstile.store.ports import World


class CloneRights:
    """Authorizes the clones of one request. ``authorizer`` reads rights without checking them."""

    def __init__(self, authorizer: Authorizer, principal: Principal) -> None:
        self._authorizer = authorizer
        self._principal = principal

    def __call__(self, now: Tree, source: Path, kind: str | None, to: Path, *, past: bool) -> None:
        """Check the request by the rights in ``now``, the tree that it would replace. ``kind`` is
        that of ``source``, None when it leads nowhere. Raises PermissionDenied, whether or not
        anything exists.
        """
        if self._principal.admin:
            return
        catalog = now.catalog
        exists = kind is not None or not source
        whole = not exists or not source or kind == NAMESPACE
        check = (
            is_permitted if exists else may_go_on
        )  # that it does not exist may be answered, though it cannot be read
        target = Target(catalog, source) if whole else Target(catalog, source[:-1], source[-1])
        chain_of = partial(self._authorizer.chain, now)
        granted = check(read_schema if whole else read_table, self._principal, chain_of(target))
        if past:
            granted = granted and is_permitted(edit_catalog, self._principal, chain_of(Target(catalog)))
        if exists:
            parent = chain_of(Target(catalog, to if whole else to[:-1]))
            granted = granted and may_go_on(create_schema if whole else create_table, self._principal, parent)
        if not granted:
            raise PermissionDenied(
                f"'{self._principal.name}' may not clone '{dotted_name(catalog, *source)}' to "
                f"'{dotted_name(catalog, *to)}'",
                remedy="ask for SELECT on the one and for leave to create the other; of a past moment, ask the "
                "catalog's owner",
            )


class SourceRights:
    """Rights to the files that a clone shares with its source. Credentials open a whole folder,
    with files that were written there since. So they need the right to read the source, for as long
    as there is one (I12). The files of a dropped source belong to its clones. ``reader``, which
    caches entities, must have no authorizer of its own.
    """

    def __init__(self, world: World, authorizer: Authorizer, reader: CatalogReader) -> None:
        self._world = world
        self._authorizer = authorizer
        self._reader = reader

    def may_read(self, principal: Principal, held: HeldLocation) -> bool:
        """Whether ``principal`` may read the Iceberg table whose location a clone needs. For all
        but admins the table is searched for by its location among all Iceberg tables of the
        catalog, a hundred a request where they are not cached: a registered file may have any
        table's uuid.
        """
        if principal.admin:
            return True
        owner = self._world.refs.read(self._world.space.location(held.location))
        tree = self._authorizer.current(owner["catalog"]) if owner is not None else None
        if tree is None:
            return False
        tables = [(path_of(key), entry.obj) for key, entry in tree.subtree(()) if entry.kind == ICEBERG_TABLE]
        entities = self._reader.store.entities(tree.catalog, [obj for _, obj in tables])
        for path, obj in tables:
            table = entities[obj]
            if isinstance(table, IcebergTable) and (table.location, table.table_id) == (held.location, held.owner):
                chain = self._authorizer.chain(tree, Target(tree.catalog, path[:-1], path[-1]))
                return is_permitted(read_table, principal, chain)
        row = self._world.refs.read(self._world.space.table(held.owner))
        return row is not None and row["state"] == "dropped"
