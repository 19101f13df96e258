"""Events reach targets at least once and in order, with any failure between; a gap is reported
(I14)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

import pytest

from tests.support.delta_table import Killed, Table, kill_at
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.support.meter import Meter, metered
from turnstile.delta.publish import Publisher
from turnstile.events.append import RETENTION_MS, Appender, chunk_obj, enlisted_catalogs
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.core.deliveries import HELD_MS, LONGEST_PAUSE_MS, EventDelivery, pause_ms
from turnstile.events.core.events import TABLE_RATIFIED
from turnstile.events.core.rows import EventLog
from turnstile.events.deliver import EVENTS_LOST, Delivered, Deliverer, NotDelivered
from turnstile.store.core.writes import Write
from turnstile.store.ports import Accepted, Rejected, World


class Inbox:
    """A target that keeps what it gets, and calls ``before`` with each batch."""

    name = "inbox"

    def __init__(self, most: int = 7) -> None:
        self.most = most
        self.batches: list[list[CloudEvent]] = []
        self.before: Callable[[], None] = lambda: None

    def send(self, events: Sequence[CloudEvent]) -> None:
        self.before()
        self.batches.append(list(events))

    @property
    def events(self) -> list[CloudEvent]:
        return [event for batch in self.batches for event in batch]

    @property
    def versions(self) -> list[int]:
        return [event.data["version"] for event in self.events if event.type == TABLE_RATIFIED]

    @property
    def first_seen(self) -> list[int]:
        """The versions without what was sent again."""
        return list(dict.fromkeys(self.versions))


class Down:
    """What a target does that does not acknowledge."""

    def __call__(self) -> None:
        raise NotDelivered("answered 500")


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def table(world: FakeWorld) -> Table:
    return Table(world)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


def commit(table: Table, count: int = 1) -> None:
    """``count`` commits with their events."""
    for _ in range(count):
        table.inline()
        if table.head.latest - table.head.floor > 40:
            Publisher(table.world).publish(table.id)
    Appender(table.world).append([table.key])


def deliver(world: World, inbox: Inbox) -> Delivered:
    return Deliverer(world, inbox).deliver("main")


def row_of(world: World, target: str = "inbox") -> EventDelivery:
    row = world.refs.read(world.space.event_delivery("main", target))
    assert row is not None
    return EventDelivery.from_row(row)


def test_i14_a_target_gets_every_event_once_and_in_order(world: FakeWorld, table: Table, inbox: Inbox) -> None:
    for _ in range(30):
        commit(table, 3)
        assert deliver(world, inbox).error == ""
    assert inbox.versions == list(range(1, 91))
    assert max(len(batch) for batch in inbox.batches) <= inbox.most
    assert len({event.id for event in inbox.events}) == len(inbox.events) == row_of(world).sent


def test_a_new_target_gets_all_that_is_kept_and_each_target_has_its_own_place(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 20)
    deliver(world, inbox)
    other = Inbox()
    other.name = "other"
    commit(table, 2)
    assert deliver(world, other).sent == len(other.events)
    assert (inbox.versions, other.versions) == (list(range(1, 21)), list(range(1, 23)))


def test_what_a_target_gets_is_what_a_reader_with_all_rights_gets(world: FakeWorld, table: Table, inbox: Inbox) -> None:
    commit(table)
    deliver(world, inbox)
    event = next(event for event in inbox.events if event.type == TABLE_RATIFIED)
    assert (event.source, event.subject) == ("/v1/catalogs/main", table.id)
    assert event.data["name"] == table.head.name
    assert event.time == "2026-02-02T02:40:00.003Z"


@pytest.mark.parametrize("point", ["delivery.held", "delivery.sent", "delivery.moved", "delivery.released"])
def test_i14_a_deliverer_that_dies_anywhere_leaves_nothing_out(point: str) -> None:
    died = 0
    for visit in range(1, 5):
        world = fake_world()
        inbox = Inbox(2)
        table = Table(world)
        for _ in range(8):
            commit(table, 3)
            try:
                Deliverer(world, inbox, faults=kill_at(point, visit)).deliver("main")
            except Killed:
                died += 1
                world.clock.now += HELD_MS
        deliver(world, inbox)
        assert inbox.first_seen == list(range(1, 25))
    assert died


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i14_a_write_that_fails_in_any_way_leaves_nothing_out(how: How) -> None:
    for at in range(1, 10):
        world = fake_world()
        inbox = Inbox(2)
        table = Table(world)
        commit(table, 5)
        faulty = Faulty(world, at, how)
        with contextlib.suppress(Crash):
            deliver(faulty.world, inbox)
        failed = len(faulty.writes) >= at
        world.clock.now += HELD_MS
        deliver(world, inbox)
        assert inbox.first_seen == [1, 2, 3, 4, 5], at
        if not failed:
            break
    assert at == 6, "the target is held, three batches are noted, it is released"


def test_i14_one_deliverer_has_the_target_and_what_comes_meanwhile_is_left_to_it(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 3)
    other = Inbox()
    met = []

    def meanwhile() -> None:
        if not met:
            commit(table, 2)
            met.append(deliver(world, other))

    inbox.before = meanwhile
    assert deliver(world, inbox).again_ms == 0
    assert other.batches == []
    assert met[0].again_ms > world.clock.now
    assert inbox.versions == [1, 2, 3, 4, 5]


def test_a_deliverer_that_is_alone_does_not_wait_for_one_that_died(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 3)
    with pytest.raises(Killed):
        Deliverer(world, inbox, faults=kill_at("delivery.held")).deliver("main")
    assert deliver(world, inbox).again_ms == row_of(world).held_until_ms
    assert Deliverer(world, inbox, alone=True).deliver("main").sent == len(inbox.events) > 0


def test_i14_what_is_appended_while_the_target_is_released_is_sent(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 3)
    met: list[Delivered] = []

    def faults(point: str) -> None:
        if point == "delivery.moved" and row_of(world).sent >= 4 and not met:
            commit(table, 2)
            met.append(deliver(world, Inbox()))

    Deliverer(world, inbox, faults=faults).deliver("main")
    assert met and met[0].sent == 0
    assert inbox.versions == [1, 2, 3, 4, 5]


def test_i14_a_deliverer_that_was_frozen_moves_no_place_that_another_one_moved(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 20)
    met: list[int] = []

    def frozen() -> None:
        if not met:
            met.append(1)
            world.clock.now += HELD_MS
            deliver(world, inbox)

    inbox.before = frozen
    deliver(world, inbox)
    assert inbox.first_seen == list(range(1, 21))
    deliver(world, inbox)
    assert [len(batch) for batch in inbox.batches] == [7, 7, 7, 7], (
        "the frozen one's batch comes again, and nothing after it"
    )


def test_i14_of_two_that_begin_with_a_new_target_one_has_it(world: FakeWorld, table: Table, inbox: Inbox) -> None:
    commit(table, 3)
    other = Inbox()
    write = world.refs.write

    def late(change: Write) -> Accepted | Rejected:
        world.refs.write = write  # type: ignore[method-assign]
        deliver(world, other)
        return write(change)

    world.refs.write = late  # type: ignore[method-assign]
    deliver(world, inbox)
    assert (inbox.versions, other.versions) == ([], [1, 2, 3])


def test_i14_a_target_that_fails_is_left_alone_for_longer_and_longer_and_then_gets_all(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 10)
    inbox.before = Down()
    pauses = []
    for failures in range(1, 15):
        done = deliver(world, inbox)
        assert (done.sent, done.error) == (0, "answered 500")
        assert row_of(world).failures == failures
        assert deliver(world, inbox) == Delivered(again_ms=done.again_ms), "nothing is sent during the pause"
        assert done.again_ms == row_of(world).pause_until_ms
        pauses.append(done.again_ms - row_of(world).changed_at)
        world.clock.now = done.again_ms
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[1], pauses[-1]) == (1_000, 2_000, LONGEST_PAUSE_MS)
    assert pause_ms(1_000_000) == LONGEST_PAUSE_MS
    inbox.before = lambda: None
    assert deliver(world, inbox).error == ""
    assert inbox.versions == list(range(1, 11))
    assert (row_of(world).failures, row_of(world).error) == (0, "")


def test_whatever_a_targets_client_raises_is_a_failure_of_the_target(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table)

    def broken() -> None:
        raise ZeroDivisionError("x" * 1000)

    inbox.before = broken
    assert deliver(world, inbox).error.startswith("ZeroDivisionError('xxx")
    assert len(row_of(world).error) == 300


def test_a_stopping_deliverer_sends_no_further_batch_and_releases_the_target(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 30)
    done = Deliverer(world, inbox).deliver("main", go_on=lambda: len(inbox.batches) < 2)
    assert len(inbox.batches) == 2
    assert done.again_ms
    assert row_of(world).held_until_ms == 0
    deliver(world, inbox)
    assert inbox.versions == list(range(1, 31))


# -- holes ------------------------------------------------------------------------------------------------------------


def test_i14_a_target_that_was_down_for_longer_than_events_are_kept_is_reported(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 3)
    deliver(world, inbox)
    for _ in range(20):
        commit(table, 3)
    world.clock.now += RETENTION_MS
    for _ in range(20):
        commit(table, 3)
    deliver(world, inbox)
    (lost,) = [number for number, event in enumerate(inbox.events) if event.type == EVENTS_LOST]
    assert inbox.events[lost].source == "/v1/catalogs/main"
    later = [event.data["version"] for event in inbox.events[lost + 1 :] if event.type == TABLE_RATIFIED]
    assert later == list(range(later[0], 124))
    assert 4 < later[0] <= 64


def test_i14_what_was_there_before_a_hole_is_sent_and_the_hole_is_reported_once(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    for _ in range(60):
        commit(table, 3)
    row = world.refs.read(world.space.event_log("main"))
    assert row is not None
    log = EventLog.from_row(row)
    assert log.chunk > 3
    world.objs.rows.pop((world.space.objs("main"), chunk_obj(log.log, 1)))
    deliver(world, inbox)
    assert sum(event.type == EVENTS_LOST for event in inbox.events) == 1
    missing = sorted({*range(1, 181)} - {*inbox.versions})
    assert missing == list(range(missing[0], missing[-1] + 1))
    assert missing[0] > 1
    assert missing[-1] < 180
    assert inbox.versions == sorted(inbox.versions)


@pytest.mark.parametrize("restored", ["another log", "behind the place", "gone"])
def test_i14_after_the_log_was_restored_its_followers_begin_with_the_oldest_and_are_reported(
    world: FakeWorld, table: Table, inbox: Inbox, restored: str
) -> None:
    commit(table, 3)
    key = world.space.event_log("main")
    early = dict(world.refs.rows[key])
    commit(table, 60)
    deliver(world, inbox)
    if restored == "another log":
        world.refs.rows[key]["log"] = "another"
        world.refs.rows[key]["chunk"] = 0
    elif restored == "behind the place":
        world.refs.rows[key] = early
    else:
        del world.refs.rows[key]
    before = len(inbox.events)
    deliver(world, inbox)
    assert [event.type == EVENTS_LOST for event in inbox.events[before:]].count(True) == 1
    assert inbox.events[before].type == EVENTS_LOST
    count = len(inbox.events)
    deliver(world, inbox)
    assert len(inbox.events) == count


# -- costs ------------------------------------------------------------------------------------------------------------


def test_a_pass_without_anything_to_send_writes_nothing_and_a_batch_costs_three_writes(
    world: FakeWorld, table: Table, inbox: Inbox
) -> None:
    commit(table, 3)
    assert deliver(world, inbox).sent
    meter = Meter()
    assert Deliverer(metered(world, meter), inbox).deliver("main") == Delivered()
    assert meter.requests == ["refs.read"] * 2
    meter.reset()
    commit(table, 3)
    assert Deliverer(metered(world, meter), inbox).deliver("main").sent == 3
    assert meter.write_units == 3
    assert list(enlisted_catalogs(world)) == ["main"]
