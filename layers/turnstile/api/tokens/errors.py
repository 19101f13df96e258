"""Errors of the token endpoint, in the shape of RFC 6749, 5.2: ``{"error", "error_description"}`` and nothing more."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from turnstile.api.http.responses import status_of
from turnstile.store.core.errors import TurnstileError

NO_STORE: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
"""Of every answer, RFC 6749, 5.1."""

_FOREIGN: Final = re.compile(r"[^\x20-\x21\x23-\x5b\x5d-\x7e]")
"""What an ``error_description`` may not hold."""

_LATER: Final = ("Throttled", "AuthenticationUnavailable")


class OAuthError(TurnstileError):
    """A refusal by the token endpoint.

    Args:
        error: one of the specification's codes.
        description: what is wrong, for people.
    """

    def __init__(self, error: str, description: str) -> None:
        super().__init__(description)
        self.type = error


def render(error: TurnstileError, _path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and body."""
    headers = {"Content-Type": "application/json", **NO_STORE}
    status, code, words = status_of(error), "invalid_request", error.message
    if isinstance(error, OAuthError):
        status, code = 401 if error.type == "invalid_client" else 400, error.type
        if status == 401:
            headers["WWW-Authenticate"] = 'Basic realm="turnstile", charset="UTF-8"'
    elif error.type in _LATER:
        retry = int(error.details.get("retry_after_ms", 1000))
        headers["Retry-After"] = str(max(1, -(-retry // 1000)))
        status, code = 503, "temporarily_unavailable"
    elif status >= 500:
        status, code, words = 500, "server_error", f"an internal error occurred, correlation id {correlation}"
    elif status == 405:
        headers["Allow"] = ", ".join(error.details.get("allowed", ()))
    elif status != 404:
        status = 400
    body = {"error": code, "error_description": _FOREIGN.sub("?", words)}
    return status, headers, msgspec.json.encode(body)
