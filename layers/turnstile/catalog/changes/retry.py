"""Fairness between attempts to change one catalog: pauses, a queue in each process, and claims of
priority between processes.

Losses are not spread evenly. A large change takes longer than a small one, so on a busy catalog it
finds the HEAD moved every time; and the writer that has just won has the newest tree and wins
again. Three remedies, none needed for safety:

    Backoff          pauses between attempts: exponential, with full jitter, within a deadline
    ChangeQueue      changes of one process are applied in groups, since only one swap can win at a
                     time (``group_commit``)
    PriorityClaim    a change that has lost for a part of its time says so in the catalog's row, and
                     the others hold back.
                     They learn it without a request: a refused swap returns the row, and a new
                         change reads it anyway
"""

from __future__ import annotations

from typing import Final

from turnstile.catalog.core.rows import CatalogHead, claim_priority
from turnstile.store.core.errors import ErrorType, StateConflict
from turnstile.store.core.writes import Row
from turnstile.store.ports import Clock, Ids, World
from turnstile.store.retry import Pause

STARVING: Final = 0.4
"""The part of its deadline after which a change claims priority."""


class Backoff:
    """The pauses between the attempts of one operation. ``first_ms`` and ``most_ms`` bound the
    jitter's upper limit: an attempt takes 15 ms or so; one that starts before others have ended
    loses to them again, and costs requests.
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
        self._clock = clock
        self._ids = ids
        self._pause = pause
        self._began = clock.now_ms()
        self._deadline_ms = deadline_ms
        self._starves = self._began + deadline_ms * starving
        self._limit = first_ms
        self._most = most_ms

    def again(self) -> bool:
        """Pauses, and returns whether there is time for another attempt."""
        paused = self.hold_back(self._limit)
        self._limit = min(self._limit * 2, self._most)
        return paused

    def hold_back(self, most_ms: int) -> bool:
        """Pauses for a random time up to ``most_ms``, unless the deadline has passed. Returns
        whether it has not passed after the pause either: a sandbox may be frozen in it for hours.
        """
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
        return self._clock.now_ms() >= self._starves

    def gave_up(self, catalog: str) -> StateConflict:
        problem = f"catalog '{catalog}' changed during every attempt"
        return StateConflict(
            ErrorType.CONCURRENT_CHANGE, problem, remedy="send the same request again", retry_after_ms=200
        )


HOLD_MS: Final = 1_000
"""The longest time that others hold back, so that a change which crashes costs them no more."""


class PriorityClaim:
    """One change's claim of priority over the changes of other processes."""

    look_ms = 60  # between looks at the row while a change holds back

    def __init__(self, world: World) -> None:
        self._world = world
        self.id = ""

    def held_by_other(self, row: Row | None) -> bool:
        """Whether another change has a claim that counts. No claim may last longer than
        ``HOLD_MS``: one that ends later was made by a clock that is ahead, and would close the
        catalog until then.
        """
        if row is None or "turn" not in row:
            return False
        head = CatalogHead.from_row(row)
        now = self._world.clock.now_ms()
        return head.turn != self.id and now < head.turn_until <= now + HOLD_MS

    def claim(self, key: str) -> Row | None:
        """Claims priority and returns the catalog's row after that, whether or not another change
        has a claim already."""
        now = self._world.clock.now_ms()
        self.id = self.id or self._world.ids.uuid()
        return self._world.refs.write(claim_priority(key, self.id, now + HOLD_MS, now)).row
