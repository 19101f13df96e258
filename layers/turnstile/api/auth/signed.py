"""From the claims of an OIDC token to a principal."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import jwt
import msgspec

from turnstile.access.core.grants import Principal, reserved
from turnstile.api.auth.bearer import Judged, invalid
from turnstile.api.auth.jwks import ALGORITHMS, IssuerKeys
from turnstile.api.auth.settings import AuthSettings, OidcSettings, SigningKey

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


# -- verifying --------------------------------------------------------------------------------------------------------
# One way to verify a signed token, and one to say what is wrong with it.


LEEWAY_S: Final = 60
"""Seconds that an issuer's clock may differ from ours."""

P = ParamSpec("P")
T = TypeVar("T")

_WORDS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jwt.ExpiredSignatureError, "it has expired"),
    (jwt.ImmatureSignatureError, "it is not valid yet"),
    (jwt.InvalidAudienceError, "it is meant for another service (aud)"),
    (jwt.InvalidIssuerError, "another issuer made it (iss)"),
    (jwt.InvalidSignatureError, "its signature is wrong"),
    (jwt.InvalidAlgorithmError, "its algorithm is not the key's"),
)


def guarded(function: Callable[P, T]) -> Callable[P, T]:
    """``function``, its errors told as ``NotAuthenticated``: a stranger's bytes are never our fault."""

    @functools.wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return function(*args, **kwargs)
        except jwt.MissingRequiredClaimError as error:
            raise invalid(f"it has no claim {error.claim!r}") from None
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
            raise invalid(
                next((words for kind, words in _WORDS if isinstance(error, kind)), "it is malformed")
            ) from None

    return inner


@guarded
def verified(
    token: str, key: Any, *, algorithm: str, issuer: str, audience: Sequence[str], required: Sequence[str] = ()
) -> dict[str, Any]:
    """The claims of a token that ``key`` signed with ``algorithm``, that is valid now, and that is meant for us.

    Raises:
        NotAuthenticated: anything of this does not hold.
    """
    claims: dict[str, Any] = jwt.decode(
        token,
        key,
        algorithms=[algorithm],
        issuer=issuer,
        audience=list(audience),
        leeway=LEEWAY_S,
        options={"require": ["exp", "iss", "aud", *required], "enforce_minimum_key_length": True},
    )
    return claims


def ends(claims: dict[str, Any]) -> int:
    """Seconds since the epoch when a verified token ends, the leeway included."""
    return int(claims["exp"]) + LEEWAY_S


# -- oidc -------------------------------------------------------------------------------------------------------------
# Tokens of an OIDC issuer: signed with one of its published keys, for this service, valid now.


class OidcTokens:
    """Judges tokens of one issuer.

    Args:
        settings: issuer, audiences, claims, administrators.
        keys: the issuer's keys.
    """

    def __init__(self, settings: OidcSettings, keys: IssuerKeys) -> None:
        self._settings, self._keys = settings, keys

    def judge(self, token: str, header: dict[str, Any]) -> Judged:
        """Judge a token whose unverified header names one of ``jwks.ALGORITHMS``.

        Raises:
            NotAuthenticated: it is not accepted.
            AuthenticationUnavailable: the issuer's keys could not be got.
        """
        algorithm: str = header["alg"]
        key = self._keys.find(header.get("kid"), algorithm)
        claims = verified(
            token, key, algorithm=algorithm, issuer=self._settings.issuer, audience=self._settings.audiences
        )
        return Judged(principal_of(claims, self._settings), ends(claims))


# -- own --------------------------------------------------------------------------------------------------------------
# Turnstile's own access tokens: short-lived, signed with a key of the deployment, carrying the principal.
#
# Nothing is looked up to judge one; that is what they are for. Hence a client that is deleted keeps its rights until its last
# token ends. They name the realm as issuer and audience: a token of one realm is none in another.


ALGORITHM: Final = "HS256"


class Issued(NamedTuple):
    """A fresh token; ``seconds`` until it ends."""

    token: str
    seconds: int


class _Claims(msgspec.Struct, frozen=True):
    sub: str
    roles: frozenset[str]
    admin: bool


class OwnTokens:
    """Issues and judges them.

    Args:
        keys: the first signs; all of them verify, so that a key can be replaced without a gap.
        realm: whose tokens they are.
        seconds: how long one is valid.
        now: seconds since the epoch.
    """

    def __init__(
        self, keys: Sequence[SigningKey], realm: str, seconds: int, *, now: Callable[[], float] = time.time
    ) -> None:
        self._keys = {key.id: key for key in keys}
        self._signing, self._who, self._seconds, self._now = keys[0], f"turnstile:{realm}", seconds, now

    def issue(self, principal: Principal, *, until: int | None = None) -> Issued:
        """A token of ``principal``; it ends at ``until`` (seconds since the epoch) at the latest."""
        now = int(self._now())
        expires = min(now + self._seconds, until if until is not None else now + self._seconds)
        claims = {
            "iss": self._who,
            "aud": self._who,
            "sub": principal.name,
            "roles": sorted(principal.roles),
            "admin": principal.admin,
            "iat": now,
            "exp": expires,
        }
        headers = {"kid": self._signing.id, "typ": "at+jwt"}
        return Issued(jwt.encode(claims, self._signing.secret, ALGORITHM, headers), expires - now)

    def judge(self, token: str, header: dict[str, Any]) -> Judged:
        """Judge a token by its unverified header's ``kid``; raises NotAuthenticated."""
        key = self._keys.get(str(header.get("kid")))
        if key is None:
            raise invalid("no key of this service has its kid")
        claims = verified(token, key.secret, algorithm=ALGORITHM, issuer=self._who, audience=[self._who])
        try:
            told = msgspec.convert(claims, _Claims)
        except msgspec.ValidationError:
            raise invalid("it is not an access token") from None
        return Judged(Principal(told.sub, told.roles, told.admin), ends(claims))


# -- signed -----------------------------------------------------------------------------------------------------------
# Signed tokens (JWT). Importing this loads PyJWT; ``settings`` does so when the first such token comes.


_MISSING: Final = "this service accepts no such tokens"


class SignedTokens:
    """Sends a token to the one judge that its algorithm belongs to.

    A symmetric algorithm leads to our own keys only and an asymmetric one to the issuer's only: no token can have one
    of them judged with the other's key, whatever its header says.

    Args:
        own: judges our own tokens; None where the deployment has no key for them.
        issuer: judges the OIDC issuer's; None where none is trusted.
    """

    def __init__(self, own: OwnTokens | None, issuer: OidcTokens | None) -> None:
        self.own, self.issuer = own, issuer

    def judge(self, token: str) -> Judged:
        """See ``judged.Judge``."""
        header = _header(token)
        if header.get("alg") == ALGORITHM:
            if self.own is None:
                raise invalid(_MISSING)
            return self.own.judge(token, header)
        return self._issuers(token, header)

    def judge_issuers(self, token: str) -> Judged:
        """Judge a token that only counts if the issuer made it; raises as ``judge``."""
        return self._issuers(token, _header(token))

    def _issuers(self, token: str, header: dict[str, Any]) -> Judged:
        algorithm = header.get("alg")
        if isinstance(algorithm, str) and algorithm in ALGORITHMS:
            if self.issuer is None:
                raise invalid(_MISSING)
            return self.issuer.judge(token, header)
        raise invalid("its algorithm is not one that is accepted")


def from_settings(settings: AuthSettings) -> SignedTokens:
    """The judge that they describe."""
    return SignedTokens(
        OwnTokens(settings.keys, settings.realm, settings.seconds) if settings.keys else None,
        OidcTokens(settings.oidc, IssuerKeys(settings.oidc.issuer)) if settings.oidc else None,
    )


@guarded
def _header(token: str) -> dict[str, Any]:
    return jwt.get_unverified_header(token)
