"""Maintenance over HTTP: policies are inherited and checked where they are set; what is due and
why; one run on a table at a time, whatever becomes of its worker."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from tests.support.fakes import delta
from tests.support.functions import Answer, function
from tests.support.lake import ORDERS
from tests.support.openapi import check, operations
from tests.support.v1 import CatalogApi, PlansApi, refused
from turnstile.coordination.core.rows import TERM_MOST_MS, Task
from turnstile.delta.core.head import TableHead
from turnstile.delta.publish import Publisher
from turnstile.events.append import Appender, behind
from turnstile.maintenance.core.candidates import runs_task
from turnstile.planning.core.roots import Sizes
from turnstile.planning.upkeep import IndexUpkeep

MB = 2**20
HOUR_MS = 3_600_000
TABLE = "/v1/catalogs/main/namespaces/default/tables/t"
PREFIX = "turnstile.maintenance."


class Site(PlansApi):
    """A catalog with the table ``main.default.t``, which has small files; runs on it go to the
    function ``plans``."""

    def __init__(self, api: CatalogApi) -> None:
        super().__init__(api)
        self.id = self.create()["table_id"]

    def commit(self, files: int = 1, **members: Any) -> None:
        """A commit of so many files of 1000 bytes."""
        version = self.head()["latest"] + 1
        added = [delta.add(f"{version}-{n}.parquet", **{"size": 1000, **members}) for n in range(files)]
        self.add_files(self.id, *added)

    def head(self) -> dict[str, Any]:
        return dict(self.commits.get(f"/v1/tables/{self.id}/head").json)

    def publish(self) -> None:
        Publisher(self.world).publish(self.id)

    def plan(self) -> dict[str, Any]:
        answer = self.plans.get(f"/v1/tables/{self.id}/maintenance")
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def begin(self, **body: Any) -> dict[str, Any]:
        answer = self.plans.post(f"/v1/tables/{self.id}/maintenance-runs", body)
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def update(self, attempt: int, **body: Any) -> Answer:
        return self.plans.post(f"/v1/tables/{self.id}/maintenance-runs/{attempt}", body)

    def end(self, attempt: int, outcome: str, **body: Any) -> dict[str, Any]:
        answer = self.update(attempt, outcome=outcome, version=self.head()["latest"], **body)
        assert answer.status == 200, answer.text
        return dict(answer.json)

    def set(self, path: str, **values: str) -> Answer:
        values = {name.replace("_", "-"): value for name, value in values.items()}
        return self.http.patch(f"{path}/maintenance-policy", {"set": values})

    def value(self, path: str, name: str) -> tuple[str, str, str]:
        answer = self.http.get(f"{path}/maintenance-policy")
        assert answer.status == 200, answer.text
        (found,) = (each for each in answer.json["policy"] if each["name"] == name)
        return found["value"], found["source"], found["set_on"]

    def wait(self, ms: int) -> None:
        self.world.clock.now += ms  # type: ignore[attr-defined]


@pytest.fixture
def site(api: CatalogApi) -> Site:
    made = Site(api)
    for _ in range(10):
        made.commit()
    made.publish()
    return made


@pytest.fixture
def due(site: Site) -> Site:
    """A table on which something is due."""
    assert site.set(TABLE, enabled="true").status == 200
    return site


# -- policies ----------------------------------------------------------------------------------------------------------


def test_what_is_set_above_holds_below_until_something_nearer_says_otherwise(site: Site) -> None:
    catalog = "/v1/catalogs/main"
    namespace = "/v1/catalogs/main/namespaces/default"
    assert site.value(TABLE, "target-file-size") == ("1gb", "default", "")
    for path, size, source in (
        (catalog, "1mb", "main"),
        (namespace, "2mb", "main.default"),
        (TABLE, "3mb", "main.default.t"),
    ):
        assert site.set(path, target_file_size=size).status == 200
        assert site.value(TABLE, "target-file-size") == (
            size,
            {1: "catalog", 2: "namespace", 3: "table"}[len(source.split("."))],
            source,
        )
    assert site.value(catalog, "target-file-size")[0] == "1mb"
    assert site.value(namespace, "target-file-size")[0] == "2mb"
    for path, left in ((TABLE, "2mb"), (namespace, "1mb"), (catalog, "1gb")):
        answer = site.http.patch(f"{path}/maintenance-policy", {"unset": ["target-file-size"]})
        assert answer.status == 200 and site.value(TABLE, "target-file-size")[0] == left


def test_nested_namespaces_inherit_from_each_other(site: Site) -> None:
    outer = "/v1/catalogs/main/namespaces/a"
    inner = "/v1/catalogs/main/namespaces/a.b"
    assert site.http.post("/v1/catalogs/main/namespaces", {"name": "a.b"}).status == 201
    assert site.set(outer, min_commits="7").status == 200
    assert site.value(inner, "min-commits") == ("7", "namespace", "main.a")


@pytest.mark.parametrize("path", ["/v1/catalogs/main", "/v1/catalogs/main/namespaces/default", TABLE])
def test_what_cannot_be_read_is_refused_by_its_name_and_changes_nothing(site: Site, path: str) -> None:
    before = site.http.get(f"{path}/maintenance-policy").json
    refused(site.set(path, target_file_size="big"), 400, "InvalidRequest", f"properties.{PREFIX}target-file-size")
    refused(site.set(path, size="1mb"), 400, "InvalidRequest", f"properties.{PREFIX}size")
    both = site.http.patch(f"{path}/maintenance-policy", {"set": {"enabled": "true"}, "unset": ["enabled"]})
    refused(both, 400, "InvalidRequest", "unset")
    assert site.http.get(f"{path}/maintenance-policy").json == before


def test_properties_that_are_set_otherwise_are_checked_as_well(site: Site) -> None:
    bad = {f"{PREFIX}enabled": "maybe"}
    field = f"properties.{PREFIX}enabled"
    namespace = "/v1/catalogs/main/namespaces"
    refused(site.http.post(namespace, {"name": "n", "properties": bad}), 400, "InvalidRequest", field)
    refused(site.http.patch(f"{namespace}/default", {"set": bad}), 400, "InvalidRequest", field)
    merged = {f"{PREFIX}min-commits": {"op": "min", "value": -5}}
    refused(
        site.http.patch(f"{namespace}/default", {"merge": merged}),
        400,
        "InvalidRequest",
        f"properties.{PREFIX}min-commits",
    )
    unity = "/api/2.1/unity-catalog"
    for path, body in (("catalogs/main", {"properties": bad}), ("schemas/main.default", {"properties": bad})):
        answer = site.http.patch(f"{unity}/{path}", body)
        assert answer.status == 400 and "maybe" in answer.text, answer.text
    assert site.http.post(f"{unity}/catalogs", {"name": "other", "properties": bad}).status == 400
    assert site.http.patch(f"{namespace}/default", {"set": {f"{PREFIX}enabled": "true"}}).status == 200
    assert site.value(TABLE, "enabled") == ("true", "namespace", "main.default")


def test_what_a_commit_carries_is_no_reason_to_refuse_it_and_is_passed_over(site: Site) -> None:
    site.set("/v1/catalogs/main", enabled="true")
    stamp = site.world.clock.now_ms()
    version = site.head()["latest"] + 1
    altered = delta.metadata(**{f"{PREFIX}enabled": "maybe", f"{PREFIX}min-commits": "3"})
    altered["metaData"]["configuration"] |= {"delta.enableInCommitTimestamps": "true"}
    loaded = site.commits.get(TABLE).json["metadata"]
    altered["metaData"] |= {
        "id": loaded["id"],
        "configuration": {**loaded["properties"], **altered["metaData"]["configuration"]},
    }
    content = delta.lines(delta.info("alter", stamp), altered).decode()
    answer = site.commits.post(f"/v1/tables/{site.id}/commits", {"version": version, "inline": {"content": content}})
    assert answer.status == 200, answer.text
    site.publish()
    plan = site.plan()
    assert [(each["property"], each["source"]) for each in plan["ignored"]] == [(f"{PREFIX}enabled", "table")]
    assert site.value(TABLE, "enabled") == ("true", "catalog", "main")
    assert site.value(TABLE, "min-commits") == ("3", "table", "main.default.t")
    refused(site.set(TABLE, min_commits="4"), 400, "InvalidRequest", f"properties.{PREFIX}min-commits")  # the log wins


def test_a_policy_of_a_table_is_no_commit(site: Site) -> None:
    before = site.head()["latest"]
    assert site.set(TABLE, enabled="true").status == 200
    assert site.head()["latest"] == before and site.value(TABLE, "enabled")[1] == "table"
    site.commit()
    assert site.value(TABLE, "enabled")[1] == "table"


# -- plans -------------------------------------------------------------------------------------------------------------


def test_nothing_is_due_by_default_and_it_is_said_why_and_what_would_be(site: Site) -> None:
    plan = site.plan()
    assert plan["due"] == [] and {each["operation"] for each in plan["not_due"]} == {"optimize", "reorg", "vacuum"}
    assert plan["not_due"][0]["reason"].startswith("off: ") and plan["not_due"][0]["files"] == 10
    assert plan["files"] | {"complete": True} == plan["files"] and plan["files"]["small_files"] == 10
    assert site.begin()["outcome"] == "nothing due"


def test_small_files_are_due_when_it_is_switched_on(due: Site) -> None:
    (job,) = due.plan()["due"]
    assert (job["operation"], job["files"], job["bytes"], job["where"]) == ("optimize", 10, 10_000, None)
    assert "10 of 10 files are below" in job["reason"]


def test_a_table_that_takes_no_commits_has_nothing_due(due: Site) -> None:
    due.world.refs.rows[due.world.space.table(due.id)]["state"] = "stuck"  # type: ignore[attr-defined]
    plan = due.plan()
    assert plan["due"] == [] and [each["reason"] for each in plan["not_due"]] == ["it is stuck"] * 3
    assert due.begin() == {"outcome": "nothing due", "reason": "it is stuck"}
    refused(due.plans.get(f"/v1/tables/{ORDERS}/maintenance"), 404, "NoSuchTable")


def test_the_answers_are_as_the_document_says(due: Site) -> None:
    begun = due.plans.post(f"/v1/tables/{due.id}/maintenance-runs", {})
    check(operations()["beginRun"], begun)
    check(operations()["updateRun"], due.update(begun.json["attempt"], outcome="running"))
    check(operations()["updateRun"], due.update(7, outcome="running"))
    check(operations()["maintenance"], due.plans.get(f"/v1/tables/{due.id}/maintenance"))
    check(operations()["getTablePolicy"], due.http.get(f"{TABLE}/maintenance-policy"))


# -- runs --------------------------------------------------------------------------------------------------------------


def result(complete: bool = True, files: int = 10, size: int = 10_000) -> list[dict[str, Any]]:
    return [{"operation": "optimize", "files": files, "bytes": size, "complete": complete}]


def test_one_run_at_a_time_and_after_it_nothing_is_due(due: Site) -> None:
    begun = due.begin(term_ms=60_000)
    assert begun["outcome"] == "begun" and [job["operation"] for job in begun["due"]] == ["optimize"]
    due.world.storages.requests.clear()  # type: ignore[attr-defined]
    assert due.begin()["outcome"] == "busy" and due.world.storages.requests == []  # type: ignore[attr-defined]
    assert due.plan()["runs"]["running_until_ms"] == begun["until_ms"]
    assert due.end(begun["attempt"], "done", results=result()) == {"until_ms": 0, "failures": 0, "again_ms": 0}
    assert due.begin()["outcome"] == "nothing due"
    runs = due.plan()["runs"]
    assert (runs["running_until_ms"], runs["spent_bytes"]) == (None, 10_000)
    assert [(run["operation"], run["version"], run["files"]) for run in runs["last"]] == [("optimize", 10, 10)]
    for _ in range(10):
        due.commit()
    due.publish()
    assert due.begin()["outcome"] == "begun"


def test_what_cannot_be_due_by_commits_is_found_without_the_log(due: Site) -> None:
    due.set(TABLE, reorg="false")
    due.end(due.begin()["attempt"], "done", results=result())
    due.world.storages.requests.clear()  # type: ignore[attr-defined]
    assert due.begin() == {"outcome": "nothing due", "reason": "too few commits since the last run"}
    assert due.world.storages.requests == []  # type: ignore[attr-defined]
    due.set(TABLE, vacuum="true")
    assert [job["operation"] for job in due.begin()["due"]] == ["vacuum"]


@pytest.mark.parametrize("ended", [False, True])
def test_what_another_worker_does_while_files_are_looked_at_is_seen(
    due: Site, monkeypatch: pytest.MonkeyPatch, ended: bool
) -> None:
    runs = function("plans").services.maintenance_runs
    look = runs._overview

    def meanwhile(*arguments: Any) -> Any:
        seen = look(*arguments)
        monkeypatch.undo()
        attempt = due.begin()["attempt"]
        if ended:
            due.end(attempt, "done", results=result())
        return seen

    monkeypatch.setattr(runs, "_overview", meanwhile)
    assert due.begin()["outcome"] == "busy"
    state = due.plan()["runs"]
    assert (state["running_until_ms"] is None, len(state["last"])) == (ended, int(ended))


def test_a_run_that_did_not_do_all_is_followed_by_another(due: Site) -> None:
    due.end(due.begin()["attempt"], "stopped", results=result(complete=False, files=4, size=4000), reason="window")
    assert due.plan()["runs"]["last"] == [] and due.plan()["runs"]["spent_bytes"] == 4000
    assert due.begin()["outcome"] == "begun"


def test_a_run_lives_as_long_as_it_is_renewed_and_then_another_takes_over(due: Site) -> None:
    first = due.begin(term_ms=60_000)["attempt"]
    due.wait(50_000)
    until_ms = due.update(first, outcome="running", term_ms=60_000).json["until_ms"]
    due.wait(20_000)
    assert due.begin()["outcome"] == "busy"
    assert due.plan()["runs"]["running_until_ms"] == until_ms
    due.wait(60_000)
    second = due.begin()  # the first one died
    assert (second["outcome"], second["attempt"]) == ("begun", first + 1)
    refused(due.update(first, outcome="running"), 409, "ConcurrentChange", "attempt")
    late = due.update(first, outcome="done", version=10, results=result())
    refused(late, 409, "ConcurrentChange", "attempt")
    assert due.plan()["runs"]["last"] == []
    assert due.end(second["attempt"], "done", results=result())["failures"] == 0
    refused(due.update(second["attempt"], outcome="done", version=10), 409, "ConcurrentChange", "attempt")


def test_a_worker_that_was_frozen_goes_on_if_no_other_worker_took_over(due: Site) -> None:
    attempt = due.begin(term_ms=10_000)["attempt"]
    due.wait(HOUR_MS)
    assert due.update(attempt, outcome="running").status == 200
    assert due.begin()["outcome"] == "busy"


def test_a_table_that_fails_is_set_aside_for_longer_each_time_with_its_reason(due: Site) -> None:
    waited = 0
    for failures in range(1, 5):
        ended = due.end(due.begin()["attempt"], "failed", reason="a file is broken")
        pause_ms = ended["again_ms"] - due.world.clock.now_ms()
        assert ended["failures"] == failures and waited < pause_ms
        waited = pause_ms
        assert due.begin()["outcome"] == "set aside"
        plan = due.plan()
        assert plan["due"] == [] and "a file is broken" in plan["not_due"][0]["reason"]
        assert plan["runs"]["reason"] == "a file is broken"
        due.wait(pause_ms)
    assert due.end(due.begin()["attempt"], "done", results=result())["failures"] == 0
    assert due.plan()["runs"]["reason"] == ""


def test_a_worker_that_gives_no_reason_is_said_to_give_none(due: Site) -> None:
    due.end(due.begin()["attempt"], "failed", results=result())
    runs = due.plan()["runs"]
    assert runs["reason"] == "the worker gave no reason"
    assert [run["operation"] for run in runs["last"]] == ["optimize"]  # what was done before counts


def test_a_table_on_which_workers_die_is_set_aside(due: Site) -> None:
    for _ in range(2):
        assert due.begin(term_ms=1_000)["outcome"] == "begun"
        due.wait(1_001)
    said = due.begin()
    assert said["outcome"] == "set aside" and "workers died" in said["reason"]
    assert due.plan()["runs"]["failures"] == 2
    due.wait(60_000)
    assert due.begin(term_ms=1_000)["outcome"] == "begun"
    due.wait(61_002)
    assert due.begin()["outcome"] == "set aside"  # twice as long now
    due.wait(60_000)
    assert due.end(due.begin()["attempt"], "done", results=result())["failures"] == 0


def test_budgets_and_windows_are_obeyed(due: Site) -> None:
    due.set(TABLE, budget_bytes="9999")
    assert "left of today's budget" in due.begin()["reason"]
    due.set(TABLE, budget_bytes="10000", budget_dpu_hours="1")
    begun = due.begin()
    assert begun["dpu_ms_left"] == HOUR_MS
    due.wait(HOUR_MS // 4)
    due.end(begun["attempt"], "stopped", results=result(complete=False, size=0), dpus=2)
    assert due.begin()["dpu_ms_left"] < HOUR_MS // 2
    due.wait(10_000)
    due.end(due.plan()["runs"]["attempt"], "stopped", dpus=10_000)
    assert "DPU-hours for today is used up" in due.begin()["reason"]
    due.wait(24 * HOUR_MS)
    assert due.begin()["outcome"] == "begun"


def test_a_worker_reads_when_the_window_closes(due: Site) -> None:
    minute = due.world.clock.now_ms() // 60_000 % 1440
    begin = (minute - 60) % 1440
    end = (minute + 60) % 1440
    due.set(TABLE, windows=f"{begin // 60:02}:{begin % 60:02}-{end // 60:02}:{end % 60:02}")
    stop_ms = due.begin()["stop_ms"]
    assert 0 < stop_ms - due.world.clock.now_ms() <= HOUR_MS
    due.set(TABLE, windows=f"{end // 60:02}:{end % 60:02}-{begin // 60:02}:{begin % 60:02}")
    due.end(due.plan()["runs"]["attempt"], "stopped")
    assert "outside its windows" in due.begin()["reason"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"outcome": "finished"}, "outcome"), ({}, "outcome"), ({"outcome": "done"}, "version"),
        ({"outcome": "done", "version": 99}, "version"), ({"outcome": "done", "version": -1}, "version"),
        ({"outcome": "running", "term_ms": 0}, "term_ms"), ({"outcome": "done", "version": 1, "dpus": -1}, "dpus"),
        ({"outcome": "failed", "version": 1, "reason": "x" * 2001}, "reason"),
        ({"outcome": "done", "version": 1,
          "results": [{"operation": "drop", "files": 1, "bytes": 1, "complete": True}]}, "results"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_the_run_goes_on(due: Site, body: dict[str, Any], field: str) -> None:
    attempt = due.begin()["attempt"]
    answer = due.update(attempt, **body)
    assert answer.status == 400 and field in answer.text, answer.text
    assert due.plan()["runs"]["running_until_ms"] is not None
    assert due.plans.post(f"/v1/tables/{due.id}/maintenance-runs/none", {"outcome": "running"}).status == 400


def test_i13_a_run_is_reported_as_events_when_it_starts_and_when_it_is_over(due: Site) -> None:
    appender = Appender(due.world)
    begun = due.begin()
    appender.append(behind(due.world, appender))
    due.end(begun["attempt"], "done", results=result())
    appender.append(behind(due.world, appender))
    events = due.http.get("/v1/events", catalog="main", table_id=due.id, limit=1000).json["events"]
    started, done = (each for each in events if each["type"].startswith("turnstile.table.maintenance"))
    assert (started["subject"], started["data"]) == (due.id, {"name": "main.default.t", "attempt": 1})
    assert done["data"] == {
        "name": "main.default.t", "attempt": 1, "outcome": "done", "version": 10,
        "operations": [{"operation": "optimize", "files": 10, "bytes": 10_000}],
    }  # fmt: skip


def test_what_is_remembered_goes_with_the_table(due: Site) -> None:
    due.end(due.begin()["attempt"], "done", results=result())
    function("plans").services.maintainer.forget(due.id)
    assert due.plan()["runs"]["last"] == []


# -- where the files are known from ------------------------------------------------------------------------------------


def test_i16_what_is_due_is_known_from_the_files_index_and_from_the_log_where_that_does_not_serve(due: Site) -> None:
    by_log = due.plan()
    row = due.world.refs.read(due.world.space.table(due.id))
    assert row is not None
    head = TableHead.from_row(row)
    IndexUpkeep(due.world, sizes=Sizes(every=1)).keep_up(head)
    opened = patch("turnstile.maintenance.runs.open_state", side_effect=AssertionError("the log was read"))
    with opened:
        assert due.plan() == by_log
        function("plans").use_world(due.world)  # a process that remembers no leaf
        assert due.plan() == by_log
    files = due.world.storages.files  # type: ignore[attr-defined]
    for path in [path for path in files if "_turnstile_index" in path]:
        del files[path]
    function("plans").use_world(due.world)
    assert due.plan() == by_log


def test_a_run_of_a_table_with_a_damaged_task_begins_after_the_longest_term_of_a_lease(due: Site) -> None:
    key = f"test/updateable/task/{runs_task(due.id)}"
    due.world.refs.damage(key)
    assert due.plan()["runs"]["running_until_ms"] > due.world.clock.now + TERM_MOST_MS - 1_000
    waits = due.begin()
    assert waits["outcome"] == "busy" and "could not be read" in waits["reason"]
    assert key not in waits["reason"], "a worker is no administrator"
    due.world.refs.requests.clear()
    assert due.begin()["reason"] == waits["reason"]
    assert "write" not in due.world.refs.requests, "it is replaced once"
    refused(due.update(1, outcome="running"), 409, "ConcurrentChange", "attempt")
    due.world.clock.now += TERM_MOST_MS
    assert due.begin()["outcome"] == "begun"


def test_i10_a_run_that_is_asked_for_as_an_assumed_lease_ends_begins_or_leaves_no_attempt(due: Site) -> None:
    key = f"test/updateable/task/{runs_task(due.id)}"
    due.world.refs.damage(key)
    assert due.begin()["outcome"] == "busy"
    until = Task.unpack(due.world.refs.rows[key]["payload"]).until
    for before in range(30):
        due.world.clock.now = until - 30 + before
        waits = due.begin()
        if waits["outcome"] == "begun":
            break
        assert Task.unpack(due.world.refs.rows[key]["payload"]).is_unknown, "no attempt is begun for no worker"
    assert waits["outcome"] == "begun"
