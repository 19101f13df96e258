"""Sends requests to DynamoDB: each counted, each fault classified, retried with full jitter within
a deadline.

A throttle or a clash with a transaction in progress is neither acceptance nor refusal: the request
is sent again. So is a call with a lost answer. That is safe: a conditional write that was applied
refuses its own repetition and returns the row that holds its identity, and a transaction is
repeated under the same token. A refusal after a lost answer says so (``uncertain``): the first
request may still be in flight, and meet a row that takes it. When time is up a writer gets
``Throttled`` only if *no* attempt can have had effect, else ``OutcomeUnknown``.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, Final

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError

from turnstile.adapters.dynamo.models import Item
from turnstile.store.core.errors import (
    OutcomeUnknown,
    StorageFault,
    StoreCause,
    StoreUnavailable,
    Throttled,
    TooLarge,
    TurnstileError,
)
from turnstile.store.ports import BATCH_GET_MAX
from turnstile.store.retry import Patience, Retries

OnRequest = Callable[[str, float | None], None]
"""Called once for every request that is sent: operation, and consumed capacity units (None: it
failed)."""

ITEM_LIMIT: Final = 400 * 1024  # bytes, names included. Source: DynamoDB service quotas
PATIENCE: Final = Patience(deadline_s=5.0, first_s=0.025, longest_s=0.5)
UNREACHABLE_S: Final = 0.5
"""How long an operation is tried while no connection can be made: a node that is replaced is back,
or another one answers."""


class Fault(Enum):
    """The classes of faults that matter to a writer."""

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
_UNSENT: Final = (exceptions.ConnectTimeoutError, exceptions.EndpointConnectionError)
"""Raised only while there is no connection yet, so before the first byte of the request."""

_LOST: Final = (
    exceptions.ChecksumError,
    exceptions.HTTPClientError,
    exceptions.IncompleteReadError,
    exceptions.ProxyConnectionError,  # also when a proxy cuts an answer off: urllib3 forgets that it had been reached
    ResponseParserError,
    exceptions.ResponseStreamingError,
    exceptions.SSLError,  # of a handshake that failed, but also of an answer that cannot be decrypted
)
"""Raised, at least at times, after the request was sent
(``tests/contract/adapters/test_torn_answers.py``)."""

_TOO_LARGE: Final = re.compile(r"item size .*exceed", re.IGNORECASE)  # of an item, of its update, of a transaction's
_NO_TABLE: Final = {"ResourceNotFoundException", "TableNotFoundException"}
_DENIED: Final = {
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "UnrecognizedClientException",
}
_DENIES: Final = re.compile("Denied|Credential|Authentication|Signature|NotSignedUp|OptInRequired")
_CREDENTIALS: Final = "check the credentials of the server or function, their rights on the two tables, and the region"
_MISTAKES: Final = {"ValidationException", "IdempotentParameterMismatchException", "TransactionCanceledException"}


def fault_of(error: Exception) -> Fault:
    """Classifies an error of botocore. In doubt it is LOST: a request that may have been applied is
    never "not applied" (I3)."""
    if isinstance(error, ClientError):
        return _fault_of_response(error)
    if isinstance(error, _UNSENT):
        return Fault.BUSY
    if isinstance(error, _LOST):
        return Fault.LOST
    return Fault.BROKEN if isinstance(error, BotoCoreError) else Fault.LOST


def _fault_of_response(error: ClientError) -> Fault:
    code = str(error.response.get("Error", {}).get("Code", ""))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if code in REFUSALS:
        return Fault.REFUSED
    if code == "TransactionCanceledException":
        return _fault_of_cancellation(error)
    if code in _BUSY or status == 429:
        return Fault.BUSY
    return Fault.LOST if code in _LOST_CODES or status >= 500 or status == 0 else Fault.BROKEN


def _fault_of_cancellation(error: ClientError) -> Fault:
    reasons = error.response.get("CancellationReasons") or ()
    codes = [str(reason.get("Code", "None")) for reason in reasons]  # "None": nothing is wrong with that write
    if any(code in REFUSALS for code in codes):
        return Fault.REFUSED  # decided on a committed row, whatever else is wrong
    return Fault.BUSY if all(code in _BUSY for code in codes if code != "None") else Fault.BROKEN


class Refusal(Exception):
    """A condition did not hold; ``response`` is the service's parsed answer. ``uncertain``: an
    answer before it was lost, so that the request may have been applied all the same, or may be
    applied yet.
    """

    def __init__(self, response: dict[str, Any], *, uncertain: bool = False) -> None:
        super().__init__("refused")
        self.response = response
        self.uncertain = uncertain


class Caller:
    """Sends operations of one botocore DynamoDB client, which has no retries of its own. Capacity
    is requested only when ``on_request`` is given."""

    def __init__(
        self,
        client: Any,
        *,
        patience: Patience | None = None,
        on_request: OnRequest | None = None,
        sleep: Callable[[float], None] = time.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._patience = patience or PATIENCE
        self._on_request = on_request
        self._sleep = sleep
        self._now = now
        self._answered: tuple[str, float] | None = None  # date of the last answer, and when it came

    def read(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the response to a read. Raises Throttled or StorageFault at the deadline,
        StoreUnavailable at once."""
        return self._call(operation, request, writes=False)

    def read_pages(self, operation: str, request: dict[str, Any]) -> Iterator[Item]:
        """The items of all pages of a query or scan; a request for each page, when it is needed."""
        while True:
            page = self.read(operation, request)
            yield from page.get("Items", ())
            if not page.get("LastEvaluatedKey"):
                return
            request = request | {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    def read_batches(self, table: str, keys: Sequence[Item]) -> Iterator[Item]:
        """The items of ``keys`` that exist, in any order; a request for each hundred, and more for
        unprocessed keys."""
        for start in range(0, len(keys), BATCH_GET_MAX):
            batch: Any = {table: {"Keys": list(keys[start : start + BATCH_GET_MAX]), "ConsistentRead": True}}
            retries = self.retries()
            while batch:
                response = self.read("batch_get_item", {"RequestItems": batch})
                yield from response["Responses"].get(table, ())
                batch = response.get("UnprocessedKeys")
                if batch and not retries.pause():
                    raise Throttled(f"some items of {table} were not read until the deadline")

    def write(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Returns the response to a write. Raises Refusal when a condition did not hold, TooLarge,
        StoreUnavailable, or at the deadline Throttled when nothing was applied, OutcomeUnknown when
        an answer was lost.
        """
        return self._call(operation, request, writes=True)

    def retries(self) -> Retries:
        """The attempts of one operation, also for batches that come back unfinished."""
        return Retries(self._patience, now=self._now, sleep=self._sleep, jitter=random.random)

    def _call(self, operation: str, request: dict[str, Any], *, writes: bool) -> dict[str, Any]:
        if self._on_request is not None:
            request = {**request, "ReturnConsumedCapacity": "TOTAL"}
        send = getattr(self._client, operation)
        retries = self.retries()
        lost = False
        unreachable_s = self._now() + UNREACHABLE_S
        while True:
            try:
                response: dict[str, Any] = send(**request)
            except (BotoCoreError, ClientError, ResponseParserError) as error:
                self._count(operation, None)
                fault = fault_of(error)
                if fault is Fault.REFUSED and isinstance(error, ClientError):
                    raise Refusal(dict(error.response), uncertain=lost) from error
                if fault is Fault.BROKEN and not lost:
                    raise _broken(operation, error) from error
                lost = lost or fault is Fault.LOST
                hopeless = isinstance(error, _UNSENT) and self._now() >= unreachable_s and not lost
                if fault is Fault.BROKEN or hopeless or not retries.pause():
                    raise _gave_up(operation, error, lost=lost, writes=writes) from error
            else:
                date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
                self._answered = None if date is None else (date, self._now())
                self._count(operation, _capacity(response))
                return response

    def clock_ms(self) -> int | None:
        """The service's clock by the date of its last answer, in whole seconds; None where there is
        no answer, or none with a date."""
        if self._answered is None:
            return None
        date, at_s = self._answered
        try:
            return int((parsedate_to_datetime(date).timestamp() + self._now() - at_s) * 1000)
        except ValueError:
            return None

    def _count(self, operation: str, capacity: float | None) -> None:
        if self._on_request is not None:
            self._on_request(operation, capacity)


def _gave_up(operation: str, error: Exception, *, lost: bool, writes: bool) -> TurnstileError:
    if lost and writes:
        return OutcomeUnknown(f"the answer to {operation} was lost: {error}")
    if lost:
        return StorageFault(f"{operation} was not answered: {error}", remedy="try again later")
    if isinstance(error, _UNSENT):
        return StoreUnavailable(
            StoreCause.UNREACHABLE,
            f"the store cannot be reached: {error}; nothing was applied",
            remedy="check the network, the region and the store's endpoint, and send the same request again",
        )
    return Throttled(f"{operation} was put off until the deadline: {error}")


def _broken(operation: str, error: Exception) -> Exception:
    if not isinstance(error, ClientError):
        return StoreUnavailable(StoreCause.DENIED, f"{operation} was not sent: {error}", remedy=_CREDENTIALS)
    code = str(error.response.get("Error", {}).get("Code"))
    parts = [error.response.get("Error", {}).get("Message")]
    parts += [reason.get("Message") for reason in error.response.get("CancellationReasons") or ()]
    message = f"{operation}: {code}: " + " ".join(part for part in parts if part)
    if _TOO_LARGE.search(message):
        return TooLarge(message, remedy="keep large content in table storage", limit=ITEM_LIMIT)
    if code in _MISTAKES:
        return ValueError(message)
    if code in _NO_TABLE:
        return StoreUnavailable(
            StoreCause.GONE,
            f"the store has no table of the configured name, or it is being made ({operation}: {code}); nothing was "
            f"applied",
            remedy="check the names of the two tables, the region and the account; docs/server.md describes the tables",
        )
    cause = StoreCause.DENIED if code in _DENIED or _DENIES.search(code) else StoreCause.FAILED
    return StoreUnavailable(cause, f"the store refuses {operation}: {code}; nothing was applied", remedy=_CREDENTIALS)


def _capacity(response: dict[str, Any]) -> float | None:
    consumed = response.get("ConsumedCapacity")
    if isinstance(consumed, list):
        return float(sum(table["CapacityUnits"] for table in consumed))
    return float(consumed["CapacityUnits"]) if consumed else None
