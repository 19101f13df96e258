"""The stream's function as it is deployed: records are hints, failures stay with their table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.delta_table import Table, table_id
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Context, Function
from turnstile.api.stream import OLD_MS
from turnstile.delta.attention import AttentionRow
from turnstile.store.core.errors import Throttled
from turnstile.store.core.names import published_path
from turnstile.store.core.writes import Write


def record(key: str, number: int = 1, *, pending: bool = True, image: bool = True) -> dict[str, Any]:
    change: dict[str, Any] = {"Keys": {"key": {"S": key}}, "SequenceNumber": str(number)}
    if image:
        change["NewImage"] = {"key": {"S": key}, **({"pending": {"N": "3"}} if pending else {})}
    return {"eventID": str(number), "eventName": "MODIFY", "dynamodb": change}


def records(*tables: Table) -> dict[str, Any]:
    return {"Records": [record(table.key, number) for number, table in enumerate(tables, start=1)]}


@pytest.fixture
def world() -> FakeWorld:
    return fake_world()


@pytest.fixture
def app(world: FakeWorld) -> Function:
    found = Function("publish")
    found.use_world(world)
    return found


def test_i11_every_table_that_a_batch_names_is_published(app: Function, world: FakeWorld) -> None:
    tables = [Table(world, table_id(number)) for number in range(4)]
    for table in tables:
        table.mixed(5)
    assert app.on_refs(records(*tables), Context()) == {"batchItemFailures": []}
    for table in tables:
        table.check_all_published()


def test_i4_duplicated_late_and_reordered_records_change_nothing(app: Function, world: FakeWorld) -> None:
    first = Table(world, table_id(1))
    second = Table(world, table_id(2))
    first.mixed(3)
    second.mixed(3)
    event = records(second, first, second, first, first)
    for _ in range(3):
        assert app.on_refs(event, Context()) == {"batchItemFailures": []}
    first.check_all_published()
    second.check_all_published()
    first.mixed(2)
    app.on_refs(event, Context())
    first.check_all_published()


def test_records_of_other_rows_and_without_pending_are_no_work(app: Function, world: FakeWorld) -> None:
    table = Table(world)
    table.mixed(2)
    requests = len(world.refs.requests)
    keys = ["test/catalog/main", "other/table/x", "test/location/file:///x"]
    event = {"Records": [*(record(key) for key in keys), record(table.key, pending=False), {}]}
    assert app.on_refs(event, Context()) == {"batchItemFailures": []}
    assert len(world.refs.requests) == requests
    app.on_refs({"Records": [record(table.key, image=False)]}, Context())
    table.check_all_published()


def test_i11_a_tables_own_failure_is_logged_and_never_reported(
    app: Function,
    world: FakeWorld,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TURNSTILE_METRICS", "all")
    good, stuck, damaged = (Table(world, table_id(number)) for number in range(3))
    for table in (good, stuck, damaged):
        table.mixed(3)
    stuck.put(published_path(2), b"foreign\n")
    damaged.row["tail"] = [b"not an entry"]
    event = records(stuck, damaged, good)
    event["Records"].append(record(world.space.table(table_id(9)), 4))
    assert app.on_refs(event, Context()) == {"batchItemFailures": []}
    good.check_all_published()
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    logged: list[Any] = caplog.records
    warned = {line.problem["table_id"] for line in logged if line.levelname == "WARNING"}
    assert warned == {stuck.id, damaged.id, table_id(9)}
    metrics = next(line for line in lines if "_aws" in line)
    assert metrics["published"] == [4.0]
    assert metrics["failures"] == [3.0]
    assert metrics["stuck"] == [1.0]
    assert metrics["behind"] == [2.0]
    assert {"lag_ms", "tables", "left"} <= metrics.keys()


def test_a_store_that_does_not_answer_sends_the_whole_batch_back(app: Function, world: FakeWorld) -> None:
    tables = [Table(world, table_id(number)) for number in range(3)]

    def unreachable(key: str) -> None:
        raise ConnectionError("refs")

    world.refs.read = unreachable  # type: ignore[method-assign, assignment]
    assert app.on_refs(records(*tables), Context()) == {"batchItemFailures": [{"itemIdentifier": "1"}]}


def test_i11_what_a_batch_leaves_is_noted_for_the_sweeper(app: Function, world: FakeWorld) -> None:
    good, stuck, gone = (Table(world, table_id(number)) for number in range(3))
    good.mixed(2)
    stuck.mixed(3)
    stuck.put(published_path(2), b"foreign\n")
    app.on_refs(records(good), Context())
    assert world.refs.read(world.space.attention()) is None, "what goes well costs no request"
    app.on_refs(records(good, stuck), Context())
    gone.mixed(1)
    app.on_refs(records(gone), Context(1_000))
    notes = AttentionRow(world).read().tables()
    assert notes.keys() == {stuck.id, gone.id}


def test_i11_a_batch_whose_note_could_not_be_written_goes_back(app: Function, world: FakeWorld) -> None:
    stuck = Table(world, table_id(1))
    stuck.mixed(3)
    stuck.put(published_path(2), b"foreign\n")
    write = world.refs.write

    def throttled(change: Write) -> Any:
        if change.key == world.space.attention():
            raise Throttled
        return write(change)

    world.refs.write = throttled  # type: ignore[method-assign]
    assert app.on_refs(records(stuck), Context()) == {"batchItemFailures": [{"itemIdentifier": "1"}]}


def test_i11_a_record_that_comes_late_asks_for_a_look_at_all_tables_once_in_a_while(
    app: Function, world: FakeWorld
) -> None:
    table = Table(world)
    wanted = AttentionRow(world).read().wanted
    for age_ms, asked in ((1_000, 0), (OLD_MS + 1_000, 1), (OLD_MS + 1_000, 1)):
        event = records(table)
        event["Records"][0]["dynamodb"]["ApproximateCreationDateTime"] = (world.clock.now - age_ms) / 1000
        app.on_refs(event, Context())
        assert AttentionRow(world).read().wanted == wanted + asked
    world.clock.now += 2 * OLD_MS
    app.on_refs(event, Context())
    assert AttentionRow(world).read().wanted == wanted + 2


def test_an_invocation_that_has_no_time_left_leaves_the_rest_to_the_sweeper(app: Function, world: FakeWorld) -> None:
    table = Table(world)
    table.mixed(3)
    assert app.on_refs(records(table), Context(1_000)) == {"batchItemFailures": []}
    assert table.head.floor == 0
    assert table.head.pending is not None


def test_settings_are_judged_at_the_cold_start_of_a_deployed_function() -> None:
    with pytest.raises(ValueError, match="TURNSTILE_REFS_TABLE"):
        Function("publish", AWS_LAMBDA_FUNCTION_NAME="publish", TURNSTILE_REFS_TABLE="")
    tables = {"TURNSTILE_REFS_TABLE": "refs", "TURNSTILE_OBJS_TABLE": "objs"}
    with pytest.raises(ValueError, match="TURNSTILE_PUBLISH_WORKERS"):
        Function("publish", AWS_LAMBDA_FUNCTION_NAME="publish", **tables, TURNSTILE_PUBLISH_WORKERS="many")
    with pytest.raises(ValueError, match="TURNSTILE_FAULT_POINT"):
        Function("publish", AWS_LAMBDA_FUNCTION_NAME="publish", **tables, TURNSTILE_FAULT_POINT="nowhere")
    Function("publish", AWS_LAMBDA_FUNCTION_NAME="publish", **tables)
