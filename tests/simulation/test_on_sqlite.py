"""The simulation on the store of a server on one machine: each run is the same, step by step, as on
the fakes."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, on_one_cpu, run, run_seeds
from tests.simulation.mistakes.tables import MISTAKES
from tests.simulation.scenarios.by_name import SCENARIOS

SEEDS = os.environ.get("TURNSTILE_SEEDS", "")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "append-groups" else ()) for name in SCENARIOS]
)
def test_i1_to_i11_a_run_on_sqlite_is_the_run_on_the_fakes(name: str) -> None:
    scenario = SCENARIOS[name]
    with on_one_cpu():
        plan = scenario.plan(0)
        assert run(plan, scenario, tracing=True, store="sqlite") == run(plan, scenario, tracing=True)


def test_i1_a_planted_mistake_is_found_on_sqlite() -> None:
    assert first_failure(MISTAKES["named: without 'next'"][0], 100, store="sqlite") is not None


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_i1_to_i11_hold_on_sqlite_over_many_seeds(name: str) -> None:
    run_seeds(300_000, int(SEEDS or 400 if name == "tables" else 100), SCENARIOS[name], "sqlite")
