"""The scheduled functions as they are deployed: sweep heals what the stream lost, collect removes
or only says so."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import SCHEDULED, Context, Function
from tests.support.gc import GRACE, days, everything, stage_table
from turnstile.delta.publish import Publisher
from turnstile.store.core.names import published_path


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def app(world: FakeWorld) -> Function:
    function = Function("gc")
    function.use_world(world, grace=GRACE)
    return function


def test_i11_a_sweep_publishes_every_table_whose_record_was_lost(app: Function, world: FakeWorld) -> None:
    tables = [Table(world, table_id(number)) for number in range(3)]
    for table in tables:
        table.mixed(4)
    tables[1].put(published_path(1), b"foreign\n")
    totals = app.sweep(SCHEDULED, Context())
    assert (totals["heads"], totals["published"], totals["failures"], totals["stuck"]) == (3, 8, 1, 1)
    for table in (tables[0], tables[2]):
        table.check_all_published()
    json.dumps(totals)


def test_i11_a_sweep_without_time_leaves_everything_to_the_next(app: Function, world: FakeWorld) -> None:
    table = Table(world)
    table.mixed(3)
    assert app.sweep(SCHEDULED, Context(1_000))["left"] == 1
    app.sweep(SCHEDULED, Context())
    table.check_all_published()


def test_i11_a_scheduled_sweep_looks_at_few_rows_and_an_event_has_it_look_at_all(
    app: Function, world: FakeWorld
) -> None:
    tables = [Table(world, table_id(number)) for number in range(90)]
    app.sweep(SCHEDULED, Context())
    for table in tables:
        table.inline()
    looked = app.sweep(SCHEDULED, Context())["heads"]
    assert looked < 90
    assert app.sweep({"full": True}, Context())["heads"] == 90
    for table in tables:
        table.check_all_published()


def test_i1_i10_an_event_after_a_restore_stops_every_table_and_publishes_nothing(
    app: Function, world: FakeWorld
) -> None:
    tables = [Table(world, table_id(number)) for number in range(3)]
    for table in tables:
        table.mixed(4)
    tables[2].row["state"] = "dropped"
    assert app.sweep({"restored": True}, Context()) == {"restored": 2}
    assert [table.head.state for table in tables] == ["recovering", "recovering", "dropped"]
    assert [table.head.floor for table in tables] == [0, 0, 0]
    app.sweep(SCHEDULED, Context())
    for table in tables[:2]:
        table.check_all_published()
    with pytest.raises(msgspec.ValidationError, match="restore"):
        app.sweep({"restore": True}, Context())


def test_a_dry_run_by_event_says_what_the_schedule_then_removes(app: Function, world: FakeWorld) -> None:
    stage_table(world, table_id(7))
    table = Table(world, table_id(1))
    table.stage(lose=True)
    table.mixed(8)
    Publisher(world).publish(table.id)
    days(world, 3)
    before = everything(world)
    dry = app.collect({"dry_run": True}, Context())
    assert everything(world) == before
    assert {item["kind"] for item in dry["items"]} == {"staged", "staging", "objs"}
    assert set(dry["items"][0]) == {"kind", "id", "bytes", "unreachable_since", "age_ms"}
    assert dry["deleted"] == 0
    done = app.collect(SCHEDULED, Context())
    assert done == {
        "items": len(dry["items"]),
        "bytes": dry["bytes"],
        "deleted": len(dry["items"]),
        "freed": dry["bytes"],
        "problems": 0,
        "incomplete": 0,
    }
    table.check_all_published()


def test_an_event_names_the_kinds(app: Function, world: FakeWorld) -> None:
    stage_table(world, table_id(7))
    days(world, 3)
    assert app.collect({"dry_run": True, "kinds": ["staged", "objs"]}, Context())["items"] == ()
    assert len(app.collect({"kinds": ["staging"]}, Context())["items"]) == 1


@pytest.mark.parametrize("event", [{"dryrun": True}, {"dry_run": "yes"}, {"kinds": ["everything"]}, {"most": "all"}])
def test_an_event_with_a_typing_error_removes_nothing(event: dict[str, object], app: Function) -> None:
    with pytest.raises(msgspec.ValidationError):
        app.collect(event, Context())


def test_settings_are_judged_at_the_cold_start_of_a_deployed_function() -> None:
    deployed = {
        "AWS_LAMBDA_FUNCTION_NAME": "gc",
        "TURNSTILE_REFS_TABLE": "refs",
        "TURNSTILE_OBJS_TABLE": "objs",
    }
    with pytest.raises(ValueError, match="TURNSTILE_DROP_GRACE_HOURS"):
        Function("gc", **deployed, TURNSTILE_DROP_GRACE_HOURS="0")
    Function("gc", **deployed)
