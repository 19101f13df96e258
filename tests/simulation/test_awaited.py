"""Tables that are registered before their version 0 is written: adopted once, under the name that
they have then, or given up (I25)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.awaited import AWAITED_MISTAKES, Awaited

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "60"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))


def test_i25_a_table_whose_version_0_is_awaited_is_adopted_once_or_given_up() -> None:
    seen = run_seeds(0, QUICK, Awaited())
    assert {"early registered", "early TableHead", "early RegisteredTable", "early dropped"} <= seen.keys()


@pytest.mark.slow
def test_i25_it_holds_over_many_seeds() -> None:
    run_seeds(60_000, SEEDS, Awaited())


@pytest.mark.parametrize("name", AWAITED_MISTAKES)
def test_i25_a_mistake_planted_in_the_wait_is_found(name: str) -> None:
    plant, invariant = AWAITED_MISTAKES[name]
    failed = first_failure(plant, 600, Awaited())
    assert failed is not None and failed.cause.invariant == invariant  # type: ignore[attr-defined]
