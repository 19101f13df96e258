"""The scenario of tables: writers commit to one of them while everybody else publishes, reads, tidies up and renames it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.catalog import TABLE, CatalogUser, create, prepare
from tests.simulation.actors.maintenance import Engine, Gc, Reader, StreamPump, Sweeps, sweep
from tests.simulation.actors.writers import Writer
from tests.simulation.auditors.catalogs import HISTORY
from tests.simulation.engine.plans import RESENT, WRITERS, Plan, plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.scenario import Actor
from turnstile.delta.core import ratify_writes as floor
from turnstile.gc.core import Grace

ALONE = {"pump": StreamPump, "sweeper": Sweeps, "gc": Gc, "catalog": CatalogUser}


class Tables:
    """One table and its HEAD (I1 to I7, I9 to I11)."""

    name = "tables"
    grace = Grace(history_ms=HISTORY)

    def plan(self, seed: int) -> Plan:
        """As ``plans`` draws it."""
        return plan(seed)

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """How many published entries stay in a tail."""
        return patch.object(floor, "KEEP_PUBLISHED", plan.keep)

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with one table, and who works with it."""
        prepare(state)
        table = create(state, TABLE, *(["rowTracking"] if plan.row_tracking else []))
        for number, name in enumerate(plan.actors):
            yield self._actor(state, name, table, number, plan)

    def settle(self, state: State, plan: Plan) -> None:
        """The sweeper has two turns. Then everything is published (I11)."""
        process = Process(state, "at rest", prone=False)
        for _ in range(2):
            sweep(state, process)
        state.auditor.at_rest()

    def _actor(self, state: State, name: str, table: str, number: int, plan: Plan) -> Actor:
        rng = random.Random(f"{plan.seed}/{name}/{number}")
        kind = name.split("-", maxsplit=1)[0]
        if kind in WRITERS:
            return Actor(name, Writer(state, name, table, plan, rng), leads=True)
        if kind in ALONE:
            return Actor(name, ALONE[kind](state, name, rng, slow=plan.slow))
        return Actor(name, {"reader": Reader, "engine": Engine}[kind](state, name, table, rng))


class Crowded(Tables):
    """One table as in ``tables``; a few writers, most of them with tickets, which any version serves; and somebody who
    makes room now and then."""

    name = "crowded"

    def plan(self, seed: int) -> Plan:
        """Few other faults: two copies of a write are what it is about."""
        rng = random.Random(seed)
        writers = tuple(
            f"{kind}-{number}" for number, kind in enumerate(rng.choices(("ticket", "ticket", "inline", "staged"), k=3))
        )
        return Plan(
            seed=seed,
            actors=("ticket-9", *writers, "sweeper"),
            faults=(RESENT, RESENT, "throttle"),
            rate=rng.choice((0.1, 0.2, 0.3)),
            steps=200,
            row_tracking=False,
            keep=rng.choice((0, 1)),
        )


CROWDED_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "uncertain forgotten": (
        lambda: swapped("tests.simulation.engine.ports._uncertain", lambda _: lambda answer: answer),
        "I3",
    ),
    "every refusal is final": (
        lambda: swapped("turnstile.delta.ratify.excludes_earlier", lambda _: lambda answer, proposal: True),
        "I3",
    ),
}
"""What is planted, and the invariant that it breaks."""
