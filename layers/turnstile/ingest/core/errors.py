"""The refusal of rows, which names the place of the first bad value."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from turnstile.store.core.errors import ErrorType, OutcomeUnknown, Throttled, TurnstileError

_SHOWN: Final = 60
"""Characters of a value that a message shows."""


class InvalidRows(TurnstileError):
    """The rows do not fit the table, or cannot be read. Nothing was written."""

    type = ErrorType.INVALID_ROWS
    usual_remedy = "correct the row and send the request again; none of its rows was added"


class VersionUnknown(OutcomeUnknown):
    """The rows of a request were added before, and the version that has them was not found."""


def require_time(now_ms: int, until_ms: int) -> None:
    """Raises Throttled when the time for a batch of requests is up."""
    if now_ms >= until_ms:
        raise Throttled("the time for this batch is up")


def excerpt(value: Any) -> str:
    """Returns a value as messages show it."""
    if isinstance(value, int) and not isinstance(value, bool):
        text = _digits(value)
    else:
        text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _digits(number: int) -> str:
    """A whole number; Python writes none of thousands of digits."""
    return str(number) if number.bit_length() < 256 else f"a number of {number.bit_length()} bits"
