"""From the result or error of a view to status, headers and body.

A view returns a Struct or dict (200), None (204), or an ``Answer``. An error has one status per
type and one shape: ``{"error": {"type", "message", "code", "remedy"?, "field"?, ...details}}`` in
``/v1``. Other APIs bring a shape of their own, a ``Render`` (``turnstile.api.unity.errors``).
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final

import msgspec

from turnstile.delta.core.decide import Refused
from turnstile.store.core.errors import ErrorType, StateConflict, TurnstileError, is_missing

JSON: Final = "application/json"


class Answer(msgspec.Struct, frozen=True):
    """A body with a status other than 200, or with headers of its own."""

    body: Any
    status: int = 200
    headers: dict[str, str] = {}


class Response(msgspec.Struct):
    """A response on its way to the client."""

    status: int
    headers: dict[str, str]
    body: bytes


def answer_201(body: Any) -> Answer:
    """Returns 201 with a body."""
    return Answer(body, 201)


STATUS: Final[dict[str, int]] = {
    ErrorType.INVALID_REQUEST: 400,
    ErrorType.INVALID_COMMIT: 400,
    ErrorType.INVALID_ROWS: 400,
    ErrorType.EXPECTATION_BROKEN: 400,
    ErrorType.VERSION_GAP: 400,
    ErrorType.TIMESTAMP_NOT_INCREASING: 400,
    ErrorType.TIMESTAMP_AHEAD: 400,
    ErrorType.UNSUPPORTED_TABLE: 400,
    ErrorType.NOT_AUTHENTICATED: 401,
    ErrorType.PERMISSION_DENIED: 403,
    ErrorType.NO_SUCH_BRANCH: 404,
    ErrorType.NO_SUCH_CATALOG: 404,
    ErrorType.NO_SUCH_NAMESPACE: 404,
    ErrorType.NO_SUCH_TABLE: 404,
    ErrorType.NO_SUCH_STAGING_TABLE: 404,
    ErrorType.NO_SUCH_STAGED_FILE: 404,
    ErrorType.NO_SUCH_COMMIT: 404,
    ErrorType.NO_SUCH_REF: 404,
    ErrorType.NO_SUCH_ROUTE: 404,
    ErrorType.NO_SUCH_TRANSACTION: 404,
    ErrorType.METHOD_NOT_ALLOWED: 405,
    ErrorType.COMMIT_VERSION_CONFLICT: 409,
    ErrorType.STALE_METADATA: 409,
    ErrorType.ALREADY_EXISTS: 409,
    ErrorType.NAMESPACE_NOT_EMPTY: 409,
    ErrorType.STAGING_TABLE_USED: 409,
    ErrorType.TABLE_NOT_ACTIVE: 409,
    ErrorType.RELOAD_REQUIRED: 409,
    ErrorType.LOCATION_OWNED: 409,
    ErrorType.CONCURRENT_CHANGE: 409,
    ErrorType.TRANSACTION_CONFLICT: 409,
    ErrorType.TRANSACTION_ABORTED: 409,
    ErrorType.TRANSACTION_COMMITTED: 409,
    ErrorType.TRANSACTION_SUPERSEDED: 409,
    ErrorType.TOO_MANY_READERS: 409,
    ErrorType.VERSIONS_GONE: 409,
    ErrorType.CANNOT_RESET: 409,
    ErrorType.CANNOT_UNDROP: 409,
    ErrorType.CANNOT_CLONE: 409,
    ErrorType.TABLE_HAS_CLONES: 409,
    ErrorType.REF_MOVED: 409,
    ErrorType.BRANCH_CONFLICT: 409,
    ErrorType.GC_RUNNING: 409,
    ErrorType.HAS_BRANCH: 409,
    ErrorType.CLOCK_AHEAD: 409,
    ErrorType.CURSOR_EXPIRED: 410,
    ErrorType.TOO_LARGE: 413,
    ErrorType.UNSUPPORTED_MEDIA_TYPE: 415,
    ErrorType.KEY_REUSED: 422,
    ErrorType.BACKLOG_FULL: 429,
    ErrorType.THROTTLED: 429,
    ErrorType.COMMIT_STATE_UNKNOWN: 500,
    ErrorType.INTERNAL_ERROR: 500,
    ErrorType.STORAGE_FAULT: 503,
    ErrorType.STORE_UNAVAILABLE: 503,
    ErrorType.SERVER_CLOSED: 503,
    ErrorType.NEWER_FORMAT: 503,
    ErrorType.AUTHENTICATION_UNAVAILABLE: 503,
}

STORAGE_RETRY_MS: Final = 500

MOST: Final = 1_000
"""Characters of a refusal's message, field and remedy."""

Render = Callable[[TurnstileError, str, str, str], tuple[int, dict[str, str], bytes]]
"""From an error, the request's method, path and correlation id to status, headers and body."""


class NoSuchRoute(TurnstileError):
    """No operation has this path."""

    type = ErrorType.NO_SUCH_ROUTE


class MethodNotAllowed(TurnstileError):
    """The path exists, not with this method; ``details`` has ``allowed``."""

    type = ErrorType.METHOD_NOT_ALLOWED


class UnsupportedMediaType(TurnstileError):
    """The body is not declared to be JSON."""

    type = ErrorType.UNSUPPORTED_MEDIA_TYPE


def refusal(refused: Refused) -> TurnstileError:
    """Returns a decision's Refused as an error."""
    return StateConflict(refused.kind, refused.message, field=refused.field, remedy=refused.remedy, **refused.details)


def _cut(text: str) -> str:
    return text if len(text) <= MOST else text[: MOST - 1] + "…"


def brief(error: TurnstileError) -> TurnstileError:
    """Returns ``error`` with its texts cut. Refusals quote the request, which may be a megabyte;
    escaped for people, for JSON and for Lambda it would be seven, and Lambda makes a failure of
    more than six.
    """
    error.message = _cut(error.message)
    error.field, error.remedy = (text and _cut(text) for text in (error.field, error.remedy))
    return error


def status_of(error: TurnstileError) -> int:
    """Returns the HTTP status; 404 for an unlisted ``NoSuch...``, 500 for any other."""
    return STATUS.get(error.type, 404 if is_missing(error.type) else 500)


def headers_of(error: TurnstileError, status: int, busy: Container[int] | None = None) -> dict[str, str]:
    """Returns the headers of an error response. ``Retry-After``, at least one second, comes with
    the statuses that are ``busy``; None: wherever the error has a time."""
    headers = {"Content-Type": JSON}
    retry_ms = error.details.get("retry_after_ms")
    if isinstance(retry_ms, int) if busy is None else status in busy:
        headers["Retry-After"] = str(max(1, -(-retry_ms // 1000))) if isinstance(retry_ms, int) else "1"
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="turnstile"'
    if status == 405:
        headers["Allow"] = ", ".join(error.details.get("allowed", ()))
    return headers


def render(error: TurnstileError, _method: str, _path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and body. A failure of our own says nothing about the inside."""
    code = status_of(error)
    internal = error.type == ErrorType.INTERNAL_ERROR
    if error.type in (ErrorType.STORAGE_FAULT, ErrorType.NEWER_FORMAT):
        error.details.setdefault("retry_after_ms", STORAGE_RETRY_MS)
    message = "an internal error occurred; nothing more is known" if internal else error.message
    body: dict[str, Any] = {"type": error.type, "message": message, "code": code}
    if internal:
        body["remedy"] = "try again; if it stays, look for the correlation id in the logs"
        body["correlation"] = correlation
    else:
        optional = {"field": error.field, "remedy": error.remedy}
        body |= {name: value for name, value in optional.items() if value is not None}
        body |= {name: value for name, value in error.details.items() if name not in body}
    return code, headers_of(error, code), msgspec.json.encode({"error": body})
