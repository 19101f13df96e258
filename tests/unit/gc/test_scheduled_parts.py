"""Scheduled runs of gc look at a bounded part of the rows, and at idle tables by turns (I10,
decision 60)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.support.delta_table import TABLE, Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import GRACE
from turnstile.coordination.core.rows import Task
from turnstile.delta.publish import Publisher
from turnstile.gc import collector as module
from turnstile.gc.collector import Collector, CollectTask, Report
from turnstile.gc.core import HOUR_MS, LOG_RETENTION_MS, Place, idle_since
from turnstile.store.core.names import staged_path
from turnstile.store.core.writes import Row

TERM_MS = 900_000


def days_ms(count: int) -> int:
    return count * 24 * HOUR_MS


class Looker:
    """Finds nothing, and takes ``cost_ms`` a row."""

    row_kind = "table"

    def __init__(self, world: FakeWorld, kind: str, looked: list[tuple[str, str]], cost_ms: int) -> None:
        self._world = world
        self._kind = kind
        self._looked = looked
        self._cost_ms = cost_ms

    def scan(self, row: Row, now: int) -> Iterator[Any]:
        self._looked.append((self._kind, row["table_id"]))
        self._world.clock.now += self._cost_ms
        return iter(())


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


def watched(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch, rows_max: int, cost_ms: int = 0
) -> list[tuple[str, str]]:
    looked = list[tuple[str, str]]()
    kinds = ("staged", "objs")
    lookers = {kind: lambda _, kind=kind: Looker(world, kind, looked, cost_ms) for kind in kinds}
    monkeypatch.setattr(module, "SCANNERS", lookers)
    monkeypatch.setattr(module, "ROWS_MAX", rows_max)
    return looked


def run(world: FakeWorld, seconds: float = 800) -> Report:
    until_ms = world.clock.now + int(seconds * 1000)
    collect = CollectTask(world, Collector(world, GRACE, workers=1))
    done = collect.run(TERM_MS, tuple(module.SCANNERS), dry_run=False, until_ms=until_ms, in_parts=True)
    assert isinstance(done, Report)
    return done


def seen(looked: list[tuple[str, str]], *, idle: bool = False) -> list[str]:
    tables = [table for kind, table in looked if kind == "staged"]
    others = [table for kind, table in looked if kind == "objs"]
    assert others == ([] if idle else tables), "every kind looks at the same rows, but for turns of idle tables"
    del looked[:]
    return tables


def test_i10_runs_look_at_the_next_rows_round_and_round(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = sorted(Table(world, table_id(number)).id for number in range(7))
    looked = watched(world, monkeypatch, len(world.refs.rows) // 2 + 1)
    first = (run(world), seen(looked))
    second = (run(world), seen(looked))
    assert first[0].complete and second[0].complete
    assert sorted(first[1] + second[1]) == tables and first[1]
    run(world)
    assert seen(looked) == first[1], "the next round"


def test_i10_what_a_run_had_no_time_for_is_looked_at_by_the_next_one(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = sorted(Table(world, table_id(number)).id for number in range(5))
    looked = watched(world, monkeypatch, 1_000, cost_ms=1_000)
    done = list[str]()
    reports = list[Report]()
    while len(set(done)) < 5:
        reports.append(run(world, 4.5))
        done += [table for _, table in looked]
        del looked[:]
        assert len(reports) < 10
    assert set(done) == set(tables) and not reports[0].complete


def test_i10_a_row_at_which_the_time_ended_has_another_turn(world: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        Table(world, table_id(number))
    looked = watched(world, monkeypatch, 1_000, cost_ms=1_000)
    run(world, 4.5)
    last = looked[-1][1]
    del looked[:]
    run(world, 4.5)
    assert looked[0][1] == last


def test_i10_a_row_that_takes_all_of_the_time_does_not_keep_the_others_from_their_turn(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = sorted(Table(world, table_id(number)).id for number in range(3))
    looked = watched(world, monkeypatch, 1_000, cost_ms=60_000)
    for _ in range(3):
        assert not run(world, 1).complete
    assert sorted({table for _, table in looked}) == tables


def test_i10_an_unchanged_table_is_left_to_the_turns_of_idle_tables(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [Table(world, table_id(number)) for number in range(4)]
    looked = watched(world, monkeypatch, 1_000)
    monkeypatch.setattr(module, "IDLE_MAX", 0)
    world.clock.now += LOG_RETENTION_MS + days_ms(1)
    run(world)
    assert len(seen(looked)) == 4, "no round was begun before, so nobody has looked at them"
    run(world)
    assert seen(looked) == []
    tables[2].inline()
    run(world)
    assert seen(looked) == [tables[2].id]
    monkeypatch.setattr(module, "IDLE_MAX", 1_000)
    run(world)
    turns = [table for kind, table in looked if kind == "staged"]
    assert sorted(turns) == sorted(table.id for table in tables)
    assert [table for kind, table in looked if kind == "objs"] == [tables[2].id]


def test_i10_turns_of_idle_tables_go_round_by_a_place_of_their_own(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = sorted(Table(world, table_id(number)).id for number in range(6))
    looked = watched(world, monkeypatch, 1_000)
    world.clock.now += LOG_RETENTION_MS + days_ms(1)
    run(world)
    run(world)
    del looked[:]
    monkeypatch.setattr(module, "IDLE_MAX", len(world.refs.rows) // 3 + 1)
    turns = list[str]()
    for _ in range(3):
        run(world)
        turns += seen(looked, idle=True)
    assert sorted(turns) == tables


def test_i10_a_run_without_time_looks_at_nothing_and_stays_where_it_is(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    Table(world)
    looked = watched(world, monkeypatch, 1_000)
    assert not run(world, 0).complete and looked == []
    run(world)
    assert seen(looked) == [TABLE]


def test_i10_only_active_tables_are_idle_from_the_time_of_their_last_change(
    world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = [Table(world, table_id(number)) for number in range(4)]
    looked = watched(world, monkeypatch, 1_000)
    monkeypatch.setattr(module, "IDLE_MAX", 0)
    world.clock.now += LOG_RETENTION_MS + days_ms(1)
    run(world)
    del looked[:]
    (place,) = [msgspec.json.decode(Task.unpack(row["payload"]).result)["place"] for row in tasks(world)]
    idle_ms = place["began_ms"] - LOG_RETENTION_MS
    tables[0].row.update(state="stuck", changed_at=1)
    tables[1].row.update(changed_at=idle_ms)
    tables[2].row.update(changed_at=idle_ms - 1)
    del tables[3].row["changed_at"]
    tables[3].row["created"] = idle_ms
    run(world)
    assert sorted(seen(looked)) == sorted(tables[number].id for number in (0, 1, 3))


def tasks(world: FakeWorld) -> list[Row]:
    return [row for key, row in world.refs.rows.items() if key.endswith("task/collect")]


def test_i10_a_table_is_idle_if_it_was_looked_at_when_all_that_its_last_change_left_was_due() -> None:
    place = Place(after="x", began_ms=days_ms(200), before_ms=days_ms(100))
    assert idle_since(place, GRACE) == days_ms(100) - LOG_RETENTION_MS
    assert Place().start_run(5) == Place(began_ms=5)
    assert place.start_run(days_ms(300)) == place
    through = Place(after="", began_ms=days_ms(200), before_ms=days_ms(100), idle_after="y")
    assert through.start_run(days_ms(300)) == Place("", days_ms(300), days_ms(200), "y")
    assert idle_since(Place().start_run(days_ms(1)), GRACE) < 0, "in the first round no table is idle"


def test_i10_a_run_in_parts_removes_what_a_whole_run_removes(world: FakeWorld) -> None:
    table = Table(world)
    loser = table.stage(lose=True)
    table.mixed(3)
    Publisher(world).publish(table.id)
    world.clock.now += days_ms(3)
    report = CollectTask(world, Collector(world, GRACE, workers=1)).run(
        TERM_MS, dry_run=False, until_ms=world.clock.now + 800_000, in_parts=True
    )
    assert isinstance(report, Report) and report.deleted == len(report.items) > 0 and not report.problems
    assert table.storage.stat(staged_path(loser)) is None
