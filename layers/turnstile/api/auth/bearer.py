"""The judgement of a request: the authorizer's verdict if there is one, else the token itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from turnstile.access.core.principal import OPERATOR, Principal
from turnstile.api.auth import verdict
from turnstile.api.auth.judged import Judge, Judged, invalid
from turnstile.api.auth.static import StaticTokens
from turnstile.store.core.errors import NotAuthenticated

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
        found = verdict.decode(context) if self._signed is not None else None
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
