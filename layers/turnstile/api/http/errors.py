"""Errors as HTTP answers: one status per type, one body shape.

``/v1``: ``{"error": {"type", "message", "code", "remedy"?, "field"?, ...details}}``. Other APIs bring a shape of their
own, a ``Render`` (``turnstile.api.unity.errors``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from turnstile.delta.core.decide import Refused
from turnstile.store.core.errors import StateConflict, TurnstileError

STATUS: Final[dict[str, int]] = {
    "InvalidRequest": 400,
    "InvalidCommit": 400,
    "VersionGap": 400,
    "TimestampNotIncreasing": 400,
    "TimestampAhead": 400,
    "UnsupportedTable": 400,
    "NotAuthenticated": 401,
    "PermissionDenied": 403,
    "NoSuchCatalog": 404,
    "NoSuchNamespace": 404,
    "NoSuchTable": 404,
    "NoSuchStagingTable": 404,
    "NoSuchStagedFile": 404,
    "NoSuchCommit": 404,
    "NoSuchRef": 404,
    "NoSuchRoute": 404,
    "MethodNotAllowed": 405,
    "CommitVersionConflict": 409,
    "StaleMetadata": 409,
    "AlreadyExists": 409,
    "NamespaceNotEmpty": 409,
    "StagingTableUsed": 409,
    "TableNotActive": 409,
    "ReloadRequired": 409,
    "LocationOwned": 409,
    "ConcurrentChange": 409,
    "CannotReset": 409,
    "CannotClone": 409,
    "TableHasClones": 409,
    "RefMoved": 409,
    "GcRunning": 409,
    "TooLarge": 413,
    "UnsupportedMediaType": 415,
    "KeyReused": 422,
    "BacklogFull": 429,
    "Throttled": 429,
    "CommitStateUnknown": 500,
    "InternalError": 500,
    "StorageFault": 503,
    "AuthenticationUnavailable": 503,
}

STORAGE_RETRY_MS: Final = 500

MOST: Final = 1_000
"""Characters of a refusal's message, field and remedy."""

Render = Callable[[TurnstileError, str, str], tuple[int, dict[str, str], bytes]]
"""Tells an error: from the error, the request's path and its correlation id to status, headers and body."""


class NoSuchRoute(TurnstileError):
    """No operation has this path."""

    type = "NoSuchRoute"


class AuthenticationUnavailable(TurnstileError):
    """Whether a token is good could not be found out: its issuer did not answer. Neither accepted nor refused."""

    type = "AuthenticationUnavailable"
    usual_remedy = "send the same request again later"


class MethodNotAllowed(TurnstileError):
    """The path exists, not with this method; ``details`` has ``allowed``."""

    type = "MethodNotAllowed"


class UnsupportedMediaType(TurnstileError):
    """The body is not declared to be JSON."""

    type = "UnsupportedMediaType"


def refusal(refused: Refused) -> TurnstileError:
    """A decision's Refused as an error, with its data."""
    return StateConflict(refused.kind, refused.message, field=refused.field, remedy=refused.remedy, **refused.details)


def cut(text: str) -> str:
    """``text``, or its beginning and an ellipsis when it has more than ``MOST`` characters."""
    return text if len(text) <= MOST else text[: MOST - 1] + "…"


def brief(error: TurnstileError) -> TurnstileError:
    """``error`` with what it says cut. Refusals quote what was sent, which may be a megabyte; escaped for people, for JSON
    and for Lambda it would be seven, and Lambda makes a failure of more than six. Once, for all renders and for the log."""
    error.message = cut(error.message)
    error.field = None if error.field is None else cut(error.field)
    error.remedy = None if error.remedy is None else cut(error.remedy)
    return error


def status_of(error: TurnstileError) -> int:
    """HTTP status; 404 for an unlisted ``NoSuch...``, 500 for a type nobody listed."""
    return STATUS.get(error.type, 404 if error.type.startswith("NoSuch") else 500)


def render(error: TurnstileError, _path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body. A type that is nobody's fault but ours says nothing about the inside."""
    code = status_of(error)
    headers = {"Content-Type": "application/json"}
    if error.type == "StorageFault":
        error.details.setdefault("retry_after_ms", STORAGE_RETRY_MS)
    retry = error.details.get("retry_after_ms")
    if isinstance(retry, int):
        headers["Retry-After"] = str(max(1, -(-retry // 1000)))
    if code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="turnstile"'
    if code == 405:
        headers["Allow"] = ", ".join(error.details.get("allowed", ()))
    internal = error.type == "InternalError"
    message = "an internal error occurred; nothing more is known" if internal else error.message
    body: dict[str, Any] = {"type": error.type, "message": message, "code": code}
    if internal:
        body |= {
            "remedy": "try again; if it stays, look for the correlation id in the logs",
            "correlation": correlation,
        }
    else:
        if error.field is not None:
            body["field"] = error.field
        if error.remedy is not None:
            body["remedy"] = error.remedy
        body |= {name: value for name, value in error.details.items() if name not in body}
    return code, headers, msgspec.json.encode({"error": body})
