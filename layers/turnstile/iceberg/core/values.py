"""Integers as Iceberg has them: ``int`` of 32 and ``long`` of 64 bits, as members of Structs.

JSON knows no widths, and Python's integers have none. A number that no ``long`` holds would be written into a metadata
file that no client reads again, so a request or a file with one is refused where it is decoded, with the member's path.
Where the specification counts or measures something, less than nothing is refused as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

from msgspec import Meta

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import INT_MAX, LONG_MAX

Int32 = Annotated[int, Meta(ge=-INT_MAX - 1, le=INT_MAX)]
"""``int``: an id. -1 stands for one that was not assigned yet, so the sign says nothing."""

Int64 = Annotated[int, Meta(ge=-LONG_MAX - 1, le=LONG_MAX)]
"""``long``: the id of a snapshot."""

NonNegative64 = Annotated[int, Meta(ge=0, le=LONG_MAX)]
"""``long``: a time in ms since 1970, a sequence number, bytes, rows."""

Positive32 = Annotated[int, Meta(ge=1, le=INT_MAX)]
"""``int``: how many to keep."""

Positive64 = Annotated[int, Meta(ge=1, le=LONG_MAX)]
"""``long``: an age in ms."""


def check_room(ints: Iterable[int], longs: Iterable[int]) -> None:
    """Whether ids and counters that grew by themselves still are ``int`` and ``long``: what is written can be read again.

    Raises:
        InvalidRequest: a client used up the numbers, as one that gives a partition field the highest id.
    """
    if max(ints) > INT_MAX or max(longs) > LONG_MAX:
        raise InvalidRequest(
            "the next id or sequence number would be too large for Iceberg",
            field="updates",
            remedy="create another one in its place: the highest number is in use",
        )


# -- nulls ------------------------------------------------------------------------------------------------------------
# JSON null for a member that may be left out is the member left out: clients of every language send either.


_MAPS: Final = ("properties", "updates", "summary")
"""Members whose values are maps of strings. There null is a value, and the wrong one: nobody may take it for nothing."""


def without_nulls(value: Any) -> Any:
    """``value``, decoded JSON, without members that are null."""
    if isinstance(value, dict):
        return {
            name: inner if name in _MAPS and isinstance(inner, dict) else without_nulls(inner)
            for name, inner in value.items()
            if inner is not None
        }
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value
