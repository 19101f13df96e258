"""A run of gc with a clock ahead of time: its rows in the store delay no process once the clock is
right (I9, I10, ADR 64)."""

from __future__ import annotations

import logging

import pytest

from tests.support.catalog import fakes, fresh
from tests.support.fakes.world import FakeWorld
from tests.support.faults import before_next_write
from tests.support.gc import DAY, HISTORY_GRACE, collect_history, days, names_at, put_namespaces
from turnstile.catalog.core.rows import CatalogHead, begin_sweep, end_sweep, is_swept
from turnstile.catalog.history.core import AsOf
from turnstile.gc.collector import Collector
from turnstile.gc.core import HOUR_MS
from turnstile.store.core.errors import NotFound, StateConflict

KEY = "test/catalog/main"
AHEAD = 40 * DAY


@pytest.fixture
def swept() -> FakeWorld:
    """A catalog that gc has swept with a clock that was 40 days ahead, and has the right clock
    again."""
    world = fakes(fresh())
    services = fresh(world)
    put_namespaces(services, "old")
    services.namespace_dropper.drop("main", ("old",))
    for number in range(25):
        put_namespaces(services, f"n{number}")
    world.clock.now += AHEAD
    assert collect_history(world).deleted > 0
    world.clock.now -= AHEAD
    assert world.refs.rows[KEY]["swept"] > world.clock.now + 30 * DAY
    return world


def test_i9_changes_go_on_as_soon_as_the_clock_is_right(swept: FakeWorld, caplog: pytest.LogCaptureFixture) -> None:
    began = swept.clock.now
    with caplog.at_level(logging.WARNING, "turnstile.catalog"):
        put_namespaces(fresh(swept), "after")
    assert swept.clock.now - began < 1_000, "it waits for nothing"
    assert "the clock of that run was ahead" in caplog.text
    row = swept.refs.rows[KEY]
    assert row["swept"] < swept.clock.now and row["taken_back"] == 1
    put_namespaces(fresh(swept), "later")
    assert swept.refs.rows[KEY]["taken_back"] == 1
    assert {"after", "later"} <= set(names_at(swept, swept.refs.rows[KEY]["head"]))


def test_i10_gc_goes_on_as_soon_as_the_clock_is_right(swept: FakeWorld) -> None:
    put_namespaces(fresh(swept), "lost")
    fresh(swept).namespace_dropper.drop("main", ("lost",))
    for number in range(25):
        put_namespaces(fresh(swept), f"m{number}")
    days(swept, 4)
    report = collect_history(swept)
    assert report.problems == () and report.deleted > 0
    put_namespaces(fresh(swept), "after")


def test_i10_gc_itself_takes_the_mark_back_where_nothing_changes_the_catalog(swept: FakeWorld) -> None:
    world = swept
    world.refs.rows[KEY] = {name: value for name, value in world.refs.rows[KEY].items() if name != "swept"}
    put_namespaces(fresh(world), "lost")
    fresh(world).namespace_dropper.drop("main", ("lost",))
    for number in range(25):
        put_namespaces(fresh(world), f"m{number}")
    days(world, 4)
    at = CatalogHead.from_row(world.refs.rows[KEY])
    world.refs.write(begin_sweep(KEY, at.created, world.clock.now + AHEAD))
    (problem,) = {problem.message for problem in collect_history(world).problems}
    assert "had a clock that was ahead" in problem
    assert swept.refs.rows[KEY]["swept"] < swept.clock.now
    report = collect_history(swept)
    assert report.problems == () and report.deleted > 0, "the next run goes on, without the days until the mark is old"
    put_namespaces(fresh(swept), "after")


def test_i9_what_the_run_may_have_removed_does_not_come_back(swept: FakeWorld) -> None:
    services = fresh(swept)
    put_namespaces(services, "after")
    past = services.reader.current("main")
    with pytest.raises((NotFound, StateConflict)):
        services.resetter.reset("main", AsOf(seq=2))
    put_namespaces(services, "later")
    services.resetter.reset("main", AsOf(head=past.head))
    assert "later" not in names_at(swept, swept.refs.rows[KEY]["head"])


@pytest.mark.parametrize("queued", [True, False])
def test_i9_a_reset_to_a_head_that_was_replaced_before_the_mark_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, *, queued: bool
) -> None:
    world = fakes(fresh())
    put_namespaces(fresh(world), "first")
    past = world.refs.rows[KEY]["head"]
    put_namespaces(fresh(world), "second")
    world.clock.now += HOUR_MS
    at = CatalogHead.from_row(world.refs.rows[KEY])
    world.refs.write(begin_sweep(KEY, at.created, world.clock.now - 1))
    services = fresh(world)
    if not queued:
        monkeypatch.setattr(services.committer, "_queued", False)
    began = world.clock.now
    with pytest.raises(NotFound, match="at the HEAD that was replaced at") as refused:
        services.resetter.reset("main", AsOf(head=past))
    assert refused.value.type == "NoSuchCatalogCommit" and "named snapshot" in str(refused.value.remedy)
    assert world.clock.now < began + 100, "it is not tried again until its deadline"
    with pytest.raises(NotFound, match="at the HEAD that was replaced at"):
        services.named_snapshots.create("main", "kept", of=AsOf(head=past))


def test_i9_a_tree_may_be_gone_up_to_the_mark_unless_the_mark_is_ahead_of_the_clock() -> None:
    row = {"swept": 100}
    assert [is_swept(row, replaced, 200) for replaced in (99, 100, 101)] == [True, True, False]
    assert [is_swept(row, 50, now) for now in (99, 100)] == [False, True]
    assert not is_swept({}, 50, 200)


def test_i10_a_run_stops_when_its_mark_was_taken_back() -> None:
    """The run has a clock that is ahead, and is between two removals when the first change takes
    its mark back."""
    world = fakes(fresh())
    services = fresh(world)
    put_namespaces(services, "old")
    services.namespace_dropper.drop("main", ("old",))
    for number in range(300):
        put_namespaces(services, f"n{number}")
    world.clock.now += AHEAD
    removed = 0

    def faults(point: str) -> None:
        nonlocal removed
        removed += point == "collect.deleted"
        if removed == 50 and point == "collect.deleted":
            world.clock.now -= AHEAD
            put_namespaces(fresh(world), "meanwhile")
            world.clock.now += AHEAD

    report = Collector(world, HISTORY_GRACE, faults=faults, workers=1).collect(("history",), dry_run=False)
    assert report.deleted == 200 and "taken back" in report.problems[0].message
    world.clock.now -= AHEAD
    assert "meanwhile" in names_at(world, world.refs.rows[KEY]["head"])
    put_namespaces(fresh(world), "after")


def test_i9_what_was_written_before_the_mark_was_taken_back_is_written_again(swept: FakeWorld) -> None:
    """The run may be removing it: a change uses nothing of an attempt that the mark refused."""
    first_attempt: set[str] = set()
    before_next_write(swept, lambda: first_attempt.update(id for _, id in swept.objs.rows))
    put_namespaces(fresh(swept), "after")
    again = {id.partition("/")[0] for _, id in swept.objs.rows if id not in first_attempt}
    assert {"commit", "entity"} == again


def test_i9_a_change_that_read_the_row_before_is_refused(swept: FakeWorld) -> None:
    """Another one takes the mark back between its read and its swap, and the clock moves on."""
    other = fresh(swept)
    before_next_write(swept, lambda: put_namespaces(other, "first"))
    put_namespaces(fresh(swept), "second")
    assert {"first", "second"} <= set(names_at(swept, swept.refs.rows[KEY]["head"]))
    before = CatalogHead.from_row(swept.refs.rows[KEY])
    swept.refs.write(begin_sweep(KEY, before.created, swept.clock.now + DAY))
    put_namespaces(fresh(swept), "third")
    assert swept.refs.rows[KEY]["taken_back"] == 2


def test_i10_no_mark_is_taken_back_twice(swept: FakeWorld) -> None:
    at = CatalogHead.from_row(swept.refs.rows[KEY])
    assert swept.refs.write(end_sweep(at, swept.clock.now)).row["swept"] == swept.clock.now - 1  # type: ignore[index]
    days(swept, 9)
    assert swept.refs.write(begin_sweep(KEY, at.created, swept.clock.now - 8 * HOUR_MS)).row is not None
    later = swept.refs.rows[KEY]["swept"]
    swept.refs.write(end_sweep(at, swept.clock.now))
    assert swept.refs.rows[KEY]["swept"] == later
