"""The plan of a run: faults and actors, drawn from its seed and made smaller by the shrinker."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
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
"""The sandbox is frozen before or after the call, or in a pause, for hours; then it goes on with
all that it knows, and its function has lived no longer for it. No kind of every scenario:
``frozen`` has it."""

RESENT: Final = "resent"
"""The answer to a write of a HEAD is lost, and the adapter sends it again by itself: the second
copy is answered, as uncertain where it is refused, and the first arrives seconds or minutes later.
No kind of every scenario: ``crowded`` has it."""

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
        """How much later a late effect comes (ms): at most the life of a function, for that is how
        long it sends."""
        return int(self.rng.choice((40, 900, 31 * SECOND, 10 * MINUTE)) * (0.5 + self.rng.random()))

    def long(self, *, client: bool) -> int:
        """How long a process is held up (ms): a function at most for its life, a client for
        days."""
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


WRITERS = ("staged", "inline", "fat", "large", "ticket", "stream", "metadata")
"""staged and inline commits, inline so large that few fit into the row, inline too large for the
row, tickets, tickets of a streaming query, metadata changes."""


OTHERS = {
    "pump-1": 0.85,
    "sweeper": 0.8,
    "pump-2": 0.4,
    "reader": 0.4,
    "engine": 0.4,
    "gc": 0.6,
    "catalog-1": 0.25,
    "catalog-2": 0.15,
}
"""All other actors, and how often they take part."""


@dataclass(frozen=True)
class Plan:
    """The plan of a run; drawn from the seed, reduced by the shrinker."""

    seed: int
    actors: tuple[str, ...]
    faults: tuple[str, ...]
    rate: float
    steps: int
    row_tracking: bool
    keep: int = 3
    slow: bool = False
    skip: frozenset[int] = frozenset()
    transactions: int = 4

    def __str__(self) -> str:
        told = f"seed {self.seed}, {self.steps} steps, actors {', '.join(self.actors)}"
        return told + f", faults {', '.join(self.faults) or 'none'} at {self.rate}, without {sorted(self.skip)}"


def plan(seed: int) -> Plan:
    """The plan of a seed."""
    rng = random.Random(seed)
    writers = [f"{rng.choice(WRITERS)}-{number}" for number in range(rng.randint(2, 4))]
    rest = [name for name, chance in OTHERS.items() if rng.random() < chance]
    faults = tuple(kind for kind in KINDS if rng.random() < 0.6)
    return Plan(
        seed=seed,
        actors=(*writers, *rest),
        faults=faults,
        rate=rng.choice((0.0, 0.02, 0.08, 0.2)),
        steps=rng.choice((60, 150, 300)),
        row_tracking=rng.random() < 0.4,
        keep=rng.choice((0, 1, 3)),
        slow=rng.random() < 0.4,
    )


def shrunk(plan: Plan, fails: Callable[[Plan], bool], budget: int = 400) -> Plan:
    """A smaller plan that still fails: fewer actors, faults and steps, greedily."""
    tried = 0
    smaller = True
    while smaller and tried < budget:
        smaller = False
        for candidate in _smaller(plan):
            tried += 1
            if tried >= budget:
                break
            if fails(candidate):
                plan = candidate
                smaller = True
                break
    return plan


def _smaller(plan: Plan) -> Iterator[Plan]:
    for name in plan.actors:
        yield replace(plan, actors=tuple(one for one in plan.actors if one != name))
    for kind in plan.faults:
        yield replace(plan, faults=tuple(one for one in plan.faults if one != kind))
    for steps in (plan.steps // 2, plan.steps * 3 // 4, plan.steps - 10, plan.steps - 1):
        if 0 < steps < plan.steps:
            yield replace(plan, steps=steps)
    if plan.transactions > 1:
        yield replace(plan, transactions=plan.transactions - 1)
    for number in range(1, 40):
        if number not in plan.skip and plan.faults:
            yield replace(plan, skip=plan.skip | {number})
