"""Errors in the two shapes of Unity Catalog.

    delta/v1    {"error": {"message", "type", "code"}}
    the rest    {"error_code", "message", "details": [{"@type", "reason"}]}

No further members: clients of both are generated from schemas. Statuses and types are the
documented ones only.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from turnstile.api.http.responses import headers_of
from turnstile.store.core.errors import ErrorType, StateConflict, TurnstileError, is_missing

PREFIX: Final = "/api/2.1/unity-catalog"
DELTA: Final = PREFIX + "/delta/v1"

INVALID: Final = "InvalidParameterValueException"


class Kind(NamedTuple):
    """How both APIs show a type of error: status and type of the Delta API, status and code of the
    older one."""

    status: int
    type: str
    old_status: int
    code: str


_INVALID: Final = Kind(400, INVALID, 400, "INVALID_ARGUMENT")
_REQUIREMENT: Final = Kind(409, "UpdateRequirementConflictException", 409, "UPDATE_REQUIREMENT_CONFLICT")
_CONFLICT: Final = Kind(409, "CommitVersionConflictException", 409, "COMMIT_VERSION_CONFLICT")
_INTERNAL: Final = Kind(500, "InternalServerErrorException", 500, "INTERNAL")

KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys((ErrorType.INVALID_REQUEST, ErrorType.INVALID_COMMIT, ErrorType.VERSION_GAP), _INVALID),
    **dict.fromkeys((ErrorType.TIMESTAMP_NOT_INCREASING, ErrorType.TIMESTAMP_AHEAD, ErrorType.TOO_LARGE), _INVALID),
    **dict.fromkeys((ErrorType.NO_SUCH_STAGED_FILE, ErrorType.NO_SUCH_COMMIT, ErrorType.ALREADY_RATIFIED), _INVALID),
    **dict.fromkeys((ErrorType.LOCATION_OWNED, ErrorType.TABLE_NOT_ACTIVE), _INVALID),
    ErrorType.EXPECTATION_BROKEN: _INVALID,
    ErrorType.STAGING_TABLE_USED: Kind(400, INVALID, 400, "FAILED_PRECONDITION"),
    ErrorType.NAMESPACE_NOT_EMPTY: Kind(400, INVALID, 400, "FAILED_PRECONDITION"),
    ErrorType.HAS_BRANCH: Kind(400, INVALID, 400, "FAILED_PRECONDITION"),
    ErrorType.UNSUPPORTED_TABLE: Kind(400, "UnsupportedTableFormatException", 400, "INVALID_ARGUMENT"),
    ErrorType.UNSUPPORTED_MEDIA_TYPE: Kind(400, "BadRequestException", 400, "INVALID_ARGUMENT"),
    ErrorType.NOT_AUTHENTICATED: Kind(401, "NotAuthorizedException", 401, "UNAUTHENTICATED"),
    ErrorType.PERMISSION_DENIED: Kind(403, "PermissionDeniedException", 403, "PERMISSION_DENIED"),
    ErrorType.NO_SUCH_CATALOG: Kind(404, "NoSuchCatalogException", 404, "CATALOG_NOT_FOUND"),
    ErrorType.NO_SUCH_NAMESPACE: Kind(404, "NoSuchSchemaException", 404, "SCHEMA_NOT_FOUND"),
    ErrorType.NO_SUCH_TABLE: Kind(404, "NoSuchTableException", 404, "TABLE_NOT_FOUND"),
    ErrorType.NO_SUCH_STAGING_TABLE: Kind(404, "NotFoundException", 404, "NOT_FOUND"),
    ErrorType.NO_SUCH_ROUTE: Kind(404, "NotFoundException", 404, "NOT_FOUND"),
    ErrorType.METHOD_NOT_ALLOWED: Kind(405, "BadRequestException", 405, "UNIMPLEMENTED"),
    ErrorType.ALREADY_EXISTS: Kind(409, "AlreadyExistsException", 409, "ALREADY_EXISTS"),
    ErrorType.COMMIT_VERSION_CONFLICT: _CONFLICT,
    ErrorType.RELOAD_REQUIRED: _CONFLICT,
    ErrorType.STALE_METADATA: _REQUIREMENT,
    ErrorType.REQUIREMENT_FAILED: _REQUIREMENT,
    ErrorType.CONCURRENT_CHANGE: Kind(429, "TooManyRequestsException", 429, "RESOURCE_EXHAUSTED"),
    ErrorType.BACKLOG_FULL: Kind(429, "ResourceExhaustedException", 429, "RESOURCE_EXHAUSTED"),
    ErrorType.THROTTLED: Kind(429, "TooManyRequestsException", 429, "RESOURCE_EXHAUSTED"),
    ErrorType.COMMIT_STATE_UNKNOWN: Kind(500, "CommitStateUnknownException", 500, "COMMIT_STATE_UNKNOWN"),
    ErrorType.NOT_IMPLEMENTED: Kind(501, "NotImplementedException", 501, "UNIMPLEMENTED"),
    ErrorType.INTERNAL_ERROR: _INTERNAL,
    ErrorType.STORAGE_FAULT: _INTERNAL,
    ErrorType.STORE_UNAVAILABLE: _INTERNAL,
    ErrorType.SERVER_CLOSED: _INTERNAL,
    ErrorType.NEWER_FORMAT: _INTERNAL,
}

_BUSY: Final = {
    "stuck": Kind(429, "ResourceExhaustedException", 429, "RESOURCE_EXHAUSTED"),
    "recovering": Kind(429, "TooManyRequestsException", 429, "RESOURCE_EXHAUSTED"),
    "behind": Kind(429, "ResourceExhaustedException", 429, "RESOURCE_EXHAUSTED"),
}
"""Temporary states of a table: waiting helps, rebasing does not, so 429 rather than 409."""

_EXISTS: Final = {
    "namespace": "SCHEMA_ALREADY_EXISTS",
    **dict.fromkeys(("table", "iceberg-table", "iceberg-view"), "TABLE_ALREADY_EXISTS"),
}


class RequirementFailed(StateConflict):
    """A requirement of the request does not hold; the client has to load the table again."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorType.REQUIREMENT_FAILED, message, remedy="load the table again")


class NotImplementedHere(TurnstileError):
    """An operation of the API that Turnstile does not offer."""

    type = ErrorType.NOT_IMPLEMENTED


def kind_of(error: TurnstileError) -> Kind:
    """How the APIs show ``error``; a type that is not listed is an internal error."""
    if error.type == ErrorType.TABLE_NOT_ACTIVE:
        return _BUSY.get(str(error.details.get("state")), _INVALID)
    if error.type == ErrorType.INVALID_REQUEST and error.field == "body":
        return Kind(400, "BadRequestException", 400, "INVALID_ARGUMENT")
    return KINDS.get(error.type, KINDS[ErrorType.NO_SUCH_ROUTE] if is_missing(error.type) else _INTERNAL)


def render(error: TurnstileError, _method: str, path: str, correlation: str) -> tuple[int, dict[str, str], bytes]:
    """Returns status, headers and body of the response to a request of ``path``."""
    kind = kind_of(error)
    message = f"{error.message}; {error.remedy}" if error.remedy else error.message
    if error.type == ErrorType.INTERNAL_ERROR:
        message = f"internal error, correlation id {correlation}"
    headers = headers_of(error, kind.status, (429,))
    if path.startswith(DELTA + "/") or path == DELTA:
        body: dict[str, object] = {"error": {"message": message, "type": kind.type, "code": kind.status}}
        return kind.status, headers, msgspec.json.encode(body)
    code = kind.code
    if error.type == ErrorType.ALREADY_EXISTS:
        code = _EXISTS.get(str(error.details.get("kind")), "CATALOG_ALREADY_EXISTS")
    body = {"error_code": code, "details": [{"reason": code, "@type": "google.rpc.ErrorInfo"}], "message": message}
    return kind.old_status, headers, msgspec.json.encode(body)
