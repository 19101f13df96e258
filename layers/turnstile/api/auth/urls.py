"""Which URLs may be trusted for what they answer."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


def trustworthy(url: str) -> bool:
    """Whether nobody on the way can change what is got from there: https, or this very machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return bool(parts.hostname) and (
        parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    )
