"""Signed tokens (JWT): tokens of an OIDC issuer, and Turnstile's own. Importing this loads
PyJWT."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import jwt
import msgspec

from turnstile.api.auth.jwks import ALGORITHMS, IssuerKeys
from turnstile.api.auth.settings import AuthSettings, OidcSettings, SigningKey
from turnstile.api.auth.verifier import VerifiedToken, invalid
from turnstile.rights.grants import Principal, is_reserved

MAX_NAME: Final = 255  # characters of a principal's or role's name
MAX_ROLES: Final = 500
LEEWAY_S: Final = 60
"""Seconds that an issuer's clock may differ from ours."""

ALGORITHM: Final = "HS256"
"""Of Turnstile's own tokens."""

_MISSING: Final = "this service accepts no such tokens"

P = ParamSpec("P")
T = TypeVar("T")

_REASONS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it is meant for another service (aud)"),
    (jwt.InvalidIssuerError, "another issuer made it (iss)"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidAlgorithmError, "its algorithm is not the key's"),
)


def refusing(function: Callable[P, T]) -> Callable[P, T]:
    """``function`` with its errors as ``NotAuthenticated``: the bytes of a token are never a fault
    of the server."""

    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except jwt.MissingRequiredClaimError as error:
            raise invalid(f"it has no claim {error.claim!r}") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            reasons = (reason for kind, reason in _REASONS if isinstance(error, kind))
            raise invalid(next(reasons, "it is malformed")) from None

    return inner


@refusing
def verified_claims(token: str, key: Any, *, algorithm: str, issuer: str, audience: Sequence[str]) -> dict[str, Any]:
    """Returns the claims of a token that ``key`` signed with ``algorithm``, that is valid now and
    meant for this service; raises NotAuthenticated if any of this does not hold."""
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        issuer=issuer,
        audience=list(audience),
        leeway=LEEWAY_S,
        options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
    )
    return claims


def expiry_s(claims: dict[str, Any]) -> int:
    """Seconds since the epoch when a verified token ends, the leeway included."""
    return int(claims["exp"]) + LEEWAY_S


def principal_of(claims: Mapping[str, Any], settings: OidcSettings) -> Principal:
    """Returns the principal that the configured claims name; raises NotAuthenticated for no usable
    name, one that only Turnstile itself gives, an e-mail address that the issuer does not say it
    verified, or more roles than are looked at.
    """
    name = _claim(claims, settings.name)
    if not isinstance(name, str) or not _usable(name):
        raise invalid(f"its claim {settings.name!r} is not a name")
    if is_reserved(name):
        raise invalid(f"{name!r} is a name that an issuer cannot give")
    if settings.name.split(".")[-1] == "email" and _claim(claims, f"{settings.name}_verified") is not True:
        raise invalid(f"its e-mail address is not verified: {settings.name}_verified must be true")
    roles = frozenset(_roles(claims, settings.roles))
    if len(roles) > MAX_ROLES:
        raise invalid(f"it names more than {MAX_ROLES} roles")
    return Principal(name, roles, name in settings.admins or not roles.isdisjoint(settings.admin_roles))


def _roles(claims: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Roles of all the named claims, each a list or one text. Invalid values are left out: they
    grant nothing."""
    roles: list[str] = []
    for name in names:
        value = _claim(claims, name)
        listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        roles += [role for role in listed if isinstance(role, str) and _usable(role) and not is_reserved(role)]
    return roles


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name; without one, the claim at the name as a path
    (``realm_access.roles``)."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _usable(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and name.isprintable() and name == name.strip()


class OidcTokens:
    """Verifies tokens of one OIDC issuer: signed with one of its published keys, for this service,
    valid now."""

    def __init__(self, settings: OidcSettings, keys: IssuerKeys) -> None:
        self._settings = settings
        self._keys = keys

    def verify(self, token: str, header: dict[str, Any]) -> VerifiedToken:
        """Verifies a token with one of ``jwks.ALGORITHMS`` in its unverified header; raises as
        ``Verifier``."""
        settings = self._settings
        algorithm = header["alg"]
        key = self._keys.find(header.get("kid"), algorithm)
        claims = verified_claims(token, key, algorithm=algorithm, issuer=settings.issuer, audience=settings.audiences)
        return VerifiedToken(principal_of(claims, settings), expiry_s(claims))


class Issued(NamedTuple):
    """A new token, valid for ``lifetime_s``."""

    token: str
    lifetime_s: int


class _OwnClaims(msgspec.Struct, frozen=True):
    sub: str
    roles: frozenset[str]
    admin: bool


class OwnTokens:
    """Issues and verifies Turnstile's own access tokens: short-lived, signed with a key of the
    deployment.

    They carry the principal, so that verifying one needs no lookup; hence the tokens of a deleted
    client stay valid until they end. The realm is issuer and audience: a token of one realm is not
    accepted in another. The first of ``keys`` signs; all of them verify, so that a key can be
    replaced without a gap.
    """

    def __init__(
        self, keys: Sequence[SigningKey], realm: str, lifetime_s: int, *, now: Callable[[], float] = time.time
    ) -> None:
        self._keys = {key.id: key for key in keys}
        self._signing = keys[0]
        self._issuer = f"turnstile:{realm}"
        self._lifetime_s = lifetime_s
        self._now = now

    def issue(self, principal: Principal, *, until_s: int | None = None) -> Issued:
        """Returns a token of ``principal`` that ends at ``until_s`` (since the epoch) at the
        latest."""
        now = int(self._now())
        expires = now + self._lifetime_s if until_s is None else min(now + self._lifetime_s, until_s)
        claims = {
            "iss": self._issuer,
            "aud": self._issuer,
            "sub": principal.name,
            "roles": sorted(principal.roles),
            "admin": principal.admin,
            "iat": now,
            "exp": expires,
        }
        headers = {"kid": self._signing.id, "typ": "at+jwt"}
        return Issued(jwt.encode(claims, self._signing.secret, ALGORITHM, headers), expires - now)

    def verify(self, token: str, header: dict[str, Any]) -> VerifiedToken:
        """Verifies a token by its unverified header's ``kid``; raises NotAuthenticated."""
        key = self._keys.get(str(header.get("kid")))
        if key is None:
            raise invalid("no key of this service has its kid")
        claims = verified_claims(token, key.secret, algorithm=ALGORITHM, issuer=self._issuer, audience=[self._issuer])
        try:
            own = msgspec.convert(claims, _OwnClaims)
        except msgspec.ValidationError:
            raise invalid("it is not an access token") from None
        return VerifiedToken(Principal(own.sub, own.roles, own.admin), expiry_s(claims))


class SignedTokens:
    """``Verifier`` of all signed tokens, by the token's algorithm.

    A symmetric algorithm means Turnstile's own keys only and an asymmetric one the issuer's only:
    no header makes a token of one kind be verified with a key of the other. None: there is no
    signing key, or no trusted issuer.
    """

    def __init__(self, own: OwnTokens | None, issuer: OidcTokens | None) -> None:
        self.own = own
        self.issuer = issuer

    def verify(self, token: str) -> VerifiedToken:
        header = _header(token)
        if header.get("alg") != ALGORITHM:
            return self.verify_issuers(token)
        if self.own is None:
            raise invalid(_MISSING)
        return self.own.verify(token, header)

    def verify_issuers(self, token: str) -> VerifiedToken:
        """Verifies a token that only counts if the issuer made it; raises as ``verify``."""
        header = _header(token)
        if header.get("alg") not in tuple(ALGORITHMS):
            raise invalid("its algorithm is not one that is accepted")
        if self.issuer is None:
            raise invalid(_MISSING)
        return self.issuer.verify(token, header)


def from_settings(settings: AuthSettings) -> SignedTokens:
    """The verifier of the tokens that the settings accept."""
    return SignedTokens(
        OwnTokens(settings.keys, settings.realm, settings.lifetime_s) if settings.keys else None,
        OidcTokens(settings.oidc, IssuerKeys(settings.oidc.issuer)) if settings.oidc else None,
    )


@refusing
def _header(token: str) -> dict[str, Any]:
    return jwt.get_unverified_header(token)
