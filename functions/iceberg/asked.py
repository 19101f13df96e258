"""What a request asks for: its body, as Iceberg's clients write it."""

from __future__ import annotations

from typing import Final, TypeVar

from turnstile_http.bodies import decode
from turnstile_http.request import BodyLimit, current
from turnstile_iceberg.files import MAX_BYTES
from turnstile_iceberg.nulls import stripped

T = TypeVar("T")

BODIES: Final = BodyLimit(
    MAX_BYTES, "put less into one request: fewer tables, or fewer snapshots and statistics of one"
)
"""As much as a metadata file may hold, since one commit may write all of it (and Lambda takes 6 MB, JSON in JSON)."""


def body(shape: type[T]) -> T:
    """The current request's body as ``shape``; null counts as absent. Raises InvalidRequest."""
    return decode(stripped(current().body), shape)
