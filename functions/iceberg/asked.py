"""What a request asks for: its body, as Iceberg's clients write it."""

from __future__ import annotations

from typing import Final, TypeVar

from turnstile.api.http.request import BodyLimit, current, decode
from turnstile.api.iceberg.requests import MAX_BODY, stripped

T = TypeVar("T")

BODIES: Final = BodyLimit(MAX_BODY, "put less into one request: fewer tables, or fewer snapshots and statistics of one")
"""As much as gets here at all: one commit may write a whole metadata file, and there is no other way to send it."""


def body(shape: type[T]) -> T:
    """The current request's body as ``shape``; null counts as absent. Raises InvalidRequest."""
    return decode(stripped(current().body), shape)
