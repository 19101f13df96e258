"""Tokens that the deployment itself names. Only their hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from turnstile.access.core.principal import Principal


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
