"""Refusals of the Iceberg API and their one shape: ``{"error": {"message", "type", "code"}}``.

Clients choose their exception by status and operation, and by the type only where the specification says so. A status
of 5xx makes them believe that a commit may have happened; so what certainly did not happen never gets one, except when
storage or a token's issuer does not answer, which the specification tells as 503.
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.store.core.errors import TurnstileError

PREFIX: Final = "/iceberg"

_BAD: Final = (400, "BadRequestException")
_MISSING: Final = (404, "NotFoundException")
_NO_WAREHOUSE: Final = (404, "NoSuchWarehouseException")
_BUSY: Final = (429, "TooManyRequestsException")
_INTERNAL: Final = (500, "InternalServerError")

KINDS: Final[dict[str, tuple[int, str]]] = {
    "InvalidRequest": _BAD,
    "InvalidCommit": _BAD,
    "UnsupportedTable": _BAD,
    "UnsupportedMediaType": _BAD,
    "TooLarge": _BAD,
    "LocationOwned": _BAD,
    "NotAuthenticated": (401, "NotAuthorizedException"),
    "PermissionDenied": (403, "ForbiddenException"),
    "ReadOnly": (403, "ForbiddenException"),
    "NoSuchCatalog": _NO_WAREHOUSE,
    "NoSuchCatalogCommit": _NO_WAREHOUSE,
    "NoSuchSnapshot": _NO_WAREHOUSE,
    "NoSuchNamespace": (404, "NoSuchNamespaceException"),
    "NoSuchTable": (404, "NoSuchTableException"),
    "NoSuchView": (404, "NoSuchViewException"),
    "MethodNotAllowed": (405, "UnsupportedOperationException"),
    "NotOffered": (406, "UnsupportedOperationException"),
    "AlreadyExists": (409, "AlreadyExistsException"),
    "NamespaceNotEmpty": (409, "NamespaceNotEmptyException"),
    "CommitFailed": (409, "CommitFailedException"),
    "TableHasClones": (409, "TableHasClonesException"),
    "Unprocessable": (422, "UnprocessableEntityException"),
    "KeyReused": (422, "UnprocessableEntityException"),
    "ConcurrentChange": _BUSY,
    "Throttled": _BUSY,
    "CommitStateUnknown": (500, "CommitStateUnknownException"),
    "InternalError": _INTERNAL,
    "StorageFault": (503, "ServiceUnavailableException"),
    "AuthenticationUnavailable": (503, "ServiceUnavailableException"),
}


class Unprocessable(TurnstileError):
    """Every member of the request is well formed, and together they make no sense."""

    type = "Unprocessable"


class ReadOnly(TurnstileError):
    """A change of a catalog's past. 403 is what the specification has for every operation, and for clients final."""

    type = "ReadOnly"


def kind_of(error: TurnstileError) -> tuple[int, str]:
    """Status and type of ``error``; a type that nobody listed is ours to answer for."""
    return KINDS.get(error.type, _MISSING if error.type.startswith("NoSuch") else _INTERNAL)


def render(error: TurnstileError, _path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a refusal."""
    code, type = kind_of(error)
    message = f"{error.message}; {error.remedy}" if error.remedy else error.message
    if error.type == "InternalError":
        message = f"internal error, correlation id {correlation}"
    headers = {"Content-Type": "application/json"}
    retry = error.details.get("retry_after_ms")
    if code in (429, 503):
        headers["Retry-After"] = str(max(1, -(-retry // 1000))) if isinstance(retry, int) else "1"
    if code == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="turnstile"'
    if code == 405:
        headers["Allow"] = ", ".join(error.details.get("allowed", ()))
    return code, headers, msgspec.json.encode({"error": {"message": message, "type": type, "code": code}})
