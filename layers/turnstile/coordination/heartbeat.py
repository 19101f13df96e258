"""The lease of an attempt at a task, renewed by its own work: short, so that another process takes
over a killed one's work within minutes."""

from __future__ import annotations

from typing import Final

from turnstile.coordination.tasks import Attempt, Tasks
from turnstile.store.core.errors import OutcomeUnknown, StoreUnavailable, Throttled
from turnstile.store.ports import Clock

LEASE_MS: Final = 3 * 60_000
"""The term of each renewal. Work that takes longer from one beat to the next may be begun once more
meanwhile."""


class Heartbeat:
    """Renews the lease of one attempt whenever a third of ``lease_ms`` has passed. Not safe for
    threads."""

    def __init__(self, tasks: Tasks, attempt: Attempt, clock: Clock, lease_ms: int = LEASE_MS) -> None:
        self._tasks = tasks
        self._clock = clock
        self._lease_ms = lease_ms
        self.attempt = attempt
        """The last renewed attempt, which finishes the task."""

    def beat(self) -> bool:
        """Returns whether the attempt still has the task; renews its lease where that is due: one
        write. Where the answer is lost, or the store refuses for now, the old lease counts."""
        now = self._clock.now_ms()
        if self.attempt.task.until - now > self._lease_ms * 2 // 3:
            return True
        try:
            renewed = self._tasks.renew(self.attempt, self._lease_ms) or self._as_it_is()
        except (OutcomeUnknown, StoreUnavailable, Throttled):
            return now < self.attempt.task.until
        if renewed is None:
            return False
        self.attempt = renewed
        return True

    def _as_it_is(self) -> Attempt | None:
        """The attempt as a renewal without an answer has left it; None where another one was
        begun."""
        return self._tasks.running_attempt(self.attempt.name, self.attempt.task.attempt)
