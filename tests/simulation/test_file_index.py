"""Plans are of the version that they name, under faults and with any number of index workers
(I16)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.file_index import FILE_INDEX_MISTAKES, FileIndex

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "12"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "200"))


def test_i16_plans_are_of_their_version_whatever_fails() -> None:
    seen = run_seeds(0, QUICK, FileIndex())
    assert {"planned by index", "planned by log", "index done", "ratified"} <= seen.keys(), "it must not be vacuous"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i16_it_holds_over_many_seeds() -> None:
    run_seeds(30_000, SEEDS, FileIndex())


@pytest.mark.slow
@pytest.mark.parametrize("name", FILE_INDEX_MISTAKES)
def test_i16_a_mistake_planted_in_the_index_is_found(name: str) -> None:
    failed = first_failure(FILE_INDEX_MISTAKES[name][0], 200, FileIndex())
    assert failed is not None
    assert failed.cause.invariant == "I16"  # type: ignore[attr-defined]
