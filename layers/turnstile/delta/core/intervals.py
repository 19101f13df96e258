"""Lengths of time as Delta's table properties have them, ``interval 7 days``."""

from __future__ import annotations

import re
from typing import Final

_INTERVAL: Final = re.compile(r"\s*(?:interval\s)?((?:\s*\d{1,9}\s+[a-z]+)+)\s*", re.ASCII | re.IGNORECASE)
_PART: Final = re.compile(r"(\d+)\s+([a-z]+)", re.ASCII | re.IGNORECASE)
_UNITS_MS: Final = {
    "week": 604_800_000, "day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1_000, "millisecond": 1,
}  # fmt: skip


def interval_ms(text: str) -> int | None:
    """Returns the length of an interval as Delta writes it, ``interval 7 days``; None for what cannot be read."""
    match = _INTERVAL.fullmatch(text)
    parts = [(int(count), _UNITS_MS.get(unit.lower().removesuffix("s"), 0)) for count, unit in _PART.findall(text)]
    if match is None or not all(unit for _, unit in parts):
        return None
    return sum(count * unit for count, unit in parts)
