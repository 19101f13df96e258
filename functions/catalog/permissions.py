"""Grants and owners, in Unity Catalog's API and in our own. Glue only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import shapes
from allowed import Params, rights
from chalice.app import Blueprint
from refs import named_refs
from wiring import services

from turnstile.access.authorizer import Target
from turnstile.access.core.grants import Access, Securable, check_principal
from turnstile.access.core.rules import edit_catalog, edit_schema, edit_table, nobody
from turnstile.api.http.request import Query, body, current
from turnstile.api.http.rights import TargetOf, guard
from turnstile.api.unity import permissions
from turnstile.api.unity.errors import PREFIX
from turnstile.coordination.core.ref_rights import check_privileges
from turnstile.store.core.errors import InvalidRequest

__all__ = ["routes"]

routes = Blueprint(__name__)

UNITY = PREFIX + "/permissions/{securable_type}/{full_name}"
REF = "ref"
"""The type of a reference, which is a securable of our own API only: its rights are in its own row."""

OWN = "/v1/permissions/{securable_type}/{full_name}"


class Rights(msgspec.Struct, frozen=True):
    """Owner (null: admins only) and grants of a securable, as far as whoever asks may see them."""

    owner: str | None
    grants: list[permissions.Assignment]


def _only(kind: Securable) -> TargetOf:
    """What is asked about, if it is of this kind."""

    def target(params: Mapping[str, Any]) -> Target | None:
        return _target(params) if params["securable_type"] == kind else None

    return target


def _target(params: Params) -> Target:
    return permissions.target(permissions.securable(params["securable_type"]), params["full_name"])


_CHANGE = rights.needs(
    (nobody, _only(Securable.METASTORE)),
    (edit_catalog, _only(Securable.CATALOG)),
    (edit_schema, _only(Securable.SCHEMA)),
    (edit_table, _only(Securable.TABLE)),
)
_SHOW = rights.judged_inside("everybody: all to those who may change them, else one's own")


def _show(securable_type: str, full_name: str) -> Access:
    kind = permissions.securable(securable_type)
    found = services().grants.show(kind, permissions.target(kind, full_name), current().principal)
    guard().passed()
    return found


@routes.route(UNITY, methods=["GET"])
@_SHOW
def unity_permissions(securable_type: str, full_name: str) -> permissions.Permissions:
    found = _show(securable_type, full_name)
    return permissions.of_principal(found, Query(*current().query).text("principal"))


@routes.route(UNITY, methods=["PATCH"])
@_CHANGE
def update_unity_permissions(securable_type: str, full_name: str) -> permissions.Permissions:
    kind, asked = permissions.securable(securable_type), body(permissions.Changes)
    changes = permissions.changes(kind, asked.changes)
    made = services().grants.change(permissions.target(kind, full_name), changes)
    changed = {change.principal for change in changes}
    return permissions.permissions([grant for grant in made.grants if grant.principal in changed])


@routes.route(OWN, methods=["GET"])
@_SHOW
def show_rights(securable_type: str, full_name: str) -> Rights:
    Query()
    if securable_type == REF:
        return _rights(named_refs().rights(full_name))
    return _rights(_show(_own(securable_type, full_name), full_name))


@routes.route(OWN, methods=["PATCH"])
@_CHANGE
def change_rights(securable_type: str, full_name: str) -> Rights:
    asked = body(shapes.RightsChange)
    if not asked.changes and asked.owner is None:
        raise InvalidRequest("the request changes nothing", field="changes", remedy="give changes, owner, or both")
    owner = asked.owner if not asked.owner else check_principal(asked.owner, "owner")
    changes = [permissions.Change(one.principal, one.add, one.remove) for one in asked.changes]
    if securable_type == REF:
        return _rights(named_refs().grant(full_name, permissions.checked(changes, check_privileges), owner=owner))
    kind = _own(securable_type, full_name)
    checked = permissions.changes(kind, changes)
    return _rights(services().grants.change(permissions.target(kind, full_name), checked, owner=owner))


def _own(securable_type: str, full_name: str) -> Securable:
    """The securable type of a path of our own, where a wrong name is no grant on the whole metastore.

    Raises:
        InvalidRequest: no such type, or another name than the metastore's.
    """
    kind = permissions.securable(securable_type, REF)
    if kind is Securable.METASTORE and full_name != Securable.METASTORE:
        raise InvalidRequest(
            f"the metastore is not called {full_name[:60]!r}", field="full_name", remedy="write metastore/metastore"
        )
    return kind


def _rights(access: Access) -> Rights:
    return Rights(access.owner or None, permissions.permissions(access.grants).privilege_assignments)
