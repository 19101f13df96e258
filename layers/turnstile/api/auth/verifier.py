"""The result of verifying a token, and its form between the gateway's authorizer and the
functions."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from turnstile.rights.grants import Principal
from turnstile.store.core.errors import ErrorType, NotAuthenticated, TurnstileError

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class AuthenticationUnavailable(TurnstileError):
    """Whether a token is good could not be found out: its issuer did not answer. Neither accepted
    nor refused."""

    type = ErrorType.AUTHENTICATION_UNAVAILABLE
    usual_remedy = "send the same request again later"


class VerifiedToken(msgspec.Struct, frozen=True):
    """An accepted token; it ends at ``expires_s`` since the epoch, the leeway for clocks included
    (None: never)."""

    principal: Principal
    expires_s: int | None = None


class Verifier(Protocol):
    """Verifies tokens of some kinds."""

    def verify(self, token: str) -> VerifiedToken:
        """Returns the verified token; raises NotAuthenticated if it is not accepted,
        AuthenticationUnavailable if that could not be found out."""


def invalid(why: str) -> NotAuthenticated:
    """The refusal of a token that was sent; ``why`` completes "the bearer token is not accepted:
    "."""
    return NotAuthenticated(
        f"the bearer token is not accepted: {why}", field="Authorization", remedy="get a new token and send that"
    )


def fingerprint(token: str) -> str:
    """SHA-256 of a token, in hex: the only form in which a deployment holds static tokens."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def is_trusted(url: str) -> bool:
    """Whether a response from ``url`` cannot be changed on its way: https, or a loopback
    address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    secure = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    return bool(parts.hostname) and secure


def to_context(verified: VerifiedToken) -> dict[str, str]:
    """The authorizer's context. All values are text: gateways do not agree on how other values
    arrive."""
    principal = verified.principal
    return {
        "name": principal.name,
        "roles": msgspec.json.encode(sorted(principal.roles)).decode(),
        "admin": "true" if principal.admin else "false",
        "until": "" if verified.expires_s is None else str(verified.expires_s),
    }


def from_context(request_context: Mapping[str, Any]) -> VerifiedToken | None:
    """The token that the authorizer verified, from an event's ``requestContext``; None if there is
    none, or none that ``to_context`` wrote: a refusal leaves it empty, and the function verifies
    the token itself (docs/security.md).
    """
    authorizer = request_context.get("authorizer")
    context = authorizer.get("lambda") if isinstance(authorizer, Mapping) else None
    if not isinstance(context, Mapping):
        return None
    try:
        members = msgspec.convert(dict(context), dict[str, str])
        name = members["name"]
        admin = members["admin"]
        until = members["until"]
        roles = msgspec.json.decode(members["roles"], type=frozenset[str])
    except (msgspec.MsgspecError, KeyError):
        return None
    if not name or admin not in ("true", "false") or (until and not (until.isascii() and until.isdigit())):
        return None
    return VerifiedToken(Principal(name, roles, admin == "true"), int(until) if until else None)
