"""Copies of a write that arrive after the refusal of a later one: no writer gets an answer that is
false then."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.tables import LATE_COPY_MISTAKES, LateCopies

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "12"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))


def test_i3_a_refused_proposal_never_turns_up_whatever_arrives_late() -> None:
    seen = run_seeds(0, QUICK, LateCopies())
    assert {"fault resent", "refused BacklogFull", "given up", "ratified"} <= seen.keys(), "it must not be vacuous"


@pytest.mark.slow
def test_i3_a_refused_proposal_never_turns_up_over_many_seeds() -> None:
    run_seeds(10_000, SEEDS, LateCopies())


@pytest.mark.slow
@pytest.mark.parametrize("name", LATE_COPY_MISTAKES)
def test_i3_a_mistake_planted_in_what_is_uncertain_is_found(name: str) -> None:
    assert first_failure(LATE_COPY_MISTAKES[name][0], 800, LateCopies()) is not None
