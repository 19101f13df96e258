"""The log of the fleet's events: appended once, read and sent like those of catalogs (I13, I14)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import LOSSES, Faulty, How
from turnstile.events.append import enlisted_catalogs
from turnstile.events.core.cloud_events import FLEET, CloudEvent
from turnstile.events.core.events import Event
from turnstile.events.core.rows import CHUNK_BYTES
from turnstile.events.deliver import Deliverer
from turnstile.events.fleet_log import FleetLog, fleet_event
from turnstile.events.read import EventReader
from turnstile.fleet.core.changes import JOINED, TAKEN_OVER, FleetChange

NAMES = {"a": "host-a:1", "b": "host-b:2"}


def events(first: int, count: int) -> list[Event]:
    joined = FleetChange(JOINED, "a")
    return [fleet_event(f"fleet/s/{number}", joined, "a", NAMES, 5) for number in range(first, first + count)]


def written(world: FakeWorld) -> list[str]:
    reader = EventReader(world)
    place = EventReader(world).place(FLEET, None)
    ids = list[str]()
    while page := list(reader.events(place)):
        ids += [event.id for event, _ in page]
        place = page[-1][1]
    return ids


def test_an_event_names_the_member_the_granules_and_the_epochs() -> None:
    taken = FleetChange(TAKEN_OVER, "b", "a", "publish", 32, 5, 9)
    assert fleet_event("i", taken, "b", NAMES, 7) == Event(
        "i", TAKEN_OVER, "b", "host-b:2", 7,
        {"by": "b", "role": "publish", "count": 32, "epochs": [5, 9], "from": "a", "from_name": "host-a:1"},
    )  # fmt: skip
    assert fleet_event("i", FleetChange(JOINED, "c"), "c", NAMES, 7) == Event("i", JOINED, "c", "", 7, {"by": "c"})


def test_i13_events_are_in_the_order_in_which_they_were_appended_over_chunks() -> None:
    world = fake_world()
    log = FleetLog(world)
    number = 0
    while sum(len(obj.payload) for obj in world.objs.rows.values()) < 3 * CHUNK_BYTES:
        assert log.append(events(number, 3))
        number += 3
    assert written(world) == [event.id for event in events(0, number)]
    assert list(enlisted_catalogs(world)) == [FLEET]


@pytest.mark.parametrize("how", LOSSES)
def test_i13_events_whose_append_had_no_answer_are_appended_again_and_are_there_once(how: How) -> None:
    world = fake_world()
    assert FleetLog(world).append(events(0, 2))
    faulty = Faulty(world, 1, how)
    assert not FleetLog(faulty.world).append(events(2, 2))
    assert FleetLog(world).append(events(2, 3)) and FleetLog(world).append(events(2, 3))
    assert written(world) == [event.id for event in events(0, 5)]


def test_i13_an_appender_that_loses_a_race_gets_an_error_and_nothing_of_it_is_appended() -> None:
    world = fake_world()
    assert FleetLog(world).append(events(0, 1))

    class Slow:
        """Refs of a member that another one overtakes after its read."""

        def __getattr__(self, name: str) -> object:
            return getattr(world.refs, name)

        def read(self, key: str) -> object:
            row = world.refs.read(key)
            assert FleetLog(world).append(events(1, 1))
            return row

    slow = replace(world, refs=Slow())  # type: ignore[arg-type]
    assert not FleetLog(slow).append(events(2, 1))
    assert written(world) == [event.id for event in events(0, 2)]


def test_i14_targets_get_events_of_the_fleet_as_cloud_events_of_their_own_source() -> None:
    world = fake_world()
    got = list[CloudEvent]()

    class Inbox:
        name = "inbox"
        most = 10

        def send(self, events: Sequence[CloudEvent]) -> None:
            got.extend(events)

    assert FleetLog(world).append(events(0, 1))
    assert Deliverer(world, Inbox()).deliver(FLEET).sent == 1
    assert [(event.source, event.type, event.subject, event.data) for event in got] == [
        ("/v1/fleet", JOINED, "a", {"name": "host-a:1", "by": "a"})
    ]
