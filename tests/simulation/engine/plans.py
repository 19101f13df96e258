"""What happens in a run: drawn from its seed, made smaller by the shrinker."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.simulation.engine.faults import KINDS as FAULTS

WRITERS = ("staged", "inline", "fat", "large", "ticket", "stream", "metadata")
"""staged and inline commits, inline so large that few fit into the row, inline too large for the row, tickets, tickets
of a streaming query, metadata changes."""


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
"""Everybody else, and how often they take part."""


@dataclass(frozen=True)
class Plan:
    """What happens in a run; drawn from the seed, reduced by the shrinker."""

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
    faults = tuple(kind for kind in FAULTS if rng.random() < 0.6)
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
                plan, smaller = candidate, True
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
