"""Workers do the work that is due by policy: rows stay, a second run finds nothing, a killed one is
taken over, a table that fails is set aside."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from turnstile_spark.maintenance import Progress, main
from turnstile_spark.maintenance.runs import TableRun, run

ON = {"enabled": "true", "min-commits": "2", "min-small-files": "2"}


def request(lake: Any, method: str, path: str, body: Any = None) -> Any:
    """Asks the server, outside of the client."""
    return httpx.request(
        method, lake.api.http.url + path, json=body, headers=dict(lake.api.http._client.headers), timeout=60
    )


def table_path(lake: Any, name: str) -> str:
    namespace, _, table = name.rpartition(".")
    return f"/v1/catalogs/{lake.api.catalog}/namespaces/{namespace}/tables/{table}"


def switch_on(lake: Any, name: str, **more: str) -> None:
    values = ON | {key.replace("_", "-"): value for key, value in more.items()}
    answer = request(lake, "PATCH", f"{table_path(lake, name)}/maintenance-policy", {"set": values})
    assert answer.status_code == 200, answer.text


def plan(lake: Any, name: str) -> dict[str, Any]:
    answer = request(lake, "GET", f"/v1/tables/{lake.table(name).id}/maintenance")
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def fill(sql: Any, table: str, files: int = 4) -> None:
    """Files of twenty rows, which two commits bring, and a day for each."""
    columns = "id % 20 + id DIV 20 * 100, CAST(id DIV 20 % 2 AS INT)"
    half = files // 2
    for first, last in ((0, half), (half, files)):
        sql(f"INSERT INTO {table} SELECT {columns} FROM range({first * 20}, {last * 20}, 1, {half})")


def only(runs: Any) -> TableRun:
    (one_run,) = runs
    return one_run  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.parametrize("partitioned", [False, True])
def test_what_is_due_is_done_once_and_rows_stay(lake: Any, sql: Any, name: str, partitioned: bool) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, day INT) {'PARTITIONED BY (day)' if partitioned else ''}")
    fill(sql, table, 8)
    sql(f"INSERT INTO {table} VALUES (7, NULL)")
    before = sql.values(f"SELECT id, coalesce(day, -1) FROM {table}")
    lake.table(name).publish()
    assert only(run(lake, [name])).outcome == "nothing due"  # nothing is on by default
    switch_on(lake, name)
    job = plan(lake, name)["due"][0]
    assert (job["operation"], job["where"] is not None) == (
        "optimize",
        partitioned,
    )  # the partition of NULL has one file
    done = only(run(lake, [name]))
    assert (done.outcome, done.files) == ("done", 8 if partitioned else 9), done
    assert sql.values(f"SELECT id, coalesce(day, -1) FROM {table}") == before
    assert int(sql(f"DESCRIBE DETAIL {table}")[0].numFiles) == (3 if partitioned else 1)
    again = only(run(lake, [name]))
    assert again.outcome == "nothing due", again
    last = plan(lake, name)["runs"]["last"]
    assert [(each["operation"], each["files"]) for each in last] == [("optimize", done.files)]


@pytest.mark.slow  # test_rewrites_without_spark.py purges too
def test_deleted_rows_are_purged(lake: Any, sql: Any, name: str) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, day INT) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    fill(sql, table, 2)
    sql(f"DELETE FROM {table} WHERE id % 4 = 0")
    before = sql.values(f"SELECT id, day FROM {table}")
    lake.table(name).publish()
    switch_on(lake, name, optimize="false")
    (job,) = plan(lake, name)["due"]
    assert job["operation"] == "reorg" and "delete 10 of 40 rows" in job["reason"]
    assert only(run(lake, [name])).outcome == "done"
    lake.table(name).publish()
    assert plan(lake, name)["files"]["deletion_vector_files"] == 0
    assert sql.values(f"SELECT id, day FROM {table}") == before


class Killed(BaseException):
    """The process ends here without a message."""


def test_a_run_that_was_killed_is_taken_over(lake: Any, sql: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = f"lake.{name}"
    sql(f"CREATE TABLE {table} (id BIGINT, day INT) PARTITIONED BY (day)")
    fill(sql, table, 8)
    before = sql.values(f"SELECT id, day FROM {table}")
    lake.table(name).publish()
    switch_on(lake, name)

    def die(_: str, step: Progress) -> None:
        if step.step == "committed":
            raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(type(lake.api), "update_maintenance", _silent)
        with pytest.raises(Killed):
            list(run(lake, [name], term_s=3600, progress=die))
    held = plan(lake, name)["runs"]
    assert held["running_until_ms"] and only(run(lake, [name])).outcome == "busy"
    # its lease ends: what a clock would do in an hour
    answer = request(
        lake, "POST", f"/v1/tables/{lake.table(name).id}/maintenance-runs/{held['attempt']}",
        {"outcome": "stopped", "version": lake.table(name).head().latest},
    )  # fmt: skip
    assert answer.status_code == 200, answer.text
    lake.table(name).publish()
    done = only(run(lake, [name]))
    assert done.outcome == "done" and done.files == 4, done  # the bin that was committed stays
    assert sql.values(f"SELECT id, day FROM {table}") == before
    assert int(sql(f"DESCRIBE DETAIL {table}")[0].numFiles) == 2


def _silent(*_: Any) -> None:
    """A dead process sends nothing."""


def test_a_table_that_fails_is_set_aside_with_its_reason_and_others_go_on(lake: Any, sql: Any, name: str) -> None:
    bad = f"{name}_bad"
    good = f"{name}_good"
    for each in (bad, good):
        sql(f"CREATE TABLE lake.{each} (id BIGINT, day INT)")
        fill(sql, f"lake.{each}")
        lake.table(each).publish()
        switch_on(lake, each)

    def fail(table: str, step: Progress) -> None:
        if table == bad:
            raise ValueError("a file of it is broken")

    outcomes = {each.table: each.outcome for each in run(lake, [bad, good], progress=fail)}
    assert outcomes == {bad: "failed", good: "done"}
    state = plan(lake, bad)
    assert state["runs"]["failures"] == 1 and state["runs"]["reason"] == "a file of it is broken"
    assert "set aside" in state["not_due"][0]["reason"]
    assert only(run(lake, [bad])).outcome == "set aside"


def test_as_a_program(lake: Any, sql: Any, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    sql(f"CREATE TABLE lake.{name} (id BIGINT, day INT)")
    fill(sql, f"lake.{name}")
    lake.table(name).publish()
    switch_on(lake, name)
    arguments = ["run", name, "--once", "--uri", lake.api.http.url, "--catalog", lake.api.catalog]
    assert main(arguments) == 0
    assert f"{name}: done, 4 files" in capsys.readouterr().out
    assert main(arguments) == 0
    assert f"{name}: nothing due" in capsys.readouterr().out
