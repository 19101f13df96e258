"""A heartbeat keeps the task of work that goes on, and only of that (I10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.coordination.heartbeat import Heartbeat
from turnstile.coordination.tasks import Attempt, Busy, Tasks
from turnstile.store.core.errors import OutcomeUnknown, Throttled

LEASE = 90_000


@pytest.fixture
def world() -> FakeWorld:
    world = fake_world()
    world.clock.step = 0
    return world


def beating(world: FakeWorld) -> Heartbeat:
    attempt = Tasks(world).begin("work", LEASE)
    assert isinstance(attempt, Attempt)
    return Heartbeat(Tasks(world), attempt, world.clock, LEASE)


def test_i10_the_lease_is_renewed_after_a_third_of_its_term_and_no_sooner(world: FakeWorld) -> None:
    heartbeat = beating(world)
    requests = len(world.refs.requests)
    world.clock.now += LEASE // 3 - 1
    assert heartbeat.beat()
    assert len(world.refs.requests) == requests
    world.clock.now += 1
    assert heartbeat.beat()
    assert len(world.refs.requests) == requests + 1
    assert heartbeat.attempt.task.until == world.clock.now + LEASE
    world.clock.now += LEASE - 1
    assert isinstance(Tasks(world).begin("work", LEASE), Busy)
    assert Tasks(world).finish(heartbeat.attempt, b"done")


def test_i10_an_attempt_whose_task_was_taken_over_is_reported(world: FakeWorld) -> None:
    heartbeat = beating(world)
    world.clock.now += LEASE
    assert isinstance(Tasks(world).begin("work", LEASE), Attempt)
    assert not heartbeat.beat()
    assert not heartbeat.beat()


def test_i10_a_lease_that_is_over_and_that_no_other_attempt_has_is_renewed(world: FakeWorld) -> None:
    heartbeat = beating(world)
    world.clock.now += 5 * LEASE
    assert heartbeat.beat()
    assert isinstance(Tasks(world).begin("work", LEASE), Busy)


@pytest.mark.parametrize("applied", [True, False])
def test_i10_a_renewal_without_an_answer_counts_by_the_old_lease_and_the_next_one_goes_on(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch, *, applied: bool
) -> None:
    heartbeat = beating(world)
    write: Callable[..., Any] = world.refs.write

    def lost(change: Any) -> Any:
        if not applied:
            raise Throttled("slow down")
        write(change)
        raise OutcomeUnknown("lost")

    with monkeypatch.context() as patch:
        patch.setattr(world.refs, "write", lost)
        world.clock.now += LEASE // 2
        assert heartbeat.beat(), "the old lease has not ended"
    world.clock.now += LEASE // 4
    assert heartbeat.beat()
    assert Tasks(world).finish(heartbeat.attempt, b"done")


def test_i10_at_the_end_of_its_term_a_renewal_without_an_answer_has_lost_the_task(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeat = beating(world)

    def refused(_: Any) -> Any:
        raise Throttled("slow down")

    monkeypatch.setattr(world.refs, "write", refused)
    world.clock.now = heartbeat.attempt.task.until - 1
    assert heartbeat.beat()
    world.clock.now += 1
    assert not heartbeat.beat()
