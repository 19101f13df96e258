"""Waiting between attempts: exponential, with full jitter, within a deadline."""

from __future__ import annotations

from collections.abc import Callable

from turnstile.core.errors import StateConflict
from turnstile.ports import Clock, Ids

Pause = Callable[[float], None]
"""Waits for so many seconds; passed in, because services do not wait by themselves."""


def no_pause(seconds: float) -> None:
    """Try again at once: for tests, and where the store's own latency is pause enough."""


class Backoff:
    """One operation's patience.

    Args:
        deadline_ms: time for all attempts together.
        first_ms, most_ms: bounds of the jitter's upper limit.
    """

    def __init__(
        self, clock: Clock, ids: Ids, pause: Pause, *, deadline_ms: int, first_ms: int = 8, most_ms: int = 400
    ) -> None:
        self._clock, self._ids, self._pause = clock, ids, pause
        self._until = clock.now_ms() + deadline_ms
        self._limit, self._most = first_ms, most_ms

    def again(self) -> bool:
        """Pause and say whether there is time for another attempt."""
        if self._clock.now_ms() >= self._until:
            return False
        share = int(self._ids.uuid().replace("-", "")[-8:], 16) / 0x1_0000_0000
        self._pause(self._limit * share / 1000)
        self._limit = min(self._limit * 2, self._most)
        return True

    def gave_up(self, catalog: str) -> StateConflict:
        """The error for when there is none."""
        return StateConflict(
            "ConcurrentChange",
            f"catalog '{catalog}' changed during every attempt",
            remedy="send the same request again",
            retry_after_ms=200,
        )
