"""Rows of requests that carry an idempotency key: the outcome of each.

The row of an accepted request is written in the transaction of its change, so it exists if and only
if the change was made; that of a refused request when the refusal is final. The same request, sent
again, gets the same response (I3), as far as a small row holds it: texts are cut, contents of
winning commits are left out where they are too long, and then other details. A client that rebases
a transaction after a lost answer needs its members.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import msgspec

from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Insert, new_row

REQUEST_KEPT_S: Final = 86_400
"""How long a request is remembered after its first response, in seconds: much longer than another
sandbox can be working on the same request (``catalog.changes.attempts.OUTLIVED_MS``, and the time
that a swap is on its way).
"""

DONE: Final = 200

_TEXT_MAX: Final = 1_100
"""Characters that are kept of a refusal's message, field and remedy: more than a response has
(``api.http.errors``), so that a text which was cut here is cut there again."""

_DETAILS_BYTES: Final = 8_000
"""The limit of its details in bytes, as JSON: of all members that a refusal names, without
winners."""


class RequestOutcome(StoredRow, frozen=True):
    """A row: ``asked`` tells this request from others under the same key; ``expires`` is the
    table's time-to-live attribute, in seconds; ``seq`` is the number of the catalog commit that
    shows the change (None: no tree does). All from ``type`` on is of the refusal's
    ``TurnstileError``, ``details`` as JSON.
    """

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
        for kept in _shorter(value):
            if len(msgspec.json.encode({**details, name: kept})) <= _DETAILS_BYTES:
                details[name] = kept
                break
    return msgspec.json.encode(details).decode()


def _shorter(value: Any) -> Iterator[Any]:
    """Returns ``value`` and shorter forms of it: without winners, then with fewer and fewer
    members. A client that rebases the named ones learns of the others by its next attempt."""
    yield value
    shorter = _without_winners(value)
    yield shorter
    while isinstance(shorter, list) and len(shorter) > 1:
        shorter = shorter[: len(shorter) // 2]
        yield shorter


def _without_winners(value: Any) -> Any:
    """Returns ``value`` without the winning commits that its members name: they are in the log."""
    if isinstance(value, list):
        return [_without_winners(one) for one in value]
    if isinstance(value, dict):
        return {name: one for name, one in value.items() if name != "winners"}
    return value
