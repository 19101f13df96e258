"""Who may clone what (I12): whoever may read everything that is cloned, and may create what comes of it.

Reading a namespace with all that is below is one question, about rights that hold for what is below as well. So a
refusal says nothing about what is there. The catalog's past is its owner's business, as its log and its snapshots are.
"""

from __future__ import annotations

from turnstile.access.authorizer import AccessControl, Target, allowed
from turnstile.access.core.grants import Principal
from turnstile.access.core.rules import create_schema, create_table, edit_catalog, permitted, read_schema, read_table
from turnstile.catalog.core.entities import ICEBERG_TABLE, NAMESPACE
from turnstile.catalog.core.location_rows import Held
from turnstile.catalog.core.paths import Path, dotted, path_of
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.store.core.errors import PermissionDenied
from turnstile.store.ports import World


class CloneRights:
    """Judges the clones of one request.

    Args:
        access: finds rights without judging.
        principal: who asks.
    """

    def __init__(self, access: AccessControl, principal: Principal) -> None:
        self._access, self._principal = access, principal

    def __call__(self, now: Tree, source: Path, kind: str | None, to: Path, *, past: bool) -> None:
        """Let the request pass, by the rights in the tree that it would replace.

        Args:
            kind: of what ``source`` leads to; None when it leads nowhere.
            past: whether it is cloned as of a moment of the past.

        Raises:
            PermissionDenied: a right is missing, whether or not anything exists.
        """
        if self._principal.admin:
            return
        catalog, there = now.catalog, kind is not None or not source
        whole = not there or not source or kind == NAMESPACE
        judge = permitted if there else allowed  # what is not there may be told to be missing, not read
        held = judge(
            read_schema if whole else read_table,
            self._principal,
            self._access.chain(now, Target(catalog, source) if whole else Target(catalog, source[:-1], source[-1])),
        )
        if past:
            held = held and permitted(edit_catalog, self._principal, self._access.chain(now, Target(catalog)))
        if there:
            made = self._access.chain(now, Target(catalog, to if whole else to[:-1]))
            held = held and allowed(create_schema if whole else create_table, self._principal, made)
        if not held:
            raise PermissionDenied(
                f"'{self._principal.name}' may not clone '{dotted(catalog, *source)}' to '{dotted(catalog, *to)}'",
                remedy="ask for SELECT on the one and for leave to create the other; of a past moment, ask the catalog's owner",
            )


class SourceRights:
    """Whether whoever may read a clone may read all that lies where its files are.

    Keys open a whole folder, what was written there since included. So they need the right to read the source, for as
    long as there is one (I12); the files that a dropped source left are its clones'.

    Args:
        access: finds rights without judging.
        reader: entities by id, cached; it must not be watched.
    """

    def __init__(self, world: World, access: AccessControl, reader: CatalogReader) -> None:
        self._world, self._access, self._reader = world, access, reader

    def may_read(self, principal: Principal, held: Held) -> bool:
        """Whether ``principal`` may read the Iceberg table whose location a clone needs. Admins are not looked at; for
        others the table is looked for by its uuid among all Iceberg tables, a hundred a request where they are not
        cached."""
        if principal.admin:
            return True
        owner = self._world.refs.read(self._world.space.location(held.location))
        tree = self._access.current(owner["catalog"]) if owner is not None else None
        if tree is None:
            return False
        found = [(path_of(key), entry.obj) for key, entry in tree.subtree(()) if entry.kind == ICEBERG_TABLE]
        entities = self._reader.store.entities(tree.catalog, [obj for _, obj in found])
        for path, obj in found:
            if getattr(entities[obj], "table_id", "") == held.owner:
                chain = self._access.chain(tree, Target(tree.catalog, path[:-1], path[-1]))
                return permitted(read_table, principal, chain)
        row = self._world.refs.read(self._world.space.table(held.owner))
        return row is not None and row["state"] == "dropped"
