"""What a view may return: a Struct or dict (200), None (204), or an ``Answer`` with its own status and headers."""

from __future__ import annotations

from typing import Any

import msgspec
from chalice.app import Response

from turnstile.api.http.request import current
from turnstile.store.core import answer_size
from turnstile.store.core.errors import TooLarge

JSON = "application/json"


class Answer(msgspec.Struct, frozen=True):
    """A body with a status other than 200, or with headers of its own."""

    body: Any
    status: int = 200
    headers: dict[str, str] = {}


def created(body: Any) -> Answer:
    """201 with a body."""
    return Answer(body, 201)


def to_response(result: Any) -> Response:
    """The result of a view for Chalice. Struct members that are UNSET do not appear.

    Raises:
        TooLarge: what was asked for would not fit an answer.
    """
    if result is None:
        return Response(body="", status_code=204)
    answer = result if isinstance(result, Answer) else Answer(result)
    headers: dict[str, str | list[str]] = {"Content-Type": JSON, **answer.headers}
    body = msgspec.json.encode(answer.body)
    if current().method == "GET":  # a change is made by now: it must not be called refused
        _require_fits(body)
    return Response(body=body.decode(), headers=headers, status_code=answer.status)


def _require_fits(body: bytes) -> None:
    """Raise TooLarge for what Lambda would not send. Listings end their pages before, and most of what is stored is limited
    so that it fits; a Delta table's schema is not, since the table's log decides on it."""
    size = answer_size.within(body)
    if size > answer_size.MOST:
        raise TooLarge(
            f"the answer would take {size} bytes, and the limit is {answer_size.MOST}",
            remedy="ask for less; what describes a Delta table is in its log as well",
            limit=answer_size.MOST,
            size=size,
        )
