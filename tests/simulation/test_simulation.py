"""The simulation finds nothing in the services as they are, and finds every mistake that is
planted."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.plans import KINDS as FAULTS
from tests.simulation.engine.plans import OTHERS, WRITERS
from tests.simulation.engine.run import Violation, explain, first_failure, plan, run, run_seeds, shrunk
from tests.simulation.mistakes.tables import MISTAKES
from tests.support.examples import examples

QUICK = int(os.environ.get("TURNSTILE_SEEDS", max(40, examples(200))))
EASY = (
    "named: without 'next'",
    "named: without 'later'",
    "ticket: without 'later'",
    "floor: without 'same floor'",
    "floor: without 'same tail'",
    "floor: without 'idle'",
    "floor: raised before copying",
    "identities are not remembered",
    "a refused write looks won",
    "tickets are published as proposed",
    "gc: staged files above the floor",
)
"""Mistakes that a few dozen seeds find; the others need hundreds or thousands."""


def test_i1_i2_i3_i4_i5_i6_i7_i9_i10_i11_hold_at_every_step_whatever_fails() -> None:
    seen = run_seeds(0, QUICK)
    kinds = {"staged", "inline", "ticket", "evicted", "ratified", "ratified replayed", "conflict version"}
    assert kinds <= seen.keys(), "the simulation must not be vacuous"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i1_i2_i3_i4_i5_i6_i7_i9_i10_i11_hold_over_many_seeds_and_every_fault_and_answer_is_met() -> None:
    seen = run_seeds(100_000, int(os.environ.get("TURNSTILE_SEEDS", "3000")))
    assert {f"fault {kind}" for kind in FAULTS} <= seen.keys()
    assert {
        "conflict metadata",
        "conflict application",
        "outcome open",
        "outcome never",
        "outcome ratified",
    } <= seen.keys()
    assert {"refused TimestampNotIncreasing", "refused TableNotActive", "deleted file", "deleted obj"} <= seen.keys()
    assert {"registered", "registered again", "renamed", "dropped", "loaded", "state dropped"} <= seen.keys()


@pytest.mark.parametrize("name", EASY)
def test_i1_to_i11_a_planted_mistake_is_found(name: str) -> None:
    assert first_failure(MISTAKES[name][0], 60) is not None


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", sorted(MISTAKES.keys() - set(EASY)))
def test_i1_to_i11_a_planted_mistake_that_needs_luck_is_found(name: str) -> None:
    assert first_failure(MISTAKES[name][0], 12_000) is not None


def test_a_seed_is_the_same_run_every_time() -> None:
    for seed in (3, 4):
        assert run(plan(seed), tracing=True) == run(plan(seed), tracing=True)


def test_a_failing_run_is_made_smaller_and_printed_with_its_seed_and_trace() -> None:
    with MISTAKES["named: without 'next'"][0]():
        failed = first_failure(MISTAKES["named: without 'next'"][0], 50)
        assert failed is not None
        told = explain(failed.plan.seed)
    assert f"seed {failed.plan.seed}," in told and "RATIFIED" in told and "I1" in told
    assert len(told.splitlines()) < 60


def test_the_shrinker_keeps_only_what_fails() -> None:
    small = shrunk(plan(1), lambda candidate: "sweeper" in candidate.actors)
    assert small.actors == ("sweeper",) and small.faults == ()


def test_every_actor_takes_part_in_some_seed() -> None:
    actors = {actor for seed in range(200) for actor in plan(seed).actors}
    assert {actor.split("-")[0] for actor in actors} == {*WRITERS, *(name.split("-")[0] for name in OTHERS)}


def test_i1_a_violation_names_its_invariant() -> None:
    assert Violation("I1", "so").invariant == "I1" and str(Violation("I1", "so")) == "I1: so"
