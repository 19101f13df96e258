"""Trying again within a deadline, with full jitter ("Exponential Backoff and Jitter", AWS
Architecture Blog)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

Pause = Callable[[float], None]
"""Waits for so many seconds. Passed in, because services do not wait by themselves."""


def no_pause(seconds: float) -> None:
    """Does not wait: for tests, and where the store's own latency is pause enough."""


class Patience(msgspec.Struct, frozen=True):
    """How long an operation goes on, in seconds: no attempt starts ``deadline_s`` after the first
    one; pauses are random, up to ``first_s``, then twice that, and so on up to ``longest_s``."""

    deadline_s: float
    first_s: float
    longest_s: float


class Retries:
    """The attempts of one operation; the deadline counts from here. ``now`` a monotonic clock and
    ``sleep`` in seconds; ``jitter`` a random number in [0, 1)."""

    def __init__(
        self,
        patience: Patience,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], None],
        jitter: Callable[[], float],
    ) -> None:
        self._now = now
        self._sleep = sleep
        self._jitter = jitter
        self._limit_s = patience.first_s
        self._longest_s = patience.longest_s
        self._end = now() + patience.deadline_s

    def pause(self) -> bool:
        """Waits before the next attempt. Returns False, without waiting, if that would start after
        the deadline."""
        wait_s = self._jitter() * self._limit_s
        if self._now() + wait_s >= self._end:
            return False
        self._limit_s = min(self._limit_s * 2, self._longest_s)
        self._sleep(wait_s)
        return True
