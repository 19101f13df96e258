"""Running many seeds, and looking for the first that fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.engine.run import TABLES, Failed, explain, on_one_cpu, run
from tests.simulation.scenarios.scenario import Scenario


def run_seeds(start: int, seeds: int, scenario: Scenario = TABLES) -> Counter[str]:
    """Every invariant holds at every step of every seed; a failure is told as a small trace. What was met on the way."""
    seen: Counter[str] = Counter()
    with on_one_cpu():
        for seed in range(start, start + seeds):
            try:
                seen += run(scenario.plan(seed), scenario).seen
            except Failed:
                pytest.fail(explain(seed, scenario), pytrace=False)
    return seen


def first_failure(
    plant: Callable[[], Any], seeds: int, scenario: Scenario = TABLES, *, known: int = 0
) -> Failed | None:
    """The first seed that finds what is planted; ``known`` is tried before the others, because it once did."""
    with plant(), on_one_cpu():
        for seed in (known, *range(seeds)):
            try:
                run(scenario.plan(seed), scenario)
            except Failed as failed:
                return failed
    return None
