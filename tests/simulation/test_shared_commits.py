"""Commits that wait in a process and share writes, beside others that do not, with every fault
(I23)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.tables import SHARED_MISTAKES, Shared

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "12"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))
SEARCHED = 2_000
"""Seeds in which every mistake is found."""


def test_i23_commits_that_share_writes_get_true_answers() -> None:
    seen = run_seeds(0, QUICK, Shared())
    assert {"ratified", "conflict version", "shared"} <= seen.keys(), "it must not be vacuous"


@pytest.mark.slow
def test_i23_commits_that_share_writes_get_true_answers_over_many_seeds() -> None:
    run_seeds(10_000, SEEDS, Shared())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", SHARED_MISTAKES)
def test_i23_a_mistake_planted_in_shared_writes_is_found(name: str) -> None:
    assert first_failure(SHARED_MISTAKES[name][0], SEARCHED, Shared()) is not None
