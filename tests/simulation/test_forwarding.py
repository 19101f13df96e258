"""Changes that are forwarded to an owner get the same answers as each alone, under broken
connections, freezes and deaths (I3, I21)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run, run_seeds
from tests.simulation.scenarios.forwarding import FORWARDING_MISTAKES, Forwarded

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "20"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))

SEARCHED = 1_000
"""Seeds in which every mistake is found."""

BREAKS = {
    "forwarding: NOT_SENT", "forwarding: NOT_STARTED", "forwarding: STARTED", "forwarding: 401", "forwarding: answered",
}  # fmt: skip


def test_i3_i21_forwarded_changes_get_the_answer_that_each_would_get_alone() -> None:
    seen = run_seeds(0, QUICK, Forwarded())
    met = {
        "forwarded 201",
        "forwarded 201 with a key",
        "forwarded 409 AlreadyExists",
        "forwarded 500 CommitStateUnknown",
    }
    assert met | BREAKS <= seen.keys(), "it must not be vacuous"


def test_a_seed_of_forwarding_is_the_same_run_every_time() -> None:
    scenario = Forwarded()
    for seed in (2, 3):
        plan = scenario.plan(seed)
        assert run(plan, scenario, tracing=True) == run(plan, scenario, tracing=True)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_i3_i21_it_holds_over_many_seeds() -> None:
    run_seeds(60_000, SEEDS, Forwarded())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FORWARDING_MISTAKES)
def test_i3_i21_a_mistake_planted_in_forwarding_is_found(name: str) -> None:
    """A request with a key breaks I3, one without breaks I21."""
    failed = first_failure(FORWARDING_MISTAKES[name][0], SEARCHED, Forwarded())
    assert failed is not None
    assert failed.cause.invariant in {"I3", "I21"}  # type: ignore[attr-defined]
