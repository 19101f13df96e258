"""What an error of DynamoDB says about the request that met it."""

from __future__ import annotations

from enum import Enum
from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ChecksumError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    ProxyConnectionError,
    ResponseStreamingError,
    SSLError,
)
from botocore.parsers import ResponseParserError


class Fault(Enum):
    """The classes that matter to a writer."""

    REFUSED = "a condition did not hold; nothing was applied"
    BUSY = "certainly not applied; worth another try"
    LOST = "the answer was lost; it may have been applied, or be applied yet"
    BROKEN = "certainly not applied; trying again does not help"


REFUSALS: Final = {"ConditionalCheckFailedException", "ConditionalCheckFailed"}
_BUSY: Final = {
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "ReplicatedWriteConflictException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "ThrottlingError",
    "Throttling",
    "TransactionConflictException",
    "TransactionConflict",
    "TransactionInProgressException",
}
_LOST_CODES: Final = {"InternalServerError", "InternalFailure", "ServiceUnavailable", "ServiceUnavailableException"}
_UNSENT: Final = (ConnectTimeoutError, EndpointConnectionError)
"""Raised while there is no connection yet, so before the first byte of the request, and by nothing else."""

_LOST: Final = (
    ChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ProxyConnectionError,  # also when a proxy cuts an answer off: urllib3 forgets that it had been reached
    ResponseParserError,
    ResponseStreamingError,
    SSLError,  # a handshake that failed, but an answer that cannot be decrypted as well
)
"""Raised, at least at times, after the request was sent (``tests/contract/test_torn_answers.py``)."""


def fault_of(error: Exception) -> Fault:
    """Classify an error of botocore. Unsure is LOST: never call "not applied" what may have been (I3)."""
    if isinstance(error, ClientError):
        return _answered(error)
    if isinstance(error, _UNSENT):
        return Fault.BUSY
    if isinstance(error, _LOST):
        return Fault.LOST
    return Fault.BROKEN if isinstance(error, BotoCoreError) else Fault.LOST


def _answered(error: ClientError) -> Fault:
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in REFUSALS:
        return Fault.REFUSED
    if code == "TransactionCanceledException":
        return _cancelled(reasons(error))
    if code in _BUSY or status == 429:
        return Fault.BUSY
    return Fault.LOST if code in _LOST_CODES or status >= 500 or status == 0 else Fault.BROKEN


def reasons(error: ClientError) -> list[str]:
    """Codes of a cancelled transaction, by position; ``None`` (the text) where nothing was wrong."""
    found = error.response.get("CancellationReasons") or ()
    return [str(reason.get("Code", "None")) for reason in found]


def _cancelled(codes: list[str]) -> Fault:
    if any(code in REFUSALS for code in codes):
        return Fault.REFUSED  # judged on a committed row, whatever else was in the way
    wrong = [code for code in codes if code != "None"]
    return Fault.BUSY if all(code in _BUSY for code in wrong) else Fault.BROKEN
