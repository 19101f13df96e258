"""Signed tokens (JWT). Importing this loads PyJWT; ``settings`` does so when the first such token comes."""

from __future__ import annotations

from typing import Any, Final

import jwt

from turnstile.api.auth.judged import Judged, invalid
from turnstile.api.auth.jwks import ALGORITHMS, IssuerKeys
from turnstile.api.auth.oidc import OidcTokens
from turnstile.api.auth.own import ALGORITHM as OWN
from turnstile.api.auth.own import OwnTokens
from turnstile.api.auth.settings import AuthSettings
from turnstile.api.auth.verifying import guarded

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
        if header.get("alg") == OWN:
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
