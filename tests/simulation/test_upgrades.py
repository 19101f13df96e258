"""Older code beside newer code that raises the formats of HEADs, under lost and late messages and
deaths (I22, ADR 48)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.upgrades import UPGRADE_MISTAKES, Upgrades

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "30"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))
MET = {"a format was raised", "refused by a newer format", "ticket"}


def test_i22_a_row_of_a_newer_format_is_left_alone_and_nothing_else_breaks() -> None:
    seen = run_seeds(0, QUICK, Upgrades())
    assert seen.keys() >= MET, f"it must not be vacuous: {MET - seen.keys()}"


@pytest.mark.slow
def test_i22_the_same_over_many_seeds() -> None:
    run_seeds(10_000, SEEDS, Upgrades())


@pytest.mark.parametrize("name", UPGRADE_MISTAKES)
def test_i22_a_mistake_planted_in_formats_is_found(name: str) -> None:
    failure = first_failure(UPGRADE_MISTAKES[name][0], 20, Upgrades())
    assert failure is not None
    assert "I22" in str(failure.cause)
