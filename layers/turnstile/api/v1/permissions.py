"""Grants and owners over HTTP."""

from __future__ import annotations

import msgspec
from chalice.app import Blueprint

from turnstile.api.http.request import Query, body
from turnstile.api.services import services
from turnstile.api.unity import permissions
from turnstile.api.v1.references import named_refs
from turnstile.coordination.core.ref_rights import check_privileges
from turnstile.rights.grants import Access, Securable, check_principal
from turnstile.store.core.errors import InvalidRequest

routes = Blueprint(__name__)


class GrantChange(permissions.Change, frozen=True, forbid_unknown_fields=True):
    """One principal's part of a change of rights."""


class RightsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``PATCH /v1/permissions/...``; an empty ``owner`` leaves the securable to admins."""

    changes: list[GrantChange] = []
    owner: str | None = None


REF = "ref"
"""The type of a reference, which is a securable of our own API only: its rights are in its own
row."""

OWN = "/v1/permissions/{securable_type}/{full_name}"


class Rights(msgspec.Struct, frozen=True):
    """Owner (null: admins only) and grants of a securable, as far as the principal may see them."""

    owner: str | None
    grants: list[permissions.Assignment]


@routes.route(OWN, methods=["GET"])
@permissions.SHOW
def show_rights(securable_type: str, full_name: str) -> Rights:
    Query()
    if securable_type == REF:
        return _rights(named_refs().rights(full_name))
    return _rights(permissions.show(_own(securable_type, full_name), full_name))


@routes.route(OWN, methods=["PATCH"])
@permissions.CHANGE
def change_rights(securable_type: str, full_name: str) -> Rights:
    request = body(RightsChange)
    if not request.changes and request.owner is None:
        raise InvalidRequest("the request changes nothing", field="changes", remedy="give changes, owner, or both")
    owner = request.owner if not request.owner else check_principal(request.owner, "owner")
    if securable_type == REF:
        changes = permissions.checked_changes(request.changes, check_privileges)
        return _rights(named_refs().grant(full_name, changes, owner=owner))
    kind = _own(securable_type, full_name)
    checked = permissions.changes(kind, request.changes)
    return _rights(services().grants.change(permissions.target(kind, full_name), checked, owner=owner))


def _own(securable_type: str, full_name: str) -> Securable:
    """The securable type of a path of our own, where a wrong name is no grant on the whole
    metastore."""
    kind = permissions.securable(securable_type, REF)
    if kind is Securable.METASTORE and full_name != Securable.METASTORE:
        text = f"the metastore is not called {full_name[:60]!r}"
        raise InvalidRequest(text, field="full_name", remedy="write metastore/metastore")
    return kind


def _rights(access: Access) -> Rights:
    return Rights(access.owner or None, permissions.permissions(access.all_grants).privilege_assignments)
