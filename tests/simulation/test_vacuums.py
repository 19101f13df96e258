"""Vacuums beside all holders of a table's versions: no pinned version is removed, and a vacuum that
forgets a holder is found."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.vacuums import VACUUM_MISTAKES, Vacuumed

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "20"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "300"))


def test_i10_no_vacuum_removes_what_a_clone_a_snapshot_a_moment_or_a_reader_has() -> None:
    seen = run_seeds(0, QUICK, Vacuumed())
    assert {"vacuum", "held", "cloned", "cloned the past", "snapshot"} <= seen.keys(), (
        "the simulation must not be vacuous"
    )


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i10_vacuums_hold_over_many_seeds() -> None:
    run_seeds(40_000, SEEDS, Vacuumed())


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", VACUUM_MISTAKES)
def test_i10_a_mistake_planted_in_what_pins_is_found(name: str) -> None:
    failed = first_failure(VACUUM_MISTAKES[name][0], 1_000, Vacuumed())
    assert failed is not None and failed.cause.invariant == "I10"  # type: ignore[attr-defined]
