"""Permissions as Unity Catalog has them: ``/permissions/{securable_type}/{full_name}``. Ownership
is no privilege. ``/v1`` shows and changes the same rights with the functions of this module.

Unity's own routes neither take nor show privileges in ``OWN``: its generated clients refuse an
answer with a name that their enum does not have.

Source: Unity Catalog open API, "Grants".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec
from chalice.app import Blueprint

from turnstile.access.authorizer import METASTORE, Target
from turnstile.api.http.authorization import TargetOf, authorized_by_view, guard, needs
from turnstile.api.http.request import body, current
from turnstile.api.services import services
from turnstile.api.unity import requests
from turnstile.api.unity.errors import PREFIX
from turnstile.rights import grants
from turnstile.rights.grants import Access, Grant, GrantChange, Privilege, Securable
from turnstile.rights.rules import admin_only, edit_catalog, edit_schema, edit_table
from turnstile.store.core.errors import InvalidRequest

routes = Blueprint(__name__)

PERMISSIONS: Final = PREFIX + "/permissions/{securable_type}/{full_name}"
MAX_CHANGES: Final = 200


class Change(msgspec.Struct, frozen=True):
    """A change for one principal: privileges are added first, then removed."""

    principal: str
    add: list[str] = []
    remove: list[str] = []


class Changes(msgspec.Struct, frozen=True):
    """The body of ``PATCH``."""

    changes: list[Change]


class Assignment(msgspec.Struct, frozen=True):
    """The privileges that one principal was granted."""

    principal: str
    privileges: list[str]


class Permissions(msgspec.Struct, frozen=True):
    """The grants on a securable, without inherited ones."""

    privilege_assignments: list[Assignment]


def securable(kind: str, *others: str) -> Securable:
    """Returns the securable type of a path; raises InvalidRequest for a type without rights of its
    own here. ``others``: further types that this path may name, for the message."""
    if kind not in {*Securable}:
        raise InvalidRequest(
            f"securable type {kind[:40]!r} is not known",
            field="securable_type",
            remedy=f"one of {', '.join([*Securable, *others])}",
        )
    return Securable(kind)


def target(kind: Securable, full_name: str) -> Target:
    """Returns the entity with a full name of this type. For the type metastore any name is that of
    the only one, as on Unity Catalog's own server: clients write its id, ``metastore`` or another
    name.
    """
    if kind is Securable.METASTORE:
        return METASTORE
    if kind is Securable.CATALOG:
        return Target(requests.find_catalog(full_name))
    if kind is Securable.SCHEMA:
        return Target(*requests.full_schema(full_name))
    return Target(*requests.full_table(full_name))


def changes(
    kind: Securable, requested: Sequence[Change], *, without: frozenset[Privilege] = frozenset()
) -> list[GrantChange]:
    """Returns the changes, checked; raises InvalidRequest, also for a privilege without a meaning
    on this type, or in ``without``."""
    return checked_changes(requested, partial(grants.check_privileges, kind, without=without))


def checked_changes(
    requested: Sequence[Change], check: Callable[[Sequence[str], str], tuple[Privilege, ...]]
) -> list[GrantChange]:
    """Returns the changes with privileges from ``check``, which gets their texts and member. Raises
    as ``changes``."""
    if len(requested) > MAX_CHANGES:
        raise InvalidRequest(f"{len(requested)} changes are too many", field="changes", remedy=f"at most {MAX_CHANGES}")
    return [
        GrantChange(
            grants.check_principal(change.principal, "changes.principal"),
            check(change.add, "changes.add"),
            check(change.remove, "changes.remove"),
        )
        for change in requested
    ]


def permissions(granted: Sequence[Grant]) -> Permissions:
    return Permissions([Assignment(grant.principal, [str(each) for each in grant.privileges]) for grant in granted])


def _only(kind: Securable) -> TargetOf:
    """The subject of the request, if it is of this kind."""
    return lambda params: target(kind, params["full_name"]) if params["securable_type"] == kind else None


CHANGE = needs(
    (admin_only, _only(Securable.METASTORE)),
    (edit_catalog, _only(Securable.CATALOG)),
    (edit_schema, _only(Securable.SCHEMA)),
    (edit_table, _only(Securable.TABLE)),
)

SHOW = authorized_by_view("every principal: all to those that may change them, else its own")


def show(securable_type: str, full_name: str) -> Access:
    """Returns the rights on a securable, as far as the principal may see them, for a view that
    declares ``SHOW``."""
    kind = securable(securable_type)
    access = services().grants.show(kind, target(kind, full_name), current().principal)
    guard().mark_authorized()
    return access


@routes.route(PERMISSIONS, methods=["GET"])
@SHOW
def unity_permissions(securable_type: str, full_name: str) -> Permissions:
    access = show(securable_type, full_name)
    principal = requests.query().text("principal")
    return permissions([grant for grant in access.grants if principal in (None, grant.principal)])


@routes.route(PERMISSIONS, methods=["PATCH"])
@CHANGE
def update_unity_permissions(securable_type: str, full_name: str) -> Permissions:
    kind = securable(securable_type)
    request = body(Changes)
    checked = changes(kind, request.changes, without=grants.OWN)
    access = services().grants.change(target(kind, full_name), checked)
    changed = {change.principal for change in checked}
    return permissions([grant for grant in access.grants if grant.principal in changed])
