"""Numbers that every client of the APIs can read again.

JSON knows no widths, and Python's integers have none. What stands in a body without a type of its own (metadata of
columns, domains) is kept as it was sent, so a number that no ``long`` of Java's holds is refused when it arrives.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.integers import INT_MAX, LONG_MAX
from turnstile.store.core.names import MAX_VERSION

Feature = Annotated[int, Meta(ge=0, le=INT_MAX)]
"""A reader or writer version of a protocol: ``int``."""

Count = Annotated[int, Meta(ge=0, le=MAX_VERSION)]
"""A version, or a time in ms since 1970: what every JSON reader holds exactly."""


def check_numbers(value: Any, field: str) -> None:
    """Judge the integers anywhere in ``value``, which is JSON.

    Raises:
        InvalidRequest: one does not fit 64 bits; ``field`` is the request's member.
    """
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            left.extend(one.values())
        elif isinstance(one, list | tuple):
            left.extend(one)
        elif isinstance(one, int) and not -LONG_MAX - 1 <= one <= LONG_MAX:
            raise InvalidRequest(
                f"{field} holds the number {one}"[:200] + ", which 64 bits do not",
                field=field,
                remedy="send it as a string, or a number between -2^63 and 2^63-1",
            )
