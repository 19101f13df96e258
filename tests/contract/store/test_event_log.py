"""The event log on every store: appenders that race leave nothing out and nothing twice, and a
reader goes on over chunks (I13)."""

from __future__ import annotations

import uuid

from tests.support.fakes.storage import FakeStorages
from tests.support.store.backends import Backend
from tests.support.threads import WRITERS, together
from turnstile.adapters import RandomIds, SystemClock
from turnstile.delta.core.head import new_head_row
from turnstile.events.append import Appender
from turnstile.events.core.cloud_events import FLEET
from turnstile.events.core.events import TABLE_RATIFIED, Event
from turnstile.events.fleet_log import FleetLog, fleet_event
from turnstile.events.read import EventReader
from turnstile.fleet.core.changes import JOINED, FleetChange
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Change, Clause, Equals, Insert, Set, new_row
from turnstile.store.ports import World

VERSIONS = 120


def _world(backend: Backend) -> World:
    clock = SystemClock()
    space = Space(f"events-{uuid.uuid4().hex[:8]}")
    return World(
        backend.refs(realm=space.realm), backend.objs(clock=clock), FakeStorages(clock), clock, RandomIds(), space
    )


def _table(world: World, catalog: str) -> str:
    id = str(uuid.uuid4())
    key = world.space.table(id)
    now = world.clock.now_ms()
    row = new_head_row(key=key, table_id=id, catalog=catalog, name=f"{catalog}.s.{id[:8]}",
                       location=f"file:///lake/{id}",
                       metadata="m", version=0, ict=now, row_hwm=None, created=now, managed=True)  # fmt: skip
    world.refs.write(Insert(row, (new_row("I2"),)))
    return id


def _advance(world: World, id: str) -> None:
    """All versions, one after the other, published at once and out of the tail."""
    key = world.space.table(id)
    for version in range(1, VERSIONS + 1):
        before = Clause("next", "I1", "the one before", Equals(("latest",), version - 1))
        values = {"latest": version, "floor": version, "tail_from": version + 1}
        world.refs.write(Change(key, (before,), tuple(Set((name,), value) for name, value in values.items())))


def _events(world: World, catalog: str) -> list[Event]:
    reader = EventReader(world)
    events = list[Event]()
    place = reader.place(catalog, None)
    while page := list(reader.events(place)):
        events += [event for event, _ in page]
        place = page[-1][1]
    return events


def test_i13_appenders_that_race_with_commits_and_each_other_append_each_event_once(backend: Backend) -> None:
    world = _world(backend)
    catalog = f"c{uuid.uuid4().hex[:8]}"
    ids = [_table(world, catalog) for _ in range(3)]
    keys = [world.space.table(id) for id in ids]
    Appender(world).append(keys)

    def work(number: int) -> None:
        if number < len(ids):
            _advance(world, ids[number])
            return
        for _ in range(20):
            Appender(world).append(keys[number % 3 :] + keys[: number % 3])

    together(work)
    Appender(world).append(keys)
    events = _events(world, catalog)
    for id in ids:
        versions = [event.data["version"] for event in events if event.subject == id and event.type == TABLE_RATIFIED]
        assert versions == list(range(1, VERSIONS + 1))
    assert len({event.id for event in events}) == len(events)


def test_i13_members_that_append_events_of_the_fleet_at_once_leave_out_none_and_append_none_twice(
    backend: Backend,
) -> None:
    world = _world(backend)

    def work(number: int) -> None:
        for count in range(5):
            event = fleet_event(f"fleet/{number}/{count}", FleetChange(JOINED, f"m{number}"), f"m{number}", {}, 5)
            for _ in range(200):
                if FleetLog(world).append([event]):
                    break

    together(work)
    ids = [event.id for event in _events(world, FLEET)]
    for number in range(WRITERS):
        assert [id for id in ids if id.startswith(f"fleet/{number}/")] == [
            f"fleet/{number}/{count}" for count in range(5)
        ]
    assert len(ids) == len(set(ids))
