"""JSON null for a member that may be left out is the member left out: clients of every language send either."""

from __future__ import annotations

from typing import Any, Final

import msgspec

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


def stripped(raw: bytes) -> bytes:
    """``raw`` without members that are null; ``raw`` itself when it is not JSON, which whoever decodes it says better."""
    if b"null" not in raw:
        return raw
    try:
        return msgspec.json.encode(without_nulls(msgspec.json.decode(raw)))
    except (msgspec.MsgspecError, RecursionError, OverflowError, UnicodeError):
        return raw
