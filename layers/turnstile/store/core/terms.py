"""End times of leases, pauses and turns in rows, and when they are over.

A server writes an end time by its own clock. A clock that was ahead by weeks would leave an end
that delays every other process for weeks after the clock is right again. So every end time has a
longest term: one that lies further in the future was written by a clock that is ahead, and counts
as over. ``api.doctor.clocks`` lists all of them (ADR 64).
"""

from __future__ import annotations

from typing import Final

SLACK_MS: Final = 15 * 60_000
"""Added to each longest term: a write is applied within the life of a function, and clocks are
right to within a minute."""


def is_over(until_ms: int, now_ms: int, longest_ms: int) -> bool:
    """Returns whether an end is over at ``now_ms``, or so far away that a clock which was ahead has
    written it."""
    return until_ms <= now_ms or until_ms > latest_ms(now_ms, longest_ms)


def latest_ms(now_ms: int, longest_ms: int) -> int:
    """Returns the latest end that a right clock can have written by ``now_ms``."""
    return now_ms + longest_ms + SLACK_MS
