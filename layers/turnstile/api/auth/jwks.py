"""Which URLs may be trusted for what they answer."""

from __future__ import annotations

import http.client
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import jwt

from turnstile.api.auth.bearer import invalid, trustworthy
from turnstile.api.http.errors import AuthenticationUnavailable

# -- fetching ---------------------------------------------------------------------------------------------------------
# GET of an issuer's documents: https only, no redirects, little time, little data.


SECONDS: Final = 3.0
MAX_BYTES: Final = 512 * 1024


class Unreachable(Exception):
    """The document could not be got, or is not what it should be."""


class _Stay(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it could lead to http, or to somebody else."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch_json(url: str) -> dict[str, Any]:
    """The JSON object at ``url``.

    Raises:
        Unreachable: no answer in time, another status than 200, too large, not an object, or not a URL to be trusted.
    """
    if not trustworthy(url):
        raise Unreachable(f"{url[:200]!r} is not an https URL")
    opener = urllib.request.build_opener(_Stay)
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - judged above
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            raw = answer.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(f"{url}: {error}") from None
    if len(raw) > MAX_BYTES:
        raise Unreachable(f"{url}: more than {MAX_BYTES} bytes")
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError):
        raise Unreachable(f"{url}: not JSON") from None
    if not isinstance(told, dict):
        raise Unreachable(f"{url}: not a JSON object")
    return told


# -- jwks -------------------------------------------------------------------------------------------------------------
# An issuer's public keys: fetched through its discovery document, kept, and fetched again with restraint.
#
# * A key that is not known makes them be fetched again, because issuers rotate keys; but not more often than every
#   ``PAUSE_S``, whatever strangers write into their tokens.
# * A key that is not known during that pause may be one that the issuer made since: it is not refused, but asked for again
#   when the pause is over. Refused is what the issuer's word of just now does not know.
# * Keys older than ``FRESH_S`` are fetched again. While the issuer cannot be reached the old ones count, for ``STALE_S``.
# * Without an answer of the issuer a key that is not known is neither good nor bad: ``AuthenticationUnavailable``, not a
#   refusal.


ALGORITHMS: Final[Mapping[str, str]] = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
}  # fmt: skip
"""Accepted algorithms, each with the type of its keys: signatures with a private key only."""

FRESH_S: Final = 600
STALE_S: Final = 6 * 3600
PAUSE_S: Final = 30
"""Least seconds between two fetches."""

JUST_S: Final = 1
"""Seconds for which a fetch is the issuer's present word."""

RETRY_S: Final = 5
"""Least seconds between a fetch that failed and the next."""

Jwk = dict[str, Any]


class IssuerKeys:
    """The keys of one issuer.

    Args:
        issuer: its URL, as in the claim ``iss``.
        fetch: gets a URL's JSON object, or raises ``Unreachable``.
        now: seconds, never going back.
    """

    def __init__(
        self,
        issuer: str,
        *,
        fetch: Callable[[str], Mapping[str, Any]] = fetch_json,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer, self._fetch, self._now = issuer, fetch, now
        self._lock = threading.Lock()
        self._keys: Sequence[Jwk] = ()
        self._fetched: float | None = None
        self._next = float("-inf")
        self._failed = False

    def find(self, kid: object, algorithm: str) -> jwt.PyJWK:
        """The key that a token's header names; a header without ``kid`` means the issuer's only key of that kind.

        Raises:
            NotAuthenticated: the issuer has no such key.
            AuthenticationUnavailable: the issuer could not be asked, or not again so soon.
        """
        if kid is not None and not isinstance(kid, str):
            raise invalid("its kid is not a text")
        found = self._pick(kid, algorithm)
        if found is None or not self._younger(FRESH_S):
            self._refresh(wait=found is None)
            found = self._pick(kid, algorithm)
        if found is not None:
            return _key(found, algorithm)
        if self._failed or self._fetched is None:
            raise AuthenticationUnavailable(
                "the issuer's keys cannot be got at the moment", retry_after_ms=RETRY_S * 1000
            )
        if not self._younger(JUST_S):
            raise AuthenticationUnavailable(
                "the issuer's keys were fetched shortly before, and this one was not among them",
                retry_after_ms=max(1, round((self._next - self._now()) * 1000)),
            )
        raise invalid("its issuer has no such key")

    def _pick(self, kid: str | None, algorithm: str) -> Jwk | None:
        if not self._younger(STALE_S):
            return None
        fit = [key for key in self._keys if _fits(key, algorithm) and kid in (None, key.get("kid"))]
        return fit[0] if len(fit) == 1 or (fit and kid is not None) else None

    def _younger(self, seconds: float) -> bool:
        return self._fetched is not None and self._now() - self._fetched < seconds

    def _refresh(self, *, wait: bool) -> None:
        """Fetch the keys unless that happened just now. One does it; the others wait only if they have no key."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if self._now() < self._next:
                return
            try:
                self._keys = self._get()
                self._fetched, self._failed = self._now(), False
            except Unreachable:
                self._failed = True
            self._next = self._now() + (RETRY_S if self._failed else PAUSE_S)
        finally:
            self._lock.release()

    def _get(self) -> Sequence[Jwk]:
        told = self._fetch(self._issuer.rstrip("/") + "/.well-known/openid-configuration")
        if told.get("issuer") != self._issuer:
            raise Unreachable("the discovery document is another issuer's")
        place = str(told.get("jwks_uri"))
        if self._issuer.startswith("https:") and not place.startswith("https:"):
            raise Unreachable("the key set of an issuer on https is not")  # nor something of this machine's own
        keys = self._fetch(place).get("keys")
        if not isinstance(keys, list):
            raise Unreachable("the key set has no keys")
        return [key for key in keys if isinstance(key, dict)]


def _fits(key: Jwk, algorithm: str) -> bool:
    """Whether the key may verify signatures with ``algorithm``, as far as it says itself."""
    uses = key.get("key_ops", ["verify"])
    return (
        key.get("kty") == ALGORITHMS[algorithm]
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
        and isinstance(uses, list)
        and "verify" in uses
    )


def _key(key: Jwk, algorithm: str) -> jwt.PyJWK:
    try:
        return jwt.PyJWK(key, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        raise invalid("its issuer's key cannot be used") from None
