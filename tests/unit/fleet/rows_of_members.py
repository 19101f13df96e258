"""Rows of members for tests."""

from __future__ import annotations

from typing import Any

from turnstile.fleet.core.rows import MemberRow
from turnstile.store.core.rows import Space

SPACE = Space("test")


def member(id: str = "a", **more: Any) -> MemberRow:
    """A member that is well, with what is ``more``."""
    values = {
        "state": "active",
        "life": 4,
        "beat_ms": 10,
        "changes": 2,
        "moves": 1,
        "owned": 3,
        "loads": {"publish": 7},
    } | more
    return MemberRow(key=SPACE.fleet_member(id), id=id, name=f"on {id}", joined_at=1, shown_at=2, **values)
