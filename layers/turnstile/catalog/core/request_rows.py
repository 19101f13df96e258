"""refs rows of requests that carry a key of their sender's: what became of each.

    request    {key, kind, asked, status, seq, type, message, field, remedy, details, created, expires}

The row of an accepted request is written in the transaction that changed something, so it is there if and only if the
change is; that of a refused one when the refusal is final. Whoever sends the request again is told the same (I3), as far
as a small row holds it: texts are cut, and details that are too long are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.writes import Insert, Row, new_row

KEPT_S: Final = 86_400
"""How long a request is remembered after its first answer, in seconds: much longer than another sandbox can be at the same
request (``services.catalog.attempts.OUTLIVED_MS``, and what a swap is on its way)."""

DONE: Final = 200

_TEXT: Final = 1_100
"""Characters of a refusal's message, field and remedy that are kept: more than an answer has (``turnstile.api.http.errors``),
so that one which was cut is cut there again."""

_DETAILS: Final = 1_000
"""Bytes of its details, as JSON."""


class Remembered(msgspec.Struct, frozen=True):
    """A parsed row: ``asked`` tells this request from others under the same key; ``status`` 200, or that of the refusal
    with its ``type`` and what ``TurnstileError`` has; ``seq`` the number of the catalog's commit that shows what was done,
    if one does."""

    asked: str
    status: int
    type: str
    message: str
    seq: int | None = None
    field: str | None = None
    remedy: str | None = None
    details: Mapping[str, Any] = {}

    @classmethod
    def from_row(cls, row: Row) -> Remembered:
        """Parse a refs row of kind ``request``."""
        return cls(
            row["asked"],
            row["status"],
            row.get("type") or "",
            row.get("message") or "",
            row.get("seq"),
            row.get("field"),
            row.get("remedy"),
            msgspec.json.decode(row["details"]) if "details" in row else {},
        )


def remember(
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
        "expires": now_ms // 1000 + KEPT_S,
    }
    if seq is not None:
        row["seq"] = seq
    if error is not None:
        row |= _refusal(error)
    return Insert(row, (new_row("I3"),))


def _refusal(error: TurnstileError) -> Row:
    """What a row keeps of a refusal."""
    row: Row = {"type": error.type, "message": error.message[:_TEXT]}
    if error.field is not None:
        row["field"] = error.field[:_TEXT]
    if error.remedy is not None:
        row["remedy"] = error.remedy[:_TEXT]
    kept: dict[str, Any] = {}
    for name, value in error.details.items():
        if len(msgspec.json.encode({**kept, name: value})) <= _DETAILS:
            kept[name] = value
    if kept:
        row["details"] = msgspec.json.encode(kept).decode()
    return row
