"""Delta tables of a Turnstile server in plain Python: create, append, overwrite and read, with
Arrow's tables."""

from turnstile_client.errors import (
    ApiError,
    ClientError,
    Conflict,
    DataMismatch,
    OutcomeUnknown,
    StorageFailure,
    Unsupported,
)
from turnstile_client.lake import Lake, connect
from turnstile_client.table import Table

__all__ = [
    "ApiError",
    "ClientError",
    "Conflict",
    "DataMismatch",
    "Lake",
    "OutcomeUnknown",
    "StorageFailure",
    "Table",
    "Unsupported",
    "connect",
]
