"""Permissions in Unity Catalog's words: ``/permissions/{securable_type}/{full_name}``.

Source: Unity Catalog open API, "Grants". Ownership is not among the privileges.
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
    """What is to change for one principal: first added, then removed."""

    principal: str
    add: list[str] = []
    remove: list[str] = []


class Changes(msgspec.Struct, frozen=True):
    """``PATCH``."""

    changes: list[Change]


class Assignment(msgspec.Struct, frozen=True):
    """What one principal was granted."""

    principal: str
    privileges: list[str]


class Permissions(msgspec.Struct, frozen=True):
    """The grants on a securable; those that hold since they were granted further up are not repeated."""

    privilege_assignments: list[Assignment]


def securable(kind: str, *beside: str) -> Securable:
    """The securable type of a path.

    Args:
        beside: further types that this path may name.

    Raises:
        InvalidRequest: one that has no rights of its own here.
    """
    if kind not in {*Securable}:
        raise InvalidRequest(
            f"securable type {kind[:40]!r} is not known",
            field="securable_type",
            remedy=f"one of {', '.join([*Securable, *beside])}",
        )
    return Securable(kind)


def target(kind: Securable, full_name: str) -> Target:
    """What a full name of this type means. Any name means the one metastore, as on Unity Catalog's own server: its clients
    write its id, ``metastore`` or the name of something else."""
    if kind is Securable.METASTORE:
        return METASTORE
    if kind is Securable.CATALOG:
        return Target(naming.find_catalog(full_name))
    if kind is Securable.SCHEMA:
        return Target(*naming.find_schema(*naming.split_schema(full_name)))
    return Target(*naming.find_table(*naming.split_table(full_name)))


def changes(kind: Securable, asked: Sequence[Change]) -> list[GrantChange]:
    """The changes, checked.

    Raises:
        InvalidRequest: too many, not a principal's name, or a privilege without a meaning on this type.
    """
    return checked(asked, partial(check_privileges, kind))


def checked(asked: Sequence[Change], known: Callable[[Sequence[str], str], tuple[Privilege, ...]]) -> list[GrantChange]:
    """The changes, their privileges looked up by ``known``, which is told the member they are in. Raises as ``changes``."""
    if len(asked) > MAX_CHANGES:
        raise InvalidRequest(f"{len(asked)} changes are too many", field="changes", remedy=f"at most {MAX_CHANGES}")
    return [
        GrantChange(
            check_principal(one.principal, "changes.principal"),
            known(one.add, "changes.add"),
            known(one.remove, "changes.remove"),
        )
        for one in asked
    ]


def permissions(grants: Sequence[Grant]) -> Permissions:
    """Grants in the API's words."""
    return Permissions([Assignment(one.principal, [str(privilege) for privilege in one.privileges]) for one in grants])


def of_principal(access: Access, principal: str | None) -> Permissions:
    """All grants, or those of one principal."""
    return permissions([one for one in access.grants if principal in (None, one.principal)])
