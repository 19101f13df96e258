"""The scenario of sandboxes that freeze for hours in the middle of a request, and of servers whose
clocks are minutes apart: catalogs with a past, over some days."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Final
from unittest.mock import PropertyMock, patch

from tests.simulation.actors.catalog_history import (
    CloneUser,
    Counter,
    IcebergUser,
    Lister,
    Names,
    PastActor,
    TableNames,
    Traveller,
)
from tests.simulation.actors.frozen_sandboxes import Expiry, KeyedCounter, LateResets, Makers, Renamer
from tests.simulation.engine.plans import FREEZE, HOUR, MINUTE, SECOND, Plan
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.state import State
from tests.simulation.scenarios.catalog_history import CatalogHistory
from tests.simulation.scenarios.scenario import Actor
from turnstile.catalog.changes.retry import Backoff, PriorityClaim
from turnstile.catalog.core import rows as catalog_rows
from turnstile.gc.core import Grace

CHANGERS: Final[dict[str, type[PastActor]]] = {
    "names": Names,
    "makers": Makers,
    "counter": Counter,
    "keyed": KeyedCounter,
    "iceberg": IcebergUser,
    "tables": TableNames,
}
USERS: Final[dict[str, type[PastActor]]] = {
    "snapshots": Renamer,
    "resets": LateResets,
    "lister": Lister,
    "traveller": Traveller,
    "clones": CloneUser,
}
OTHERS: Final = {
    "gc-1": 1.0,
    "gc-2": 0.3,
    "snapshots": 0.4,
    "resets": 0.4,
    "lister": 0.2,
    "traveller": 0.2,
    "clones": 0.1,
}
"""All actors except the changers, and how often they take part."""
_SKEWS: Final = (-150_000, 0, 0, 150_000)
_SMALL: Final = ("makers", "makers", "makers", "counter", "keyed")
"""Changes of one step or two: they come more often."""


class FrozenSandboxes(CatalogHistory):
    """Freezes of half an hour to six hours, anywhere (I3, I8 to I11): longer than the shortest
    history that there may be. As long as a swap is frozen on its way, the HEAD before it has been
    replaced already, by the log."""

    name = "frozen-sandboxes"
    grace = Grace(history_ms=3 * HOUR, dropped_ms=2 * HOUR, ended_ms=5 * HOUR)
    changers = CHANGERS
    users = USERS
    times = 16
    grid = HOUR // 2
    busy = (1, 1, 1, 50, SECOND, HOUR, 2 * HOUR)
    quiet = (1, 50, 3 * HOUR, 7 * HOUR, 12 * HOUR)
    collects = (20 * MINUTE, HOUR, 2 * HOUR)

    def plan(self, seed: int) -> Plan:
        """Two to four changers that meet, or one in a quiet catalog, where a frozen swap finds the
        HEAD unchanged; some of the others, and few faults of other kinds."""
        rng = random.Random(f"frozen/{seed}")
        slow = rng.random() < 0.35
        changers = [
            f"{rng.choice((*CHANGERS, *_SMALL))}-{number}" for number in range(1 if slow else rng.randint(2, 4))
        ]
        rest = [name for name, chance in OTHERS.items() if rng.random() < chance]
        if slow:
            rest = ["gc-1", rng.choice(("snapshots", "resets"))]
        return Plan(
            seed=seed,
            actors=(*changers, *rest),
            faults=(*(kind for kind in FAULTS if rng.random() < 0.2), FREEZE),
            rate=rng.choice((0.01, 0.04, 0.1)),
            steps=rng.choice((400, 1200)),
            row_tracking=False,
            slow=slow,
            keep=0 if slow else rng.choice((0, 0, 2, 19)),
        )

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """How many HEADs a catalog's row remembers; sometimes every change that lost asks to go
        first."""
        stack = ExitStack()
        stack.enter_context(patch.object(catalog_rows, "RECENT", plan.keep + 1))
        stack.enter_context(patch.object(PriorityClaim, "look_ms", 1_000))
        if _turns(plan):
            stack.enter_context(patch.object(Backoff, "starving", PropertyMock(return_value=True)))
        return stack

    def patient(self, plan: Plan) -> bool:
        """They have."""
        return True

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """As without frozen processes; rows expire."""
        clocks = random.Random(f"{plan.seed}/clocks")
        state.skew_of = lambda: clocks.choice(_SKEWS)
        state.frozen_pauses = 0.0 if _turns(plan) else 0.3
        yield from super().actors(state, plan)
        yield Actor("expiry", Expiry(state, random.Random(f"{plan.seed}/expiry")))


def _turns(plan: Plan) -> bool:
    """Whether every change that lost asks to go first."""
    return plan.seed % 3 == 0
