"""Several tables at once, and the sweeper: nobody waits for a table that cannot be published
(I11)."""

from __future__ import annotations

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import fake_world
from turnstile.delta.publish import Publisher
from turnstile.delta.sweep import StoreUnreachable, Sweeper, publish_hinted, publish_tables
from turnstile.store.core.errors import Throttled
from turnstile.store.core.names import published_path

LATER = 10_000_000


@pytest.mark.parametrize("workers", [1, 4])
def test_i11_a_table_that_cannot_be_published_does_not_delay_the_others(workers: int) -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(6)]
    for table in tables:
        table.mixed(5)
    tables[0].put(published_path(2), b"foreign\n")
    answer = publish_tables(
        world,
        Publisher(world),
        [table.id for table in tables],
        until_ms=world.clock.now + LATER,
        each_ms=LATER,
        workers=workers,
    )
    assert [one.table_id for one in answer.problems] == [tables[0].id]
    assert not answer.nothing_readable
    for table in tables[1:]:
        table.check_all_published()


def test_one_turn_is_bounded_and_tables_without_a_turn_are_named() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(3)]
    for table in tables:
        table.mixed(8)
    world.clock.step = 10
    ids = [table.id for table in tables]
    until = world.clock.now + 250
    answer = publish_tables(world, Publisher(world), ids, until_ms=until, each_ms=150, workers=1)
    assert answer.published
    assert answer.behind > 0
    assert 0 < answer.published[0].floor < 8, "its own turn was over before the round was"
    assert set(answer.left) == set(ids) - {one.table_id for one in answer.published}
    assert answer.left


def test_duplicates_and_order_of_hints_do_not_matter() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(3)]
    for table in tables:
        table.mixed(4)
    ids = [table.id for table in reversed(tables)] * 3
    answer = publish_tables(world, Publisher(world), ids, until_ms=world.clock.now + LATER, each_ms=LATER)
    assert len(answer.published) == 3
    for table in tables:
        table.check_all_published()


def test_an_unexpected_failure_of_one_table_is_its_own() -> None:
    world = fake_world()
    good = Table(world, table_id(1))
    bad = Table(world, table_id(2))
    good.mixed(3)
    bad.mixed(3)
    bad.row["tail"] = [b"not an entry"]
    ids = [bad.id, good.id, table_id(3)]
    answer = publish_tables(world, Publisher(world), ids, until_ms=world.clock.now + LATER, each_ms=LATER)
    assert {one.table_id for one in answer.failed} == {bad.id, table_id(3)}
    assert not answer.nothing_readable
    good.check_all_published()


def test_a_store_that_cannot_be_read_differs_from_tables_that_fail() -> None:
    world = fake_world()

    def unreachable(key: str) -> None:
        raise ConnectionError("refs")

    world.refs.read = unreachable  # type: ignore[method-assign, assignment]
    ids = [table_id(1), table_id(2)]
    until = world.clock.now + LATER
    answer = publish_tables(world, Publisher(world), ids, until_ms=until, each_ms=LATER)
    assert answer.nothing_readable
    with pytest.raises(StoreUnreachable):
        publish_hinted(world, Publisher(world), ids, until_ms=until, each_ms=LATER)


def test_a_row_that_is_throttled_alone_is_its_tables_own_failure() -> None:
    world = fake_world()
    original = world.refs.read

    def hot(key: str):  # type: ignore[no-untyped-def]
        if key.endswith(table_id(1)):
            raise Throttled
        return original(key)

    world.refs.read = hot  # type: ignore[method-assign]
    until = world.clock.now + LATER
    answer = publish_hinted(world, Publisher(world), [table_id(1)], until_ms=until, each_ms=LATER)
    assert answer.totals()["failures"] == 1
    assert answer.complaints()[0]["table_id"] == table_id(1)


def test_i11_the_sweeper_finds_every_table_whose_stream_record_was_lost() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(5)]
    for table in tables[:3]:
        table.mixed(3)
    tables[3].inline()
    Publisher(world).publish(tables[3].id)
    tables[3].row["pending"] = 1  # a crash between two publishers left it
    swept = Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + LATER, each_ms=LATER)
    assert swept.tables == 5
    assert len(swept.round.published) == 4
    for table in tables:
        table.check_all_published()
    again = Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + LATER, each_ms=LATER)
    assert again.round.published == ()


def test_i11_the_sweeper_serves_the_longest_wait_first_and_stuck_tables_last() -> None:
    world = fake_world()
    tables = [Table(world, table_id(number)) for number in range(4)]
    for number in (2, 0, 3):
        tables[number].mixed(2)
    tables[1].mixed(1)
    tables[2].put(published_path(1), b"foreign\n")
    Publisher(world).publish(tables[2].id)
    swept = Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + LATER, each_ms=LATER, workers=1)
    order = [one.table_id for one in swept.round.published]
    assert order == [tables[number].id for number in (0, 3, 1, 2)]


def test_i11_a_table_waits_since_its_oldest_commit_that_is_not_published() -> None:
    """And not since one before that, which the row still carries."""
    world = fake_world()
    early = Table(world, table_id(1))
    late = Table(world, table_id(0))
    late.mixed(2)
    Publisher(world).publish(late.id)
    early.mixed(1)
    late.mixed(1)
    assert late.head.tail_from <= late.head.floor
    swept = Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + LATER, each_ms=LATER, workers=1)
    assert [one.table_id for one in swept.round.published] == [early.id, late.id]


def test_the_sweeper_leaves_dropped_tables_alone_and_reports_damaged_rows() -> None:
    world = fake_world()
    dropped, damaged, good = (Table(world, table_id(number)) for number in range(3))
    for table in (dropped, damaged, good):
        table.mixed(2)
    dropped.row["state"] = "dropped"
    del damaged.row["tail_ict"]
    swept = Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + LATER, each_ms=LATER)
    assert [one.table_id for one in swept.unreadable] == [damaged.id]
    assert [one.table_id for one in swept.round.published] == [good.id]
    assert sorted(dropped.published()) == [0]
