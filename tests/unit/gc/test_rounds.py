"""Runs of gc that time cuts off: between them they look at everything, whatever takes longest (I10,
I11)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import GRACE, collect, days, stage_table
from turnstile.coordination.tasks import Tasks
from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import Sweeper
from turnstile.gc import collector as module
from turnstile.gc.collector import TASK, Collector, CollectTask, Cursor, Report
from turnstile.gc.core import KINDS
from turnstile.store.core.writes import Row
from turnstile.store.ports import rows_between

TERM_MS = 900_000


class Slow:
    """A looker that finds nothing and takes a second a row; ``looked`` is what it was shown, with
    its kind."""

    row_kind = "table"

    def __init__(self, world: FakeWorld, kind: str, looked: list[tuple[str, str]]) -> None:
        self._world = world
        self._kind = kind
        self._looked = looked

    def scan(self, row: Row, now: int) -> Iterator[Any]:
        self._looked.append((self._kind, row["key"]))
        self._world.clock.now += 1000
        return iter(())


def slow_world(monkeypatch: pytest.MonkeyPatch, tables: int) -> tuple[FakeWorld, list[tuple[str, str]]]:
    """Tables, and kinds of garbage each of which looks at all of them, a second each."""
    world = fake_world()
    looked = list[tuple[str, str]]()
    for number in range(tables):
        Table(world, table_id(number))
    lookers = {kind: lambda context, kind=kind: Slow(world, kind, looked) for kind in KINDS}
    monkeypatch.setattr(module, "SCANNERS", lookers)
    return world, looked


def run(world: FakeWorld, seconds: float, *kinds: Any) -> Report:
    """One run of the task that has so much time."""
    until = world.clock.now + int(seconds * 1000)
    done = CollectTask(world, Collector(world, GRACE, workers=1)).run(
        TERM_MS, kinds or KINDS, dry_run=False, until_ms=until
    )
    assert isinstance(done, Report)
    return done


@pytest.mark.parametrize("seconds", [1, 2, 7, 30])
def test_i10_runs_that_are_cut_off_look_at_every_row_of_every_kind_between_them(
    seconds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, looked = slow_world(monkeypatch, 5)
    everything = {(kind, row["key"]) for kind in KINDS for row in world.refs.scan("table")}
    runs = 0
    while set(looked) != everything:
        assert not run(world, seconds).complete
        runs += 1
        assert runs <= 2 * len(everything) // seconds + 1, (
            "a run gets something done, and none begins where another did"
        )


def test_i10_a_row_that_takes_longer_than_a_run_does_not_keep_others_from_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, looked = slow_world(monkeypatch, 3)
    for _ in range(3 * len(KINDS)):
        run(world, 0.5)
    assert {kind for kind, _ in looked} == set(KINDS)
    assert len(looked) == len(set(looked)) == 3 * len(KINDS)


def test_a_run_goes_round_to_where_it_began_and_ends_there(monkeypatch: pytest.MonkeyPatch) -> None:
    world, looked = slow_world(monkeypatch, 4)
    run(world, 6.5)
    assert looked[-1][0] == KINDS[1]
    looked.clear()
    report = run(world, 10_000)
    assert report.complete
    assert looked[0][0] == looked[-1][0] == KINDS[1], "what is before the place comes last"
    assert sorted(looked) == sorted((kind, row["key"]) for kind in KINDS for row in world.refs.scan("table"))


def test_a_run_about_other_kinds_leaves_the_place_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world, looked = slow_world(monkeypatch, 4)
    run(world, 6.5)
    run(world, 100, "objs")
    looked.clear()
    run(world, 1)
    assert looked[0][0] == KINDS[1]


def test_a_place_whose_row_is_gone_leaves_nothing_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world, looked = slow_world(monkeypatch, 4)
    rows = [row["key"] for row in world.refs.scan("table")]
    del world.refs.rows[rows[1]]
    Collector(world, GRACE).go_on(Cursor("objs", rows[1]), ["objs"], dry_run=True)
    assert {key for _, key in looked} == {rows[0], rows[2], rows[3]}
    assert [row["key"] for row in rows_between(world.refs, "table", rows[0], rows[2])] == [rows[2]]


@pytest.mark.parametrize("left", [b"", b"not json", b'{"next": {"kind": "of a later version"}}', b'{"deleted": 3}'])
def test_a_result_without_a_place_means_the_beginning(left: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    world, looked = slow_world(monkeypatch, 1)
    Tasks(world).run(TASK, TERM_MS, lambda _: left)
    assert run(world, 100).complete
    assert looked[0][0] == KINDS[0]


def test_i10_short_runs_remove_what_one_long_run_does() -> None:
    def garbage() -> FakeWorld:
        world = fake_world()
        for number in range(4):
            stage_table(world, table_id(10 + number))
            table = Table(world, table_id(number))
            table.stage(lose=True)
            table.mixed(6)
            Publisher(world).publish(table.id)
        days(world, 3)
        return world

    whole = garbage()
    pieces = garbage()
    expected = len(collect(whole).items)
    assert expected > 10
    pieces.clock.step = 10
    deleted_in_pieces = 0
    for _ in range(100):
        deleted_in_pieces += run(pieces, 0.15).deleted
    assert deleted_in_pieces == expected
    assert pieces.storages.files == whole.storages.files
    assert set(pieces.objs.rows) == set(whole.objs.rows)


def test_the_task_says_where_it_was_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = slow_world(monkeypatch, 2)
    run(world, 1)
    last = Tasks(world).last(TASK)
    assert last is not None
    totals = msgspec.json.decode(last.result)
    assert (totals["incomplete"], totals["next"]["kind"]) == (1, KINDS[0])
    run(world, 1000)
    last = Tasks(world).last(TASK)
    assert last is not None and "next" not in msgspec.json.decode(last.result)


def test_i11_a_sweep_that_cannot_look_at_all_tables_publishes_what_it_found_and_goes_on_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(12)]
    for table in tables:
        table.mixed(2)
    scan = world.refs.scan

    def slow(kind: str, **how: Any) -> Iterator[Row]:
        for row in scan(kind, **how):
            world.clock.now += 1000
            yield row

    monkeypatch.setattr(world.refs, "scan", slow)
    sweeper = Sweeper(world, Publisher(world))
    for sweep in range(1, 4):
        swept = sweeper.sweep(until_ms=world.clock.now + 10_000, each_ms=10_000, workers=1)
        assert (swept.tables, swept.round.count, swept.complete) == (4, 8, False), "half of the time is for publishing"
        assert sum(table.head.floor == table.head.latest for table in tables) == 4 * sweep
    swept = sweeper.sweep(until_ms=world.clock.now + 100_000, each_ms=10_000)
    assert (swept.tables, swept.complete) == (len(tables), True)


def test_a_look_at_tables_for_the_sweeper_may_be_stale_and_one_for_gc_may_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = fake_world()
    how = list[bool]()
    scan = world.refs.scan

    def noted(kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        how.append(stale)
        return scan(kind, after=after, stale=stale)

    monkeypatch.setattr(world.refs, "scan", noted)
    Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + 1000, each_ms=1000)
    assert how == [True]
    how.clear()
    collect(world)
    assert how and not any(how)


def test_i10_a_row_at_which_the_time_ended_has_another_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    world, looked = slow_world(monkeypatch, 5)
    run(world, 2.5, "staged")
    last = looked[-1]
    del looked[:]
    run(world, 2.5, "staged")
    assert looked[0] == last
