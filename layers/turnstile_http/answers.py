"""What a view may return: a Struct or dict (200), None (204), or an ``Answer`` with its own status and headers."""

from __future__ import annotations

from typing import Any

import msgspec
from chalice.app import Response

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
    """The result of a view for Chalice. Struct members that are UNSET do not appear."""
    if result is None:
        return Response(body="", status_code=204)
    answer = result if isinstance(result, Answer) else Answer(result)
    headers: dict[str, str | list[str]] = {"Content-Type": JSON, **answer.headers}
    return Response(body=msgspec.json.encode(answer.body).decode(), headers=headers, status_code=answer.status)
