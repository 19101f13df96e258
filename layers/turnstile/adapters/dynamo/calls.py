"""What an error of DynamoDB says about the request that met it."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from enum import Enum
from typing import Any, Final

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

from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled, TooLarge, TurnstileError
from turnstile.store.retry import Patience, Retries


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
"""Raised, at least at times, after the request was sent (``tests/contract/adapters/test_torn_answers.py``)."""


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


# -- calls ------------------------------------------------------------------------------------------------------------
# Sending requests: counted one by one, retried with full jitter inside a deadline, and never guessed about.
#
# A throttle or a clash with a transaction in progress is neither acceptance nor refusal: the request is sent again. So
# is one whose answer was lost: conditional writes are their own guard (if the first one was applied, the second is
# refused and the returned row holds its identity), and a transaction is sent again under the same token. A refusal after a
# lost answer says so (``uncertain``): the first one may still be on its way, and meet a row that takes it. When time is
# up a writer hears ``Throttled`` only if *no* attempt can have had effect, else ``OutcomeUnknown``.


OnRequest = Callable[[str, float | None], None]
"""Called once for every request that is sent: operation, and consumed capacity units (None: it failed)."""

ITEM_LIMIT: Final = 400 * 1024
"""Bytes of an item, names included. Source: DynamoDB service quotas."""


_TOO_LARGE: Final = re.compile(r"item size .*exceed", re.IGNORECASE)  # of an item, of its update, of a transaction's

_MISTAKES: Final = {"ValidationException", "IdempotentParameterMismatchException", "TransactionCanceledException"}


PATIENCE: Final = Patience(deadline_s=5.0, first_s=0.025, longest_s=0.5)


class Refusal(Exception):
    """A condition did not hold; ``response`` is the service's parsed answer. ``uncertain``: an answer before it was
    lost, so that the request may have been applied all the same, or may be applied yet."""

    def __init__(self, response: dict[str, Any], *, uncertain: bool = False) -> None:
        super().__init__("refused")
        self.response, self.uncertain = response, uncertain


class Caller:
    """Sends operations of one client.

    Args:
        client: a botocore DynamoDB client without retries of its own.
        on_request: see ``OnRequest``; capacity is asked for only when it is given.
    """

    def __init__(
        self,
        client: Any,
        *,
        patience: Patience | None = None,
        on_request: OnRequest | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._patience, self._on_request = client, patience or PATIENCE, on_request
        self._sleep, self._now = sleep, now

    def read(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer of a read.

        Raises:
            Throttled: the service asked to slow down until the deadline.
            StorageFault: no answer until the deadline.
        """
        return self._call(operation, asked, writes=False)

    def write(self, operation: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Answer of a write.

        Raises:
            Refusal: a condition did not hold.
            Throttled: nothing was applied and the deadline passed.
            OutcomeUnknown: at least one answer was lost and none came until the deadline.
            TooLarge: an item over the limit; nothing was applied.
        """
        return self._call(operation, asked, writes=True)

    def retries(self) -> Retries:
        """The attempts of one operation, also for batches that come back unfinished."""
        return Retries(self._patience, now=self._now, sleep=self._sleep, jitter=random.random)

    def _call(self, operation: str, asked: dict[str, Any], *, writes: bool) -> dict[str, Any]:
        if self._on_request is not None:
            asked = {**asked, "ReturnConsumedCapacity": "TOTAL"}
        send = getattr(self._client, operation)
        retries, lost = self.retries(), False
        while True:
            try:
                answer: dict[str, Any] = send(**asked)
            except (BotoCoreError, ClientError, ResponseParserError) as error:
                self._count(operation, None)
                fault = fault_of(error)
                if fault is Fault.REFUSED and isinstance(error, ClientError):
                    raise Refusal(dict(error.response), uncertain=lost) from error
                if fault is Fault.BROKEN and not lost:
                    raise _broken(operation, error) from error
                lost = lost or fault is Fault.LOST
                if fault is Fault.BROKEN or not retries.pause():
                    raise _gave_up(operation, error, lost=lost, writes=writes) from error
            else:
                self._count(operation, _capacity(answer))
                return answer

    def _count(self, operation: str, capacity: float | None) -> None:
        if self._on_request is not None:
            self._on_request(operation, capacity)


def _gave_up(operation: str, error: Exception, *, lost: bool, writes: bool) -> TurnstileError:
    if lost and writes:
        return OutcomeUnknown(f"the answer to {operation} was lost: {error}")
    if lost:
        return StorageFault(f"{operation} was not answered: {error}", remedy="try again later")
    return Throttled(f"{operation} was put off until the deadline: {error}")


def _broken(operation: str, error: Exception) -> Exception:
    if not isinstance(error, ClientError):
        return TurnstileError(f"{operation} failed: {error}", remedy="check credentials, region and network")
    code = str(error.response.get("Error", {}).get("Code"))
    parts = [error.response.get("Error", {}).get("Message")]
    parts += [reason.get("Message") for reason in error.response.get("CancellationReasons") or ()]
    said = f"{operation}: {code}: " + " ".join(part for part in parts if part)
    if _TOO_LARGE.search(said):
        return TooLarge(said, remedy="keep large content in table storage", limit=ITEM_LIMIT)
    if code in _MISTAKES:
        return ValueError(said)
    return TurnstileError(said, remedy="check the function's permissions and table names")


def _capacity(answer: dict[str, Any]) -> float | None:
    consumed = answer.get("ConsumedCapacity")
    if isinstance(consumed, list):
        return float(sum(one["CapacityUnits"] for one in consumed))
    return float(consumed["CapacityUnits"]) if consumed else None
