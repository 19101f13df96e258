"""An issuer's public keys: fetched through its discovery document, cached, and fetched again at a
limited rate.

* An unknown key causes a new fetch, because issuers rotate keys; but at most once in ``PAUSE_S``,
  for any content of strangers' tokens.
* A key that is unknown during that pause may be newer than the last fetch: it is not refused, but
  looked up again after the pause. Only a key that is missing from a response of just now is
  refused.
* Keys older than ``FRESH_S`` are fetched again. While the issuer cannot be reached the old ones
  count, for ``STALE_S``.
* Without a response of the issuer an unknown key is neither good nor bad:
  ``AuthenticationUnavailable``, not a refusal.
"""

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

from turnstile.api.auth.verifier import AuthenticationUnavailable, invalid, is_trusted

ALGORITHMS: Final[Mapping[str, str]] = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "EC", "ES384": "EC", "ES512": "EC", "EdDSA": "OKP",
}  # fmt: skip
"""Accepted algorithms, each with the type of its keys: signatures with a private key only."""

FRESH_S: Final = 600
STALE_S: Final = 6 * 3600
PAUSE_S: Final = 30  # at least, between two fetches
CURRENT_S: Final = 1  # for which a fetch counts as the issuer's present state
RETRY_S: Final = 5  # at least, between a fetch that failed and the next

TIMEOUT_S: Final = 3.0
MAX_BYTES: Final = 512 * 1024  # of a document of the issuer's

Jwk = dict[str, Any]


class Unreachable(Exception):
    """The document could not be fetched, or has the wrong form."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Makes a redirect an error: it could lead to http, or to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def fetch_json(url: str) -> dict[str, Any]:
    """Returns the JSON object at ``url``: https only, no redirects, within ``TIMEOUT_S`` and
    ``MAX_BYTES``; raises Unreachable otherwise."""
    if not is_trusted(url):
        raise Unreachable(f"{url[:200]!r} is not an https URL")
    opener = urllib.request.build_opener(_NoRedirects)
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - checked above
    try:
        with opener.open(request, timeout=TIMEOUT_S) as response:
            raw = response.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise Unreachable(f"{url}: {error}") from None
    if len(raw) > MAX_BYTES:
        raise Unreachable(f"{url}: more than {MAX_BYTES} bytes")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise Unreachable(f"{url}: not JSON") from None
    if not isinstance(document, dict):
        raise Unreachable(f"{url}: not a JSON object")
    return document


class IssuerKeys:
    """The keys of one ``issuer`` (its URL, as in the claim ``iss``), fetched by a function like
    ``fetch_json``."""

    def __init__(
        self,
        issuer: str,
        *,
        fetch: Callable[[str], Mapping[str, Any]] = fetch_json,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._fetch = fetch
        self._now = now
        self._lock = threading.Lock()
        self._keys: Sequence[Jwk] = ()
        self._fetched: float | None = None
        self._next = float("-inf")
        self._failed = False

    def find(self, kid: object, algorithm: str) -> jwt.PyJWK:
        """Returns the key that a token's header names; without ``kid`` the issuer's only key of
        that kind.

        Raises:
            NotAuthenticated: the issuer has no such key.
            AuthenticationUnavailable: the issuer could not be reached, or must not be asked again
                so soon.
        """
        if kid is not None and not isinstance(kid, str):
            raise invalid("its kid is not a text")
        key = self._pick(kid, algorithm)
        if key is None or not self._younger(FRESH_S):
            self._refresh(wait=key is None)
            key = self._pick(kid, algorithm)
        if key is not None:
            return _public_key(key, algorithm)
        if self._failed or self._fetched is None:
            raise AuthenticationUnavailable(
                "the issuer's keys cannot be got at the moment", retry_after_ms=RETRY_S * 1000
            )
        if not self._younger(CURRENT_S):
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
        """Fetches the keys unless that happened just now. One thread does it; others wait only if
        they have no key."""
        if not self._lock.acquire(blocking=wait):
            return
        try:
            if self._now() < self._next:
                return
            try:
                self._keys = self._fetch_keys()
                self._fetched = self._now()
                self._failed = False
            except Unreachable:
                self._failed = True
            self._next = self._now() + (RETRY_S if self._failed else PAUSE_S)
        finally:
            self._lock.release()

    def _fetch_keys(self) -> Sequence[Jwk]:
        document = self._fetch(self._issuer.rstrip("/") + "/.well-known/openid-configuration")
        if document.get("issuer") != self._issuer:
            raise Unreachable("the discovery document is another issuer's")
        url = str(document.get("jwks_uri"))
        if self._issuer.startswith("https:") and not url.startswith("https:"):
            raise Unreachable("the key set of an issuer on https is not")  # nor may it be a loopback address
        keys = self._fetch(url).get("keys")
        if not isinstance(keys, list):
            raise Unreachable("the key set has no keys")
        return [key for key in keys if isinstance(key, dict)]


def _fits(key: Jwk, algorithm: str) -> bool:
    """Whether the key may verify signatures with ``algorithm``, as far as its own members say."""
    uses = key.get("key_ops", ["verify"])
    return (
        key.get("kty") == ALGORITHMS[algorithm]
        and key.get("alg", algorithm) == algorithm
        and key.get("use", "sig") == "sig"
        and isinstance(uses, list)
        and "verify" in uses
    )


def _public_key(key: Jwk, algorithm: str) -> jwt.PyJWK:
    try:
        return jwt.PyJWK(key, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        raise invalid("its issuer's key cannot be used") from None
