"""Permissions as Unity Catalog has them: ``/permissions/{securable_type}/{full_name}``. Ownership is no privilege.

Source: Unity Catalog open API, "Grants".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import msgspec

from turnstile.access.authorizer import METASTORE, Target
from turnstile.access.core.grants import (
    Access,
    Grant,
    GrantChange,
    Privilege,
    Securable,
    check_principal,
    check_privileges,
)
from turnstile.api.unity import naming
from turnstile.store.core.errors import InvalidRequest

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
    """The grants on a securable, without those inherited from above."""

    privilege_assignments: list[Assignment]


def securable(kind: str, *others: str) -> Securable:
    """Returns the securable type of a path.

    Args:
        others: further types that this path may name, for the message.

    Raises:
        InvalidRequest: a type without rights of its own here.
    """
    if kind not in {*Securable}:
        raise InvalidRequest(
            f"securable type {kind[:40]!r} is not known",
            field="securable_type",
            remedy=f"one of {', '.join([*Securable, *others])}",
        )
    return Securable(kind)


def target(kind: Securable, full_name: str) -> Target:
    """Returns what a full name of this type names. For the type metastore any name is that of the only one, as on Unity
    Catalog's own server: clients write its id, ``metastore`` or another name."""
    if kind is Securable.METASTORE:
        return METASTORE
    if kind is Securable.CATALOG:
        return Target(naming.find_catalog(full_name))
    if kind is Securable.SCHEMA:
        return Target(*naming.find_schema(*naming.split_schema(full_name)))
    return Target(*naming.find_table(*naming.split_table(full_name)))


def changes(kind: Securable, requested: Sequence[Change]) -> list[GrantChange]:
    """Returns the changes, checked.

    Raises:
        InvalidRequest: too many, not a principal's name, or a privilege without a meaning on this type.
    """
    return checked(requested, partial(check_privileges, kind))


def checked(
    requested: Sequence[Change], check: Callable[[Sequence[str], str], tuple[Privilege, ...]]
) -> list[GrantChange]:
    """Returns the changes with privileges from ``check``, which gets their texts and member. Raises as ``changes``."""
    if len(requested) > MAX_CHANGES:
        raise InvalidRequest(f"{len(requested)} changes are too many", field="changes", remedy=f"at most {MAX_CHANGES}")
    return [
        GrantChange(
            check_principal(change.principal, "changes.principal"),
            check(change.add, "changes.add"),
            check(change.remove, "changes.remove"),
        )
        for change in requested
    ]


def permissions(grants: Sequence[Grant]) -> Permissions:
    """Grants as the API has them."""
    return Permissions(
        [Assignment(grant.principal, [str(privilege) for privilege in grant.privileges]) for grant in grants]
    )


def of_principal(access: Access, principal: str | None) -> Permissions:
    """All grants, or those of ``principal``."""
    return permissions([grant for grant in access.grants if principal in (None, grant.principal)])
