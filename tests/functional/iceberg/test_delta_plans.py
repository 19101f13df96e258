"""Plans that Delta Spark's server-side planning asks for, by the requests that its client sends
(Delta 4.4, ``IcebergRESTCatalogPlanningClient``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.iceberg.client import Iceberg, refused
from tests.support.iceberg.delta_table import VECTOR, DeltaTable, field
from tests.support.iceberg.delta_table import add as partitioned
from turnstile.iceberg.scans import delta_scans
from turnstile.store.ports import VendedCredentials

ROOT = "/api/2.1/unity-catalog/iceberg-rest/v1"


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


def planned(client: Iceberg, table: str = "d1", **more: Any) -> Answer:
    """What the client asks: the prefix, and a plan of the current snapshot."""
    answer = client.get(f"{ROOT}/config", warehouse="main")
    assert answer.json == {"defaults": {}, "overrides": {"prefix": "main"}}
    body = {"snapshot-id": 0, "case-sensitive": False, "use-snapshot-schema": False, **more}
    return client.post(f"{ROOT}/{answer.json['overrides']['prefix']}/namespaces/sales/tables/{table}/plan", body)


def add(path: str, rows: int, **more: Any) -> dict[str, Any]:
    """An ``add`` action of a table without partitions."""
    made = partitioned(path, rows, **more)
    made["add"]["partitionValues"] = {}
    return made


def plain(client: Iceberg, **more: Any) -> DeltaTable:
    return DeltaTable(client, fields=[field("id", "long")], partitions=(), **more)


def test_all_files_in_one_answer(client: Iceberg) -> None:
    table = plain(client)
    table.commit(add("a.parquet", 5, ids=(0, 4)), add("b%20c.parquet", 5, ids=(5, 9)))
    body = planned(client).json
    assert body["status"] == "completed" and "plan-tasks" not in body
    assert [(task["data-file"]["file-path"], task["data-file"]["partition"]) for task in body["file-scan-tasks"]] == [
        (f"{table.location}/a.parquet", []), (f"{table.location}/b c.parquet", []),
    ]  # fmt: skip
    more = {"filter": {"type": "gt", "term": "ID", "value": 4}, "min-rows-requested": 3, "select": ["id"]}
    (task,) = planned(client, **more).json["file-scan-tasks"]
    assert task["residual-filter"] is True, "another one is an error in Delta's client"


def test_what_its_client_would_read_wrongly_is_refused(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    table = plain(client, features=("deletionVectors",))
    table.commit(add("a.parquet", 9, ids=(0, 4)), add("b.parquet", 9, ids=(5, 9)))
    assert planned(client).status == 200
    monkeypatch.setattr(delta_scans, "FILES", 1)
    assert "more than the 1 files of one answer" in refused(planned(client), 400, "BadRequestException")
    monkeypatch.undo()
    table.commit(delta.remove("a.parquet"), add("a.parquet", 9, ids=(0, 4), deletionVector=VECTOR))
    assert "deletion vectors" in refused(planned(client), 400, "BadRequestException")
    later = {"filter": {"type": "gt", "term": "id", "value": 4}}
    assert len(planned(client, **later).json["file-scan-tasks"]) == 1, "no planned file has one"


def test_column_mapping_is_refused(client: Iceberg) -> None:
    mapping = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "col-1"}
    DeltaTable(
        client, fields=[field("id", "long", **mapping)], partitions=(), features=("columnMapping",),
        **{"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "1"},
    )  # fmt: skip
    assert "column mapping" in refused(planned(client), 400, "BadRequestException")


def test_iceberg_tables_and_unknown_names(client: Iceberg) -> None:
    client.create("i1")
    message = refused(planned(client, "i1"), 406, "UnsupportedOperationException")
    assert "/iceberg/v1/main/namespaces/sales/tables/i1/plan" in message
    refused(planned(client, "none"), 404, "NoSuchTableException")
    refused(client.get(f"{ROOT}/config", warehouse="none"), 404, "NoSuchWarehouseException")
    for wrong in ({}, {"warehouse": "main@seq:1"}):
        refused(client.get(f"{ROOT}/config", **wrong), 400, "BadRequestException")


class Vendor:
    def __init__(self) -> None:
        self.files: list[str] = []

    def vend(self, location: str, operation: Any, files: Sequence[str] = ()) -> tuple[VendedCredentials, ...]:
        self.files = list(files)
        return (VendedCredentials(location, operation, 9, {"s3.access-key-id": operation, "s3.session-token": "s"}),)


def test_credentials_are_in_the_plan_and_only_read() -> None:
    vendor = Vendor()
    client = Iceberg(vendor=vendor)
    table = plain(client)
    assert "storage-credentials" not in planned(client).json, "there is nothing to read"
    table.commit(add("a.parquet", 5, ids=(0, 4)), add("b%20c.parquet", 5, ids=(5, 9)))
    (issued,) = planned(client, filter={"type": "gt", "term": "id", "value": 4}).json["storage-credentials"]
    assert (issued["prefix"], issued["config"]["s3.access-key-id"]) == (table.location, "READ")
    assert vendor.files == [f"{table.location}/b c.parquet"]
