"""The machine's clock."""

from __future__ import annotations

import secrets
import threading
import time
import uuid


class SystemClock:
    """``turnstile.store.ports.Clock`` on the wall clock. Nothing's correctness rests on it (design, I7): the HEAD orders
    versions, and a proposal from too far in the future is refused."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


# -- ids --------------------------------------------------------------------------------------------------------------
# Fresh identifiers.


_RANDOM_BITS = 80


class RandomIds:
    """``turnstile.store.ports.Ids`` from the operating system's random numbers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0

    def uuid(self) -> str:
        """A random uuid (version 4)."""
        return str(uuid.uuid4())

    def obj_id(self) -> str:
        """32 hex digits: 48 bits of milliseconds, then 80 random bits, as in a version 7 uuid without its tag bits.

        Ids of one process strictly increase, also within a millisecond, so ``Objs.newest`` is the latest one made.
        """
        fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
        with self._lock:
            self._last = max(fresh, self._last + 1)
            return f"{self._last:032x}"
