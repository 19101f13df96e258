"""GET of an issuer's documents: https only, no redirects, little time, little data."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from typing import Any, Final

from turnstile.api.auth.urls import trustworthy

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
