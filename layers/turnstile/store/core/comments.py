"""Comments: what users write about things, short enough for answers that list many (``core.answer_size``)."""

from __future__ import annotations

from typing import Final

from turnstile.store.core.errors import TooLarge

MAX_BYTES: Final = 32_768
"""Bytes of a comment in UTF-8; what a namespace may take with its properties."""


def check_comment(comment: str | None, field: str = "comment") -> str | None:
    """``comment`` if it fits; raises TooLarge."""
    size = len((comment or "").encode())
    if size > MAX_BYTES:
        raise TooLarge(
            f"{field} takes {size} bytes, and the limit is {MAX_BYTES}",
            field=field,
            remedy="shorten it, or keep the text elsewhere and name the place",
            limit=MAX_BYTES,
            size=size,
        )
    return comment
