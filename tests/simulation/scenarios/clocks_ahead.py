"""The scenario of gc runs with a clock that is hours or days ahead: changes go on once a right
clock meets their mark, and the HEAD and all that has a name stay whole."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.actors.catalog import prepare
from tests.simulation.actors.catalog_history import Counter, Janitor, Names, PastActor
from tests.simulation.actors.frozen_sandboxes import LateResets, Makers, Renamer
from tests.simulation.auditors.catalog_history import PastAuditor
from tests.simulation.engine.plans import DAY, FREEZE, HOUR, Plan
from tests.simulation.engine.state import State
from tests.simulation.mistakes.catalog_history import Plant
from tests.simulation.mistakes.tables import SWAP, swapped, without
from tests.simulation.scenarios.catalog_history import begin
from tests.simulation.scenarios.frozen_sandboxes import FrozenSandboxes
from tests.simulation.scenarios.scenario import Actor
from turnstile.catalog.core.rows import CatalogHead
from turnstile.gc.trees import Fence
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.writes import Change, Set

CHANGERS: Final[dict[str, type[PastActor]]] = {"names": Names, "makers": Makers, "counter": Counter}
_AHEAD_MS: Final = (0, 0, 5 * HOUR, 9 * HOUR, 2 * DAY, 40 * DAY)
_FAULTS: Final = ("before", "lost", "late", "crash", "crash after", "stall")


class ClockAheadJanitor(Janitor):
    """Collects objs of catalogs; the clock of some runs is ahead."""

    kinds = ("history",)

    def ahead_ms(self) -> int:
        """Returns by how much the clock of the next run is ahead."""
        ahead_ms = self._rng.choice(_AHEAD_MS)
        if ahead_ms:
            self._state.auditor.seen["gc with a clock ahead"] += 1
        return ahead_ms


class RenamerOfTheLost(Renamer):
    """Names HEADs of the past; one may be removed while it is read."""

    def act(self) -> None:
        _read_the_past(self, super().act)


class ResetsOfTheLost(LateResets):
    """Goes back to HEADs of the past; one may be removed while it is read."""

    def act(self) -> None:
        _read_the_past(self, super().act)


def _read_the_past(actor: PastActor, act: Callable[[], None]) -> None:
    try:
        act()
    except TurnstileError as error:
        if error.type != "InternalError":
            raise
        actor.met("the past was removed while it was read")


USERS: Final[dict[str, type[PastActor]]] = {"snapshots": RenamerOfTheLost, "resets": ResetsOfTheLost}


class ClocksAhead(FrozenSandboxes):
    """Changes, names and resets beside such runs (I9 to I11). The kept history is not checked:
    these runs remove some of it."""

    name = "clocks-ahead"
    changers = CHANGERS
    users = USERS
    janitor = ClockAheadJanitor

    def plan(self, seed: int) -> Plan:
        """One to three changers, two collectors, and mostly one actor that brings back the past."""
        rng = random.Random(f"ahead/{seed}")
        changers = [f"{rng.choice(list(CHANGERS))}-{number}" for number in range(rng.randint(1, 3))]
        rest = ["gc-1", *(name for name in ("gc-2", "snapshots", "resets") if rng.random() < 0.6)]
        return Plan(
            seed=seed,
            actors=(*changers, *rest),
            faults=(*(kind for kind in _FAULTS if rng.random() < 0.2), FREEZE),
            rate=rng.choice((0.01, 0.04, 0.1)),
            steps=rng.choice((400, 1200)),
            row_tracking=False,
            slow=rng.random() < 0.3,
            keep=rng.choice((0, 2, 19)),
        )

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """A catalog with names and a counter."""
        auditor = PastAuditor(state)
        auditor.patient = self.patient(plan)
        state.trees.history_is_kept = False
        prepare(state)
        begin(state)
        yield from self.planned(state, plan, auditor)


# -- mistakes ----------------------------------------------------------------------------------------------------------


def _erased(end_sweep: Callable[..., Change]) -> Callable[..., Change]:
    """A mark that is taken back leaves none behind."""

    def wrong(at: CatalogHead, now: int) -> Change:
        change = end_sweep(at, now)
        actions = tuple(Set(("swept",), 0) if action.path == ("swept",) else action for action in change.actions)
        return Change(change.key, change.clauses, actions)

    return wrong


def _plant_erased() -> Any:
    return swapped("turnstile.catalog.changes.attempts.end_sweep", _erased)


def _no_check_of_the_mark() -> Any:
    """A run continues after its mark was taken back."""

    def wrong(require: Callable[[Fence], None]) -> Callable[[Fence], None]:
        return lambda self: None if self._mark is not None else require(self)

    return patch.object(Fence, "require", wrong(Fence.require))


def _never_taken_back() -> Any:
    return swapped("turnstile.catalog.changes.attempts.swept_ahead", lambda _: lambda row, now: 0)


AHEAD_MISTAKES: dict[str, tuple[Plant, str]] = {
    "mark ahead: never taken back": (_never_taken_back, "I11"),
    "mark ahead: erased": (_plant_erased, "I9"),
    "mark ahead: a change read before goes on": (without(SWAP, "same sweeps"), "I9"),
    "mark ahead: gc goes on without it": (_no_check_of_the_mark, "I9"),
}
"""The planted mistake, and the invariant that it breaks first most often."""
