"""Authentication of a request: by the results of the gateway's authorizer, else by the bearer token
itself."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

from turnstile.api.auth import settings
from turnstile.api.auth.settings import Accepted, AuthSettings
from turnstile.api.auth.verifier import (
    AuthenticationUnavailable,
    VerifiedToken,
    Verifier,
    fingerprint,
    from_context,
    invalid,
)
from turnstile.rights.grants import OPERATOR, Principal
from turnstile.store.core.errors import NotAuthenticated, StorageFault

T = TypeVar("T")

MAX_TOKEN: Final = 8 * 1024
"""Characters of a token that is looked at; a gateway lets through about 10 kB of headers."""


class Authentication(Protocol):
    """Finds the principal of a request."""

    def principal(self, authorization: str, context: Mapping[str, Any]) -> Principal:
        """Returns the principal, by the header (empty when there is none) and the event's
        ``requestContext``, which only the gateway writes. Raises NotAuthenticated without an
        accepted token, AuthenticationUnavailable if that could not be found out.
        """


class Open:
    """Every caller is the operator: ``TURNSTILE_AUTHENTICATION=none``."""

    def principal(self, authorization: str, context: Mapping[str, Any]) -> Principal:
        return OPERATOR

    def verify(self, authorization: str) -> VerifiedToken:
        """For any header."""
        return VerifiedToken(OPERATOR)

    def prepare(self) -> None:
        """There is nothing to load."""


class StaticTokens:
    """Principals of static tokens, by their token's ``fingerprint``."""

    def __init__(self, principals: Mapping[str, Principal]) -> None:
        self._principals = dict(principals)

    def find(self, token: str) -> Principal | None:
        """Returns the token's principal, or None; the time it takes reveals nothing about the
        accepted tokens."""
        sent = fingerprint(token)
        match = None
        for accepted, principal in self._principals.items():
            if hmac.compare_digest(accepted, sent):
                match = principal
        return match


class Bearer:
    """``Authentication`` by bearer tokens. ``signed`` makes the verifier of signed tokens at the
    first one (it loads PyJWT); None: none are accepted."""

    def __init__(
        self,
        static: StaticTokens,
        signed: Callable[[], Verifier] | None = None,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._static = static
        self._signed = signed
        self._now = now
        self._verifier: Verifier | None = None

    def principal(self, authorization: str, context: Mapping[str, Any]) -> Principal:
        """The token is verified here if the context holds none, or one that has ended. A context
        counts only where signed tokens are accepted: elsewhere the template deploys no authorizer.
        """
        verified = from_context(context) if self._signed is not None else None
        if verified is not None and (verified.expires_s is None or self._now() < verified.expires_s):
            return verified.principal
        return self.verify(authorization).principal

    def verify(self, authorization: str) -> VerifiedToken:
        """Verifies an ``Authorization`` header; raises as ``Authentication.principal``."""
        token = token_of(authorization)
        principal = self._static.find(token)
        if principal is not None:
            return VerifiedToken(principal)
        if self._signed is None or token.count(".") != 2:
            raise invalid("this service does not know it")
        self.prepare()
        assert self._verifier is not None
        return self._verifier.verify(token)

    def prepare(self) -> None:
        """Loads the modules for signed tokens now rather than at the first of them."""
        if self._verifier is None and self._signed is not None:
            self._verifier = self._signed()


class FromSecret:
    """``Authentication`` by the present value of the deployment's secret. An unknown token causes a
    new read of the secret, so that a new one counts at once."""

    def __init__(self, accepted: Accepted) -> None:
        self._accepted = accepted
        self._settings = accepted()
        self._by = by_settings(self._settings)

    def principal(self, authorization: str, context: Mapping[str, Any]) -> Principal:
        return self._ask(lambda by: by.principal(authorization, context))

    def verify(self, authorization: str) -> VerifiedToken:
        """Verifies an ``Authorization`` header; raises as ``principal``."""
        return self._ask(lambda by: by.verify(authorization))

    def prepare(self) -> None:
        """As ``Bearer.prepare``."""
        self._by.prepare()

    def _ask(self, question: Callable[[Open | Bearer], T]) -> T:
        try:
            by = self._of(self._accepted())
            try:
                return question(by)
            except NotAuthenticated:
                renewed = self._of(self._accepted.renew())
                if renewed is by:
                    raise
                return question(renewed)
        except StorageFault as fault:
            raise AuthenticationUnavailable(fault.message, remedy=fault.remedy) from fault

    def _of(self, accepted: AuthSettings | None) -> Open | Bearer:
        if accepted is not self._settings:
            self._by = by_settings(accepted)
            self._settings = accepted
        return self._by


def authentication() -> Open | Bearer | FromSecret:
    """The authentication that the environment asks for; raises BadSetting, and StorageFault for a
    secret that cannot be read."""
    accepted = settings.Accepted()
    return FromSecret(accepted) if accepted.changes else by_settings(accepted())


def by_settings(accepted: AuthSettings | None) -> Open | Bearer:
    """The authentication of these settings; None: every caller that reaches the service may do
    everything."""
    return Open() if accepted is None else bearer(accepted)


def bearer(accepted: AuthSettings) -> Bearer:
    """The authentication by the tokens that the settings accept."""

    def signed_verifier() -> Verifier:
        from turnstile.api.auth.signed import from_settings  # loads PyJWT

        return from_settings(accepted)

    return Bearer(StaticTokens(accepted.tokens), signed_verifier if accepted.keys or accepted.oidc else None)


def token_of(authorization: str) -> str:
    """The bearer token of an ``Authorization`` header; raises NotAuthenticated for none, or one
    that is too long."""
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise NotAuthenticated(
            "a bearer token is required", field="Authorization", remedy="send 'Authorization: Bearer <token>'"
        )
    if len(token) > MAX_TOKEN:
        raise invalid(f"it is longer than {MAX_TOKEN} characters")
    return token
