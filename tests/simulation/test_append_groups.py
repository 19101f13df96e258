"""Appends that share a metadata file and a swap get the answers of each alone, under faults and
writers that bypass them (I2, I9, I21)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.append_groups import APPEND_GROUP_MISTAKES, AppendGroups

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "6"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))


def test_i2_i9_i21_appends_of_a_group_are_told_what_each_would_be_told_alone() -> None:
    seen = run_seeds(24, QUICK, AppendGroups())
    met = {"append in a group", "append left its group", "append table", "append OutcomeUnknown", "append CommitFailed"}
    assert met <= seen.keys(), "it must not be vacuous"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i2_i9_i21_it_holds_over_many_seeds() -> None:
    run_seeds(60_000, SEEDS, AppendGroups())


@pytest.mark.slow
@pytest.mark.parametrize("name", APPEND_GROUP_MISTAKES)
def test_i2_i9_i21_a_mistake_planted_in_groups_of_appends_is_found(name: str) -> None:
    plant, invariant = APPEND_GROUP_MISTAKES[name]
    failed = first_failure(plant, 400, AppendGroups())
    assert failed is not None
    assert failed.cause.invariant == invariant  # type: ignore[attr-defined]
