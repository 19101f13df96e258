"""``fetchPlanningResult`` and ``cancelPlanning``: plan ids say what is planned, so any server
answers them (ADR 49)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.iceberg.client import Iceberg, refused
from tests.support.iceberg.delta_table import DeltaTable, add
from turnstile.iceberg.scans import delta_scans
from turnstile.iceberg.scans.plan_runs import PlanRuns

JAVA = {"X-Client-Version": "Apache Iceberg 1.11.0 (commit abc)"}


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


@pytest.fixture
def table(client: Iceberg) -> DeltaTable:
    table = DeltaTable(client)
    table.commit(*(add(f"f{n}.parquet", ids=(n, n), day="2026-11-01") for n in range(6)))
    return table


FILTER = {"filter": {"type": "lt", "term": "id", "value": 4}}


def names(answer: dict[str, Any]) -> list[str]:
    return sorted(task["data-file"]["file-path"].rpartition("/")[2] for task in answer["file-scan-tasks"])


def test_a_plan_is_fetched_again_at_any_server_and_is_of_its_version(client: Iceberg, table: DeltaTable) -> None:
    first = table.plan(**FILTER)
    table.commit(add("later.parquet", ids=(0, 0), day="2026-11-01"))
    for server in (client, Iceberg(beside=client)):
        answer = server.get(f"{table.path}/plan/{first['plan-id']}")
        assert answer.status == 200, answer.text
        assert names(answer.json) == [f"f{n}.parquet" for n in range(4)] == names(first)
        assert answer.json["status"] == "completed" and "plan-id" not in answer.json


def test_pages_of_a_fetched_plan_go_on(client: Iceberg, table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_scans, "FILES", 4)
    answer = client.get(f"{table.path}/plan/{table.plan()['plan-id']}").json
    rest = client.post(f"{table.path}/tasks", {"plan-task": answer["plan-tasks"][0]}).json
    assert names(answer) + names(rest) == [f"f{n}.parquet" for n in range(6)]


def test_a_long_plan_of_a_client_that_asks_again_is_submitted(
    client: Iceberg, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = PlanRuns[Any](wait_s=0)
    goes = threading.Event()
    plan = delta_scans.DeltaScans.result
    monkeypatch.setitem(client.services.__dict__, "plan_runs", runs)

    def slow(*arguments: Any) -> Any:
        assert goes.wait(60)
        return plan(*arguments)

    monkeypatch.setattr(delta_scans.DeltaScans, "result", slow)
    try:
        answer = client.post(f"{table.path}/plan", FILTER, headers=JAVA).json
        assert answer == {"status": "submitted", "plan-id": answer["plan-id"]}
        path = f"{table.path}/plan/{answer['plan-id']}"
        assert client.get(path).json == {"status": "submitted"}
        assert client.delete(path).status == 204
        assert answer["plan-id"] not in runs._runs
        assert client.get(path).json == {"status": "submitted"}, "it is begun again by who asks again"
    finally:
        goes.set()
    runs._runs[answer["plan-id"]].exception(60)
    assert names(client.get(path).json) == [f"f{n}.parquet" for n in range(4)]


def test_other_clients_are_answered_at_once(
    client: Iceberg, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(client.services.__dict__, "plan_runs", None)
    for headers in ({}, {"X-Client-Version": "PyIceberg 0.12.0"}):
        assert client.post(f"{table.path}/plan", FILTER, headers=headers).json["status"] == "completed"


def test_a_short_plan_of_a_client_that_asks_again_is_complete(client: Iceberg, table: DeltaTable) -> None:
    assert names(client.post(f"{table.path}/plan", FILTER, headers=JAVA).json) == [f"f{n}.parquet" for n in range(4)]


def test_a_filter_that_fits_no_path_is_planned_at_once_and_not_fetched(
    client: Iceberg, table: DeltaTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delta_scans, "PLAN_ID_CHARACTERS", 10)
    plan = client.post(f"{table.path}/plan", FILTER, headers=JAVA).json
    assert plan["status"] == "completed"
    refused(client.get(f"{table.path}/plan/{plan['plan-id']}"), 404, "NoSuchPlanIdException")


def test_ids_that_no_plan_of_the_table_has(client: Iceberg, table: DeltaTable) -> None:
    other = DeltaTable(client, name="d2")
    other.commit(add("f.parquet", ids=(1, 1), day="2026-11-01"))
    for id in ("x", table.plan()["plan-id"]):
        refused(client.get(f"{other.path}/plan/{id}"), 404, "NoSuchPlanIdException")
        refused(client.delete(f"{other.path}/plan/{id}"), 404, "NoSuchPlanIdException")


def test_a_filter_is_judged_when_it_is_planned(client: Iceberg, table: DeltaTable) -> None:
    body = {"filter": {"type": "eq", "term": "id", "value": "x"}}
    for headers in ({}, JAVA):
        refused(client.post(f"{table.path}/plan", body, headers=headers), 400, "BadRequestException")
