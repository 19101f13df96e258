"""The scenario of the sweeper whose reads are bounded: it goes by notes alone, and everything is
published (I11)."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.maintenance import NotingPump, PartSweeps, publish_and_note, sweep_noted
from tests.simulation.engine.plans import KINDS, Plan
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from tests.simulation.engine.state import State
from tests.simulation.mistakes.tables import swapped
from tests.simulation.scenarios.scenario import Actor
from tests.simulation.scenarios.tables import Tables
from turnstile.delta.attention import AttentionRow
from turnstile.delta.core.attention import Attention, Part, Seen
from turnstile.delta.sweep import Round
from turnstile.store.core.errors import TurnstileError

ALONE = {"pump": NotingPump, "sweeper": PartSweeps}


class BoundedSweeps(Tables):
    """One table as in ``tables``, with one or two publishers behind a stream that loses nothing,
    and a sweeper that finds only rows that a publisher noted."""

    name = "bounded-sweeps"

    def plan(self, seed: int) -> Plan:
        rng = random.Random(f"noted/{seed}")
        writers = [
            f"{kind}-{n}" for n, kind in enumerate(rng.choices(("inline", "staged", "ticket"), k=rng.choice((1, 2, 3))))
        ]
        pumps = [f"pump-{n}" for n in range(rng.choice((1, 2, 2)))]
        return Plan(
            seed=seed,
            actors=(*writers, *pumps, *(f"sweeper-{n}" for n in range(rng.choice((1, 1, 2))))),
            faults=tuple(kind for kind in KINDS if rng.random() < 0.5),
            rate=rng.choice((0.02, 0.08, 0.2, 0.3)),
            steps=rng.choice((150, 300)),
            row_tracking=False,
            keep=rng.choice((0, 1, 3)),
            slow=False,
        )

    def settle(self, state: State, plan: Plan) -> None:
        """The stream is delivered, and the sweeper has two turns. Then everything is published
        (I11)."""
        process = Process(state, "at rest", prone=False)
        while state.stream:
            publish_and_note(world_of(process), state.stream.pop(0))
        for _ in range(2):
            sweep_noted(world_of(process))
        state.auditor.at_rest()

    def _actor(self, state: State, name: str, table: str, number: int, plan: Plan) -> Actor:
        kind = name.split("-", maxsplit=1)[0]
        if kind not in ALONE:
            return super()._actor(state, name, table, number, plan)
        return Actor(name, ALONE[kind](state, name, random.Random(f"{plan.seed}/{name}/{number}")))


# -- planted mistakes -------------------------------------------------------------------------------------------------


def _problems_are_not_noted() -> Any:
    """A table that could not be published is left to its next record."""
    return patch.object(Round, "tables_to_revisit", lambda self, mark: frozenset())


def _every_note_goes() -> Any:
    """The sweeper removes also the notes that came while it published."""

    def settling(settle: Callable[..., None]) -> Callable[..., None]:
        def all_of_them(self: AttentionRow, before: Attention, part: Part, seen: Seen, *, keep_place: bool) -> None:
            settle(self, self.read(), part, seen, keep_place=keep_place)

        return all_of_them

    return swapped("turnstile.delta.attention.AttentionRow.settle", settling)


def _a_lost_note_is_no_fault() -> Any:
    """The batch is done although its note was not written."""

    def noting(note: Callable[..., None]) -> Callable[..., None]:
        def at_best(self: AttentionRow, notes: Iterable[str]) -> None:
            try:
                note(self, notes)
            except TurnstileError:
                return

        return at_best

    return swapped("turnstile.delta.attention.AttentionRow.note", noting)


BOUNDED_SWEEP_MISTAKES: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "attention: problems are not noted": (_problems_are_not_noted, "I11"),
    "attention: notes go that nobody read": (_every_note_goes, "I11"),
    "attention: a lost note is no fault": (_a_lost_note_is_no_fault, "I11"),
}
"""The planted mistake, and the invariant that it breaks."""
