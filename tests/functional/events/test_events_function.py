"""The function that makes events of the stream: every version once, details from images, batches
that fail sent again (I13)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.delta_table import TABLE, Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Context, Function
from tests.support.repository import ROOT
from turnstile.adapters.dynamo.models import model_of, row_of_image, to_item
from turnstile.api import event_stream
from turnstile.api.event_stream import DELIVER
from turnstile.delta.publish import Publisher
from turnstile.events.append import Appender, enlisted_catalogs
from turnstile.events.core.cloud_events import CloudEvent
from turnstile.events.core.deliveries import LONGEST_PAUSE_MS
from turnstile.events.core.events import TABLE_RATIFIED, Event
from turnstile.events.deliver import NotDelivered
from turnstile.events.read import EventReader
from turnstile.store.core.errors import Throttled
from turnstile_local.deployment import read_template

SCHEDULED = {"source": "aws.events"}


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def app(world: FakeWorld) -> Function:
    made = Function("events")
    made.use_world(world)
    return made


def _text(value: Any) -> Any:
    """An attribute value as Lambda hands it on: PynamoDB serialises binaries as base64 already, or
    as bytes."""
    import base64

    ((kind, stored),) = value.items()
    if kind == "B":
        return {kind: base64.b64encode(stored).decode() if isinstance(stored, bytes) else stored}
    return {kind: [_text(member) for member in stored]} if kind == "L" else {kind: stored}


def record(table: Table) -> dict[str, Any]:
    image = {name: _text(value) for name, value in to_item(model_of(table.key), dict(table.row)).items()}
    change = {"Keys": {"key": {"S": table.key}}, "SequenceNumber": str(table.head.latest), "NewImage": image}
    return {"eventName": "MODIFY", "dynamodb": change}


def events(world: FakeWorld) -> list[Event]:
    reader = EventReader(world)
    return [event for event, _ in reader.events(reader.place("main", None))]


def ratified(world: FakeWorld, id: str = TABLE) -> list[int]:
    return [event.data["version"] for event in events(world) if event.type == TABLE_RATIFIED and event.subject == id]


def test_i13_the_schedule_finds_what_the_stream_lost_in_as_many_runs_as_there_are_parts(
    app: Function, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "ROWS_MAX", 20)
    tables = [Table(world, table_id(number)) for number in range(12)]
    app.on_refs(SCHEDULED, Context())
    assert len(events(world)) == 12, "the first run looks at all rows"
    for table in tables:
        table.inline()
    runs = 0
    while len([event for event in events(world) if event.type == TABLE_RATIFIED]) < 12:
        app.on_refs(SCHEDULED, Context())
        runs += 1
        assert runs < 20
    assert runs > 1


def test_i13_a_record_that_comes_late_has_all_rows_looked_at_and_so_does_a_person(
    app: Function, world: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_stream, "ROWS_MAX", 1)
    tables = [Table(world, table_id(number)) for number in range(12)]
    app.on_refs(SCHEDULED, Context())
    for looked_at_all in ("late record", "event"):
        for table in tables:
            table.inline()
        late = record(tables[0])
        late["dynamodb"]["ApproximateCreationDateTime"] = (world.clock.now - event_stream.OLD_MS - 60_000) / 1000
        world.clock.now += event_stream.OLD_MS * 2 if looked_at_all == "event" else 0
        app.on_refs({"Records": [late]} if looked_at_all == "late record" else event_stream.FULL, Context())
        app.on_refs(SCHEDULED, Context())
        assert all(table.head.latest in ratified(world, table.id) for table in tables), looked_at_all


def test_a_log_that_older_code_made_is_put_on_the_list_of_logs(app: Function, world: FakeWorld) -> None:
    Appender(world).append([Table(world).key])
    (listed,) = [key for key in world.objs.rows if "event-log/" in key[1]]
    del world.objs.rows[listed]
    assert list(enlisted_catalogs(world)) == []
    app.on_refs(SCHEDULED, Context())
    assert list(enlisted_catalogs(world)) == ["main"]


def test_an_image_is_the_row(world: FakeWorld) -> None:
    table = Table(world)
    table.mixed(5)
    assert row_of_image(table.key, record(table)["dynamodb"]["NewImage"]) == {
        name: value for name, value in table.row.items() if value != set()
    }


def test_i13_each_version_has_one_event_whatever_the_stream_repeats(app: Function, world: FakeWorld) -> None:
    table = Table(world)
    records = []
    app.on_refs({"Records": [record(table)]}, Context())
    for _ in range(12):
        table.inline()
        records.append(record(table))
    for batch in (records[:5], records[3:9], records, records[::-1]):
        assert app.on_refs({"Records": batch}, Context()) == {"batchItemFailures": []}
    assert ratified(world) == list(range(1, 13))


def test_versions_that_have_left_the_tail_are_reported_with_what_images_show(app: Function, world: FakeWorld) -> None:
    table = Table(world)
    records = []
    app.on_refs({"Records": [record(table)]}, Context())
    for _ in range(12):
        table.inline()
        records.append(record(table))
    Publisher(world).publish(TABLE)
    app.on_refs({"Records": records}, Context())
    told = [event for event in events(world) if event.type == TABLE_RATIFIED]
    assert len(told) == 12 and all(event.time and event.data["bytes"] for event in told)


def test_i13_a_batch_whose_events_could_not_be_appended_is_sent_again(app: Function, world: FakeWorld) -> None:
    table = Table(world)
    table.mixed(3)
    transact = world.refs.transact

    def throttled(*_: Any) -> Any:
        raise Throttled

    world.refs.transact = throttled  # type: ignore[method-assign]
    again = app.on_refs({"Records": [record(table)]}, Context())
    assert again == {"batchItemFailures": [{"itemIdentifier": "3"}]}
    world.refs.transact = transact  # type: ignore[method-assign]
    assert app.on_refs({"Records": [record(table)]}, Context()) == {"batchItemFailures": []}
    assert [event.type for event in events(world)][:1] == ["turnstile.table.created"]


def test_i13_a_record_that_cannot_be_read_keeps_no_other_back(app: Function, world: FakeWorld) -> None:
    table = Table(world)
    other = Table(world, table_id(2))
    broken = record(other)
    broken["dynamodb"]["NewImage"] = {"tail": {"L": [{"B": "!"}]}}
    other.row["tail"] = [b"nonsense"]
    foreign = {"dynamodb": {"Keys": {"key": {"S": "test/lease/x"}}, "SequenceNumber": "0"}}
    assert app.on_refs({"Records": [broken, foreign, record(table)]}, Context()) == {"batchItemFailures": []}
    assert [event.subject for event in events(world)] == [TABLE]


def test_i13_the_schedule_finds_what_the_stream_lost(app: Function, world: FakeWorld) -> None:
    table = Table(world)
    app.on_refs({"Records": [record(table)]}, Context())
    table.mixed(4)
    assert app.on_refs({"source": "aws.events"}, Context()) == {}
    assert ratified(world) == [1, 2, 3, 4]


# -- targets ----------------------------------------------------------------------------------------------------------


class Bus:
    """A target that takes everything, or nothing."""

    name = "bus"
    most = 10

    def __init__(self) -> None:
        self.versions: list[int] = []
        self.is_down = False

    def send(self, events: Sequence[CloudEvent]) -> None:
        if self.is_down:
            raise NotDelivered("ThrottlingException")
        self.versions += [event.data["version"] for event in events if event.type == TABLE_RATIFIED]


def test_i14_a_batch_that_a_target_does_not_take_is_sent_by_the_schedule_and_not_by_the_stream(
    app: Function, world: FakeWorld, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    bus = Bus()
    table = Table(world)
    app.use_world(world, event_targets=(bus,))
    table.mixed(2)
    assert app.on_refs({"Records": [record(table)]}, Context()) == {"batchItemFailures": []}
    assert bus.versions == [1, 2]
    bus.is_down = True
    table.mixed(2)
    assert app.on_refs({"Records": [record(table)]}, Context()) == {"batchItemFailures": []}
    assert bus.versions == [1, 2]
    assert ratified(world) == [1, 2, 3, 4]
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["failures"] == [1.0] and "sent" not in figures
    alarm = read_template(ROOT / "infra" / "alarms.yaml")["Resources"]["EventsNotTaken"]["Properties"]
    (described,) = figures["_aws"]["CloudWatchMetrics"]
    assert alarm["Namespace"] == described["Namespace"]
    assert [each["Name"] for each in alarm["Dimensions"]] == ["service", "function_name"]
    assert sorted(*described["Dimensions"]) == ["function_name", "service"]
    assert (alarm["MetricName"], alarm["Dimensions"][0]["Value"]) == ("failures", figures["service"])
    logged: list[Any] = caplog.records
    assert [each.cause for each in logged if each.message == "a target fails"] == ["ThrottlingException"]
    bus.is_down = False
    world.clock.now += LONGEST_PAUSE_MS
    assert app.on_refs(DELIVER, Context()) == {}
    assert bus.versions == [1, 2, 3, 4]


def test_i14_a_store_that_fails_while_events_are_sent_sends_no_batch_back(app: Function, world: FakeWorld) -> None:
    bus = Bus()
    table = Table(world)
    app.use_world(world, event_targets=(bus,))
    write = world.refs.write

    def throttled(*_: Any) -> Any:
        raise Throttled

    world.refs.write = throttled  # type: ignore[method-assign]
    assert app.on_refs({"Records": [record(table)]}, Context()) == {"batchItemFailures": []}
    world.refs.write = write  # type: ignore[method-assign]
    table.mixed(1)
    assert app.on_refs(DELIVER, Context()) == {}
    assert bus.versions == [], "its event is not in the log yet"
    app.on_refs({"Records": [record(table)]}, Context())
    assert bus.versions == [1]


def test_the_schedules_input_is_what_the_function_looks_for() -> None:
    events = read_template(ROOT / "template.yaml")["Resources"]["EventsFunction"]["Properties"]["Events"]
    assert json.loads(events["EveryFiveMinutes"]["Properties"]["Input"]) == DELIVER
