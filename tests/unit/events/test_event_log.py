"""The log of events: appended once, in order, with any fault; read without a hole, or the reader is
told (I13)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.delta_table import TABLE, Killed, Table, kill_at, table_id
from tests.support.fakes.world import FakeWorld, copied, fake_world
from tests.support.faults import LOSSES, Faulty, How
from tests.support.meter import Meter, metered
from turnstile.delta.publish import Publisher
from turnstile.events.append import RETENTION_MS, Appender, behind
from turnstile.events.core.cursors import Place
from turnstile.events.core.events import TABLE_RATIFIED, Event, details_of
from turnstile.events.core.rows import APPEND_BYTES, CHUNK_BYTES
from turnstile.events.read import EventReader
from turnstile.store.core.errors import OutcomeUnknown, StateConflict
from turnstile.store.core.writes import Change, Insert, Set
from turnstile.store.ports import AllAccepted, SomeRejected


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def table(world: FakeWorld) -> Table:
    return Table(world)


def append(world: FakeWorld, *tables: Table, **more: object) -> int:
    return Appender(world).append([each.key for each in tables], **more).events  # type: ignore[arg-type]


def everything(world: FakeWorld, place: Place | None = None) -> tuple[list[Event], Place]:
    """All events behind ``place``, by as many calls as it takes."""
    reader = EventReader(world)
    events = list[Event]()
    place = place or reader.place("main", None)
    while page := list(reader.events(place)):
        events += [event for event, _ in page]
        place = page[-1][1]
    return events, place


def commit(table: Table, count: int) -> None:
    """``count`` commits; the HEAD has no room for many that are not published."""
    for _ in range(count):
        table.inline()
        if table.head.latest - table.head.floor > 40:
            Publisher(table.world).publish(table.id)


def versions(events: list[Event], id: str = TABLE) -> list[int]:
    return [event.data["version"] for event in events if event.type == TABLE_RATIFIED and event.subject == id]


def test_i13_commits_are_in_the_log_once_and_in_order_however_often_they_are_named(
    world: FakeWorld, table: Table
) -> None:
    for _ in range(3):
        commit(table, 4)
        for _ in range(2):
            append(world, table)
    assert versions(everything(world)[0]) == list(range(1, 13))


def test_i13_a_reader_goes_on_at_its_cursor_over_many_chunks(world: FakeWorld, table: Table) -> None:
    place = EventReader(world).place("main", None)
    seen = list[int]()
    for _ in range(40):
        commit(table, 3)
        append(world, table)
        events, place = everything(world, place)
        seen += versions(events)
    assert place.chunk > 3
    assert seen == versions(everything(world)[0]) == list(range(1, 121))


def test_i13_one_append_holds_many_tables_and_a_backlog_is_appended_in_steps(world: FakeWorld) -> None:
    tables = [Table(world, table_id(number)) for number in range(1, 251)]
    for each in tables[::50]:
        commit(each, 5)
    done = Appender(world).append([each.key for each in tables])
    assert (done.events, done.left) == (250 + 25, ())
    assert done.writes <= 5
    assert all(versions(everything(world)[0], each.id) == [1, 2, 3, 4, 5] for each in tables[::50])


def test_i13_a_backlog_of_a_table_with_a_long_name_fits_into_rows(world: FakeWorld) -> None:
    """A name has up to ten levels of 255 characters, and each event holds it."""
    long = Table(world, table_id(1))
    other = Table(world, table_id(2))
    commit(long, 400)
    commit(other, 3)
    long.row["name"] = "main." + ".".join(["ü" * 255] * 10)
    sizes = list[int]()
    transact = world.refs.transact

    def measured(writes: Sequence[Any], token: str) -> AllAccepted | SomeRejected:
        for write in writes:
            members = write.row if isinstance(write, Insert) else {a.path[0]: a.value for a in write.actions}
            sizes.append(len(members.get("tail", b"")))
        return transact(writes, token)

    world.refs.transact = measured  # type: ignore[method-assign]
    done = Appender(world).append([long.key, other.key])
    assert done.left == ()
    assert max(sizes) <= APPEND_BYTES + CHUNK_BYTES
    assert versions(everything(world)[0], long.id) == list(range(1, 401))
    assert versions(everything(world)[0], other.id) == [1, 2, 3]


@pytest.mark.parametrize("point", ["events.marks", "events.read", "events.sealed", "events.appended"])
def test_i13_an_appender_that_dies_anywhere_leaves_nothing_out_and_nothing_twice(point: str) -> None:
    for visit in range(1, 4):
        world = fake_world()
        table = Table(world)
        died = 0
        append(world, table)
        for _ in range(20):
            commit(table, 6)
            faults = kill_at(point, visit)
            try:
                Appender(world, faults=faults).append([table.key])
                Appender(world, faults=faults).append([table.key])
            except Killed:
                died += 1
        append(world, table)
        assert versions(everything(world)[0]) == list(range(1, 121))
        assert died or visit > 1


def test_i13_of_two_appenders_at_once_each_event_is_appended_by_one(world: FakeWorld, table: Table) -> None:
    commit(table, 3)

    met = []

    def faults(point: str) -> None:
        if point == "events.read" and not met:
            met.append(point)
            commit(table, 2)
            append(world, table)

    Appender(world, faults=faults).append([table.key])
    assert versions(everything(world)[0]) == [1, 2, 3, 4, 5]


def test_i13_an_appender_that_was_frozen_since_it_read_the_head_appends_nothing_old(
    world: FakeWorld, table: Table
) -> None:
    commit(table, 1)
    append(world, table)
    met = []

    def faults(point: str) -> None:
        if point == "events.read" and not met:
            met.append(point)
            world.refs.write(Change(table.key, (), (Set(("state",), "dropped"),)))
            append(world, table)

    world.refs.write(Change(table.key, (), (Set(("state",), "stuck"),)))
    Appender(world, faults=faults).append([table.key])
    types = [event.type.rpartition(".")[2] for event in everything(world)[0]]
    assert types == ["created", "ratified", "dropped"]


def test_i13_of_two_that_begin_a_log_one_does(world: FakeWorld, table: Table) -> None:
    other = Table(world, table_id(2))
    met = []

    def faults(point: str) -> None:
        if point == "events.read" and not met:
            met.append(point)
            append(world, other)

    Appender(world, faults=faults).append([table.key])
    assert [event.subject for event in everything(world)[0]] == [other.id, table.id]


@pytest.mark.parametrize("how", LOSSES)
def test_i13_an_append_whose_answer_is_lost_is_looked_for_and_not_made_twice(how: How) -> None:
    for at in range(1, 6):
        world = fake_world()
        table = Table(world)
        faulty = Faulty(world, at, how)
        for _ in range(3):
            commit(table, 40)
            with contextlib.suppress(OutcomeUnknown):  # of a chunk: the hint is delivered again
                Appender(faulty.world).append([table.key])
            append(world, table)
        events = everything(world)[0]
        assert versions(events) == list(range(1, 121))
        assert len({event.id for event in events}) == len(events)


def test_i13_marks_are_read_before_heads(world: FakeWorld, table: Table) -> None:
    """Otherwise a HEAD that is older than its mark would undo the log's state."""
    commit(table, 1)

    def faults(point: str) -> None:
        if point == "events.marks":
            reads.append(point)

    reads: list[str] = []
    refs: Any = world.refs
    read_many = refs.read_many
    refs.read_many = lambda keys: (reads.append(keys[0].split("/")[1]), read_many(keys))[1]
    Appender(world, faults=faults).append([table.key])
    assert reads == ["event-mark", "events.marks", "table"]


def test_i13_threads_that_append_at_once_leave_nothing_out_and_nothing_twice(world: FakeWorld) -> None:
    tables = [Table(world, table_id(number)) for number in range(1, 5)]
    for each in tables:
        commit(each, 30)
    keys = [each.key for each in tables]
    threads = [threading.Thread(target=Appender(world).append, args=(keys[n:] + keys[:n],)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events = everything(world)[0]
    assert all(versions(events, each.id) == list(range(1, 31)) for each in tables)
    assert len({event.id for event in events}) == len(events)


def test_i13_a_head_that_cannot_be_read_keeps_no_others_events_back(world: FakeWorld, table: Table) -> None:
    other = Table(world, table_id(2))
    commit(table, 2)
    commit(other, 2)
    world.refs.rows[other.key]["tail"] = [b"nonsense"]
    done = Appender(world).append([other.key, table.key])
    assert [problem.key for problem in done.unreadable] == [other.key]
    assert versions(everything(world)[0]) == [1, 2]


def test_details_that_were_seen_on_the_way_are_in_the_event(world: FakeWorld, table: Table) -> None:
    commit(table, 12)
    sights = {table.key: details_of(table.head)}
    Publisher(world).publish(TABLE)
    append(world, table, sights=sights)
    assert all(event.time for event in everything(world)[0] if event.type == TABLE_RATIFIED)


def test_i13_heads_that_no_hint_named_are_found(world: FakeWorld, table: Table) -> None:
    other = Table(world, table_id(2))
    commit(table, 2)
    append(world, table)
    assert list(behind(world, Appender(world))) == [other.key]
    commit(table, 1)
    assert set(behind(world, Appender(world))) == {table.key, other.key}


def test_i13_events_are_kept_for_the_retention_and_a_cursor_from_before_is_reported(
    world: FakeWorld, table: Table
) -> None:
    append(world, table)
    old = EventReader(world).place("main", None)
    while EventReader(world).place("main", "now").chunk < 2:
        commit(table, 3)
        append(world, table)
    kept = EventReader(world).place("main", "now")
    world.clock.now += RETENTION_MS
    with pytest.raises(StateConflict) as refused:
        everything(world, old)
    assert refused.value.type == "CursorExpired"
    assert "not kept" in refused.value.message
    assert everything(world, kept) == ([], kept)
    commit(table, 1)
    append(world, table)
    assert len(versions(everything(world, kept)[0])) == 1
    assert versions(everything(world)[0])[-1] == table.head.latest


def test_i13_a_chunk_that_is_missing_is_not_passed_over(world: FakeWorld, table: Table) -> None:
    append(world, table)
    start = EventReader(world).place("main", None)
    while EventReader(world).place("main", "now").chunk < 3:
        commit(table, 3)
        append(world, table)
    (second,) = [key for key in world.objs.rows if key[1].endswith("/000000000001")]
    del world.objs.rows[second]
    with pytest.raises(StateConflict):
        everything(world, start)


def test_i13_a_log_that_was_restored_behind_its_chunks_is_begun_anew(world: FakeWorld, table: Table) -> None:
    commit(table, 3)
    append(world, table)
    restored = copied(world)
    while EventReader(world).place("main", "now").chunk < 2:
        commit(table, 3)
        append(world, table)
    cursor = EventReader(world).place("main", "now")
    world.refs.rows.clear()
    world.refs.rows.update(restored.refs.rows)
    for number in range(2, 60):
        other = Table(world, table_id(number))
        append(world, other)
    with pytest.raises(StateConflict):
        everything(world, cursor)
    assert everything(world)[0][-1].subject == table_id(59)


def test_a_hundred_commits_in_one_batch_cost_one_write_and_singly_a_bounded_number() -> None:
    """ADR 26: the cost of a log without readers."""
    world = fake_world()
    table = Table(world)
    append(world, table)
    meter = Meter()
    counted = metered(world, meter)
    commit(table, 100)
    done = Appender(counted).append([table.key] * 100)
    assert (done.events, done.writes) == (101, 1)  # and one of what is published
    assert meter.requests == ["refs.read_many", "refs.read_many", "refs.read", "refs.transact"]
    meter.reset()
    writes = 0
    for _ in range(100):
        Publisher(world).publish(TABLE)
        commit(table, 1)
        writes += Appender(counted).append([table.key]).writes
    assert writes == 100
    assert meter.requests.count("refs.transact") == 100
    assert meter.requests.count("objs.put") <= 100 * 400 // CHUNK_BYTES
    assert meter.write_units < 100 * 14
