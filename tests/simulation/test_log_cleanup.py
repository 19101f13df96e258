"""A log is cleaned up beside all holders of its table's versions: pinned versions can be read, and
a clean-up that forgets a holder is found."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.log_cleanup import CLEANUP_MISTAKES, LogCleanup

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "8"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "300"))


def test_i10_i15_every_version_that_a_reader_has_can_be_read_from_what_is_left_of_the_log() -> None:
    seen = run_seeds(0, QUICK, LogCleanup())
    assert {"clean-up", "cleaned file", "cleaned sidecar", "checkpoint", "held", "cloned"} <= seen.keys(), (
        "the simulation must not be vacuous"
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i10_i15_it_holds_over_many_seeds() -> None:
    run_seeds(50_000, SEEDS, LogCleanup())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", CLEANUP_MISTAKES)
def test_i10_i15_a_mistake_planted_in_the_clean_up_is_found(name: str) -> None:
    failed = first_failure(CLEANUP_MISTAKES[name][0], 1_000, LogCleanup())
    assert failed is not None
    assert failed.cause.invariant.startswith(CLEANUP_MISTAKES[name][1])  # type: ignore[attr-defined]
