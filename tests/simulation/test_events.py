"""The event log: each version has its event once and in order, and followers and targets miss
nothing under faults."""

from __future__ import annotations

import os

import pytest

from tests.simulation.engine.run import first_failure, run_seeds
from tests.simulation.scenarios.events import DELIVERY_MISTAKES, EVENT_MISTAKES, Followed, Sent
from tests.simulation.scenarios.follow_ups import FOLLOW_UP_MISTAKES, FollowUpActions

QUICK = int(os.environ.get("TURNSTILE_SEEDS", "20"))
SEEDS = int(os.environ.get("TURNSTILE_SEEDS", "300"))


def test_i13_each_version_has_its_event_and_a_follower_misses_none_whatever_fails() -> None:
    seen = run_seeds(0, QUICK, Followed())
    assert {"appended", "followed", "whole", "ratified"} <= seen.keys(), "the simulation must not be vacuous"


def test_i14_a_target_gets_every_event_in_order_whatever_fails() -> None:
    seen = run_seeds(0, QUICK, Sent())
    assert {"sent", "whole", "ratified"} <= seen.keys(), "the simulation must not be vacuous"


def test_i17_actions_are_asked_for_ranges_of_versions_without_a_gap_whatever_fails() -> None:
    seen = run_seeds(0, QUICK, FollowUpActions())
    assert {"asked", "asked for all", "ratified"} <= seen.keys(), "the simulation must not be vacuous"


@pytest.mark.slow
@pytest.mark.parametrize("name", FOLLOW_UP_MISTAKES)
def test_i17_a_mistake_planted_in_follow_ups_is_found(name: str) -> None:
    failed = first_failure(FOLLOW_UP_MISTAKES[name][0], 400, FollowUpActions())
    assert failed is not None and failed.cause.invariant == "I17"  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("scenario", [Followed, Sent, FollowUpActions])
def test_i13_i14_events_hold_over_many_seeds(scenario: type[Followed]) -> None:
    run_seeds(30_000, SEEDS, scenario())


@pytest.mark.slow
@pytest.mark.parametrize("name", EVENT_MISTAKES)
def test_i13_a_mistake_planted_in_the_event_log_is_found(name: str) -> None:
    failed = first_failure(EVENT_MISTAKES[name][0], 400, Followed())
    assert failed is not None and failed.cause.invariant == "I13"  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("name", DELIVERY_MISTAKES)
def test_i14_a_mistake_planted_in_deliveries_is_found(name: str) -> None:
    failed = first_failure(DELIVERY_MISTAKES[name][0], 400, Sent())
    assert failed is not None and failed.cause.invariant == "I14"  # type: ignore[attr-defined]
