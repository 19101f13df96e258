"""The scenario of owners: a coordinated task, updateable objects, references."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.owners import Adder, Owner, RefUser, TaskRunner
from tests.simulation.auditors.owners import OwnerAuditor, TaskAuditor
from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.plans import Plan
from tests.simulation.engine.state import State
from tests.simulation.scenarios.scenario import Actor
from turnstile.coordination.core import named_ref
from turnstile.gc.core import Grace

KINDS: Final[dict[str, type[Owner]]] = {"task": TaskRunner, "adder": Adder, "ref": RefUser}


class Owners:
    """A task, updateable objects and references (I3, I6, I10)."""

    name = "owners"
    grace = Grace()

    def plan(self, seed: int) -> Plan:
        """Several of one or two kinds, so that they meet."""
        rng = random.Random(f"owners/{seed}")
        kinds = rng.sample(list(KINDS), rng.randint(1, 2))
        return Plan(
            seed=seed,
            actors=tuple(f"{rng.choice(kinds)}-{number}" for number in range(rng.randint(3, 6))),
            faults=tuple(kind for kind in FAULTS if rng.random() < 0.7),
            rate=rng.choice((0.0, 0.03, 0.08, 0.2)),
            steps=rng.choice((200, 400)),
            row_tracking=False,
            keep=rng.choice((2, 3, 20)),
        )

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """How many values a reference remembers."""
        return patch.object(named_ref, "RECENT", plan.keep)

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """Nothing is there in the beginning."""
        self.auditor = OwnerAuditor(state)
        TaskAuditor(state)
        for number, name in enumerate(plan.actors):
            rng = random.Random(f"{plan.seed}/{name}/{number}")
            yield Actor(name, KINDS[name.split("-", maxsplit=1)[0]](state, name, rng, self.auditor), leads=True)

    def settle(self, state: State, plan: Plan) -> None:
        """Sums are right."""
        self.auditor.at_rest()
