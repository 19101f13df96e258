"""Files of a table are put together without an engine, over a real server's HTTP API: the rows
stay, other writers win, and work that is due by policy is done once."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.delta_table import inline_vector
from turnstile_client import ApiError, Conflict, DataMismatch, Lake, OutcomeUnknown, Table, Unsupported, connect
from turnstile_client.errors import StorageFailure
from turnstile_client.maintenance import main
from turnstile_client.reading import FileReader
from turnstile_client.rewriting import _Run
from turnstile_client.steps import TableSteps
from turnstile_http.maintenance import Progress, TableRun
from turnstile_server import Server

ONE = dt.date(2026, 1, 1)
TWO = dt.date(2026, 1, 2)
SCHEMA = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("city", pa.string())])
ON = {"enabled": "true", "min-commits": "2", "min-small-files": "2"}


@pytest.fixture(scope="module")
def lake(server: Server) -> Iterator[Lake]:
    with connect(server.url) as lake:
        yield lake


@pytest.fixture
def table(lake: Lake) -> Table:
    return lake.create(f"default.r_{uuid4().hex[:12]}", SCHEMA, partition_by=["day"])


def rows(*ids: int, day: dt.date | None = ONE) -> pa.Table:
    return pa.table({"id": ids, "day": [day] * len(ids), "city": [f"city {id}" for id in ids]}, SCHEMA)


def fill(table: Table, commits: int = 4) -> list[dict[str, Any]]:
    """Appends of two rows, by turns into two partitions; returns the rows."""
    for at in range(commits):
        table.append(rows(10 * at, 10 * at + 1, day=(ONE, TWO)[at % 2]))
    return read(table)


def read(table: Table) -> list[dict[str, Any]]:
    return sorted(table.read().to_pylist(), key=lambda row: row["id"])


def read_ids(table: Table, *ids: int) -> list[dict[str, Any]]:
    return table.read(where=[("id", "in", list(ids))]).to_pylist()


def location(server: Server, table: Table) -> Path:
    with server.client() as api:
        name = table.name.partition(".")[2]
        found = api.get(f"/v1/catalogs/main/namespaces/default/tables/{name}").json()["location"]
    return Path(found.removeprefix("file://"))


def switch_on(server: Server, table: Table, **more: str) -> None:
    with server.client() as api:
        path = f"/v1/catalogs/main/namespaces/default/tables/{table.name.partition('.')[2]}/maintenance-policy"
        values = ON | {key.replace("_", "-"): value for key, value in more.items()}
        api.patch(path, json={"set": values}).raise_for_status()
        api.post(f"/v1/tables/{table.check_rewritable()}/publish").raise_for_status()


def publish(server: Server, table: Table) -> None:
    with server.client() as api:
        api.post(f"/v1/tables/{table.check_rewritable()}/publish").raise_for_status()


# -- rows stay ---------------------------------------------------------------------------------------------------------


def test_i27_each_partition_has_one_file_and_the_same_rows_and_a_second_run_finds_nothing(table: Table) -> None:
    before = fill(table, 6)
    done = table.optimize()
    assert (done.files_before, done.files_after, done.rewritten_files, done.written_files) == (6, 2, 6, 2)
    assert done.versions == [7, 8] and done.latest_version == 8
    assert read(table) == before
    again = table.optimize()
    assert (again.versions, again.skipped_files) == ([], 2)
    assert table.version() == 8
    assert read(table) == before
    assert [row["id"] for row in table.read(version=6).to_pylist()]  # an old version, for its readers


def test_only_the_partitions_of_where_are_rewritten(table: Table) -> None:
    before = fill(table)
    done = table.optimize([("day", "=", ONE)])
    assert (done.files_before, done.files_after) == (2, 1)
    assert read(table) == before
    with pytest.raises(DataMismatch, match="city is no partition column"):
        table.optimize([("city", "=", "city 1")])
    with pytest.raises(TypeError, match="conditions are a list"):
        table.optimize("day = 1")  # type: ignore[arg-type]
    for wrong in ({"nope": "1"}, {}, {"day": "2026-01-02", "city": "x"}):
        with pytest.raises(DataMismatch, match="the table has day"):
            table.optimize(partitions=[wrong])
    done = table.optimize(partitions=[{"day": "2026-01-02"}])
    assert (done.files_before, done.files_after) == (2, 1)


def test_files_are_ended_at_the_target_and_larger_ones_stay(table: Table, lake: Lake) -> None:
    before = fill(table)
    sizes = [file["size"] for file in table._steps.plan_files(table.check_rewritable(), None, None)[2]]
    assert table.optimize(target_bytes=min(sizes)).versions == []
    assert table.optimize(target_bytes=1, attempts=1).versions == []
    for wrong in (0, -1, True, 1.5, "1gb"):
        with pytest.raises(ValueError, match="target_bytes"):
            table.optimize(target_bytes=wrong)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="attempts"):
            table.optimize(attempts=wrong)
    assert table.optimize(target_bytes=sum(sizes)).files_after == 2
    assert read(table) == before


def test_the_new_files_have_statistics_and_the_commit_says_what_it_did(table: Table, server: Server) -> None:
    fill(table)
    version = table.optimize().versions[0]
    publish(server, table)
    text = (location(server, table) / f"_delta_log/{version:020d}.json").read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    info = actions[0]["commitInfo"]
    assert (info["operation"], info["isBlindAppend"], info["readVersion"]) == ("OPTIMIZE", False, version - 1)
    assert info["operationMetrics"]["numRemovedFiles"] == "2"
    (added,) = [action["add"] for action in actions if "add" in action]
    assert json.loads(added["stats"])["numRecords"] == 4
    assert {action["remove"]["dataChange"] for action in actions if "remove" in action} == {False}
    names = pq.read_schema(location(server, table) / added["path"]).names
    assert names == ["id", "city"]


def test_rows_that_came_over_http_are_put_together(lake: Lake) -> None:
    table = lake.create(f"default.r_{uuid4().hex[:12]}", SCHEMA)
    for id in range(5):
        table.append_rows([{"id": id, "day": "2026-01-01"}])
    assert table.optimize().files_after == 1
    assert [row["id"] for row in read(table)] == [0, 1, 2, 3, 4]


# -- other writers -----------------------------------------------------------------------------------------------------


def before_proposing(monkeypatch: pytest.MonkeyPatch, *others: Any) -> None:
    """Lets other writers be faster: each is called before one proposal of a rewrite."""
    commit = _Run._commit
    waiting = list(others)

    def overtaken(self: Any, *given: Any) -> Any:
        if waiting:
            waiting.pop(0)()
        return commit(self, *given)

    monkeypatch.setattr(_Run, "_commit", overtaken)


def test_i27_appends_in_between_stay_and_do_not_stop_a_rewrite(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(table)
    before_proposing(monkeypatch, lambda: table.append(rows(100)), lambda: table.append(rows(200)))
    done = table.optimize()
    assert (done.versions, done.lost_bins, done.files_after) == ([6, 8], 0, 4)
    assert [row["id"] for row in read(table)] == [0, 1, 10, 11, 20, 21, 30, 31, 100, 200]


def test_i27_a_delete_in_between_wins_and_its_files_are_planned_anew(
    table: Table, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(table)
    steps = list[str]()
    before_proposing(monkeypatch, lambda: table.delete([("id", "in", [0, 10])]))
    done = table.optimize(progress=lambda step: steps.append(step.step))
    assert (done.lost_bins, done.left_files) == (2, 0)  # of both partitions one file was rewritten by the delete
    assert [row["id"] for row in read(table)] == [1, 11, 20, 21, 30, 31]
    assert steps == ["planned", "rewritten", "lost", "lost"], "the rewritten files are no part of the first plan"
    named = {file["path"] for file in table._steps.plan_files(table.check_rewritable(), None, None)[2]}
    assert len(named) == 4
    assert len(list(location(server, table).glob("*.parquet"))) == 4 + 2, "the files of the lost bin are removed"


def test_i27_a_changed_definition_is_planned_anew(
    table: Table, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fill(table)

    def redefine() -> None:
        state = table._steps.load()
        version = state.tail.latest + 1
        text = (location(server, table) / f"_delta_log/{0:020d}.json").read_text()
        actions = [json.loads(line) for line in text.splitlines()]
        metadata = next(action["metaData"] for action in actions if "metaData" in action)
        metadata["configuration"]["team"] = "blue"
        info = {"commitInfo": {**actions[0]["commitInfo"], "txnId": str(uuid4()), "operation": "SET TBLPROPERTIES"}}
        info["commitInfo"]["inCommitTimestamp"] = table._steps.now_ms() + 1000
        content = "".join(json.dumps(action) + "\n" for action in (info, {"metaData": metadata}))
        with server.client() as api:
            body = {"version": version, "inline": {"content": content}}
            api.post(f"/v1/tables/{state.table_id}/commits", json=body).raise_for_status()

    before_proposing(monkeypatch, redefine)
    done = table.optimize()
    assert (done.lost_bins, done.files_after) == (2, 2)
    assert read(table) == before


def test_i27_after_a_lost_answer_the_bin_is_committed_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fill(table)
    propose = table._api.propose
    asked = list[int]()

    def without_answer(table_id: str, body: dict[str, Any]) -> Any:
        answer = propose(table_id, body)
        asked.append(body["version"])
        if len(asked) == 1:
            raise ApiError(0, "NoAnswer", "the connection is gone")
        return answer

    monkeypatch.setattr(table._api, "propose", without_answer)
    done = table.optimize()
    assert done.versions == [5, 6] and asked == [5, 5, 6]
    assert read(table) == before


def test_an_unknown_outcome_is_reported_and_the_rows_are_the_same(
    lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fill(table)
    own = Table(table._api, table.name, table._steps._open, 0.2)
    propose = table._api.propose

    def without_answer(table_id: str, body: dict[str, Any]) -> Any:
        propose(table_id, body)
        raise ApiError(0, "NoAnswer", "the connection is gone")

    with monkeypatch.context() as broken:
        broken.setattr(table._api, "propose", without_answer)
        with pytest.raises(OutcomeUnknown):
            own.optimize()
    assert read(table) == before
    table.optimize()
    assert read(table) == before


def test_i27_appends_deletes_and_two_rewriters_at_once_lose_no_row_and_make_none_twice(
    lake: Lake, table: Table
) -> None:
    fill(table)
    ended = threading.Event()
    failures = list[BaseException]()
    added = list(range(1000, 1040))
    deleted = [1000, 1013, 1026, 1039]

    def guarded(work: Any) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as e:
                failures.append(e)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    def own() -> Table:
        return Table(table._api, table.name, table._steps._open, 60.0)

    def append() -> None:
        mine = own()
        for id in added:
            mine.append(rows(id, day=(ONE, TWO)[id % 2]))

    def rewrite() -> None:
        mine = own()
        while not ended.is_set():
            mine.optimize()

    def delete() -> None:
        mine = own()
        left = set(deleted)
        while left:
            there = {row["id"] for row in mine.read(["id"]).to_pylist()} & left
            for id in there:
                try:
                    mine.delete([("id", "=", id)])
                except Exception as e:
                    if type(e).__name__ != "Conflict":
                        raise
                else:
                    left.discard(id)

    rewriters = [guarded(rewrite), guarded(rewrite)]
    writers = [guarded(append), guarded(delete)]
    for thread in writers:
        thread.join()
    ended.set()
    for thread in rewriters:
        thread.join()
    assert not failures, failures
    expected = sorted([0, 1, 10, 11, 20, 21, 30, 31, *(id for id in added if id not in deleted)])
    assert [row["id"] for row in read(table)] == expected
    assert table.optimize().files_after == 2
    assert [row["id"] for row in read(table)] == expected


def test_a_bin_that_loses_every_time_is_left_and_said_so(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fill(table)
    monkeypatch.setattr("turnstile_client.core.rewrites.Changes.leave", lambda *_: False)
    done = table.optimize(attempts=2)
    assert (done.versions, done.left_files, done.lost_bins) == ([], 4, 4)
    assert read(table) == before


def test_a_failure_of_storage_leaves_no_file(table: Table, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fill(table)
    there = set(location(server, table).glob("*.parquet"))

    def stop(step: Progress) -> None:
        if step.step == "rewritten":
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        table.optimize(progress=stop)
    assert set(location(server, table).glob("*.parquet")) == there

    def fail(*_: Any) -> Any:
        raise StorageFailure("the store is gone")

    with monkeypatch.context() as broken:
        broken.setattr(TableSteps, "body_of", fail)
        with pytest.raises(StorageFailure):
            table.optimize()
    assert set(location(server, table).glob("*.parquet")) == there
    assert read(table) == before


def test_i27_files_that_give_other_rows_than_their_statistics_say_are_not_replaced(
    table: Table, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fill(table)
    there = set(location(server, table).glob("*.parquet"))
    read_rows = FileReader.rows

    def fewer(self: FileReader, files: Any) -> Any:
        return (batch.slice(1) for batch in read_rows(self, files))

    with monkeypatch.context() as broken:
        broken.setattr(FileReader, "rows", fewer)
        with pytest.raises(Unsupported, match="4 rows by their statistics"):
            table.optimize()
    assert set(location(server, table).glob("*.parquet")) == there
    assert read(table) == before


def test_a_file_without_any_row_left_is_removed(lake: Lake, server: Server) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    table = lake.create(f"default.r_{uuid4().hex[:12]}", SCHEMA, properties=properties)
    table.append(rows(1, 2))
    table.append(rows(3))
    state = table._steps.load()
    _, _, (first, *_) = table._steps.plan_files(state.table_id, None, None)
    removed = {**first, "dataChange": True, "deletionTimestamp": 1}
    count = int(first["records"])
    stats = json.dumps({"numRecords": count})
    vector = inline_vector(set(range(count)))
    added = {**{key: first[key] for key in ("path", "size", "modificationTime", "partitionValues")}, "stats": stats}
    info = {"txnId": str(uuid4()), "operation": "DELETE", "inCommitTimestamp": table._steps.now_ms() + 1000}
    actions = [
        {"commitInfo": info},
        {"remove": {key: removed[key] for key in ("path", "dataChange", "deletionTimestamp")}},
        {"add": {**added, "dataChange": True, "deletionVector": vector}},
    ]
    body = {"version": 3, "inline": {"content": "".join(json.dumps(action) + "\n" for action in actions)}}
    with server.client() as api:
        answer = api.post(f"/v1/tables/{state.table_id}/commits", json=body)
        assert answer.status_code == 200, answer.text
    left = read(table)
    done = table.reorg()
    assert (done.rewritten_files, done.written_files, done.left_files, done.files_after) == (1, 0, 0, 1)
    assert read(table) == left
    assert table.reorg().versions == []


# -- refused -----------------------------------------------------------------------------------------------------------


def test_a_table_that_another_one_replaced_meanwhile_is_refused(
    lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.append(rows(1))
    table.append(rows(2))
    commit = _Run._commit

    def replaced(*_: Any) -> None:
        monkeypatch.setattr(_Run, "_commit", commit)
        lake.drop(table.name)
        lake.create(table.name, SCHEMA, partition_by=["day"])

    monkeypatch.setattr(_Run, "_commit", replaced)
    with pytest.raises(Conflict, match="another table has this name"):
        table.optimize()
    assert read(table) == []


@pytest.mark.parametrize("step", ["planned", "rewritten", "committed"])
def test_a_rewriter_that_is_killed_leaves_the_rows_and_another_goes_on(table: Table, server: Server, step: str) -> None:
    before = fill(table, 8)
    command = [sys.executable, "-m", "turnstile_client.maintenance", "optimize", table.name, "--uri", server.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(step):
                process.kill()
                break
    table.append(rows(500))
    expected = [*before, *read_ids(table, 500)]
    assert read(table) == expected
    assert table.optimize().files_after == 2
    assert read(table) == expected


def test_a_clone_is_refused(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fill(table)
    load = TableSteps.load

    def pinned(self: TableSteps) -> Any:
        return replace(load(self), pinned=True)

    with monkeypatch.context() as cloned:
        cloned.setattr(TableSteps, "load", pinned)
        for call in (table.optimize, table.reorg, table.check_rewritable):
            with pytest.raises(Unsupported, match="a clone of a Delta table is read-only"):
                call()
    assert read(table) == before and table.version() == 4


# -- by policy ---------------------------------------------------------------------------------------------------------


def only(runs: Iterator[TableRun]) -> TableRun:
    (run,) = runs
    return run


def test_what_is_due_is_done_once(lake: Lake, table: Table, server: Server) -> None:
    before = fill(table, 6)
    publish(server, table)
    assert only(lake.maintain([table.name])).outcome == "nothing due"  # nothing is on by default
    switch_on(server, table)
    done = only(lake.maintain([table.name]))
    assert (done.outcome, done.files, len(done.versions)) == ("done", 6, 2), done
    publish(server, table)
    assert only(lake.maintain([table.name])).outcome == "nothing due"
    assert read(table) == before


def test_a_table_that_needs_an_engine_is_left_to_one_and_not_set_aside(
    lake: Lake, table: Table, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(table)
    switch_on(server, table)

    def refuse(_: Any) -> None:
        raise Unsupported("the table is clustered by id")

    with monkeypatch.context() as clustered:
        clustered.setattr("turnstile_client.rewriting.check_rewritable", refuse)
        run = only(lake.maintain([table.name]))
    assert (run.outcome, run.reason) == ("unsupported", "the table is clustered by id")
    assert only(lake.maintain([table.name])).outcome == "done"


def test_a_table_that_fails_is_reported_and_the_others_go_on(lake: Lake, table: Table, server: Server) -> None:
    bad = lake.create(f"default.r_{uuid4().hex[:12]}", SCHEMA)
    for each in (bad, table):
        fill(each)
        switch_on(server, each)

    def fail(name: str, _: Progress) -> None:
        if name == bad.name:
            raise ValueError("a file of it is broken")

    missing = "default.not_there"
    runs = {run.table: run for run in lake.maintain([missing, bad.name, table.name], progress=fail)}
    outcomes = {name: run.outcome for name, run in runs.items()}
    assert outcomes == {missing: "failed", bad.name: "failed", table.name: "done"}
    assert runs[bad.name].reason == "a file of it is broken"
    assert only(lake.maintain([bad.name])).outcome == "set aside"


class Killed(BaseException):
    """The process ends here without a message."""


def test_a_run_that_was_killed_is_taken_over_when_its_lease_is_over(
    lake: Lake, table: Table, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fill(table)
    switch_on(server, table)

    def die(_: str, step: Progress) -> None:
        if step.step == "committed":
            raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(type(lake._api), "update_maintenance", lambda *_: None)
        with pytest.raises(Killed):
            list(lake.maintain([table.name], term_s=3600, progress=die))
    assert only(lake.maintain([table.name])).outcome == "busy"
    with server.client() as api:
        table_id = table.check_rewritable()
        attempt = api.get(f"/v1/tables/{table_id}/maintenance").json()["runs"]["attempt"]
        ended = {"outcome": "stopped", "version": table.version()}
        api.post(f"/v1/tables/{table_id}/maintenance-runs/{attempt}", json=ended).raise_for_status()
    publish(server, table)
    done = only(lake.maintain([table.name]))
    assert (done.outcome, done.files) == ("done", 2), done  # the bin that was committed stays
    assert read(table) == before


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_rewrites_a_table_and_says_what_it_did(
    table: Table, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fill(table)
    assert main(["optimize", table.name, "--uri", server.url]) == 0
    shown = capsys.readouterr()
    assert "files_after=2" in shown.out and "committed: 1 bins, 2 files" in shown.err
    assert main(["reorg", table.name, "--uri", server.url]) == 0
    assert main(["optimize", "default.missing", "--uri", server.url]) == 2
    assert "missing" in capsys.readouterr().err
    assert read(table) == before


def test_the_command_does_due_work_as_a_process(table: Table, server: Server) -> None:
    before = fill(table)
    switch_on(server, table)
    command = [sys.executable, "-m", "turnstile_client.maintenance", "run", table.name, "--uri", server.url]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert f"{table.name}: done, 4 files" in ended.stdout
    assert read(table) == before


def test_a_worker_that_is_ended_reports_it_and_the_table_is_free(table: Table, server: Server, lake: Lake) -> None:
    before = fill(table, 8)
    switch_on(server, table)
    command = [sys.executable, "-m", "turnstile_client.maintenance", "run", table.name, "--loop", "--uri", server.url]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("rewritten"):
                process.terminate()
                break
    assert process.returncode == 143
    publish(server, table)
    assert only(lake.maintain([table.name])).outcome in ("done", "nothing due")
    assert read(table) == before


@pytest.mark.parametrize(
    "given", [["--uri", "127.0.0.1:1"], ["--catalog", "a b"], ["--uri", "http://127.0.0.1:1", "--term-s", "0"]]
)
def test_a_wrong_address_catalog_or_term_is_one_line(
    given: list[str], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main(["run", "--uri", server.url, *given])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 2
    assert capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("given", [["optimize"], ["run"]], ids=["no table", "no address"])
def test_a_call_without_what_it_needs_is_refused(given: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNSTILE_URL", raising=False)
    address = [] if given == ["run"] else ["--uri", "http://127.0.0.1:1"]
    with pytest.raises(SystemExit):
        main([*given, *address])
