"""Rows of requests that carry an idempotency key: the outcome of each.

    request    {key, kind, asked, status, seq, type, message, field, remedy, details, created, expires}

The row of an accepted request is written in the transaction of its change, so it exists if and only if the change was
made; that of a refused request when the refusal is final. The same request, sent again, gets the same response (I3), as
far as a small row holds it: texts are cut, and details that are too long are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.writes import Insert, Row, new_row

REQUEST_KEPT_S: Final = 86_400
"""How long a request is remembered after its first response, in seconds: much longer than another sandbox can be working on
the same request (``catalog.commit.OUTLIVED_MS``, and the time that a swap is on its way)."""

DONE: Final = 200

_TEXT_MAX: Final = 1_100
"""Characters that are kept of a refusal's message, field and remedy: more than a response has (``api.http.errors``), so that
a text which was cut here is cut there again."""

_DETAILS_BYTES: Final = 1_000
"""Bytes that are kept of its details, as JSON."""


class RequestOutcome(msgspec.Struct, frozen=True):
    """A parsed row.

    Attributes:
        asked: tells this request from others under the same key.
        status: 200, or that of the refusal, whose other attributes are those of its ``TurnstileError``.
        seq: number of the catalog commit that shows what was done; None if no tree does.
    """

    asked: str
    status: int
    type: str = ""
    message: str = ""
    seq: int | None = None
    field: str | None = None
    remedy: str | None = None
    details: Mapping[str, Any] = {}

    @classmethod
    def from_row(cls, row: Row) -> RequestOutcome:
        """Parses a refs row of kind ``request``."""
        return msgspec.convert({**row, "details": msgspec.json.decode(row.get("details", "{}"))}, cls)


def request_row(
    key: str,
    asked: str,
    now_ms: int,
    *,
    status: int = DONE,
    error: TurnstileError | None = None,
    seq: int | None = None,
) -> Insert:
    """The outcome of a request, written once: with ``error`` a refusal."""
    row: Row = {
        "key": key,
        "kind": "request",
        "asked": asked,
        "status": status,
        "created": now_ms,
        "expires": now_ms // 1000 + REQUEST_KEPT_S,
    }
    if seq is not None:
        row["seq"] = seq
    if error is not None:
        row |= _refusal(error)
    return Insert(row, (new_row("I3"),))


def _refusal(error: TurnstileError) -> Row:
    """Returns the attributes that a row keeps of a refusal."""
    row: Row = {"type": error.type, "message": error.message[:_TEXT_MAX]}
    if error.field is not None:
        row["field"] = error.field[:_TEXT_MAX]
    if error.remedy is not None:
        row["remedy"] = error.remedy[:_TEXT_MAX]
    details: dict[str, Any] = {}
    for name, value in error.details.items():
        if len(msgspec.json.encode({**details, name: value})) <= _DETAILS_BYTES:
            details[name] = value
    if details:
        row["details"] = msgspec.json.encode(details).decode()
    return row
