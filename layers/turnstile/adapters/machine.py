"""The clock and the random numbers of this machine, as ports."""

from __future__ import annotations

import random
import secrets
import threading
import time
import uuid
from typing import Final

from turnstile.store.ports import World

_RANDOM_BITS: Final = 80


class SystemClock:
    """``turnstile.store.ports.Clock`` on the wall clock. Correctness does not depend on it (design,
    I7): the HEAD orders versions, and a proposal from too far in the future is refused."""

    def __init__(self) -> None:
        self.begin_anew()

    def begin_anew(self) -> None:
        """Forgets the last reading of the clock: a process that was stopped and copied finds it far
        ahead of the time that has passed."""
        self._began_ms = self.now_ms()
        self._boot_began_ms = _elapsed_ms()
        self._seen: tuple[int, int] | None = None

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def jumped_ms(self) -> int:
        """By how much the wall clock has moved on since this was made beyond the time that has
        passed; negative: it was set back. 0 once that has been so for ``BELIEVED_MS``: it was
        behind before.
        """
        passed_ms = _elapsed_ms() - self._boot_began_ms
        jumped_ms = self.now_ms() - self._began_ms - passed_ms
        if abs(jumped_ms) <= JITTER_MS or passed_ms - self._steady_ms(jumped_ms, passed_ms) >= BELIEVED_MS:
            return 0
        return jumped_ms

    def _steady_ms(self, jumped_ms: int, passed_ms: int) -> int:
        """Since when (ms after the beginning) the clock has been as far away as it is now, as far
        as anything has looked."""
        if self._seen is None or abs(self._seen[0] - jumped_ms) > JITTER_MS:
            self._seen = jumped_ms, passed_ms
        return self._seen[1]


JITTER_MS: Final = 60_000
"""The largest allowed difference of clocks (docs/invariants.md, "Assumptions")."""

BELIEVED_MS: Final = 24 * 3_600_000
"""A clock that was set forward is believed after so long: then it was wrong before, and is right
now."""


def _elapsed_ms() -> int:
    """Time that passes independently of the wall clock, also while the machine sleeps, if the
    system has such a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.monotonic_ns() if boot is None else time.clock_gettime_ns(boot)) // 1_000_000


def clock_ahead_ms(world: World) -> int:
    """By how much this machine's clock is ahead of two references: the store's own clock, if it has
    one, and the time that has passed since the process began; 0: it is not, or there is no
    reference.
    """
    store_ms = world.refs.clock_ms()
    ahead_ms = 0 if store_ms is None else world.clock.now_ms() - store_ms
    jumped_ms = world.clock.jumped_ms() if isinstance(world.clock, SystemClock) and store_ms is None else 0
    return max(0, ahead_ms, jumped_ms)


def begin_anew(world: World) -> None:
    """Separates this process from the process that it is a copy of, which has sent nothing but
    reads of secrets (SnapStart). Ids and secrets come from the operating system, and differ in each
    copy. The random numbers that spread retries are seeded anew: copies would all retry at the same
    moments. Credentials, secrets and other cached values end by the wall clock, which is right in a
    copy.
    """
    random.seed()
    if isinstance(world.clock, SystemClock):
        world.clock.begin_anew()


class RandomIds:
    """``turnstile.store.ports.Ids`` from the operating system's random numbers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def obj_id(self) -> str:
        """32 hex digits: 48 bits of milliseconds, then 80 random bits, as in a version 7 uuid
        without its tag bits. Ids of one process strictly increase, also within a millisecond, so
        ``Objs.newest`` is the latest one.
        """
        fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            self._last = max(fresh, self._last + 1)
            return f"{self._last:032x}"
