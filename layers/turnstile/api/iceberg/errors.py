"""Errors of the Iceberg API: ``{"error": {"message", "type", "code"}}``.

Clients choose their exception by status and operation. After a 5xx they assume that a commit may
have happened; so an error that excludes it never gets one, except for the 503 of the specification
when storage or a token's issuer does not respond.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from turnstile.api.http.responses import headers_of
from turnstile.iceberg.core.view_updates import BadArgument
from turnstile.store.core.errors import ErrorType, NotFound, StorageFault, TurnstileError, is_missing

PREFIX: Final = "/iceberg"
DELTA_PREFIX: Final = "/api/2.1/unity-catalog/iceberg-rest"
"""Where Delta's planning client looks for this API: below that of Unity's."""

_BAD: Final = (400, "BadRequestException")
_MISSING: Final = (404, "NotFoundException")
_NO_WAREHOUSE: Final = (404, "NoSuchWarehouseException")
_BUSY: Final = (429, "TooManyRequestsException")
_INTERNAL: Final = (500, "InternalServerError")

KINDS: Final[dict[str, tuple[int, str]]] = {
    ErrorType.INVALID_REQUEST: _BAD,
    ErrorType.INVALID_COMMIT: _BAD,
    ErrorType.UNSUPPORTED_TABLE: _BAD,
    ErrorType.UNSUPPORTED_MEDIA_TYPE: _BAD,
    ErrorType.TOO_LARGE: _BAD,
    ErrorType.LOCATION_OWNED: _BAD,
    ErrorType.NOT_AUTHENTICATED: (401, "NotAuthorizedException"),
    ErrorType.PERMISSION_DENIED: (403, "ForbiddenException"),
    ErrorType.READ_ONLY: (403, "ForbiddenException"),
    ErrorType.NO_SUCH_CATALOG: _NO_WAREHOUSE,
    ErrorType.NO_SUCH_CATALOG_COMMIT: _NO_WAREHOUSE,
    ErrorType.NO_SUCH_SNAPSHOT: _NO_WAREHOUSE,
    ErrorType.NO_SUCH_NAMESPACE: (404, "NoSuchNamespaceException"),
    ErrorType.NO_SUCH_TABLE: (404, "NoSuchTableException"),
    ErrorType.NO_SUCH_VIEW: (404, "NoSuchViewException"),
    ErrorType.NO_SUCH_PLAN_TASK: (404, "NoSuchPlanTaskException"),
    ErrorType.NO_SUCH_PLAN: (404, "NoSuchPlanIdException"),
    ErrorType.METHOD_NOT_ALLOWED: (405, "UnsupportedOperationException"),
    ErrorType.NOT_OFFERED: (406, "UnsupportedOperationException"),
    ErrorType.ALREADY_EXISTS: (409, "AlreadyExistsException"),
    ErrorType.NAMESPACE_NOT_EMPTY: (409, "NamespaceNotEmptyException"),
    ErrorType.COMMIT_FAILED: (409, "CommitFailedException"),
    ErrorType.TABLE_HAS_CLONES: (409, "TableHasClonesException"),
    ErrorType.UNPROCESSABLE: (422, "UnprocessableEntityException"),
    ErrorType.KEY_REUSED: (422, "UnprocessableEntityException"),
    ErrorType.CONCURRENT_CHANGE: _BUSY,
    ErrorType.THROTTLED: _BUSY,
    ErrorType.COMMIT_STATE_UNKNOWN: (500, "CommitStateUnknownException"),
    ErrorType.INTERNAL_ERROR: _INTERNAL,
    ErrorType.STORAGE_FAULT: (503, "ServiceUnavailableException"),
    ErrorType.STORE_UNAVAILABLE: (503, "ServiceUnavailableException"),
    ErrorType.SERVER_CLOSED: (503, "ServiceUnavailableException"),
    ErrorType.NEWER_FORMAT: (503, "ServiceUnavailableException"),
    ErrorType.AUTHENTICATION_UNAVAILABLE: (503, "ServiceUnavailableException"),
}


_BEFORE_COMMITS: Final = frozenset({ErrorType.SERVER_CLOSED, ErrorType.AUTHENTICATION_UNAVAILABLE})
"""Refusals before anything of a request is done. As a 503 a commit's would say that its outcome is
unknown."""
_COMMITS: Final = re.compile(r"/(?:(?:tables|views)/[^/]+|transactions/commit)$")

_JAVA: Final = ("namespace", "table", "view")


class Unprocessable(TurnstileError):
    """The members of the request are well formed, but contradict each other."""

    type = ErrorType.UNPROCESSABLE


class ReadOnly(TurnstileError):
    """A change of a catalog's past. 403 is specified for every operation, and clients do not retry
    it."""

    type = ErrorType.READ_ONLY


def kind_of(error: TurnstileError) -> tuple[int, str]:
    """Status and type of ``error``; a type that is not listed is an internal error. Clients take
    503 of a commit for an unknown outcome, which a person has to look at: a commit that was
    certainly not applied is refused as one, and they try again.
    """
    if isinstance(error, StorageFault) and error.nothing_applied:
        return KINDS[ErrorType.COMMIT_FAILED]
    return KINDS.get(error.type, _MISSING if is_missing(error.type) else _INTERNAL)


def _message(error: TurnstileError) -> str:
    """The error's message, in the words of Java's catalogs if they have some, because clients look
    for them; then the remedy. For a missing namespace Java's clients expect nothing else."""
    message = error.message
    remedy = error.remedy
    if isinstance(error, NotFound) and error.what in _JAVA:
        name = error.name.partition(".")[2] or error.name  # without the catalog
        message = f"{error.what.capitalize()} does not exist: {name}"
        remedy = None if error.what == "namespace" else remedy
    return f"{message}; {remedy}" if remedy else message


def render(error: TurnstileError, method: str, path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and body of an error response."""
    code, type = kind_of(error)
    if error.type in _BEFORE_COMMITS and method == "POST" and _COMMITS.search(path):
        code, type = KINDS[ErrorType.COMMIT_FAILED]
    if isinstance(error, BadArgument):
        type = "IllegalArgumentException"
    message = _message(error)
    if error.type == ErrorType.INTERNAL_ERROR:
        message = f"internal error, correlation id {correlation}"
    body = {"error": {"message": message, "type": type, "code": code}}
    return code, headers_of(error, code, (429, 503)), msgspec.json.encode(body)
