"""Waiting between attempts: exponential, with full jitter, within a deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnstile.store.core.errors import StateConflict
from turnstile.store.ports import Clock, Ids

STARVING: Final = 0.4
"""The part of its time after which a change asks the others to let it go first."""

Pause = Callable[[float], None]
"""Waits for so many seconds; passed in, because services do not wait by themselves."""


def no_pause(seconds: float) -> None:
    """Try again at once: for tests, and where the store's own latency is pause enough."""


class Backoff:
    """One operation's patience.

    Args:
        deadline_ms: time for all attempts together.
        first_ms, most_ms: bounds of the jitter's upper limit. An attempt takes 15 ms or so: who tries again sooner than
            others have ended loses to them again, and pays for it.
        starving: the part of ``deadline_ms`` after which it is ``starving``.
    """

    def __init__(
        self,
        clock: Clock,
        ids: Ids,
        pause: Pause,
        *,
        deadline_ms: int,
        first_ms: int = 32,
        most_ms: int = 400,
        starving: float = STARVING,
    ) -> None:
        self._clock, self._ids, self._pause = clock, ids, pause
        self._began, self._deadline_ms = clock.now_ms(), deadline_ms
        self._starves = self._began + deadline_ms * starving
        self._limit, self._most = first_ms, most_ms

    def again(self) -> bool:
        """Pause and say whether there is time for another attempt."""
        paused = self.hold_back(self._limit)
        self._limit = min(self._limit * 2, self._most)
        return paused

    def hold_back(self, most_ms: int) -> bool:
        """Pause for a random time up to ``most_ms``, unless the deadline has passed; whether it has not, also after the
        pause: a sandbox may be frozen in it for hours."""
        if self._over:
            return False
        share = int(self._ids.uuid().replace("-", "")[-8:], 16) / 0x1_0000_0000
        self._pause(most_ms * share / 1000)
        return not self._over

    @property
    def _over(self) -> bool:
        return self._clock.now_ms() >= self._began + self._deadline_ms

    @property
    def starving(self) -> bool:
        """Whether so much of the time is gone that others should let this change go first."""
        return self._clock.now_ms() >= self._starves

    def gave_up(self, catalog: str) -> StateConflict:
        """The error for when there is none."""
        return StateConflict(
            "ConcurrentChange",
            f"catalog '{catalog}' changed during every attempt",
            remedy="send the same request again",
            retry_after_ms=200,
        )
