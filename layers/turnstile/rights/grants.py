"""Principals, privileges, owners and grants: the privileges of each securable, and the place of
grants (I12).

Every securable carries an ``Access``: its owner and the grants on it. That of a table or a
namespace is a member of its entity, that of a catalog a member of the commit obj that the catalog's
HEAD names, that of the metastore (the realm) one of the realm's own tree. So a change of rights is
one swap of one HEAD, and reading a tree reads its rights as well.

Privileges and their meaning are Unity Catalog's (``Privilege`` in its open API), except ``OWN``.
Ownership is not a privilege: it cannot be granted, it is handed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from turnstile.store.core.errors import InvalidRequest, TooLarge


class Principal(msgspec.Struct, frozen=True):
    """A user or a service that makes a request, as authentication made it.

    Attributes:
        name: an OIDC subject or e-mail, or a client's id.
        roles: names of the groups and roles it is in; a grant to one of them is a grant to it.
        admin: owner of everything in the realm: an operator.
    """

    name: str
    roles: frozenset[str] = frozenset()
    admin: bool = False

    @property
    def names(self) -> frozenset[str]:
        return self.roles | {self.name}


OPERATOR: Final = Principal("operator", admin=True)
"""The holder of the static token; every caller of a stack that is open because only this machine
reaches it."""

ANONYMOUS: Final = Principal("anonymous")
"""A client that asks for its first token. Nothing is granted to it."""

CLIENT_PREFIX: Final = "client-"


def is_reserved(name: str) -> bool:
    """Whether only Turnstile itself gives this name; an issuer that gave it would make one
    principal another (I12)."""
    return name in (OPERATOR.name, ANONYMOUS.name) or name.startswith(CLIENT_PREFIX)


class Privilege(StrEnum):
    """One thing that a principal may do to a securable and to everything below it."""

    CREATE_CATALOG = "CREATE CATALOG"
    USE_CATALOG = "USE CATALOG"
    CREATE_SCHEMA = "CREATE SCHEMA"
    USE_SCHEMA = "USE SCHEMA"
    CREATE_TABLE = "CREATE TABLE"
    SELECT = "SELECT"
    MODIFY = "MODIFY"
    READ_FILES = "READ FILES"
    WRITE_FILES = "WRITE FILES"
    CREATE_EXTERNAL_TABLE = "CREATE EXTERNAL TABLE"
    CREATE_REFERENCE = "CREATE REFERENCE"
    PROMOTE = "PROMOTE"


OWN: Final = frozenset({Privilege.PROMOTE})
"""Privileges that Unity Catalog and releases without branches do not know: its clients, and these
releases, refuse an answer, or a tree, that has one among the others."""


class Securable(StrEnum):
    """The kinds of entities with an owner and grants. There is one metastore: the realm."""

    METASTORE = "metastore"
    CATALOG = "catalog"
    SCHEMA = "schema"
    TABLE = "table"


_TABLE: Final = (Privilege.SELECT, Privilege.MODIFY)
_SCHEMA: Final = (Privilege.CREATE_SCHEMA, Privilege.USE_SCHEMA, Privilege.CREATE_TABLE, *_TABLE)

MANAGE_BRANCH: Final = (Privilege.USE_CATALOG, *_SCHEMA)
"""The privileges on a branch with which a principal manages it as its owner does. They are all but
``OWN``, so that the managers of stored branches remain managers."""

_FILES: Final = (Privilege.READ_FILES, Privilege.WRITE_FILES, Privilege.CREATE_EXTERNAL_TABLE)

GRANTABLE: Final[dict[Securable, tuple[Privilege, ...]]] = {
    Securable.METASTORE: (Privilege.CREATE_CATALOG, *_FILES, Privilege.CREATE_REFERENCE),
    Securable.CATALOG: (Privilege.USE_CATALOG, *_SCHEMA, Privilege.PROMOTE),
    Securable.SCHEMA: (*_SCHEMA, Privilege.PROMOTE),
    Securable.TABLE: (*_TABLE, Privilege.PROMOTE),
}
"""The privileges that have a meaning on a securable or on an entity below it. Nothing is inherited
from the metastore. Files outside the lake root are the metastore's, as long as external locations
are no securables.
"""

MAX_PRINCIPALS: Final = 200
"""Principals with grants on one securable. A role counts as one."""

_PRIVILEGES: Final = frozenset(map(str, Privilege))
_PRINCIPAL: Final = re.compile(r"(?!\s)[^\x00-\x1f\x7f]{1,255}(?<!\s)")


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """The grants of one principal, sorted."""

    principal: str
    privileges: tuple[Privilege, ...]


class LaterGrant(msgspec.Struct, frozen=True, array_like=True):
    """Grants of one principal of privileges in ``OWN``, and of later releases, by name, sorted."""

    principal: str
    privileges: tuple[str, ...]


class Access(msgspec.Struct, frozen=True, omit_defaults=True):
    """Owner (empty: only admins) and grants of one securable, sorted by principal, so that equal
    rights are equal values.

    ``later``: a member of its own, which releases without branches skip. They refuse a tree with a
    privilege that they do not know. An entity that such a release writes has lost these grants; it
    never has more.
    """

    owner: str = ""
    grants: tuple[Grant, ...] = ()
    later: tuple[LaterGrant, ...] = ()

    @property
    def all_grants(self) -> tuple[Grant, ...]:
        """The grants of every privilege that this release knows."""
        granted = _privileges_by_principal(self)
        known = ((name, tuple(sorted(_privileges_of(granted[name])))) for name in sorted(granted))
        return tuple(Grant(name, privileges) for name, privileges in known if privileges)

    def held_by(self, names: frozenset[str]) -> frozenset[Privilege]:
        """Returns the grants here to any of ``names``: a principal's own name and its roles."""
        held = frozenset[Privilege]().union(*(grant.privileges for grant in self.grants if grant.principal in names))
        for grant in self.later:
            if grant.principal in names:
                held |= _privileges_of(grant.privileges)
        return held

    def shown_to(self, names: frozenset[str]) -> Access:
        """Returns the part that is of ``names``."""
        return Access(
            self.owner if self.owner in names else "",
            tuple(grant for grant in self.grants if grant.principal in names),
            tuple(grant for grant in self.later if grant.principal in names),
        )

    def owned_by(self, names: frozenset[str]) -> bool:
        return bool(self.owner) and self.owner in names


NO_ACCESS: Final = Access()
"""No owner and no grants: the rights of an entity without its own, and of one that does not
exist."""


class GrantChange(msgspec.Struct, frozen=True):
    """Privileges to add to, and then to remove from, the grants of ``principal``."""

    principal: str
    add: tuple[Privilege, ...] = ()
    remove: tuple[Privilege, ...] = ()


def apply_changes(access: Access, changes: Iterable[GrantChange], owner: str | None = None) -> Access:
    """Returns ``access`` after ``changes`` in their order, with another ``owner`` unless that is
    None. Raises TooLarge beyond ``MAX_PRINCIPALS``."""
    granted = _privileges_by_principal(access)
    before = len(granted)
    for change in changes:
        granted[change.principal] = (granted.get(change.principal, set()) | {*change.add}) - {*change.remove}
    size = sum(map(bool, granted.values()))
    if size > max(MAX_PRINCIPALS, before):
        problem = f"{size} principals would have grants here"
        remedy = "grant to a role that they share"
        raise TooLarge(problem, field="changes", remedy=remedy, limit=MAX_PRINCIPALS, size=size)
    earlier = {name: tuple(sorted(_privileges_of(granted[name]) - OWN)) for name in sorted(granted)}
    later = {name: tuple(sorted(map(str, granted[name].difference(earlier[name])))) for name in earlier}
    return Access(
        access.owner if owner is None else owner,
        tuple(Grant(name, privileges) for name, privileges in earlier.items() if privileges),
        tuple(LaterGrant(name, privileges) for name, privileges in later.items() if privileges),
    )


def _privileges_by_principal(access: Access) -> dict[str, set[str]]:
    """The privileges of each principal, also privileges that this release does not know."""
    granted: dict[str, set[str]] = {grant.principal: {*grant.privileges} for grant in access.grants}
    for grant in access.later:
        granted.setdefault(grant.principal, set()).update(grant.privileges)
    return granted


def _privileges_of(names: Iterable[str]) -> set[Privilege]:
    return {Privilege(name) for name in names if name in _PRIVILEGES}


def owner_for(principal: Principal) -> str:
    """Returns the owner of entities that ``principal`` creates: itself; empty (only admins) for the
    operator of a stack without users, so that no later user of that name owns it."""
    return "" if principal == OPERATOR else principal.name


def check_principal(name: str, field: str) -> str:
    """Returns ``name`` if it can name a user, a service or a role. Raises InvalidRequest
    otherwise."""
    if not _PRINCIPAL.fullmatch(name):
        remedy = "use 1 to 255 characters, without space around them"
        raise InvalidRequest(f"{field} is not the name of a principal", field=field, remedy=remedy)
    return name


def check_privileges(
    securable: Securable, names: Iterable[str], field: str, *, without: frozenset[Privilege] = frozenset()
) -> tuple[Privilege, ...]:
    """Returns the privileges of these names. Raises InvalidRequest for one that has no meaning on
    ``securable``, or is in ``without``."""
    grantable = {str(privilege): privilege for privilege in GRANTABLE[securable] if privilege not in without}
    for name in names:
        if name not in grantable:
            problem = f"{name[:60]!r} cannot be granted on a {securable}"
            raise InvalidRequest(problem, field=field, remedy=f"one of {', '.join(grantable)}")
    return tuple(grantable[name] for name in names)
