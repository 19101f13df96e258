r"""Sizes of HTTP responses, and the budget of a page of a listing.

A Lambda function returns JSON, which Lambda embeds as a JSON string in JSON of its own of 6 MB at most. A longer response
fails the caller after the operation was done. One stored byte may become seven: U+0001 is ``\u0001`` in the response, and
its backslash is escaped once more. So sizes are measured on the text of the response, never on what is stored.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

RESPONSE_BYTES_MAX: Final = 6_000_000
"""Escaped bytes of a response's body; Lambda takes 6,291,556 with everything around it."""

PAGE_BYTES: Final = 5_000_000
"""Escaped bytes of the items of a page; the rest is left to the members around them."""

_LINE_SEPARATORS: Final = ("\u2028".encode(), "\u2029".encode())
"""Lambda's encoder escapes these although JSON does not require it."""


def escaped_size(body: bytes) -> int:
    """Returns the bytes that a JSON body takes as a string inside Lambda's JSON. Its control characters are escaped
    already."""
    return len(body) + body.count(b'"') + body.count(b"\\") + 3 * sum(body.count(line) for line in _LINE_SEPARATORS)


def response_size(value: Any) -> int:
    """Returns the escaped bytes that ``value`` takes as the JSON of a response, or as a part of one."""
    return escaped_size(msgspec.json.encode(value))


class PageBudget:
    """Bytes that are left of a page while it is filled with items.

    Args:
        limit: escaped bytes of all items together.
    """

    def __init__(self, limit: int = PAGE_BYTES) -> None:
        self._left, self._empty = limit, True

    def fits(self, size: int) -> bool:
        """Returns whether an item of this size still fits, and if so counts it. The first item always fits: an empty page
        would end the listing. What may be stored is limited so that one item never exceeds a response."""
        if not self._empty and size > self._left:
            return False
        self._left, self._empty = self._left - size, False
        return True
