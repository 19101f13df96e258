"""The sweeper whose reads are bounded: by notes alone everything is published, under lost and late
messages and deaths (I11, ADR 53)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.bounded_sweeps import BOUNDED_SWEEP_MISTAKES, BoundedSweeps

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "100"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "3000"))


def test_i11_what_a_publisher_leaves_is_published_by_its_note() -> None:
    seen = run_seeds(0, QUICK, BoundedSweeps())
    assert seen["ratified"]


@pytest.mark.slow
def test_i11_the_same_over_many_seeds() -> None:
    run_seeds(10_000, SEEDS, BoundedSweeps())


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "attention: problems are not noted" else pytest.mark.slow)
        for name in BOUNDED_SWEEP_MISTAKES
    ],
)
def test_i11_a_mistake_planted_in_notes_is_found(name: str) -> None:
    planted, invariant = BOUNDED_SWEEP_MISTAKES[name]
    failed = first_failure(planted, 2_000, BoundedSweeps())
    assert failed is not None and failed.cause.invariant == invariant  # type: ignore[attr-defined]
