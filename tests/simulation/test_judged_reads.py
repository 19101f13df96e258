"""Transactions whose reads are checked against the later commits, under lost and late messages and
deaths (I20, ADR 52)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.judged_reads import JUDGED_MISTAKES, JudgedReads, LargeJudgedReads
from tests.simulation.scenarios.scenario import Scenario

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "30"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))
MET = {"group accepted", "group lost by a read", "group moved on by its predicate", "group ratified"}


@pytest.mark.parametrize("scenario", [JudgedReads(), LargeJudgedReads()], ids=["one write", "large"])
def test_i20_a_group_is_ratified_only_where_what_it_read_is_as_it_was(scenario: Scenario) -> None:
    seen = run_seeds(0, QUICK, scenario)
    assert seen.keys() >= MET, f"it must not be vacuous: {MET - seen.keys()}"


@pytest.mark.slow
@pytest.mark.parametrize("scenario", [JudgedReads(), LargeJudgedReads()], ids=["one write", "large"])
def test_i20_the_same_over_many_seeds(scenario: Scenario) -> None:
    run_seeds(10_000, SEEDS, scenario)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if "unchecked" in name else ()) for name in JUDGED_MISTAKES]
)
def test_i20_a_mistake_planted_in_judged_reads_is_found(name: str) -> None:
    planted, invariant = JUDGED_MISTAKES[name]
    failed = first_failure(planted, 2_000, JudgedReads())
    assert failed is not None and failed.cause.invariant == invariant  # type: ignore[attr-defined]
