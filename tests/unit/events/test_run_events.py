"""Events of runs of heavy work: each attempt starts once and is over once, whatever was seen in
between (I13)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.heads import empty_row
from tests.support.fakes.world import FakeWorld, fake_world
from turnstile.coordination.core.rows import TERM_MOST_MS, Task, unknown_task
from turnstile.coordination.tasks import Attempt, Tasks
from turnstile.delta.core.head import TableHead
from turnstile.events.append import Appender, behind, runs_key
from turnstile.events.core.events import Changes, Event
from turnstile.events.core.rows import EventMark
from turnstile.events.core.run_events import ATTEMPTS_MAX, REPLACED_GAP, run_changes
from turnstile.events.read import EventReader
from turnstile.maintenance.core.candidates import LastRun, RunHistory, runs_task
from turnstile.store.core.limits import EXACT_MAX

KEY = "test/event-mark/updateable/task/rewrite.t"
HEAD = TableHead.from_row(empty_row())
DONE = RunHistory(runs={"compact": LastRun(7, 200, 3, 900), "vacuum": LastRun(2, 90, 8, 8)}).pack()
FAILED = RunHistory(failures=1, reason="no room").pack()


def changes(mark: EventMark | None, task: Task) -> Changes:
    return run_changes(KEY, mark, HEAD, task)


def told(made: Changes) -> list[tuple[str, int]]:
    return [(event.type.rpartition("-")[2], event.data["attempt"]) for event in made.events]


def after(*tasks: Task) -> EventMark:
    mark = None
    for task in tasks:
        mark = changes(mark, task).mark or mark
    assert mark is not None
    return mark


def running(attempt: int) -> Task:
    return Task(attempt, until=500, began=200)


def ended(attempt: int, result: bytes = DONE) -> Task:
    return Task(attempt, began=200, ended=210, result=result, succeeded=attempt)


def test_i13_a_run_starts_and_is_over_once_each() -> None:
    assert told(changes(None, running(1))) == [("started", 1)]
    mark = after(running(1))
    assert changes(mark, running(1)) == Changes((), None)
    assert changes(mark, msgspec.structs.replace(running(1), until=900)) == Changes((), None), "its lease was renewed"
    assert told(changes(mark, ended(1))) == [("done", 1)]
    assert changes(after(running(1), ended(1)), ended(1)) == Changes((), None)
    assert told(changes(after(running(1), ended(1)), running(2))) == [("started", 2)]


def test_i13_an_unseen_change_becomes_an_event_later() -> None:
    assert told(changes(after(ended(1)), ended(2))) == [("started", 2), ("done", 2)]
    assert told(changes(after(running(1)), ended(2))) == [("done", 1), ("started", 2), ("done", 2)]
    assert told(changes(after(running(1)), running(3))) == [("done", 1), ("started", 2), ("done", 2), ("started", 3)]


def test_what_a_run_did_and_when_is_in_its_event() -> None:
    started, done = changes(None, ended(4)).events
    assert (started.time, started.data) == (200, {"attempt": 4})
    assert (done.time, done.subject, done.name) == (210, HEAD.table_id, HEAD.name)
    assert done.data == {
        "attempt": 4, "outcome": "done", "version": 7,
        "operations": [{"operation": "compact", "files": 3, "bytes": 900}],
    }  # fmt: skip
    assert started.id == f"{HEAD.table_id}/maintenance-started/4"
    assert done.id == f"{HEAD.table_id}/maintenance-done/4"


def test_a_run_that_had_nothing_left_to_do_names_no_operation() -> None:
    assert changes(None, ended(4, RunHistory().pack())).events[1].data == {
        "attempt": 4, "outcome": "done", "operations": [],
    }  # fmt: skip


def test_a_run_that_failed_says_why() -> None:
    assert changes(None, ended(4, FAILED)).events[1].data == {"attempt": 4, "outcome": "failed", "reason": "no room"}
    broken = msgspec.structs.replace(ended(4), failure="RuntimeError()")
    assert changes(None, broken).events[1].data["reason"] == "RuntimeError()"


def test_a_run_whose_worker_died_is_over_when_another_begins_and_its_outcome_is_not_known() -> None:
    over, _ = changes(after(running(1)), running(2)).events
    assert (over.data, over.time) == ({"attempt": 1, "outcome": "unknown"}, 0)


def test_the_past_of_runs_that_the_log_has_not_seen_has_no_events() -> None:
    assert told(changes(None, ended(57))) == [("started", 57), ("done", 57)]


def test_of_very_many_runs_between_two_looks_the_newest_are_reported() -> None:
    attempts = [attempt for what, attempt in told(changes(after(running(1)), running(500))) if what == "started"]
    assert attempts == list(range(501 - ATTEMPTS_MAX, 501))


def test_runs_that_begin_anew_with_a_restored_table_have_ids_of_their_own() -> None:
    mark = after(ended(5))
    again = changes(mark, ended(1))
    assert told(again) == [("started", 1), ("done", 1)]
    assert [event.id.rpartition("/")[2] for event in again.events] == ["1~1", "1~1"]
    assert again.mark is not None
    assert told(changes(again.mark, running(2))) == [("started", 2)]


@given(st.lists(st.sampled_from(["begin", "end", "die", "look"]), max_size=40))
def test_i13_every_attempt_has_one_start_and_one_end_in_order_at_any_time_of_reading(steps: list[str]) -> None:
    task = Task()
    mark = None
    events = list[Event]()

    def look() -> None:
        nonlocal mark
        if task.attempt:
            made = changes(mark, task)
            events.extend(made.events)
            mark = made.mark or mark

    for step in steps:
        match step:
            case "begin" if not task.until:
                task = task.begin(200, 500)
            case "die" if task.until:
                task = task.begin(200, 500)
            case "end" if task.until:
                task = task.finish(DONE, 210)
            case "look":
                look()
    look()
    seen = [(event.data["attempt"], event.type.rpartition("-")[2]) for event in events]
    first = seen[0][0] if seen else 1
    expected = [(attempt, what) for attempt in range(first, task.attempt + 1) for what in ("started", "done")]
    assert seen == (expected[:-1] if task.until else expected)
    assert len({event.id for event in events}) == len(events)


# -- in the log --------------------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


def log_of(world: FakeWorld) -> list[tuple[str, object]]:
    reader = EventReader(world)
    events = [event for event, _ in reader.events(reader.place("main", None))]
    return [(event.type.rpartition(".")[2], event.data.get("attempt")) for event in events]


def begin(world: FakeWorld) -> Attempt:
    attempt = Tasks(world).begin(runs_task(TABLE), 60_000)
    assert isinstance(attempt, Attempt)
    return attempt


def test_i13_runs_come_into_the_log_of_the_tables_catalog_once_by_hints_and_by_scans(world: FakeWorld) -> None:
    Table(world)
    appender = Appender(world)
    key = runs_key(world, TABLE)
    assert appender.is_source(key)
    assert not appender.is_source(world.space.updateable("task/maintain.x"))
    attempt = begin(world)
    for _ in range(2):
        assert not appender.append([key]).unreadable
    assert Tasks(world).finish(attempt, DONE)
    assert key in list(behind(world, appender))
    for _ in range(2):
        appender.append(behind(world, appender))
    assert key not in list(behind(world, appender))
    assert log_of(world) == [("maintenance-started", 1), ("created", None), ("maintenance-done", 1)]


def test_runs_of_a_table_that_is_gone_have_no_events_and_keep_none_waiting(world: FakeWorld) -> None:
    begin(world)
    done = Appender(world).append([runs_key(world, TABLE)])
    assert (done.events, done.unreadable, done.left) == (0, (), ())


def test_a_task_that_cannot_be_read_is_reported_and_holds_up_nothing_else(world: FakeWorld) -> None:
    table = Table(world)
    begin(world)
    world.refs.rows[runs_key(world, TABLE)]["payload"] = b"\xc1"
    done = Appender(world).append([runs_key(world, TABLE), table.key])
    assert [each.key for each in done.unreadable] == [runs_key(world, TABLE)]
    assert log_of(world) == [("created", None)]


def test_i13_a_replaced_row_of_a_damaged_task_gives_no_events_of_attempts_that_never_were() -> None:
    mark = after(running(1))
    replaced = unknown_task(1_700_000_000_000, "its bytes are no row")
    assert told(changes(mark, replaced)) == [("done", 1), ("started", 1_700_000_000_000)]
    most = Task(REPLACED_GAP, until=500, began=200)
    assert len(told(changes(mark, most))) == 2 * ATTEMPTS_MAX
    assert told(changes(mark, running(REPLACED_GAP + 1))) == [("done", 1), ("started", REPLACED_GAP + 1)]
    again = after(running(1), replaced)
    first = 1_700_000_000_000
    assert told(changes(again, running(first + 1))) == [("done", first), ("started", first + 1)]


@pytest.mark.parametrize("later_ms", [1_000, 60 * 60_000, 11 * 24 * 60 * 60_000])
def test_i13_a_row_that_is_damaged_again_gives_no_events_of_attempts_that_never_were(later_ms: int) -> None:
    first = 1_700_000_000_000
    mark = after(running(1), unknown_task(first, "its bytes are no row"))
    again = unknown_task(first + later_ms, "its bytes are no row")
    assert told(changes(mark, again)) == [("done", first), ("started", first + later_ms)]


def test_i13_the_attempt_after_a_row_that_was_damaged_twice_has_the_only_events() -> None:
    first = 1_700_000_000_000
    assumed = unknown_task(first, "its bytes are no row")
    done = assumed.begin(assumed.until, assumed.until + 60_000).finish(b"", assumed.until + 1)
    mark = after(running(1), assumed, done)
    again = unknown_task(first + TERM_MOST_MS, "its bytes are no row")
    begun = again.begin(again.until, again.until + 60_000)
    assert told(changes(mark, begun)) == [("started", begun.attempt)]
    assert begun.attempt + TERM_MOST_MS < EXACT_MAX
