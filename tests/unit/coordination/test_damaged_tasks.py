"""A task with a damaged row: it counts as an attempt that runs for the longest term from now on,
and then the next one begins. So no damage stops a task for ever, and none makes two attempts run
at once (I10)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.coordination.core.rows import TERM_MOST_MS, Task, Updateable
from turnstile.coordination.heartbeat import Heartbeat
from turnstile.coordination.tasks import Attempt, Busy, Tasks, Updateables
from turnstile.store.core.errors import UnreadableRow
from turnstile.store.core.rows import TASK

TERM = 60_000
KEY = "test/updateable/task/collect"

Damage = Callable[[FakeWorld], None]


def damage_row(world: FakeWorld) -> None:
    world.refs.damage(KEY)


def damage_attribute(world: FakeWorld) -> None:
    del world.refs.rows[KEY]["token"]


def damage_payload(world: FakeWorld) -> None:
    world.refs.rows[KEY]["payload"] = b"\xc1"


damages = pytest.mark.parametrize("damage", [damage_row, damage_attribute, damage_payload])


def ready(damage: Damage) -> tuple[FakeWorld, Attempt]:
    """A world with an attempt that began before its row was damaged."""
    world = fake_world()
    world.clock.step = 0
    attempt = begun(Tasks(world).begin("collect", TERM))
    damage(world)
    return world, attempt


def begun(answer: Attempt | Busy) -> Attempt:
    assert isinstance(answer, Attempt), answer
    return answer


@damages
def test_i10_a_damaged_task_begins_again_after_the_longest_term_and_not_before(damage: Damage) -> None:
    world, _ = ready(damage)
    now = world.clock.now
    busy = Tasks(world).begin("collect", TERM)
    assert busy == Busy(now + TERM_MOST_MS, now, busy.reason)  # type: ignore[union-attr]
    assert isinstance(busy, Busy) and KEY not in busy.reason and "an attempt may be running" in busy.reason
    for _ in range(3):
        world.clock.now += TERM_MOST_MS // 4
        assert Tasks(world).begin("collect", TERM) == busy, "it is not put off again"
    world.clock.now = now + TERM_MOST_MS
    attempt = begun(Tasks(world).begin("collect", TERM))
    assert (attempt.task.attempt, attempt.task.abandoned) == (now + 1, 1)
    assert not attempt.task.is_unknown
    assert Tasks(world).finish(attempt, b"done")
    last = Tasks(world).last("collect")
    assert last is not None and (last.result, last.failure, last.until) == (b"done", "", 0)


@damages
def test_i10_an_attempt_with_a_damaged_row_ends_and_leaves_nothing_in_the_row_of_the_next(damage: Damage) -> None:
    world, attempt = ready(damage)
    heartbeat = Heartbeat(Tasks(world), attempt, world.clock, TERM)
    Tasks(world).begin("collect", TERM)
    world.clock.now += TERM // 2
    assert not heartbeat.beat()
    assert not Tasks(world).finish(attempt, b"late") and not Tasks(world).fail(attempt, "late")
    assert Tasks(world).running_attempt("collect", attempt.task.attempt) is None
    last = Tasks(world).last("collect")
    assert last is not None and last.is_unknown and last.result == b""


@pytest.mark.parametrize("damage", [damage_row, damage_attribute])
def test_i10_an_attempt_ends_at_its_next_beat_when_no_other_has_begun(damage: Damage) -> None:
    world, attempt = ready(damage)
    world.clock.now += TERM // 2
    assert not Heartbeat(Tasks(world), attempt, world.clock, TERM).beat()
    assert Tasks(world).running_attempt("collect", attempt.task.attempt) is None


@damages
def test_a_look_at_a_damaged_task_says_that_an_attempt_may_run_and_changes_nothing(damage: Damage) -> None:
    world, _ = ready(damage)
    before = dict(world.refs.rows)
    last = Tasks(world).last("collect")
    assert last is not None and last.is_unknown and last.running(world.clock.now)
    assert Tasks(world).last_of(["collect", "none"]) == {}
    assert world.refs.rows == before
    Tasks(world).begin("collect", TERM)
    replaced = Tasks(world).last_of(["collect"])["collect"]
    assert replaced.is_unknown and not Task(1, until=9).is_unknown and not Task().is_unknown


@damages
def test_a_damaged_task_whose_subject_is_gone_is_removed_after_the_longest_term(damage: Damage) -> None:
    world, _ = ready(damage)
    Tasks(world).forget("collect")
    assert KEY in world.refs.rows
    world.clock.now += TERM_MOST_MS
    Tasks(world).forget("collect")
    assert KEY not in world.refs.rows


def test_i10_an_object_that_can_be_read_is_never_replaced() -> None:
    world = fake_world()
    objects = Updateables(world)

    def never(_row: Updateable) -> None:
        raise UnreadableRow(KEY, "no")

    assert not objects.replace_damaged(TASK.name, "collect", b"2", lambda _: None)
    assert KEY not in world.refs.rows
    objects.create(TASK.name, "collect", b"1")
    assert not objects.replace_damaged(TASK.name, "collect", b"2", lambda _: None)
    assert world.refs.rows[KEY]["payload"] == b"1"
    assert objects.replace_damaged(TASK.name, "collect", b"2", never)
    assert world.refs.rows[KEY]["payload"] == b"2"
