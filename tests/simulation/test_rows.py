"""Requests with rows that are sent again, and records that are delivered again, under lost and late
messages and deaths (I26, ADR 80)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.rows import ORDER_MISTAKES, ROWS_MISTAKES, Rows

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "25"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))
MET = {
    "rows added",
    "rows replayed",
    "rows sent again",
    "rows together",
    "rows rejected",
    "evicted",
    "batches of several",
    "batches in part",
}


def test_i26_the_rows_of_a_request_are_in_one_version_whatever_fails() -> None:
    seen = run_seeds(0, QUICK, Rows())
    assert seen.keys() >= MET, f"it must not be vacuous: {MET - seen.keys()}"


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_i26_the_same_over_many_seeds() -> None:
    run_seeds(10_000, SEEDS, Rows())


@pytest.mark.parametrize("name", ROWS_MISTAKES)
def test_i26_a_mistake_planted_in_the_append_of_rows_is_found(name: str) -> None:
    failed = first_failure(ROWS_MISTAKES[name], 2_000, Rows())
    assert failed is not None and failed.cause.invariant == "I26"  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ORDER_MISTAKES)
def test_a_mistake_planted_in_the_order_of_batches_is_found(name: str) -> None:
    failed = first_failure(ORDER_MISTAKES[name], 2_000, Rows())
    assert failed is not None and failed.cause.invariant == "order"  # type: ignore[attr-defined]
