"""The optional static bearer token."""

from __future__ import annotations

import hmac

from turnstile.core.errors import NotAuthenticated


class StaticToken:
    """Lets a request pass that carries ``token``; with an empty token everybody passes (I12: the stack is open then).

    Args:
        token: the secret, from ``TURNSTILE_TOKEN``.
    """

    def __init__(self, token: str = "") -> None:
        self._token = token.encode()

    def check(self, authorization: str) -> None:
        """Judge an ``Authorization`` header in constant time.

        Raises:
            NotAuthenticated: missing or wrong.
        """
        if not self._token:
            return
        scheme, _, given = authorization.partition(" ")
        right = hmac.compare_digest(given.strip().encode(errors="replace"), self._token)
        if scheme.lower() != "bearer" or not right:
            raise NotAuthenticated(
                "a valid bearer token is required",
                field="Authorization",
                remedy="send 'Authorization: Bearer <token>' with this stack's token",
            )
