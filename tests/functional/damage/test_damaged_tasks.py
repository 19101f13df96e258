"""Damaged rows of tasks beside the callers of their work: gc, light work, runs by policy,
follow-ups and events wait or go on, and say so (I10, I17)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import SCHEDULED, Context, Function, Http, function
from tests.support.gc import GRACE, days, stage_table
from turnstile.catalog.core.policies import EffectivePolicy, Level, policy_of
from turnstile.coordination.core.rows import TERM_MOST_MS
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Publisher
from turnstile.events.append import Appender, behind
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.deliver import NotDelivered
from turnstile.events.follow_ups import FollowUps
from turnstile.maintenance.core.candidates import runs_task
from turnstile.maintenance.work import Maintainer
from turnstile.store.core.errors import UnreadableRow

GC = "test/updateable/task/collect"


def checks(world: FakeWorld) -> dict[str, dict[str, Any]]:
    catalog = function("catalog")
    catalog.use_world(world)
    return {check["name"]: check for check in Http(catalog.app).post("/v1/checks", {}).json["checks"]}


def task_key(name: str) -> str:
    return f"test/updateable/task/{name}"


def test_i10_gc_with_a_damaged_row_waits_once_says_why_and_runs_again() -> None:
    world = fake_world()
    stage_table(world, table_id(7))
    days(world, 3)
    app = Function("gc")
    app.use_world(world, grace=GRACE)
    app.collect(SCHEDULED, Context())
    stage_table(world, table_id(8))
    days(world, 3)
    world.refs.damage(GC)
    found = checks(world)["rows"]
    assert found["result"] == "failed" and GC in found["message"]
    waits = app.collect(SCHEDULED, Context())
    assert waits["busy"] == 1 and "could not be read" in waits["reason"]
    shown = checks(world)
    assert "rows" not in shown and shown["tasks"]["result"] == "warning"
    assert f"{GC} begins again in 59 min" in shown["tasks"]["message"]
    catalog = function("catalog")
    catalog.use_world(world, grace=GRACE)
    refused = Http(catalog.app).post("/v1/gc", {"dry_run": False})
    assert (refused.status, refused.error["type"]) == (409, "GcRunning")
    assert "could not be read" in refused.error["message"]
    world.clock.now += TERM_MOST_MS
    assert app.collect(SCHEDULED, Context())["deleted"] == 1
    assert "tasks" not in checks(world)


def test_light_work_of_a_table_with_a_damaged_task_waits_and_is_done() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in (1, 2)]
    for table in tables:
        for _ in range(10):
            table.inline()
        Publisher(world).publish(table.id)
    maintainer = Maintainer(world)
    world.refs.damage(task_key(f"maintain.{tables[0].id}"))
    first, second = maintainer.maintain_all(lambda: True)
    assert (first.outcome, second.outcome) == ("busy", "done") and "could not be read" in first.reason
    world.clock.now += TERM_MOST_MS
    assert [done.outcome for done in maintainer.maintain_all(lambda: True)] == ["done", "nothing due"]


def test_i12_the_kept_reason_of_failed_light_work_is_without_the_key_of_a_damaged_row() -> None:
    class Upkeep:
        def keep_up(self, head: TableHead, guard: Callable[[], None]) -> int:
            raise UnreadableRow("test/index/hr", "its bytes are no row")

    world = fake_world()
    table = Table(world, table_id(1))
    for _ in range(10):
        table.inline()
    Publisher(world).publish(table.id)
    maintainer = Maintainer(world, following=[Upkeep()])
    done = maintainer.maintain(table.id)
    assert done.outcome == "failed" and "test/index/hr" in done.reason, "the log has it"
    kept, _ = maintainer.standing(table.head)
    assert kept.failures == 1 and kept.reason == "a row of the store cannot be read"


def test_i13_events_of_other_rows_are_found_beside_a_damaged_task() -> None:
    world = fake_world()
    table = Table(world, table_id(1))
    other = Table(world, table_id(2))
    key = task_key(runs_task(table.id))
    world.refs.rows[key] = {
        "key": key, "kind": "updateable", "type": "task", "token": "t", "payload": b"\xc1", "created": 1,
        "changed_at": 1,
    }  # fmt: skip
    assert {key, other.key} <= set(behind(world, Appender(world)))
    appended = Appender(world).append([key, other.key])
    assert appended.events and [each.key for each in appended.unreadable] == [key]
    assert key in checks(world)["rows"]["message"]


class Action:
    name = "dbt"
    most = 10

    def __init__(self) -> None:
        self.got: list[CloudEvent] = []
        self.fails = ""

    def send(self, events: list[CloudEvent]) -> None:
        if self.fails:
            raise NotDelivered(self.fails)
        self.got += events


def policy(_: TableHead) -> EffectivePolicy:
    return policy_of([Level("table", "t", {"turnstile.maintenance.follow-ups": "dbt on publish"})])


@pytest.mark.parametrize("whole", [True, False])
def test_i17_a_damaged_state_of_follow_ups_is_kept_and_stops_no_other_table(*, whole: bool) -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in (1, 2)]
    action = Action()
    follow_ups = FollowUps(world, policy, [action])
    for table in tables:
        table.inline()
        Publisher(world).publish(table.id)
        follow_ups.follow(table.id)
    key = task_key(f"follow-up.{tables[0].id}")
    restored = dict(world.refs.rows[key])
    if whole:
        world.refs.damage(key)
    else:
        world.refs.rows[key]["payload"] = b"\xc1"
    for table in tables:
        table.inline()
        Publisher(world).publish(table.id)
    first, second = (follow_ups.follow(table.id) for table in tables)
    assert (first.outcome, second.outcome) == ("failed", "done") and key in first.failures["dbt"]
    world.refs.rows[key] = restored
    assert follow_ups.follow(tables[0].id).outcome == "done"
    ranges = [(event.data["first_version"], event.data["version"]) for event in action.got]
    assert ranges == [(1, 1), (1, 1), (2, 2), (2, 2)]


def test_i17_a_damaged_list_of_failing_follow_ups_is_written_anew() -> None:
    world = fake_world()
    table = Table(world, table_id(1))
    action = Action()
    action.fails = "no"
    follow_ups = FollowUps(world, policy, [action])
    key = task_key("follow-ups")
    world.refs.damage(key)
    assert follow_ups.failing() == ()
    table.inline()
    Publisher(world).publish(table.id)
    follow_ups.follow(table.id)
    assert follow_ups.failing() == (table.id,)
