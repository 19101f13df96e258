"""From the claims of an OIDC token to a principal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnstile.access.core.principal import Principal, reserved
from turnstile.api.auth.judged import invalid
from turnstile.api.auth.settings import OidcSettings

MAX_NAME: Final = 255
"""Characters of a principal's or role's name."""

MAX_ROLES: Final = 500


def principal_of(claims: Mapping[str, Any], settings: OidcSettings) -> Principal:
    """The principal that the configured claims name.

    Raises:
        NotAuthenticated: no usable name, one that only Turnstile itself gives, an e-mail that the issuer did not
            verify, or more roles than are looked at.
    """
    name = _claim(claims, settings.name)
    if not isinstance(name, str) or not _usable(name):
        raise invalid(f"its claim {settings.name!r} is not a name")
    if reserved(name):
        raise invalid(f"{name!r} is a name that an issuer cannot give")
    if settings.name == "email" and claims.get("email_verified") is False:
        raise invalid("its e-mail address is not verified")
    roles = frozenset(_roles(claims, settings.roles))
    if len(roles) > MAX_ROLES:
        raise invalid(f"it names more than {MAX_ROLES} roles")
    return Principal(name, roles, name in settings.admins or not roles.isdisjoint(settings.admin_roles))


def _roles(claims: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Roles of all the named claims: each a list or one text. What is no name, or one that only Turnstile gives, is left
    out: it could grant nothing that it should."""
    found: list[str] = []
    for name in names:
        value = _claim(claims, name)
        listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        found += [role for role in listed if isinstance(role, str) and _usable(role) and not reserved(role)]
    return found


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name; if there is none, what the name leads to as a path (``realm_access.roles``)."""
    if name in claims:
        return claims[name]
    at: Any = claims
    for step in name.split("."):
        at = at.get(step) if isinstance(at, Mapping) else None
    return at


def _usable(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and name.isprintable() and name == name.strip()
