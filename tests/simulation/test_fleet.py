"""Granules have one owner in each epoch, under faults, freezes and deaths (I19)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.fleet import FLEET_MISTAKES, Fleet

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "25"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "300"))


def test_i19_a_granule_has_one_owner_in_each_epoch_whatever_fails() -> None:
    seen = run_seeds(0, QUICK, Fleet())
    met = {"fleet claim", "fleet hand-over", "fleet take-over", "fleet member left", "fleet member joined anew"}
    met |= {"fleet belief", "fleet entry ended"}
    assert met | {"fleet work done", "fleet work fenced off", "fleet work OTHERS"} <= seen.keys(), (
        "it must not be vacuous"
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i19_it_holds_over_many_seeds() -> None:
    run_seeds(30_000, SEEDS, Fleet())


@pytest.mark.slow
@pytest.mark.parametrize("name", FLEET_MISTAKES)
def test_i19_a_mistake_planted_in_the_fleet_is_found(name: str) -> None:
    failed = first_failure(FLEET_MISTAKES[name][0], 400, Fleet())
    assert failed is not None
    assert failed.cause.invariant == "I19"  # type: ignore[attr-defined]
