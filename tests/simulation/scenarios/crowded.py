"""The scenario of a crowded row: refusals that pass are the rule, and of a write whose answer was lost another copy arrives
late. What a writer is told must be true when that one comes (I3)."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.engine.faults import RESENT
from tests.simulation.engine.plans import Plan
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.tables import Tables


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
