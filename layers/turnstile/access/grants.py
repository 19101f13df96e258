"""Shows and changes grants and owners (I12). A change is one swap of the HEAD of the catalog that
it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from turnstile.access.authorizer import METASTORE, TABLES, Authorizer, Target, access_of
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Catalog
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.catalog.reader import View
from turnstile.catalog.services import CatalogServices
from turnstile.rights.grants import Access, GrantChange, Principal, Securable, apply_changes
from turnstile.rights.rules import Rule, admin_only, edit_catalog, edit_schema, edit_table, is_permitted, may_go_on
from turnstile.store.core.errors import InvalidRequest, NotFound

EDIT: Final[dict[Securable, Rule]] = {
    Securable.METASTORE: admin_only,
    Securable.CATALOG: edit_catalog,
    Securable.SCHEMA: edit_schema,
    Securable.TABLE: edit_table,
}
"""The rules for changing the rights of a securable, and for seeing all of them."""


class Grants:
    """Shows and changes the rights of securables. The request's ``services`` authorize a change by
    the rights that it replaces; ``authorizer`` reads rights without checking them."""

    def __init__(self, services: CatalogServices, authorizer: Authorizer) -> None:
        self._services = services
        self._authorizer = authorizer

    def show(self, securable: Securable, target: Target, principal: Principal) -> Access:
        """Returns the rights of ``target``: all of them if ``principal`` may change them, else only
        its own. Every principal may ask for its own, so the request's guard is not used. An entity
        that ``principal`` may not see looks as if it had no rights.

        Raises:
            NotFound: it does not exist, and the principal would see all, or may create it.
        """
        if target == METASTORE:
            chain = self._authorizer.metastore()
        else:
            tree = self._authorizer.current(target.catalog)
            if tree is None:
                if principal.admin:
                    raise NotFound("catalog", target.catalog, field="full_name")
                return Access()
            chain = self._authorizer.chain(tree, target)
            if chain.missing is not None and may_go_on(EDIT[securable], principal, chain):
                raise NotFound("table" if target.table else "namespace", str(target), field="full_name")
        access = chain.levels[-1]
        if is_permitted(EDIT[securable], principal, chain):
            return access
        return access.shown_to(principal.names)

    def change(self, target: Target, changes: Sequence[GrantChange] = (), *, owner: str | None = None) -> Access:
        """Change the rights of ``target``; returns them afterwards. ``owner``: None keeps it, empty
        is for admins only.

        Raises:
            NotFound, PermissionDenied: no such securable; the request's guard refuses.
            InvalidRequest: an owner for the metastore, which has none.
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


def _edit(view: View, target: Target, changes: Sequence[GrantChange], owner: str | None) -> Edit | None:
    message = f"grants on {target}"
    if not target.path:
        old = view.tree.commit.access
        new = apply_changes(old, changes, owner)
        return None if new == old else Edit(message, access=new)
    entry = view.tree.find(target.path)
    if entry is None or (entry.kind in TABLES) != bool(target.table):  # raises, naming the level that is missing
        entry = view.tree.table(target.namespace, target.table) if target.table else view.tree.namespace(target.path)
    entity = view.entity(entry.obj)
    assert not isinstance(entity, Catalog | NamedSnapshot)
    new = apply_changes(entity.access, changes, owner)
    put = {target.path: msgspec.structs.replace(entity, access=new)}
    return None if new == entity.access else Edit(message, put=put)
