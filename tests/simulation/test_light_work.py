"""Light work describes exactly the state of published versions, under faults and beside other
workers (I15)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.light_work import LIGHT_WORK_MISTAKES, LightWork

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "20"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "300"))


def test_i15_what_light_work_writes_is_the_state_of_its_version_whatever_fails() -> None:
    seen = run_seeds(0, QUICK, LightWork())
    assert {"checkpoint", "judged", "compaction", "judged compaction", "ratified"} <= seen.keys(), (
        "it must not be vacuous"
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i15_it_holds_over_many_seeds() -> None:
    run_seeds(30_000, SEEDS, LightWork())


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT_WORK_MISTAKES)
def test_i15_a_mistake_planted_in_light_work_is_found(name: str) -> None:
    failed = first_failure(LIGHT_WORK_MISTAKES[name][0], 400, LightWork())
    assert failed is not None
    assert failed.cause.invariant == "I15"  # type: ignore[attr-defined]
