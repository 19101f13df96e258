"""All refusals of Turnstile. Each error carries ``field`` (the member at fault, if there is one),
``remedy`` (the advice) and ``details`` (data for programs)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any


class ErrorType(StrEnum):
    """The types of errors, as answers tell them: the only list. APIs map them to statuses and names
    of their own."""

    INTERNAL_ERROR = "InternalError"
    INVALID_REQUEST = "InvalidRequest"
    INVALID_COMMIT = "InvalidCommit"
    INVALID_ROWS = "InvalidRows"
    EXPECTATION_BROKEN = "ExpectationBroken"
    VERSION_GAP = "VersionGap"
    TIMESTAMP_NOT_INCREASING = "TimestampNotIncreasing"
    TIMESTAMP_AHEAD = "TimestampAhead"
    UNSUPPORTED_TABLE = "UnsupportedTable"
    UNSUPPORTED_MEDIA_TYPE = "UnsupportedMediaType"
    METHOD_NOT_ALLOWED = "MethodNotAllowed"
    NOT_IMPLEMENTED = "NotImplemented"
    NOT_OFFERED = "NotOffered"
    UNPROCESSABLE = "Unprocessable"
    KEY_REUSED = "KeyReused"
    TOO_LARGE = "TooLarge"

    NOT_AUTHENTICATED = "NotAuthenticated"
    AUTHENTICATION_UNAVAILABLE = "AuthenticationUnavailable"
    PERMISSION_DENIED = "PermissionDenied"
    READ_ONLY = "ReadOnly"

    NO_SUCH_BRANCH = "NoSuchBranch"
    NO_SUCH_CATALOG = "NoSuchCatalog"
    NO_SUCH_CATALOG_COMMIT = "NoSuchCatalogCommit"
    NO_SUCH_CLIENT = "NoSuchClient"
    NO_SUCH_COMMIT = "NoSuchCommit"
    NO_SUCH_METADATA_FILE = "NoSuchMetadataFile"
    NO_SUCH_NAMESPACE = "NoSuchNamespace"
    NO_SUCH_PLAN_TASK = "NoSuchPlanTask"
    NO_SUCH_PLAN = "NoSuchPlan"
    NO_SUCH_REF = "NoSuchRef"
    NO_SUCH_ROUTE = "NoSuchRoute"
    NO_SUCH_SNAPSHOT = "NoSuchSnapshot"
    NO_SUCH_STAGED_FILE = "NoSuchStagedFile"
    NO_SUCH_STAGING_TABLE = "NoSuchStagingTable"
    NO_SUCH_TABLE = "NoSuchTable"
    NO_SUCH_TRANSACTION = "NoSuchTransaction"
    NO_SUCH_VIEW = "NoSuchView"

    ALREADY_EXISTS = "AlreadyExists"
    ALREADY_RATIFIED = "AlreadyRatified"
    BRANCH_CONFLICT = "BranchConflict"
    CANNOT_CLONE = "CannotClone"
    CANNOT_RESET = "CannotReset"
    CANNOT_UNDROP = "CannotUndrop"
    CLOCK_AHEAD = "ClockAhead"
    COMMIT_FAILED = "CommitFailed"
    COMMIT_VERSION_CONFLICT = "CommitVersionConflict"
    CONCURRENT_CHANGE = "ConcurrentChange"
    CURSOR_EXPIRED = "CursorExpired"
    GC_RUNNING = "GcRunning"
    HAS_BRANCH = "HasBranch"
    LOCATION_OWNED = "LocationOwned"
    NAMESPACE_NOT_EMPTY = "NamespaceNotEmpty"
    REF_MOVED = "RefMoved"
    RELOAD_REQUIRED = "ReloadRequired"
    REQUIREMENT_FAILED = "RequirementFailed"
    STAGING_TABLE_USED = "StagingTableUsed"
    STALE_METADATA = "StaleMetadata"
    TABLE_HAS_CLONES = "TableHasClones"
    TABLE_NOT_ACTIVE = "TableNotActive"
    TRANSACTION_ABORTED = "TransactionAborted"
    TRANSACTION_COMMITTED = "TransactionCommitted"
    TRANSACTION_CONFLICT = "TransactionConflict"
    TOO_MANY_READERS = "TooManyReaders"
    TRANSACTION_SUPERSEDED = "TransactionSuperseded"
    VERSIONS_GONE = "VersionsGone"

    BACKLOG_FULL = "BacklogFull"
    THROTTLED = "Throttled"
    COMMIT_STATE_UNKNOWN = "CommitStateUnknown"
    STORAGE_FAULT = "StorageFault"
    STORE_UNAVAILABLE = "StoreUnavailable"
    SERVER_CLOSED = "ServerClosed"
    NEWER_FORMAT = "NewerFormat"


def is_missing(type: str) -> bool:
    """Whether an error of this type says that something named in the request does not exist."""
    return type.startswith("NoSuch")


class TurnstileError(Exception):
    """Base of all refusals.

    Args:
        message: the fault and its place, one sentence.
        field: the request's member at fault, as a dotted path, if there is one.
        remedy: the advice for the caller; by default the usual advice for this type of error.
        details: members a program may want (versions, states), JSON-compatible.

    Attributes:
        member: the place of the commit of a group that the error is about; None for no group.
    """

    type: str = ErrorType.INTERNAL_ERROR
    member: int | None = None
    usual_remedy: str | None = None

    def __init__(self, message: str, *, field: str | None = None, remedy: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedy = remedy or self.usual_remedy
        self.details = details

    @property
    def public_message(self) -> str:
        """The message for any caller, also inside another error or a stored reason."""
        return self.message


def record_of(error: TurnstileError) -> dict[str, Any]:
    """Returns an error as a JSON-compatible record, for another process of this release
    (``error_of``)."""
    kind = next(each for each in type(error).__mro__ if each.__module__ == __name__)
    members = {**vars(error), "type": error.type}
    return {"class": kind.__name__, "members": members}


def error_of(record: Mapping[str, Any]) -> TurnstileError:
    """Returns the error of a record: of the same class, with the same members."""
    kind: type[TurnstileError] = globals()[record["class"]]
    error = kind.__new__(kind, record["members"]["message"])
    vars(error).update(record["members"], type=ErrorType(record["members"]["type"]))
    return error


def first_of(texts: Sequence[str], most: int = 3) -> str:
    """Returns the first texts, for a message, and the number of the others."""
    return "; ".join(texts[:most]) + (f"; and {len(texts) - most} more" if len(texts) > most else "")


class InvalidRequest(TurnstileError):
    """A member of the request has the wrong shape, type, range or form."""

    type = ErrorType.INVALID_REQUEST
    usual_remedy = "correct the named member and send the request again"


class InvalidCommit(TurnstileError):
    """The content of a commit breaks the Delta protocol or the catalog-managed contract."""

    type = ErrorType.INVALID_COMMIT
    usual_remedy = "write the commit as the Delta protocol describes it and propose it again"


class ExpectationBroken(InvalidCommit):
    """The rows of a commit break an expectation of the table, or it cannot be checked (I29)."""

    type = ErrorType.EXPECTATION_BROKEN
    usual_remedy = "mend the rows, also old ones of a file that this commit writes anew, or change the expectation"


class UnsupportedTable(TurnstileError):
    """The table cannot be served in the way that was asked for."""

    type = ErrorType.UNSUPPORTED_TABLE


class NotFound(TurnstileError):
    """An entity named in the request, ``name``, does not exist; ``what`` is its kind, in the words
    of a type: "staged file" of ``NO_SUCH_STAGED_FILE``."""

    usual_remedy = "check the name, and that it was not dropped or renamed"

    def __init__(
        self,
        what: str,
        name: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        problem: str = "does not exist",
    ) -> None:
        super().__init__(f"{what} '{name}' {problem}", field=field, remedy=remedy)
        self.what = what
        self.name = name
        self.type = ErrorType["NO_SUCH_" + what.upper().replace(" ", "_")]


class AlreadyExists(TurnstileError):
    """The name is taken."""

    type = ErrorType.ALREADY_EXISTS


class StateConflict(TurnstileError):
    """The request is well formed but the present state refuses it. ``kind``: the error's type."""

    def __init__(
        self, kind: ErrorType, message: str, *, field: str | None = None, remedy: str | None = None, **details: Any
    ) -> None:
        super().__init__(message, field=field, remedy=remedy, **details)
        self.type = kind


class TooLarge(TurnstileError):
    """Over a limit of the service; ``details`` has ``limit`` and ``size`` in bytes."""

    type = ErrorType.TOO_LARGE


class Throttled(TurnstileError):
    """The store asked us to slow down and nothing was applied."""

    type = ErrorType.THROTTLED

    def __init__(self, message: str = "the store is throttling", *, retry_after_ms: int = 200) -> None:
        super().__init__(message, remedy="send the same request again later", retry_after_ms=retry_after_ms)


class OutcomeUnknown(TurnstileError):
    """A write was sent and its answer lost: it may have happened, or may yet happen."""

    type = ErrorType.COMMIT_STATE_UNKNOWN

    def __init__(self, message: str) -> None:
        super().__init__(message, remedy="send exactly the same request again, or ask for the outcome; do not rebase")


class NotAuthenticated(TurnstileError):
    """No valid credentials."""

    type = ErrorType.NOT_AUTHENTICATED


class PermissionDenied(TurnstileError):
    """Valid credentials without the right (I12)."""

    type = ErrorType.PERMISSION_DENIED
    usual_remedy = "ask its owner, or an admin, for the right"


class StorageFault(TurnstileError):
    """Log storage could not be read or written; not a statement about the commit, unless
    ``nothing_applied``: then no write of the request was sent that could be applied."""

    type = ErrorType.STORAGE_FAULT
    nothing_applied = False


class MissingBucket(StorageFault):
    """There is no bucket of the name that a location has: nothing was written."""


class StoreCause(StrEnum):
    """Why the store of HEADs and objs cannot be used."""

    DAMAGED = "damaged"
    GONE = "gone"
    LOCKED = "locked"
    DENIED = "denied"
    FULL = "full"
    UNREACHABLE = "unreachable"
    FAILED = "failed"


PASSING_CAUSES = frozenset({StoreCause.LOCKED, StoreCause.UNREACHABLE})
"""Causes that may end without an operator: the same request may succeed a little later."""

_STORE_RETRY_MS = 1_000


class StoreUnavailable(StorageFault):
    """The store of HEADs and objs cannot be used, and nothing was applied. ``details`` has
    ``cause``, a ``StoreCause``, and ``retry_after_ms`` where the cause may pass without an
    operator.
    """

    type = ErrorType.STORE_UNAVAILABLE

    def __init__(self, cause: StoreCause, message: str, *, remedy: str | None = None) -> None:
        passing: dict[str, Any] = {"retry_after_ms": _STORE_RETRY_MS} if cause in PASSING_CAUSES else {}
        super().__init__(message, remedy=remedy, cause=cause.value, **passing)
        self.cause = cause


class ServerClosed(TurnstileError):
    """The server was started closed: it takes no changes until it is opened."""

    type = ErrorType.SERVER_CLOSED


class NewerFormat(StorageFault):
    """A row was changed by a newer release in a way that this one does not understand: it is
    neither read nor changed (I22). ``details`` has ``row``, ``format`` and ``known``."""

    type = ErrorType.NEWER_FORMAT

    def __init__(self, key: str, format: int, known: int) -> None:
        message = f"row '{key}' is of format {format}, and this release knows formats up to {known}"
        remedy = "send the same request again, to a server of the newer release; do not roll back behind it"
        super().__init__(message, remedy=remedy, row=key, format=format, known=known)


class UnreadableObj(StorageFault):
    """An obj is damaged: nothing is derived from it, and it is never taken for one that is not
    there. ``details`` has ``obj``."""

    def __init__(self, space: str, id: str, why: str) -> None:
        message = f"obj '{id}' of '{space}' cannot be read: {why}"
        remedy = (
            "restore this obj from a backup: docs/operations.md, A row that cannot be read; others are not affected"
        )
        super().__init__(message, remedy=remedy, obj=id)


class UnreadableRow(StorageFault):
    """A row of refs is damaged: it is neither read nor changed, and never taken for one that is not
    there. ``details`` has ``row``. ``effect``: what is refused because of it, for any caller.
    ``why``: the reason, without the key."""

    def __init__(self, key: str, why: str, *, effect: str = "") -> None:
        message = f"row '{key}' cannot be read: {f'{effect}: ' if effect else ''}{why}"
        remedy = (
            "restore this row from a backup: docs/operations.md, A row that cannot be read; other rows are not affected"
        )
        super().__init__(message, remedy=remedy, row=key)
        self.effect = effect
        self.why = why

    @property
    def public_message(self) -> str:
        return self.without_key().message

    def without_key(self) -> StorageFault:
        """Returns the error for a caller that is no administrator: a key may have the name of
        something that it may not see (I12)."""
        message = "a row of the store cannot be read" + (f": {self.effect}" if self.effect else "")
        return StorageFault(message, remedy="tell an administrator: 'turnstile doctor' and the log have the row's key")
