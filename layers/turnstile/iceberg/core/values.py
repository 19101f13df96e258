"""Values in Iceberg's JSON: ids and counters that the catalog assigns, and members that are null."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.integers import INT_MAX, LONG_MAX

_MAPS: Final = ("properties", "updates", "summary")
"""Members whose values are maps of text. In them null is a wrong value, which must not be dropped."""


def check_room(ints: Iterable[int], longs: Iterable[int]) -> None:
    """Raises InvalidRequest if ids and counters that the catalog assigned are no ``int`` and ``long`` any more, for example
    after a client gave a partition field the highest id."""
    if max(ints) > INT_MAX or max(longs) > LONG_MAX:
        raise InvalidRequest(
            "the next id or sequence number would be too large for Iceberg",
            field="updates",
            remedy="create another one in its place: the highest number is in use",
        )


def without_nulls(value: Any) -> Any:
    """``value``, decoded JSON, without members that are null: clients of every language send null for a member left out."""
    if isinstance(value, dict):
        return {
            name: inner if name in _MAPS and isinstance(inner, dict) else without_nulls(inner)
            for name, inner in value.items()
            if inner is not None
        }
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value
