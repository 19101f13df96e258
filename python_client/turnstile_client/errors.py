"""Errors, by the reaction that a caller has.

Refusals of the server without a class here are :class:`turnstile_http.errors.ApiError`: ``status``,
``type`` (``NoSuchTable``, ``PermissionDenied``, ...) and the server's message and remedy.
"""

from __future__ import annotations

from turnstile_http.errors import ApiError
from turnstile_rows.errors import DataMismatch, TableError, Unsupported

__all__ = ["ApiError", "ClientError", "Conflict", "DataMismatch", "OutcomeUnknown", "StorageFailure", "Unsupported"]


ClientError = TableError
"""An operation that this client refuses, or whose outcome it does not know. After every subclass
but :class:`OutcomeUnknown` the table is unchanged."""


class StorageFailure(ClientError, OSError):
    """The table's files could not be read or written. The message has the location, the cause if it
    is known, and the remedy."""


class Conflict(ClientError):
    """Another commit came first and decides against this one: read again, and run the operation
    again.

    ``latest``: the table's newest version then, None where it is not known.
    """

    def __init__(self, message: str, latest: int | None) -> None:
        super().__init__(message)
        self.latest = latest


class OutcomeUnknown(ClientError):
    """The commit may have happened or not: no final answer came before the deadline. Its files were
    left in place.

    ``table``, ``id``: for a query of the outcome: ``lake.table(table).outcome(id)``. A second
    append under the same ``id`` is safe in any case: at most one of them is committed.
    """

    def __init__(self, message: str, table: str, id: str) -> None:
        super().__init__(message)
        self.table = table
        self.id = id
