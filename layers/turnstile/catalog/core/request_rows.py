"""Rows of requests that carry an idempotency key: the outcome of each.

The row of an accepted request is written in the transaction of its change, so it exists if and only if the change was
made; that of a refused request when the refusal is final. The same request, sent again, gets the same response (I3), as
far as a small row holds it: texts are cut, and details that are too long are left out.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import msgspec

from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Insert, new_row

REQUEST_KEPT_S: Final = 86_400
"""How long a request is remembered after its first response, in seconds: much longer than another sandbox can be
working on the same request (``catalog.commit.OUTLIVED_MS``, and the time that a swap is on its way)."""

DONE: Final = 200

_TEXT_MAX: Final = 1_100
"""Characters that are kept of a refusal's message, field and remedy: more than a response has (``api.http.errors``), so
that a text which was cut here is cut there again."""

_DETAILS_BYTES: Final = 1_000
"""Bytes that are kept of its details, as JSON."""


class RequestOutcome(StoredRow, frozen=True):
    """A row: ``asked`` tells this request from others under the same key; ``expires`` is the table's time-to-live
    attribute, in seconds; ``seq`` is the number of the catalog commit that shows what was done (None: no tree does).
    All from ``type`` on is of the refusal's ``TurnstileError``, ``details`` as JSON."""

    kind: ClassVar[str] = "request"

    asked: str
    status: int
    created: int
    expires: int
    seq: int | None = None
    type: str = ""
    message: str = ""
    field: str | None = None
    remedy: str | None = None
    details: str = "{}"


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
    row = RequestOutcome(key, asked, status, now_ms, now_ms // 1000 + REQUEST_KEPT_S, seq)
    if error is not None:
        row = msgspec.structs.replace(
            row,
            type=error.type,
            message=error.message[:_TEXT_MAX],
            field=error.field and error.field[:_TEXT_MAX],
            remedy=error.remedy and error.remedy[:_TEXT_MAX],
            details=_details(error),
        )
    return Insert(row.to_row(), (new_row("I3"),))


def _details(error: TurnstileError) -> str:
    details: dict[str, Any] = {}
    for name, value in error.details.items():
        if len(msgspec.json.encode({**details, name: value})) <= _DETAILS_BYTES:
            details[name] = value
    return msgspec.json.encode(details).decode()
