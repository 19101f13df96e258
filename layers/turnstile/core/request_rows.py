"""refs rows of requests that carry a key of their sender's: what became of each.

    request    {key, kind, asked, status, seq, type, message, created, expires}

The row of an accepted request is written in the transaction that changed something, so it is there if and only if the
change is; that of a refused one when the refusal is final. Whoever sends the request again is told the same (I3).
"""

from __future__ import annotations

from typing import Final

import msgspec

from turnstile.core.plan import Insert, Row, new_row

KEPT_S: Final = 3_600
"""How long a request is remembered after its first answer, in seconds."""

DONE: Final = 200


class Remembered(msgspec.Struct, frozen=True):
    """A parsed row: ``asked`` tells this request from others under the same key; ``status`` 200, or that of the refusal
    with its ``type`` and ``message``; ``seq`` the number of the catalog's commit that shows what was done, if one does."""

    asked: str
    status: int
    type: str
    message: str
    seq: int | None = None

    @classmethod
    def from_row(cls, row: Row) -> Remembered:
        """Parse a refs row of kind ``request``."""
        return cls(row["asked"], row["status"], row.get("type") or "", row.get("message") or "", row.get("seq"))


def remember(
    key: str,
    asked: str,
    now_ms: int,
    *,
    status: int = DONE,
    type: str = "",
    message: str = "",
    seq: int | None = None,
) -> Insert:
    """The outcome of a request, written once."""
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
    if type:
        row |= {"type": type, "message": message[:1000]}
    return Insert(row, (new_row("I3"),))
