"""Grants and owners: shown, changed, handed over (I12). A change is one swap of the HEAD of the catalog it is in."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from turnstile.access.authorizer import METASTORE, TABLES, AccessControl, Target, access_of, allowed
from turnstile.access.core.grants import Access, Grant, GrantChange, Principal, Securable, changed
from turnstile.access.core.rules import Rule, edit_catalog, edit_schema, edit_table, nobody, permitted
from turnstile.catalog.change import Edit, View
from turnstile.catalog.core.entities import Catalog
from turnstile.catalog.history.core import Snapshot
from turnstile.catalog.services import CatalogServices
from turnstile.store.core.errors import InvalidRequest, NotFound

EDIT: dict[Securable, Rule] = {
    Securable.METASTORE: nobody,
    Securable.CATALOG: edit_catalog,
    Securable.SCHEMA: edit_schema,
    Securable.TABLE: edit_table,
}
"""Who may change the rights of what, and see all of them."""


class Grants:
    """Shows and changes the rights of securables.

    Args:
        services: of the request: they judge a change by the rights that it replaces.
        access: finds rights without judging.
    """

    def __init__(self, services: CatalogServices, access: AccessControl) -> None:
        self._services, self._access = services, access

    def show(self, securable: Securable, target: Target, principal: Principal) -> Access:
        """The rights of ``target``: all of them for those who may change them, else the asker's own.

        What does not exist looks like something without rights for whoever may not know. Not watched: this is the one
        thing that everybody may ask, about themselves.

        Raises:
            NotFound: for those who would see all, or may create what is missing.
        """
        if target == METASTORE:
            chain = self._access.metastore()
            found = chain.catalog
        else:
            tree = self._access.current(target.catalog)
            if tree is None:
                if principal.admin:
                    raise NotFound("catalog", target.catalog, field="full_name")
                return Access()
            chain = self._access.chain(tree, target)
            found = chain.levels[-1]
        if chain.missing is not None and target != METASTORE and allowed(EDIT[securable], principal, chain):
            raise NotFound("table" if target.table else "namespace", str(target), field="full_name")
        if permitted(EDIT[securable], principal, chain):
            return found
        mine = tuple(grant for grant in found.grants if grant.principal in principal.names)
        return Access(found.owner if found.owner in principal.names else "", mine)

    def change(self, target: Target, changes: Sequence[GrantChange] = (), *, owner: str | None = None) -> Access:
        """The rights of ``target`` after ``changes``, and with another ``owner`` if one is given (empty: admins only).

        Raises:
            NotFound: no such securable.
            InvalidRequest: an owner for the metastore, which has none.
            PermissionDenied: as the request's watch has it.
            TooLarge: too many principals.
        """
        if target == METASTORE and owner is not None:
            raise InvalidRequest("the metastore has no owner", field="owner", remedy="make the principal an admin")
        row = self._services.catalogs.realm_row() if target == METASTORE else None
        tree = self._services.committer.commit(
            target.catalog, lambda view: _edit(view, target, changes, owner), row=row
        )
        if not target.path:
            return tree.commit.access
        entry = tree.find(target.path)
        assert entry is not None
        return access_of(self._services.reader.store.entity(tree.catalog, entry.obj))


def of_principals(access: Access, names: Sequence[str]) -> list[Grant]:
    """The grants of these principals, as far as they have any."""
    return [grant for grant in access.grants if grant.principal in names]


def _edit(view: View, target: Target, changes: Sequence[GrantChange], owner: str | None) -> Edit | None:
    message = f"grants on {target}"
    if not target.path:
        old = view.tree.commit.access
        new = changed(old, changes, owner)
        return None if new == old else Edit(message, access=new)
    entry = view.tree.find(target.path)
    if entry is None or (entry.kind in TABLES) != bool(target.table):  # says which level is missing
        entry = view.tree.table(target.namespace, target.table) if target.table else view.tree.namespace(target.path)
    entity = view.entity(entry.obj)
    assert not isinstance(entity, Catalog | Snapshot)
    new = changed(entity.access, changes, owner)
    return (
        None if new == entity.access else Edit(message, put={target.path: msgspec.structs.replace(entity, access=new)})
    )
