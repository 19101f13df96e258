"""Tokens of an OIDC issuer: signed with one of its published keys, for this service, valid now."""

from __future__ import annotations

from typing import Any

from turnstile.api.auth.claims import principal_of
from turnstile.api.auth.judged import Judged
from turnstile.api.auth.jwks import IssuerKeys
from turnstile.api.auth.settings import OidcSettings
from turnstile.api.auth.verifying import ends, verified


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
