"""The parts of a scenario: it draws a plan from a seed, and fills a world with the plan's
actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from tests.simulation.engine.plans import Plan
from tests.simulation.engine.state import State
from turnstile.gc.core import Grace


@dataclass(frozen=True)
class Actor:
    """One actor; the run ends when none that ``leads`` is left."""

    name: str
    body: Callable[[], Any]
    leads: bool = False


class Scenario(Protocol):
    """One kind of world.

    Attributes:
        name: for people.
        grace: how long gc leaves things.
    """

    name: str
    grace: Grace

    def plan(self, seed: int) -> Plan:
        """The plan of this seed."""

    def limits(self, plan: Plan) -> AbstractContextManager[Any]:
        """Limits of the services that this run makes small."""

    def actors(self, state: State, plan: Plan) -> Iterator[Actor]:
        """Prepare the world, and give out its actors."""

    def settle(self, state: State, plan: Plan) -> None:
        """Faults have stopped: the final conditions. Runs as an actor."""
