"""The judgement of a token, and what a judge of tokens is."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

import msgspec

from turnstile.access.core.grants import OPERATOR, Principal
from turnstile.store.core.errors import NotAuthenticated


class Judged(msgspec.Struct, frozen=True):
    """An accepted token.

    Attributes:
        principal: whose it is.
        until: seconds since the epoch when it ends, the leeway for clocks included; None: it does not end.
    """

    principal: Principal
    until: int | None = None


class Judge(Protocol):
    """Judges tokens of some kinds."""

    def judge(self, token: str) -> Judged:
        """The token's principal.

        Raises:
            NotAuthenticated: it is not accepted; the message says why.
            AuthenticationUnavailable: whether it is accepted could not be found out.
        """


def invalid(why: str) -> NotAuthenticated:
    """The refusal of a token that was sent; ``why`` completes "the bearer token is not accepted: "."""
    return NotAuthenticated(
        f"the bearer token is not accepted: {why}", field="Authorization", remedy="get a new token and send that"
    )


# -- static -----------------------------------------------------------------------------------------------------------
# Tokens that the deployment itself names. Only their hashes are kept.


def fingerprint(token: str) -> str:
    """SHA-256 of a token, in hex."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


class StaticTokens:
    """Finds the principal of a static token.

    Args:
        known: principals by their token's ``fingerprint``.
    """

    def __init__(self, known: Mapping[str, Principal]) -> None:
        self._known = dict(known)

    def find(self, token: str) -> Principal | None:
        """Whose token it is; in a time that tells nothing of the tokens that are known."""
        given, found = fingerprint(token), None
        for print_, principal in self._known.items():
            if hmac.compare_digest(print_, given):
                found = principal
        return found


# -- verdict ----------------------------------------------------------------------------------------------------------
# A judgement as it travels from the gateway's authorizer to the functions: strings in the request context.
#
# Members: ``name``, ``roles`` (JSON), ``admin``, ``until``.
#
# Strings, because gateways do not agree on how other values arrive. A refusal is no verdict: the context is empty then, and
# the function judges the token itself (docs/security.md).


def encode(judged: Judged) -> dict[str, str]:
    """The authorizer's context."""
    principal = judged.principal
    return {
        "name": principal.name,
        "roles": msgspec.json.encode(sorted(principal.roles)).decode(),
        "admin": "true" if principal.admin else "false",
        "until": "" if judged.until is None else str(judged.until),
    }


def decode(request_context: Mapping[str, Any]) -> Judged | None:
    """The verdict in an event's ``requestContext``; None if there is none, or none that this module wrote."""
    authorizer = request_context.get("authorizer")
    context = authorizer.get("lambda") if isinstance(authorizer, Mapping) else None
    if not isinstance(context, Mapping):
        return None
    try:
        told = msgspec.convert(dict(context), dict[str, str])
        name, admin, until = told["name"], told["admin"], told["until"]
        roles = msgspec.json.decode(told["roles"], type=frozenset[str])
    except (msgspec.MsgspecError, KeyError):
        return None
    if not name or admin not in ("true", "false") or (until and not (until.isascii() and until.isdigit())):
        return None
    return Judged(Principal(name, roles, admin == "true"), int(until) if until else None)


# -- bearer -----------------------------------------------------------------------------------------------------------
# The judgement of a request: the authorizer's verdict if there is one, else the token itself.


MAX_TOKEN: Final = 8 * 1024
"""Characters of a token that are looked at; a gateway lets through about 10 kB of headers."""


class Authentication(Protocol):
    """Tells who asks."""

    def principal(self, authorization: str, context: Mapping[str, Any]) -> Principal:
        """Whose request it is.

        Args:
            authorization: the header, empty when there is none.
            context: the event's ``requestContext``, which only the gateway writes.

        Raises:
            NotAuthenticated: nobody's who may ask.
            AuthenticationUnavailable: that could not be found out.
        """


class Open:
    """Everybody is the operator: for a stack that only this machine reaches, and for whoever says so on purpose."""

    def principal(self, authorization: str, context: Mapping[str, Any]) -> Principal:
        """See ``Authentication``."""
        return OPERATOR


class Bearer:
    """Judges bearer tokens.

    Args:
        static: the deployment's own tokens.
        signed: makes the judge of signed tokens at the first one that comes (it loads PyJWT); None: none are accepted.
        now: seconds since the epoch.
    """

    def __init__(
        self, static: StaticTokens, signed: Callable[[], Judge] | None = None, *, now: Callable[[], float] = time.time
    ) -> None:
        self._static, self._signed, self._now = static, signed, now
        self._judge: Judge | None = None

    def principal(self, authorization: str, context: Mapping[str, Any]) -> Principal:
        """See ``Authentication``. Without a verdict, or with one that has ended, the token is judged here (fail closed).

        A verdict counts only where signed tokens are accepted: elsewhere the template deploys no authorizer.
        """
        found = decode(context) if self._signed is not None else None
        if found is not None and (found.until is None or self._now() < found.until):
            return found.principal
        return self.judge(authorization).principal

    def judge(self, authorization: str) -> Judged:
        """Judge an ``Authorization`` header; raises as ``Authentication.principal``."""
        token = token_of(authorization)
        operator = self._static.find(token)
        if operator is not None:
            return Judged(operator)
        if self._signed is None or token.count(".") != 2:
            raise invalid("it is none that this service knows")
        self.prepare()
        assert self._judge is not None
        return self._judge.judge(token)

    def prepare(self) -> None:
        """Load what signed tokens need now rather than at the first of them."""
        if self._judge is None and self._signed is not None:
            self._judge = self._signed()


def token_of(authorization: str) -> str:
    """The bearer token of an ``Authorization`` header.

    Raises:
        NotAuthenticated: no header, another scheme, or a token that is too long to be one.
    """
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise NotAuthenticated(
            "a bearer token is required", field="Authorization", remedy="send 'Authorization: Bearer <token>'"
        )
    if len(token) > MAX_TOKEN:
        raise invalid(f"it is longer than {MAX_TOKEN} characters")
    return token


# -- which URLs may be trusted for what they answer

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def trustworthy(url: str) -> bool:
    """Whether nobody on the way can change what is got from there: https, or this very machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    )
