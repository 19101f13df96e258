"""Grants in Unity Catalog's API, and what both APIs need to show and change them."""

from __future__ import annotations

from typing import Final

from chalice.app import Blueprint

from turnstile.access.authorizer import Target
from turnstile.access.core.grants import Access, Securable
from turnstile.access.core.rules import admin_only, edit_catalog, edit_schema, edit_table
from turnstile.api.http.authorization import (
    Params,
    TargetOf,
    authorized_by_view,
    guard,
    needs,
)
from turnstile.api.http.request import Query, body, current
from turnstile.api.services import services
from turnstile.api.unity import permissions
from turnstile.api.unity.errors import PREFIX

routes = Blueprint(__name__)

PERMISSIONS: Final = PREFIX + "/permissions/{securable_type}/{full_name}"


def _only(kind: Securable) -> TargetOf:
    """What the request is about, if it is of this kind."""

    def target(params: Params) -> Target | None:
        return _target(params) if params["securable_type"] == kind else None

    return target


def _target(params: Params) -> Target:
    return permissions.target(permissions.securable(params["securable_type"]), params["full_name"])


CHANGE = needs(
    (admin_only, _only(Securable.METASTORE)),
    (edit_catalog, _only(Securable.CATALOG)),
    (edit_schema, _only(Securable.SCHEMA)),
    (edit_table, _only(Securable.TABLE)),
)


SHOW = authorized_by_view("everybody: all to those who may change them, else one's own")


def show(securable_type: str, full_name: str) -> Access:
    """Returns the rights on a securable, as far as the principal may see them, for a view that declares ``SHOW``."""
    kind = permissions.securable(securable_type)
    access = services().grants.show(kind, permissions.target(kind, full_name), current().principal)
    guard().mark_authorized()
    return access


@routes.route(PERMISSIONS, methods=["GET"])
@SHOW
def unity_permissions(securable_type: str, full_name: str) -> permissions.Permissions:
    access = show(securable_type, full_name)
    return permissions.of_principal(access, Query(*current().query).text("principal"))


@routes.route(PERMISSIONS, methods=["PATCH"])
@CHANGE
def update_unity_permissions(securable_type: str, full_name: str) -> permissions.Permissions:
    kind, request = permissions.securable(securable_type), body(permissions.Changes)
    changes = permissions.changes(kind, request.changes)
    access = services().grants.change(permissions.target(kind, full_name), changes)
    changed = {change.principal for change in changes}
    return permissions.permissions([grant for grant in access.grants if grant.principal in changed])
