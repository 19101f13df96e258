"""Faults by name, drawn at every storage call from the run's seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

KINDS: Final[dict[str, str]] = {
    "before": "the call fails and had no effect",
    "lost": "the call has its effect and its answer is lost",
    "late": "the answer is lost and the effect comes seconds or hours later",
    "throttle": "the store asks to slow down; no effect",
    "duplicate": "the call is sent twice by the transport; the second answer arrives",
    "jump": "the process's clock jumps",
    "crash": "the process dies before the call",
    "crash after": "the process dies after the call had its effect",
    "stall": "the process is held up before the call: a function for minutes, a client for days",
}

FREEZE: Final = "freeze"
"""The sandbox is frozen before or after the call, or in a pause, for hours; then it goes on with all that it knows, and its
function has lived no longer for it. No kind of every scenario: ``frozen`` has it."""

RESENT: Final = "resent"
"""The answer to a write of a HEAD is lost, and the adapter sends it again by itself: the second copy is answered, as uncertain
where it is refused, and the first arrives seconds or minutes later. No kind of every scenario: ``crowded`` has it."""

SECOND: Final = 1_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 3_600_000
DAY: Final = 24 * HOUR


@dataclass
class Faults:
    """Draws at most one fault a call.

    Attributes:
        rate: chance of a fault at a call.
        kinds: which may happen.
        skip: numbers of faults that are left out (the shrinker finds out which matter).
        most: no further faults after so many.
    """

    rng: random.Random
    rate: float
    kinds: tuple[str, ...]
    skip: frozenset[int] = frozenset()
    most: int = 10_000
    on: bool = True
    count: int = 0
    drawn: list[tuple[int, str]] = field(default_factory=list)

    def draw(self, fitting: frozenset[str], rate: float | None = None) -> str:
        """The name of the fault at this call, or "" for none; ``rate`` where it is another."""
        if self.rng.random() >= (self.rate if rate is None else rate) or not self.on:
            return ""
        kinds = [kind for kind in self.kinds if kind in fitting]
        if not kinds:
            return ""
        kind = kinds[int(self.rng.random() * len(kinds))]
        self.count += 1
        if self.count in self.skip or self.count > self.most:
            return ""
        self.drawn.append((self.count, kind))
        return kind

    def soon(self) -> int:
        """How much later a late effect comes (ms): at most the life of a function, for that is how long it sends."""
        return int(self.rng.choice((40, 900, 31 * SECOND, 10 * MINUTE)) * (0.5 + self.rng.random()))

    def long(self, *, client: bool) -> int:
        """How long a process is held up (ms): a function at most for its life, a client for days."""
        longest = (2 * HOUR, 2 * DAY, 9 * DAY) if client else (3 * MINUTE, 10 * MINUTE)
        return int(self.rng.choice((5 * SECOND, 40 * SECOND, *longest)) * (0.5 + self.rng.random()))

    def frozen(self) -> int:
        """How long a sandbox is frozen (ms)."""
        return int(self.rng.uniform(HOUR // 2, 6 * HOUR))

    def skew(self, *, client: bool) -> int:
        """A clock's new deviation from true time (ms)."""
        if client:
            return self.rng.choice((-9 * HOUR, -SECOND, 0, 3 * SECOND, 400 * SECOND, 9 * 365 * DAY))
        return self.rng.choice((-2 * SECOND, 0, 2 * SECOND, 60 * SECOND))
