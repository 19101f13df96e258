"""The machine's clock."""

from __future__ import annotations

import time


class SystemClock:
    """``turnstile.store.ports.Clock`` on the wall clock. Nothing's correctness rests on it (design, I7): the HEAD orders
    versions, and a proposal from too far in the future is refused."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000
