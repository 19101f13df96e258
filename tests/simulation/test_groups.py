"""Transactions over tables among all other actors: all or none, also in a cut, under lost and late
messages, and processes that die, freeze or continue late (I3, I8, ADR 24)."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.groups import GROUP_MISTAKES, Groups
from tests.simulation.scenarios.large_groups import LARGE_GROUP_MISTAKES, LargeGroups
from tests.simulation.scenarios.scenario import Scenario

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "60"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))
MET = {
    "cut",
    "fault lost",
    "group accepted",
    "group behind within its slack",
    "group lost by a commit",
    "group lost by a read",
    "group ratified",
    "group replayed",
}
IN_ONE_WRITE = {
    "client died in a transaction",
    "resumed accepted",
    "transaction aborted",
    "transaction applied",
    "transaction replayed",
    "transaction whole",
}
LARGE = {"large group aborted", "large group committed", "large group open"}


@pytest.mark.parametrize(
    ("scenario", "met"), [(Groups(), MET | IN_ONE_WRITE), (LargeGroups(), MET | LARGE)], ids=["one write", "large"]
)
def test_i3_i8_groups_are_ratified_as_a_whole_and_cuts_show_them_so(scenario: Scenario, met: set[str]) -> None:
    seen = run_seeds(0, QUICK, scenario)
    assert seen.keys() >= met, f"it must not be vacuous: {met - seen.keys()}"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [Groups(), LargeGroups()], ids=["one write", "large"])
def test_i3_i8_the_same_over_many_seeds(scenario: Scenario) -> None:
    run_seeds(10_000, SEEDS, scenario)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "mistakes", "name"),
    [
        *((Groups(), GROUP_MISTAKES, name) for name in GROUP_MISTAKES),
        *((LargeGroups(), LARGE_GROUP_MISTAKES, name) for name in LARGE_GROUP_MISTAKES),
    ],
    ids=[*GROUP_MISTAKES, *(f"large: {name}" for name in LARGE_GROUP_MISTAKES)],
)
def test_i6_i8_a_mistake_planted_in_groups_is_found(scenario: Scenario, mistakes: dict[str, Any], name: str) -> None:
    planted, invariant = mistakes[name]
    failed = first_failure(planted, 4_000, scenario)
    assert failed is not None and failed.cause.invariant == invariant  # type: ignore[attr-defined]
