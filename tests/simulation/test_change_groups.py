"""Changes that share a swap get the same answers as each alone, under faults, freezes and writers
that bypass them (I21)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.change_groups import CHANGE_GROUP_MISTAKES, ChangeGroups

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "40"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))


def test_i21_changes_of_a_group_get_the_answer_that_each_would_get_alone() -> None:
    seen = run_seeds(0, QUICK, ChangeGroups())
    met = {
        "change create True", "change create AlreadyExists", "change drop NotFound", "change ensure False",
        "change claim StateConflict", "change create OutcomeUnknown",
    }  # fmt: skip
    assert met <= seen.keys(), "it must not be vacuous"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i21_it_holds_over_many_seeds() -> None:
    run_seeds(50_000, SEEDS, ChangeGroups())


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGE_GROUP_MISTAKES)
def test_i21_a_mistake_planted_in_groups_is_found(name: str) -> None:
    plant, invariant = CHANGE_GROUP_MISTAKES[name]
    failed = first_failure(plant, 400, ChangeGroups())
    assert failed is not None
    assert failed.cause.invariant == invariant  # type: ignore[attr-defined]
