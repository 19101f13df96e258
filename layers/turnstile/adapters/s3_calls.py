"""Retries of S3 calls. Every call made through here is idempotent, so a lost answer is simply asked for again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)

from turnstile.store.core.errors import StorageFault

T = TypeVar("T")

DEADLINE_SECONDS: Final = 3.0
FIRST_SECONDS: Final = 0.05
LONGEST_SECONDS: Final = 1.0
_AGAIN: Final = {"ConditionalRequestConflict", "OperationAborted", "RequestTimeout", "SlowDown", "Throttling"}
_LOST: Final = (HTTPClientError, IncompleteReadError, ResponseStreamingError)


def code_of(error: ClientError) -> str:
    """S3's error code; for HEAD requests, which have no body, the status."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: ClientError) -> int:
    """HTTP status of the answer (0: none)."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _transient(error: Exception) -> bool:
    if isinstance(error, ClientError):
        return status_of(error) in (409, 429) or status_of(error) >= 500 or code_of(error) in _AGAIN
    return isinstance(error, _LOST)


def patiently(
    what: str,
    attempt: Callable[[], T],
    *,
    deadline: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> T:
    """``attempt()`` until it answers, with full jitter between tries; none is started ``deadline`` seconds (default:
    ``DEADLINE_SECONDS``) after the first.

    Raises:
        StorageFault: time is up, or S3 answered something that waiting does not mend.
    """
    end = now() + (DEADLINE_SECONDS if deadline is None else deadline)
    pause = FIRST_SECONDS
    while True:
        try:
            return attempt()
        except (BotoCoreError, ClientError) as error:
            wait = random.uniform(0, pause)  # noqa: S311 - jitter, not a secret
            if not _transient(error) or now() + wait >= end:
                raise StorageFault(f"could not {what}: {error}", remedy="try again later") from error
            sleep(wait)
            pause = min(pause * 2, LONGEST_SECONDS)
