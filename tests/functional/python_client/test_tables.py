"""Tables in plain Python, over a real server's HTTP API, with real files: append, overwrite, read,
create."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from tests.support.flaky import Flaky
from tests.support.server import ServerOnS3, resting_background
from tests.support.server import server_on_s3 as running_on_s3
from turnstile_client import ApiError, Conflict, DataMismatch, Lake, OutcomeUnknown, Table, Unsupported, connect
from turnstile_client.steps import TableSteps
from turnstile_rows.definitions import _FOR_WRITERS, SETTABLE, Definition, new_definition
from turnstile_server import Server

ONE = dt.date(2026, 1, 1)
TWO = dt.date(2026, 1, 2)
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("city", pa.string())])


@pytest.fixture(scope="module")
def lake(server: Server) -> Iterator[Lake]:
    with connect(server.url) as lake:
        yield lake


@pytest.fixture
def table(lake: Lake) -> Table:
    return lake.create(f"default.p_{uuid4().hex[:12]}", SCHEMA, partition_by=["day"])


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (("x", "!=", 1.0), [0.0, -0.0, math.nan]), (("x", ">", 1.0), [math.nan]), (("x", "in", [0.0]), [0.0, -0.0]),
        (("x", "<", 1.0), [0.0, -0.0]), (("x", "=", math.nan), [math.nan]),
        (("x", "not in", [math.nan]), [0.0, -0.0, 1.0]),
    ],
    ids=str,
)  # fmt: skip
def test_the_plan_of_the_server_and_the_filter_of_the_client_agree_about_nan_and_zeros(
    lake: Lake, condition: tuple[str, str, Any], expected: list[float]
) -> None:
    """Each value in a file of its own: the server leaves out files by their statistics."""
    schema = pa.schema([("x", pa.float64())])
    table = lake.create(f"default.p_{uuid4().hex[:12]}", schema)
    for value in (0.0, -0.0, 1.0, math.nan):
        table.append(pa.table({"x": [value]}, schema))
    found = table.read(where=[condition])["x"].to_pylist()
    assert sorted(map(str, found)) == sorted(map(str, expected))


def rows(*ids: int, day: dt.date | None = ONE, city: str | None = "Bern") -> pa.Table:
    return pa.table({"id": ids, "day": [day] * len(ids), "city": [city] * len(ids)}, SCHEMA)


def ids(table: Table, **given: Any) -> list[int]:
    return sorted(table.read(["id"], **given)["id"].to_pylist())


def files(server: Server, table: Table) -> set[str]:
    with server.client() as api:
        namespace, _, name = table.name.rpartition(".")
        location = api.get(f"/v1/catalogs/main/namespaces/{namespace}/tables/{name}").json()["location"]
    return {path.name for path in Path(location.removeprefix("file://")).glob("*.parquet")}


def test_rows_are_appended_and_read_by_column_filter_and_version(table: Table) -> None:
    assert table.append(rows(1, 2)) == 1
    assert table.append(rows(3, day=TWO, city=None)) == 2
    assert ids(table) == [1, 2, 3]
    assert ids(table, where=[("day", "=", TWO)]) == [3]
    assert ids(table, where=[[("id", "<", 2)], [("city", "=", None)]]) == [1, 3]
    assert ids(table, where=[("id", "in", [2, 9])]) == [2]
    assert ids(table, version=1) == [1, 2]
    assert table.read().schema.names == ["id", "day", "city"]


@pytest.mark.parametrize(
    "given",
    [
        rows(7),
        rows(7).to_batches()[0],
        rows(7).to_reader(),
        pd.DataFrame({"id": [7], "day": [ONE], "city": ["Bern"]}),
        duckdb.sql("SELECT 7::BIGINT AS id, DATE '2026-01-01' AS day, 'Bern' AS city"),
    ],
    ids=["table", "batch", "reader", "pandas", "duckdb"],
)
def test_whatever_exports_arrow_is_appended(table: Table, given: Any) -> None:
    table.append(given)
    assert table.read().to_pylist() == [{"id": 7, "day": ONE, "city": "Bern"}]


def test_every_type_comes_back_as_it_was_written(lake: Lake) -> None:
    utc = dt.datetime(2026, 11, 24, 1, 2, 3, 456789, tzinfo=dt.UTC)
    values = {
        "b": (True, pa.bool_()), "i8": (-1, pa.int8()), "i16": (2, pa.int16()), "i32": (3, pa.int32()),
        "f": (0.5, pa.float32()),
        "d": (1e300, pa.float64()), "dec": (Decimal("1.20"), pa.decimal128(10, 2)), "bin": (b"\x00\xff", pa.binary()),
        "ts": (utc, pa.timestamp("us", "UTC")), "ntz": (utc.replace(tzinfo=None), pa.timestamp("us")),
        "l": ([1, None], pa.list_(pa.field("element", pa.int64()))),
        "m": ([("k", 1)], pa.map_(pa.string(), pa.field("value", pa.int64()))),
        "s": ({"x": 1, "y": None}, pa.struct([("x", pa.int32()), ("y", pa.string())])),
    }  # fmt: skip
    schema = pa.schema([(name, type) for name, (_, type) in values.items()])
    data = pa.table({name: pa.array([value, None], type) for name, (value, type) in values.items()}, schema)
    table = lake.create(f"default.p_{uuid4().hex[:12]}", schema)
    table.append(data)
    assert sorted(table.read().to_pylist(), key=str) == sorted(data.to_pylist(), key=str)


def test_an_append_with_one_id_is_committed_once_and_the_files_of_the_second_are_removed(
    server: Server, table: Table
) -> None:
    assert table.append(rows(1), id="message-1") == 1
    before = files(server, table)
    table.append(rows(2))
    assert table.append(rows(1), id="message-1") == 1
    assert ids(table) == [1, 2]
    assert len(files(server, table)) == len(before) + 1
    assert table.outcome("message-1") == 1
    assert table.outcome("message-2") is None


def leave_the_tail(server: Server, table: Table, version: int) -> None:
    """Appends and publishes until the table's HEAD has no entry of the version."""
    table_id = table._steps.load().table_id
    with server.client() as api:
        while api.get(f"/v1/tables/{table_id}/head").json()["tail"][0]["version"] <= version:
            table.append(rows(2))
            api.post(f"/v1/tables/{table_id}/publish").raise_for_status()


@pytest.mark.parametrize("inline_bytes", [200_000, 10], ids=["inline", "staged"])
def test_i26_an_append_with_one_id_is_committed_once_also_after_its_version_has_left_the_tail(
    server: Server, table: Table, monkeypatch: pytest.MonkeyPatch, inline_bytes: int
) -> None:
    monkeypatch.setattr("turnstile_client.steps.INLINE_BYTES", inline_bytes)
    assert table.append(rows(1), id="message-1") == 1
    leave_the_tail(server, table, 1)
    before = files(server, table)
    assert table.append(rows(1), id="message-1") == 1
    assert ids(table).count(1) == 1
    assert files(server, table) == before


@pytest.mark.parametrize("inline_bytes", [200_000, 10], ids=["inline", "staged"])
def test_i26_an_append_with_the_same_id_that_came_between_and_left_the_tail_is_found(
    server: Server, table: Table, monkeypatch: pytest.MonkeyPatch, inline_bytes: int
) -> None:
    look = Table._earlier

    def overtaken(self: Table, state: Any, id: str) -> int | None:
        monkeypatch.setattr(Table, "_earlier", look)
        found = look(self, state, id)
        assert Table(self._api, self.name, self._steps._open, 60.0).append(rows(1), id=id) == 1
        leave_the_tail(server, table, 1)
        return found

    monkeypatch.setattr("turnstile_client.steps.INLINE_BYTES", inline_bytes)
    monkeypatch.setattr(Table, "_earlier", overtaken)
    assert table.append(rows(1), id="message-1") == 1
    assert ids(table).count(1) == 1


def test_i26_a_staged_append_that_is_overtaken_again_and_by_one_with_its_id_returns_its_version(
    server: Server, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other append is made after the refusal of the first version, and before the HEAD is read
    again."""
    monkeypatch.setattr("turnstile_client.steps.INLINE_BYTES", 10)
    propose = TableSteps.propose
    load = TableSteps.load
    own = Table(table._api, table.name, table._steps._open, 60.0)
    done = list[str]()

    def overtaken(self: Table, proposal: Any, *given: Any, **named: Any) -> dict[str, Any]:
        monkeypatch.setattr(TableSteps, "propose", propose)
        own.append(rows(2))
        monkeypatch.setattr(TableSteps, "load", late)
        return propose(self, proposal, *given, **named)

    def late(self: Table) -> Any:
        monkeypatch.setattr(TableSteps, "load", load)
        done.append("once")
        assert own.append(rows(1), id="message-1") == 2
        leave_the_tail(server, own, 2)
        return load(self)

    monkeypatch.setattr(TableSteps, "propose", overtaken)
    assert table.append(rows(1), id="message-1") == 2
    assert done == ["once"]
    assert ids(table).count(1) == 1


def test_while_an_earlier_append_with_its_id_cannot_be_looked_for_nothing_is_appended(
    server: Server, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_answer(*_: Any, **__: Any) -> Any:
        raise ApiError(0, "NoAnswer", "the connection is gone")

    monkeypatch.setattr(table._api, "outcome", without_answer)
    with pytest.raises(OutcomeUnknown, match="earlier append with the id message-1"):
        table.append(rows(1), id="message-1")
    assert files(server, table) == set()
    assert table.append(rows(1)) == 1


def tracked_table(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A table that tracks rows, which this client does not create by itself."""
    with monkeypatch.context() as patched:
        patched.setitem(SETTABLE, "delta.checkpointInterval", ("rowTracking", "domainMetadata"))
        patched.setattr("turnstile_rows.definitions._FOR_WRITERS", {"rowTracking", *_FOR_WRITERS})
        properties = {"delta.checkpointInterval": "10"}
        return lake.create(f"default.p_{uuid4().hex[:12]}", SCHEMA, properties=properties)


def commit_of(server: Server, table: Table, version: int) -> list[dict[str, Any]]:
    """The actions of a version."""
    with server.client() as api:
        table_id = table._steps.load().table_id
        found = api.get(f"/v1/tables/{table_id}/commits", params={"content": "true"}).json()["commits"]
        for commit in found:
            if commit["version"] == version and "content" in commit:
                return [json.loads(line) for line in commit["content"].splitlines()]
    storage = table._steps.storage_of(table._steps.load().table_id, table._steps.load().location)
    content = storage.read(storage.path(f"_delta_log/{version:020d}.json")).decode()
    return [json.loads(line) for line in content.splitlines()]


def test_rows_of_a_table_that_tracks_them_get_ids_from_the_server(
    server: Server, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tracked_table(lake, monkeypatch)
    table.append(rows(1, 2))
    table.append(rows(3))
    added = [action["add"] for version in (1, 2) for action in commit_of(server, table, version) if "add" in action]
    assert [(each["baseRowId"], each["defaultRowCommitVersion"]) for each in added] == [(0, 1), (2, 2)]
    assert ids(table) == [1, 2, 3]
    with pytest.raises(Unsupported, match="rowTracking"):
        table.overwrite(rows(4))


def test_an_append_with_more_than_a_request_to_a_table_that_tracks_rows_is_to_be_made_in_parts(
    server: Server, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tracked_table(lake, monkeypatch)
    monkeypatch.setattr("turnstile_client.steps.INLINE_BYTES", 10)
    with pytest.raises(Unsupported, match="append the rows in parts"):
        table.append(rows(1))
    assert files(server, table) == set()
    assert table.version() == 0


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_table_that_maps_its_columns_is_appended_to_under_the_names_of_its_files(
    server: Server, lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    def mapped(fields: Any, partitions: Any, properties: Any, required: Any) -> Definition:
        made = new_definition(fields, partitions, {}, required)
        columns = tuple(
            {
                **column,
                "metadata": {"delta.columnMapping.id": at, "delta.columnMapping.physicalName": f"col-{at}"},
            }
            for at, column in enumerate(made.fields, start=1)
        )
        features = made.reader_features | {"columnMapping"}, made.writer_features | {"columnMapping"}
        return Definition(columns, made.partitions, properties, *features)

    with monkeypatch.context() as patched:
        patched.setattr("turnstile_client.lake.new_definition", mapped)
        properties = {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "3"}
        name = f"default.p_{uuid4().hex[:12]}"
        table = lake.create(name, SCHEMA, partition_by=["day"], properties=properties)
    assert table.append(rows(1, 2)) == 1
    added = next(action["add"] for action in commit_of(server, table, 1) if "add" in action)
    assert added["partitionValues"] == {"col-2": "2026-01-01"}
    assert json.loads(added["stats"])["maxValues"] == {"col-1": 2, "col-3": "Bern"}
    assert ids(table) == [1, 2]
    with pytest.raises(Unsupported, match="no files of it are replaced"):
        table.overwrite(rows(4))


def test_writers_at_once_lose_nothing(lake: Lake, table: Table) -> None:
    def append(first: int) -> None:
        own = lake.table(table.name)
        for number in range(5):
            own.append(rows(first + number))

    threads = [threading.Thread(target=append, args=(10 * writer,)) for writer in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ids(table) == sorted(10 * writer + number for writer in range(4) for number in range(5))


def test_partitions_or_all_rows_are_overwritten(table: Table) -> None:
    table.append(rows(1, 2))
    table.append(rows(3, day=TWO))
    table.append(rows(4, day=None))
    table.overwrite(rows(5, day=TWO), where=[("day", "=", TWO)])
    assert ids(table) == [1, 2, 4, 5]
    table.overwrite(rows(6, day=None), where=[("day", "=", None)])
    assert ids(table) == [1, 2, 5, 6]
    table.overwrite(rows(9))
    assert ids(table) == [9]
    table.overwrite(rows())
    assert ids(table) == []


def test_rows_are_deleted_by_partition_and_by_value_and_the_others_stay(server: Server, table: Table) -> None:
    table.append(rows(1, 2, 3))
    table.append(rows(4, 5, day=TWO, city=None))
    table.append(rows(6, day=None, city="Basel"))
    assert table.delete([("id", "=", 2)]) == 4
    assert ids(table) == [1, 3, 4, 5, 6]
    assert table.delete([("city", "!=", "Bern")]) == 5, "a city that is null is no other one than Bern"
    assert ids(table) == [1, 3, 4, 5]
    assert table.delete([("day", "=", TWO)]) == 6
    assert ids(table) == [1, 3]
    before = files(server, table)
    assert table.delete([("id", ">", 100)]) == 6, "nothing to delete is no version"
    assert files(server, table) == before
    assert table.version() == 6 and table.schema().names == SCHEMA.names and ids(table, version=3) == [1, 2, 3, 4, 5, 6]


def test_a_delete_that_was_overtaken_is_a_conflict_and_leaves_no_files(
    server: Server, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(rows(1, 2))
    before = files(server, table)
    planned = table._steps.plan_files

    def overtaken(*given: Any) -> Any:
        found = planned(*given)
        monkeypatch.setattr(table._steps, "plan_files", planned)
        Table(table._api, table.name, table._steps._open, table._deadline).append(rows(3))
        return found

    monkeypatch.setattr(table._steps, "plan_files", overtaken)
    with pytest.raises(Conflict):
        table.delete([("id", "=", 1)])
    assert ids(table) == [1, 2, 3] and len(files(server, table)) == len(before) + 1


def test_a_table_with_a_change_feed_is_deleted_from_by_partition_only(lake: Lake) -> None:
    table = lake.create(f"default.p_{uuid4().hex[:12]}", SCHEMA, partition_by=["day"])
    table.append(rows(1))
    definition = Definition.of_loaded(table._steps.load().metadata)
    assert not definition.is_set("delta.enableChangeDataFeed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Definition, "is_set", lambda _self, name: name == "delta.enableChangeDataFeed")
        with pytest.raises(Unsupported, match="change feed"):
            table.delete([("id", "=", 1)])
        assert table.delete([("day", "=", ONE)]) == 2
    assert ids(table) == []


def test_namespaces_are_made_listed_and_dropped_with_their_tables(lake: Lake) -> None:
    name = f"n_{uuid4().hex[:12]}"
    lake.create_namespace(name, "for this test", {"a": "1"})
    assert name in lake.namespaces()
    table = lake.create(f"{name}.t", SCHEMA)
    assert repr(table) == f"Table(main.{name}.t)" and repr(lake).endswith(", main)")
    with pytest.raises(ApiError, match=r"NamespaceNotEmpty|not empty"):
        lake.drop_namespace(name)
    assert lake.drop(f"{name}.t") and not lake.drop(f"{name}.t")
    assert lake.drop_namespace(name) and not lake.drop_namespace(name)


def test_a_delete_leaves_rows_of_which_its_conditions_say_nothing(lake: Lake) -> None:
    """A comparison with null is neither true nor false, in one file with rows of which it is
    true."""
    table = lake.create(f"default.n_{uuid4().hex[:12]}", SCHEMA)
    table.append(pa.table({"id": [None, 1, 2], "day": [ONE, ONE, None], "city": ["Bern", None, None]}, SCHEMA))
    table.delete([("id", "=", 1)])
    assert table.read(["id"])["id"].to_pylist() == [None, 2]
    table.delete([("day", "=", ONE)])
    assert ids(table) == [2]


def test_a_dropped_table_comes_back_with_its_rows_under_its_name_or_another(lake: Lake, table: Table) -> None:
    table.append(rows(1, 2))
    lake.drop(table.name)
    assert ids(lake.undrop(table.name)) == [1, 2]
    lake.drop(table.name)
    lake.create(table.name, SCHEMA)
    with pytest.raises(ApiError, match="give it another name"):
        lake.undrop(table.name)
    other = f"default.again_{uuid4().hex[:12]}"
    restored = lake.undrop(table.name, to=other, at=dt.datetime.now(dt.UTC))
    assert restored.name.endswith(other) and ids(restored) == [1, 2]
    with pytest.raises(ValueError, match="no zone"):
        lake.undrop(table.name, at=dt.datetime(2026, 1, 1))
    with pytest.raises(ApiError, match="was not dropped within the kept history"):
        lake.undrop("default.never_there")


def test_an_overwrite_that_was_overtaken_is_a_conflict_and_leaves_no_files(
    server: Server, lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(rows(1))
    written = TableSteps.write

    def overtaken(self: Table, *arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(TableSteps, "write", written)
        lake.table(table.name).append(rows(2))
        return written(self, *arguments, **more)

    monkeypatch.setattr(TableSteps, "write", overtaken)
    with pytest.raises(Conflict) as caught:
        table.overwrite(rows(3))
    assert caught.value.latest == 2
    assert ids(table) == [1, 2]
    assert len(files(server, table)) == 2


def test_a_lost_answer_is_found_out_by_sending_the_same_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    propose = table._api.propose
    lost = []

    def without_answer(table_id: str, proposal: dict[str, Any]) -> Any:
        answer = propose(table_id, proposal)
        if not lost:
            lost.append(proposal)
            raise ApiError(0, "NoAnswer", "the connection is gone")
        return answer

    monkeypatch.setattr(table._api, "propose", without_answer)
    assert table.append(rows(1)) == 1
    assert ids(table) == [1] and lost


def test_without_any_answer_the_outcome_is_unknown_and_the_files_stay(
    server: Server, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(server.url, deadline=0.3) as own:
        table = own.create(f"default.p_{uuid4().hex[:12]}", SCHEMA)
        propose = table._api.propose

        def without_answer(table_id: str, proposal: dict[str, Any]) -> Any:
            propose(table_id, proposal)
            raise ApiError(0, "NoAnswer", "the connection is gone")

        monkeypatch.setattr(table._api, "propose", without_answer)
        monkeypatch.setattr(TableSteps, "_ask", lambda *_: None)
        with pytest.raises(OutcomeUnknown) as caught:
            table.append(rows(1), id="message")
        assert (caught.value.table, caught.value.id) == (table.name, "message")
        monkeypatch.undo()
        assert ids(table) == [1], "it had been committed: its files must be there"
        assert table.append(rows(1), id="message") == 1


def test_a_crash_between_files_and_commit_leaves_the_table_as_it_was(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: Any) -> Any:
        raise Crash

    table.append(rows(1))
    monkeypatch.setattr(table._api, "propose", crash)
    with pytest.raises(Crash):
        table.append(rows(2))
    monkeypatch.undo()
    assert ids(table) == [1]


def test_an_append_that_is_too_large_for_a_request_goes_by_a_staged_file(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile_client.steps.INLINE_BYTES", 10)
    loaded = TableSteps.load

    def overtaken(self: TableSteps) -> Any:
        state = loaded(self)
        monkeypatch.setattr(TableSteps, "load", loaded)
        monkeypatch.setattr("turnstile_client.steps.INLINE_BYTES", 200_000)
        Table(self._api, self.name, self._open, 60.0).append(rows(1))
        monkeypatch.setattr("turnstile_client.steps.INLINE_BYTES", 10)
        return state

    monkeypatch.setattr(TableSteps, "load", overtaken)
    assert table.append(rows(2)) == 2
    assert ids(table) == [1, 2]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.table({"id": [1], "nope": [2]}), "columns that the table has not: 'nope'"),
        (pa.table({"id": ["x"]}), "column 'id' is string in the data and int64 in the table"),
        (pa.table({"id": pa.array([2**63], pa.uint64())}), "column 'id'"),
        (pa.table({"id": [1], "ID": [2]}), "twice"),
        (pa.table({"city": ["x"], "day": [ONE]}), None),
        ("text", "is no table"),
    ],
)
def test_data_that_does_not_fit_is_refused_with_its_column_and_leaves_no_files(
    server: Server, table: Table, data: Any, message: str | None
) -> None:
    if message is None:
        assert table.append(data) == 1
        return
    with pytest.raises(DataMismatch, match=message):
        table.append(data)
    assert files(server, table) == set()


def test_rows_outside_of_where_and_filters_on_other_columns_are_refused(server: Server, table: Table) -> None:
    table.append(rows(1))
    before = files(server, table)
    with pytest.raises(DataMismatch, match="the next run would add these again"):
        table.overwrite(rows(2, day=TWO), where=[("day", "=", ONE)])
    with pytest.raises(DataMismatch, match="city is no partition column"):
        table.overwrite(rows(2), where=[("city", "=", "Bern")])
    with pytest.raises(DataMismatch, match="no column 'nope'"):
        table.read(where=[("nope", "=", 1)])
    with pytest.raises(DataMismatch, match="the table has no 'nope'"):
        table.read(["nope"])
    assert files(server, table) == before


@pytest.mark.parametrize(
    ("partitions", "properties", "message"),
    [
        (["nope"], {}, "no such column"),
        (["id", "day", "city"], {}, "not partitioned by"),
        ([], {"delta.columnMapping.mode": "name"}, "delta.columnMapping.mode"),
    ],
)
def test_a_table_that_cannot_be_is_not_created(
    lake: Lake, partitions: list[str], properties: dict[str, str], message: str
) -> None:
    with pytest.raises(DataMismatch, match=message):
        lake.create("default.never", SCHEMA, partition_by=partitions, properties=properties)
    assert "never" not in lake.tables("default")


def test_a_table_is_created_once(lake: Lake, table: Table) -> None:
    with pytest.raises(ApiError) as caught:
        lake.create(table.name, SCHEMA)
    assert caught.value.type == "AlreadyExists"
    table.append(rows(1))
    assert ids(lake.create(table.name, SCHEMA, exist_ok=True)) == [1]


def test_an_append_only_table_is_appended_to_and_not_overwritten(lake: Lake) -> None:
    name = f"default.p_{uuid4().hex[:12]}"
    table = lake.create(name, SCHEMA, properties={"delta.appendOnly": "true"})
    table.append(rows(1))
    with pytest.raises(Unsupported, match="append-only"):
        table.overwrite(rows(2))
    assert ids(table) == [1]


def test_names_and_addresses_that_are_none_are_refused_before_anything_is_sent(lake: Lake) -> None:
    for name in ("t", "default.t t", ""):
        with pytest.raises((DataMismatch, ApiError)):
            lake.table(name)
    with pytest.raises(ValueError, match="TURNSTILE_URL"):
        connect("nowhere")
    with pytest.raises(ValueError, match="keys"):
        connect("http://127.0.0.1:9", s3={"keys": "x"})
    with pytest.raises(ApiError) as caught:
        lake.table("default.nothing_here").read()
    assert caught.value.status == 404


def test_files_on_s3_are_written_and_read_with_the_callers_keys(server_on_s3: ServerOnS3) -> None:
    env = server_on_s3.env
    keys = {
        "endpoint": server_on_s3.s3_endpoint,
        "access_key": env["AWS_ACCESS_KEY_ID"],
        "secret_key": env["AWS_SECRET_ACCESS_KEY"],
    }
    with connect(server_on_s3.url, s3=keys) as lake:
        table = lake.create(f"default.p_{uuid4().hex[:12]}", SCHEMA, partition_by=["day"])
        table.append(rows(1, 2))
        table.append(rows(3, day=TWO))
        table.overwrite(rows(4, day=TWO), where=[("day", "=", TWO)])
        assert ids(table) == [1, 2, 4]
        with pytest.raises(DataMismatch):
            table.append(rows(5, day=TWO).append_column("nope", [[1]]))
        prefix = lake._api.load(*table.name.rsplit(".", 1)).location.removeprefix("s3a://lake/")
        listed = server_on_s3.aws("s3").list_objects_v2(Bucket="lake", Prefix=f"{prefix}/")["Contents"]
        names = [each["Key"].removeprefix(f"{prefix}/") for each in listed]
        # The server's light work may write checkpoints and indexes at any time, into folders with
        # an underscore.
        assert len([name for name in names if name.endswith(".parquet") and name[0] != "_"]) == 3, names


def test_a_small_append_on_s3_is_one_request_for_the_file_and_a_read_two(server_on_s3: ServerOnS3) -> None:
    env = server_on_s3.env
    proxy = Flaky(server_on_s3.s3_endpoint)
    keys = {"endpoint": proxy.url, "access_key": env["AWS_ACCESS_KEY_ID"], "secret_key": env["AWS_SECRET_ACCESS_KEY"]}
    with contextlib.closing(proxy), connect(server_on_s3.url, s3=keys) as lake:
        table = lake.create(f"default.p_{uuid4().hex[:12]}", SCHEMA)
        proxy.seen.clear()
        table.append(rows(1, 2))
        assert [one.split()[0] for one in proxy.seen] == ["PUT"], proxy.seen
        proxy.seen.clear()
        assert ids(table) == [1, 2]
        assert [one.split()[0] for one in proxy.seen] == ["GET", "GET"], proxy.seen


def test_keys_that_the_server_vends_are_used_where_the_caller_has_none(
    server_on_s3: ServerOnS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "wrong")
    static = {"TURNSTILE_S3_ACCESS_KEY_ID": "test", "TURNSTILE_S3_SECRET_ACCESS_KEY": "test"}
    with (
        running_on_s3(tmp_path / "vending", server_on_s3.s3_endpoint, variables=static) as server,
        connect(server.url, s3={"endpoint": server.s3_endpoint}) as lake,
    ):
        table = lake.create(f"default.p_{uuid4().hex[:12]}", SCHEMA)
        table.append(rows(1))
        assert ids(table) == [1]
        assert table._steps._storage is not None and table._steps._storage[1]._until is not None, (
            "the keys of the server end"
        )


def test_history_shows_also_commits_that_wait_to_be_published(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0) as server, connect(server.url) as lake:
        table = lake.create("default.told", SCHEMA)
        with resting_background(server):
            for id in (1, 2):
                table.append(rows(id), id=f"message-{id}")
            table.delete([("id", "=", 1)])
            told = table.history()
        assert [entry["version"] for entry in told] == [3, 2, 1, 0]
        assert [entry["operation"] for entry in told] == ["DELETE", "WRITE", "WRITE", "CREATE TABLE"]
        times = [entry["timestamp"] for entry in told]
        assert times == sorted(times, reverse=True) and told[0]["id"] != told[1]["id"]
        assert [entry["version"] for entry in table.history(limit=2)] == [3, 2]


def test_rows_are_a_data_frame_of_polars_where_it_is_installed(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(rows(1, 2))
    monkeypatch.setitem(sys.modules, "polars", SimpleNamespace(from_arrow=lambda rows: ("frame", rows)))
    kind, given = table.to_polars(["id"], where=[("id", "=", 2)])
    assert (kind, given.to_pylist()) == ("frame", [{"id": 2}])
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(Unsupported, match="pip install polars"):
        table.to_polars()
