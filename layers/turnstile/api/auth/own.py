"""Turnstile's own access tokens: short-lived, signed with a key of the deployment, carrying the principal.

Nothing is looked up to judge one; that is what they are for. Hence a client that is deleted keeps its rights until its last
token ends. They name the realm as issuer and audience: a token of one realm is none in another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import jwt
import msgspec

from turnstile.access.core.principal import Principal
from turnstile.api.auth.judged import Judged, invalid
from turnstile.api.auth.settings import SigningKey
from turnstile.api.auth.verifying import ends, verified

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
