r"""What fits an answer. A function answers with JSON, and Lambda takes that as a string of JSON of its own, of 6 MB at most;
a longer one is the caller's failure, whatever was done.

What is stored as one byte may so be seven: U+0001 is ``\u0001`` in the answer, and its backslash one more around it.
Hence sizes are those of the answer's text, never those of what is stored.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

MOST: Final = 6_000_000
"""Bytes of an answer's body as Lambda has it, which takes 6,291,556 with everything around it."""

PAGE: Final = 5_000_000
"""Bytes after which a page ends: what is counted one by one leaves room for what is said of all."""

_LINES: Final = ("\u2028".encode(), "\u2029".encode())
"""Separators of lines, which Lambda's encoder escapes although JSON need not."""


def within(body: bytes) -> int:
    """Bytes that an answer's body takes inside Lambda's. Control characters are escaped in it already."""
    return len(body) + body.count(b'"') + body.count(b"\\") + 3 * sum(body.count(line) for line in _LINES)


def told(value: Any) -> int:
    """Bytes that ``value`` takes as the JSON of an answer, or a part of one."""
    return within(msgspec.json.encode(value))


class Room:
    """What is left of an answer while it is filled.

    Args:
        limit: bytes of it.
    """

    def __init__(self, limit: int = PAGE) -> None:
        self._left, self._empty = limit, True

    def takes(self, size: int) -> bool:
        """Whether something of this size still fits, and then it is in. The first does in any case: a page without
        anything would be the end of a listing. What may be stored is limited so that one thing always fits."""
        if not self._empty and size > self._left:
            return False
        self._left, self._empty = self._left - size, False
        return True
