"""Windows of time in which work may be done: ``mon-fri 22:00-06:00, sat-sun``. All of it is UTC; a
window belongs to the day on which it begins."""

from __future__ import annotations

import re
from typing import Final

import msgspec

DAY_MS: Final = 86_400_000
MINUTE_MS: Final = 60_000
_DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_THURSDAY: Final = 3
"""The weekday of 1970-01-01."""
_DAY: Final = r"(?:mon|tue|wed|thu|fri|sat|sun)"
_TIME: Final = r"(?:[01][0-9]|2[0-4]):[0-5][0-9]"
_WINDOW: Final = re.compile(rf"(?:({_DAY})(?:-({_DAY}))?)?(?:(?:^|(?<=[a-z])\s+)({_TIME})-({_TIME}))?", re.ASCII)
_LONGEST_TEXT: Final = 1_000


class Window(msgspec.Struct, frozen=True):
    """``length_ms`` from ``start_ms`` after midnight on each of ``days`` (0: Monday)."""

    days: frozenset[int]
    start_ms: int
    length_ms: int


Windows = tuple[Window, ...]


def windows_of(text: str) -> Windows:
    """Returns the windows of a text. Raises ValueError, naming the expected form."""
    windows = [_window(part.strip().lower()) for part in text.split(",")] if len(text) <= _LONGEST_TEXT else [None]
    readable = tuple(window for window in windows if window is not None)
    if len(readable) < len(windows):
        raise ValueError("windows of time in UTC, as in mon-fri 22:00-06:00, sat-sun")
    return readable


def _window(text: str) -> Window | None:
    match = _WINDOW.fullmatch(text) if text else None
    if match is None:
        return None
    first, last, begin, end = match.groups()
    days = frozenset(range(7))
    if first is not None:
        start = _DAYS.index(first)
        stop = _DAYS.index(last or first)
        days = frozenset((start + step) % 7 for step in range((stop - start) % 7 + 1))
    if begin is None:
        return Window(days, 0, DAY_MS)
    start_ms = _time_ms(begin)
    end_ms = _time_ms(end)
    if start_ms >= DAY_MS or end_ms > DAY_MS:
        return None
    return Window(days, start_ms, (end_ms - start_ms) % DAY_MS or DAY_MS)


def _time_ms(text: str) -> int:
    hours, minutes = text.split(":")
    return (int(hours) * 60 + int(minutes)) * MINUTE_MS


def open_until(windows: Windows, now_ms: int) -> int | None:
    """Returns the end of the window that is open at a time, extended by windows that follow without
    a gap, at most a week; None if none is open."""
    until = now_ms
    while until - now_ms < 7 * DAY_MS:
        ends = [end for window in windows for begin, end in _around(window, until) if begin <= until < end]
        if not ends:
            break
        until = max(ends)
    return until if until > now_ms else None


def opens_at(windows: Windows, now_ms: int) -> int | None:
    """Returns when the next window begins after a time; None if there is none."""
    begins = (begin for window in windows for begin, _ in _around(window, now_ms))
    return min((begin for begin in begins if begin > now_ms), default=None)


def _around(window: Window, at_ms: int) -> list[tuple[int, int]]:
    """The times of a window that begin between the day before and a week later."""
    today = at_ms // DAY_MS
    return [
        (day * DAY_MS + window.start_ms, day * DAY_MS + window.start_ms + window.length_ms)
        for day in range(today - 1, today + 8)
        if (day + _THURSDAY) % 7 in window.days
    ]
