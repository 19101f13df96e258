"""Every way Turnstile refuses, in one tree.

TurnstileError
├── InvalidRequest          shape, type, range or name of a request's member
├── InvalidCommit           the commit's content breaks the Delta protocol or the catalog's contract
├── UnsupportedTable        the table cannot be served (features, format)
├── NotFound                what: catalog, namespace, table, staging table, staged file, commit
├── AlreadyExists           a name that is taken
├── StateConflict           true of the present state only; ``kind`` says which
├── TooLarge                over a service limit
├── Throttled               definitely not applied; try again after ``retry_after_ms``
├── OutcomeUnknown          the write may or may not have happened
├── PermissionDenied / NotAuthenticated
└── StorageFault            log storage could not be read or written

Each carries ``field`` (what is wrong, if one member is), ``remedy`` (what to do) and ``details`` (data for programs).
"""

from __future__ import annotations

from typing import Any


class TurnstileError(Exception):
    """Base of all refusals.

    Args:
        message: what is wrong and where, one sentence.
        field: the request's member at fault, as a dotted path, if there is one.
        remedy: what the caller can do; by default what usually helps with an error of this type.
        details: members a program may want (versions, states), JSON-compatible.
    """

    type = "InternalError"
    usual_remedy: str | None = None

    def __init__(self, message: str, *, field: str | None = None, remedy: str | None = None, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.field = field
        self.remedy = remedy or self.usual_remedy
        self.details = details


class InvalidRequest(TurnstileError):
    """A member of the request has the wrong shape, type, range or form."""

    type = "InvalidRequest"
    usual_remedy = "correct the named member and send the request again"


class InvalidCommit(TurnstileError):
    """The content of a commit breaks the Delta protocol or the catalog-managed contract."""

    type = "InvalidCommit"
    usual_remedy = "write the commit as the Delta protocol describes it and propose it again"


class UnsupportedTable(TurnstileError):
    """The table cannot be served in the way that was asked for."""

    type = "UnsupportedTable"


class NotFound(TurnstileError):
    """Something named in the request does not exist; ``what`` is catalog, namespace, table, staging table, ..."""

    usual_remedy = "check the name, and that it was not dropped or renamed"

    def __init__(self, what: str, name: str, *, field: str | None = None, remedy: str | None = None) -> None:
        super().__init__(f"{what} '{name}' does not exist", field=field, remedy=remedy)
        self.type = "NoSuch" + "".join(word.capitalize() for word in what.split())


class AlreadyExists(TurnstileError):
    """The name is taken."""

    type = "AlreadyExists"


class StateConflict(TurnstileError):
    """The request is well formed but the present state refuses it; ``kind`` becomes the error type."""

    def __init__(
        self, kind: str, message: str, *, field: str | None = None, remedy: str | None = None, **details: Any
    ) -> None:
        super().__init__(message, field=field, remedy=remedy, **details)
        self.type = kind


class TooLarge(TurnstileError):
    """Over a limit of the service; ``details`` has ``limit`` and ``size`` in bytes."""

    type = "TooLarge"


class Throttled(TurnstileError):
    """The store asked us to slow down and nothing was applied."""

    type = "Throttled"

    def __init__(self, message: str = "the store is throttling", *, retry_after_ms: int = 200) -> None:
        super().__init__(message, remedy="send the same request again later", retry_after_ms=retry_after_ms)


class OutcomeUnknown(TurnstileError):
    """A write was sent and its answer lost: it may have happened, or may yet happen."""

    type = "CommitStateUnknown"

    def __init__(self, message: str) -> None:
        super().__init__(message, remedy="send exactly the same request again, or ask for the outcome; do not rebase")


class NotAuthenticated(TurnstileError):
    """No valid credentials."""

    type = "NotAuthenticated"


class PermissionDenied(TurnstileError):
    """Valid credentials without the right (I12)."""

    type = "PermissionDenied"
    usual_remedy = "ask its owner, or an admin, for the right"


class StorageFault(TurnstileError):
    """Log storage could not be read or written; not a statement about the commit."""

    type = "StorageFault"
