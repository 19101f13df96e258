"""gc is a coordinated task: one run at a time removes, a run that died is taken over, dry runs wait
for nobody (I10)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.support.delta_table import Killed, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import SCHEDULED, Context, Function, Http, function
from tests.support.gc import DAY, GRACE, days, everything, stage_table
from turnstile.coordination.tasks import Attempt, Busy, Tasks
from turnstile.gc.collector import LEASE_MS, TASK, Collector, CollectTask, Report
from turnstile.store.core.errors import StateConflict


@pytest.fixture
def world() -> FakeWorld:
    world = fake_world()
    stage_table(world, table_id(7))
    days(world, 3)
    return world


@pytest.fixture
def app(world: FakeWorld) -> Function:
    function = Function("gc")
    function.use_world(world, grace=GRACE)
    return function


def test_i10_a_run_beside_another_removes_nothing_and_says_so(app: Function, world: FakeWorld) -> None:
    other = Tasks(world).begin(TASK, 120_000)
    assert isinstance(other, Attempt)
    before = everything(world)
    answer = app.collect(SCHEDULED, Context())
    assert answer == {"busy": 1, "attempt": 1, "until": other.task.until}
    assert everything(world) == before
    assert len(app.collect({"dry_run": True}, Context())["items"]) == 1


def test_i10_a_run_that_died_is_taken_over_when_its_function_cannot_live_any_more(
    app: Function, world: FakeWorld
) -> None:
    Tasks(world).begin(TASK, 120_000)
    world.clock.now += 120_000
    assert app.collect(SCHEDULED, Context())["deleted"] == 1
    last = Tasks(world).last(TASK)
    assert last is not None
    assert (last.attempt, last.succeeded, last.until) == (2, 2, 0)
    assert msgspec.json.decode(last.result)["deleted"] == 1


def test_i10_a_long_run_keeps_its_lease_and_one_that_died_loses_it_within_minutes(world: FakeWorld) -> None:
    """A server's run may take an hour; ten minutes after the start of the next server it can have
    its own."""
    collector = Collector(world, GRACE)
    others = list[bool]()
    task = CollectTask(world, collector)
    scan = collector._scan

    def slow(*arguments: Any) -> None:
        world.clock.now += LEASE_MS // 2
        others.append(isinstance(Tasks(world).begin(TASK, LEASE_MS), Busy))
        scan(*arguments)

    for number in range(8, 12):
        stage_table(world, table_id(number))
    collector._scan = slow  # type: ignore[method-assign]
    until_ms = world.clock.now + 3_600_000
    assert isinstance(task.run(3_600_000, dry_run=False, until_ms=until_ms), Report)
    assert len(others) > 3 and all(others)
    last = Tasks(world).last(TASK)
    assert last is not None and last.succeeded == last.attempt == 1
    assert 0 < task.rest_ms(DAY) <= DAY

    def killed(*arguments: Any) -> None:
        raise Killed

    collector._scan = killed  # type: ignore[method-assign]
    with pytest.raises(Killed):
        task.run(3_600_000, dry_run=False, until_ms=world.clock.now + 3_600_000)
    assert task.rest_ms(DAY) == 0, "a run that did not end is due"
    collector._scan = scan  # type: ignore[method-assign]
    assert isinstance(task.run(3_600_000, dry_run=False, until_ms=world.clock.now + 1), Busy)
    world.clock.now += LEASE_MS
    assert isinstance(task.run(3_600_000, dry_run=False, until_ms=world.clock.now + 1), Report)


def test_the_next_run_is_due_a_day_after_one_that_ended_and_at_once_where_none_did(world: FakeWorld) -> None:
    task = CollectTask(world, Collector(world, GRACE))
    tasks = Tasks(world)
    world.clock.step = 0
    assert task.rest_ms(DAY) == 0, "never was one"
    attempt = tasks.begin(TASK, LEASE_MS)
    assert isinstance(attempt, Attempt)
    assert task.rest_ms(DAY) == 0, "it has not ended"
    assert tasks.finish(attempt)
    assert task.rest_ms(DAY) == DAY
    world.clock.now += DAY - 1
    assert task.rest_ms(DAY) == 1
    world.clock.now += 2
    assert task.rest_ms(DAY) == 0
    world.clock.now -= 9 * DAY
    assert task.rest_ms(DAY) == DAY, "the clock that wrote the end was ahead"
    world.clock.now += 9 * DAY - 2
    attempt = tasks.begin(TASK, LEASE_MS)
    assert isinstance(attempt, Attempt) and tasks.fail(attempt, "no answer")
    assert task.rest_ms(DAY) == 0, "it failed"


def test_i10_a_run_that_another_one_has_replaced_ends(world: FakeWorld) -> None:
    collector = Collector(world, GRACE)
    scanned = list[object]()
    for number in range(8, 12):
        stage_table(world, table_id(number))

    def frozen(scanner: object, *arguments: Any) -> None:
        scanned.append(scanner)
        world.clock.now += LEASE_MS
        assert isinstance(Tasks(world).begin(TASK, LEASE_MS), Attempt)

    collector._scan = frozen  # type: ignore[method-assign]
    report = CollectTask(world, collector).run(3_600_000, dry_run=False, until_ms=world.clock.now + 3_600_000)
    assert isinstance(report, Report) and not report.complete
    assert len(scanned) == 1


def test_a_run_that_failed_lets_the_next_one_begin_at_once(
    app: Function, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(kinds: object, **_: object) -> object:
        raise RuntimeError("the table cannot be scanned")

    with monkeypatch.context() as patch:
        patch.setattr(world.refs, "scan_part", away)
        with pytest.raises(RuntimeError, match="scanned"):
            app.collect(SCHEDULED, Context())
    last = Tasks(world).last(TASK)
    assert last is not None and "cannot be scanned" in last.failure
    assert app.collect(SCHEDULED, Context())["deleted"] == 1
    assert app.collect(SCHEDULED, Context())["deleted"] == 0


def test_a_run_without_a_dry_run_costs_three_requests_more(app: Function, world: FakeWorld) -> None:
    """One read and one write to begin, one write to end."""
    app.collect({"dry_run": True, "kinds": []}, Context())
    dry = len(world.refs.requests)
    app.collect({"kinds": []}, Context())
    assert len(world.refs.requests) - dry == 3


def test_i10_a_run_over_http_is_one_of_them(app: Function, world: FakeWorld) -> None:
    catalog = function("catalog")
    catalog.use_world(world, grace=GRACE)
    http = Http(catalog.app)
    other = Tasks(world).begin(TASK, 10_000)
    assert isinstance(other, Attempt)
    refused = http.post("/v1/gc", {"dry_run": False})
    assert (refused.status, refused.error["type"], refused.headers["retry-after"]) == (409, "GcRunning", "10")
    assert len(http.post("/v1/gc", {}).json["items"]) == 1, "a dry run waits for nobody"
    assert Tasks(world).finish(other)
    assert http.post("/v1/gc", {"dry_run": False}).json["deleted"] == 1


def test_i10_a_run_whose_clock_is_ahead_of_the_stores_removes_nothing(app: Function, world: FakeWorld) -> None:
    """What is a minute old would look old enough to it."""
    catalog = function("catalog")
    catalog.use_world(world, grace=GRACE)
    http = Http(catalog.app)
    world.refs.clock = world.clock.now - 9 * DAY
    before = dict(world.storages.files)
    refused = http.post("/v1/gc", {"dry_run": False})
    assert (refused.status, refused.error["type"]) == (409, "ClockAhead")
    assert refused.error["ahead_ms"] >= 9 * DAY and "clock is 777600 s ahead" in refused.error["message"]
    with pytest.raises(StateConflict, match="clock"):
        app.collect(SCHEDULED, Context())
    assert dict(world.storages.files) == before
    world.refs.clock = world.clock.now - 60_000
    assert http.post("/v1/gc", {"dry_run": False}).json["deleted"] == 1, "a minute is no wrong clock"


def test_i10_the_lease_of_a_run_whose_clock_was_ahead_is_over(app: Function, world: FakeWorld) -> None:
    world.clock.now += 40 * DAY
    Tasks(world).begin(TASK, 120_000)
    world.clock.now -= 40 * DAY
    assert app.collect(SCHEDULED, Context())["deleted"] == 1
