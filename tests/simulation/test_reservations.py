"""Reservations of tables among writers that know nothing of them, under lost and late messages and
deaths (I18, ADR 36)."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.reservations import RESERVATION_MISTAKES, Reserved

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "30"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "1000"))
MET = {
    "a circle was broken",
    "ratified after a lease",
    "ratified by its holder",
    "refused ConcurrentChange",
    "reservation held",
    "reservation victim",
    "reservation waiting",
    "ticket",
}


def test_i18_a_reserved_table_is_its_holders_and_no_transaction_waits_for_ever() -> None:
    seen = run_seeds(0, QUICK, Reserved())
    assert seen.keys() >= MET, f"it must not be vacuous: {MET - seen.keys()}"


@pytest.mark.slow
def test_i18_the_same_over_many_seeds() -> None:
    run_seeds(10_000, SEEDS, Reserved())


@pytest.mark.parametrize("name", RESERVATION_MISTAKES)
def test_i18_a_mistake_planted_in_reservations_is_found(name: str) -> None:
    assert first_failure(RESERVATION_MISTAKES[name][0], 20, Reserved()) is not None
