"""Integers as members of Structs, ``int`` of 32 and ``long`` of 64 bits; and JSON without nulls.

JSON and Python know no widths of integers. A number beyond ``long`` would get into a metadata file that no client can read
again, so a request or a file with one is refused where it is decoded, with the member's path. Counts and sizes below zero
are refused as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

from msgspec import Meta

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import INT_MAX, LONG_MAX

Int32 = Annotated[int, Meta(ge=-INT_MAX - 1, le=INT_MAX)]
"""``int``: an id; -1 is one that was not assigned yet."""

Int64 = Annotated[int, Meta(ge=-LONG_MAX - 1, le=LONG_MAX)]
"""``long``: the id of a snapshot."""

NonNegative64 = Annotated[int, Meta(ge=0, le=LONG_MAX)]
"""``long``: a time in ms since 1970, a sequence number, bytes, rows."""

Positive32 = Annotated[int, Meta(ge=1, le=INT_MAX)]
"""``int``: how many to keep."""

Positive64 = Annotated[int, Meta(ge=1, le=LONG_MAX)]
"""``long``: an age in ms."""

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
