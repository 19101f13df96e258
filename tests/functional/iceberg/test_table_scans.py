"""Scans of Iceberg tables that the catalog plans from manifests, which PyIceberg has written (ADR
45)."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.iceberg.client import SALES, Iceberg, refused
from tests.support.iceberg.planned_table import DAY_US, PlannedTable
from turnstile.catalog.core.entities import IcebergTable
from turnstile.iceberg.core.files import content_files
from turnstile.iceberg.core.metadata import parse
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.scans import table_scans
from turnstile.iceberg.scans.delta_scans import PlanRequest
from turnstile.iceberg.scans.table_scans import TableScans
from turnstile.store.core.errors import UnsupportedTable
from turnstile.store.ports import VendedCredentials

FIVE = {"type": "eq", "term": "id", "value": 5}


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


@pytest.fixture
def table(client: Iceberg) -> PlannedTable:
    return PlannedTable(client)


def test_a_task_says_all_that_a_reader_needs(table: PlannedTable) -> None:
    table.append(table.file("a.parquet"))
    plan = table.plan(stats_fields=["id", "none"])
    assert plan["status"] == "completed"
    later = table.client.get(f"{table.path}/plan/{plan['plan-id']}").json
    assert later == {name: value for name, value in plan.items() if name != "plan-id"}
    refused(table.client.get(f"{table.path}/plan/x"), 404, "NoSuchPlanIdException")
    assert plan["file-scan-tasks"] == [{
        "data-file": {
            "spec-id": 0, "content": "data", "file-path": f"{table.location}/data/a.parquet", "file-format": "parquet",
            "partition": [], "file-size-in-bytes": 100, "record-count": 10, "split-offsets": [4],
            "value-counts": {"keys": [1], "values": [10]}, "null-value-counts": {"keys": [1], "values": [0]},
        },
        "residual-filter": True,
    }]  # fmt: skip
    assert not {"plan-tasks", "delete-files"} & plan.keys()
    assert "value-counts" not in table.plan()["file-scan-tasks"][0]["data-file"], "nobody asked"


def test_a_table_without_a_snapshot_has_no_files(table: PlannedTable) -> None:
    assert table.tasks() == {} == table.tasks(filter=FIVE)
    bad = {"filter": {"type": "eq", "term": "id", "value": "x"}}
    refused(table.client.post(f"{table.path}/plan", bad), 400, "BadRequestException")


def test_bounds_leave_out_files_and_the_rest_is_filtered_by_the_reader(table: PlannedTable) -> None:
    table.append(table.file("a.parquet", (0, 4)), table.file("b.parquet", (5, 9)), table.file("c.parquet", (5, 5)))
    assert set(table.tasks(filter=FIVE)) == {"b.parquet", "c.parquet"}
    assert [task["residual-filter"] for task in table.plan(filter=FIVE)["file-scan-tasks"]] == [FIVE, FIVE]
    other_case = {**FIVE, "term": "ID"}
    assert set(table.tasks(filter=other_case, case_sensitive=False)) == {"b.parquet", "c.parquet"}
    assert len(table.tasks(filter=other_case)) == 3, "no such column, so nothing is left out"


def test_partitions_leave_out_files_and_whole_manifests(client: Iceberg) -> None:
    table = PlannedTable(client, by_day=True)
    table.append(table.file("d5.parquet", day=5), table.file("d6.parquet", day=6))
    table.append(table.file("d9.parquet", day=9), table.file("none.parquet", day=None))
    on = {"type": "and", "left": {"type": "gt-eq", "term": "at", "value": 6 * DAY_US},
          "right": {"type": "lt", "term": "at", "value": 7 * DAY_US}}  # fmt: skip
    assert table.plan(filter=on)["file-scan-tasks"][0]["data-file"]["partition"] == ["1970-01-07"]
    assert set(table.tasks(filter=on)) == {"d6.parquet"}
    assert set(table.tasks(filter={"type": "is-null", "term": "at"})) == {"none.parquet"}
    late = {"type": "gt", "term": "at", "value": 9 * DAY_US - 1}
    del table.files[f"{table.location}/metadata/m10-data.avro"]
    assert set(table.tasks(filter=late)) == {"d9.parquet"}, "the other manifest is not read"


def test_delete_files_belong_to_what_is_not_newer(table: PlannedTable) -> None:
    table.append(table.file("a.parquet"))
    table.append(
        table.file("b.parquet"), table.file("p.parquet", content="position"),
        table.file("e.parquet", content="equality", equality_ids=[1]), operation="overwrite",
    )  # fmt: skip
    table.append(table.file("c.parquet"))
    assert {name: set(deletes) for name, deletes in table.tasks().items()} == {
        "a.parquet": {"p.parquet", "e.parquet"},
        "b.parquet": {"p.parquet"},
        "c.parquet": set(),
    }
    plan = table.plan()
    (equality,) = (each for each in plan["delete-files"] if each["content"] == "equality-deletes")
    assert equality["equality-ids"] == [1]


def test_delete_files_belong_to_their_partition(client: Iceberg) -> None:
    table = PlannedTable(client, by_day=True)
    table.append(table.file("d5.parquet", day=5), table.file("d6.parquet", day=6))
    equality = table.file("e.parquet", day=6, content="equality", equality_ids=[1])
    table.append(table.file("p.parquet", day=5, content="position"), equality, operation="delete")
    assert table.tasks() == {"d5.parquet": ["p.parquet"], "d6.parquet": ["e.parquet"]}


def test_more_delete_files_than_are_held(table: PlannedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_files, "MAX_DELETES", 1)
    table.append(table.file("a.parquet"), table.file("p.parquet", content="position"))
    assert table.tasks() == {"a.parquet": ["p.parquet"]}
    table.append(table.file("q.parquet", content="position"), operation="delete")
    message = refused(table.client.post(f"{table.path}/plan", {}), 400, "BadRequestException")
    assert "more than 1 delete files" in message


@pytest.mark.parametrize("limit", ["FILES", "MANIFESTS", "ENTRIES", "PAGE_BYTES"])
def test_large_scans_come_in_parts_that_any_server_answers(
    client: Iceberg, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    table = PlannedTable(client)
    for part in range(4):
        table.append(*(table.file(f"f{part}-{n}.parquet", (n, n)) for n in range(4)))
    table.append(table.file("p.parquet", content="position"), operation="delete")
    monkeypatch.setattr(table_scans, limit, {"MANIFESTS": 1, "PAGE_BYTES": 1_800}.get(limit, 3))
    lesser = {"type": "lt", "term": "id", "value": 3}
    first = table.plan(filter=lesser)
    assert 1 <= len(first["file-scan-tasks"]) <= 4 and len(first["plan-tasks"]) == 1
    snapshot = table.append(table.file("late.parquet", (1, 1)))
    other = Iceberg(beside=client)
    answer = other.post(f"{table.path}/tasks", {"plan-task": first["plan-tasks"][0]})
    assert answer.status == 200 and answer.json["file-scan-tasks"] != first["file-scan-tasks"]
    everything = {f"f{part}-{n}.parquet": ["p.parquet"] for part in range(4) for n in range(3)}
    assert table.tasks(filter=lesser, snapshot_id=snapshot - 10) == everything


def test_time_travel(table: PlannedTable) -> None:
    first = table.append(table.file("a.parquet"))
    table.append(table.file("b.parquet"))
    assert set(table.tasks(snapshot_id=first)) == {"a.parquet"} and len(table.tasks()) == 2
    for missing in (4, -1, 0):
        message = refused(table.client.post(f"{table.path}/plan", {"snapshot-id": missing}), 400, "BadRequestException")
        assert f"no snapshot {missing}" in message


def test_what_was_appended_between_two_snapshots(table: PlannedTable) -> None:
    first = table.append(table.file("a.parquet"))
    table.append(table.file("b.parquet", (0, 4)), table.file("c.parquet", (5, 9)))
    table.append(table.file("p.parquet", content="position"), table.file("x.parquet"), operation="overwrite")
    last = table.append(table.file("d.parquet"))
    ends = {"start_snapshot_id": first, "end_snapshot_id": last}
    assert table.tasks(**ends) == {"b.parquet": [], "c.parquet": [], "d.parquet": []}, "neither changes nor deletes"
    assert set(table.tasks(**ends, filter=FIVE)) == {"c.parquet", "d.parquet"}
    assert table.tasks(start_snapshot_id=last, end_snapshot_id=last) == {}
    for body in (
        {"start-snapshot-id": last, "end-snapshot-id": first},
        {"start-snapshot-id": 4, "end-snapshot-id": last},
        {"start-snapshot-id": first},
        {"end-snapshot-id": last},
        {"start-snapshot-id": first, "end-snapshot-id": last, "snapshot-id": last},
    ):
        refused(table.client.post(f"{table.path}/plan", body), 400, "BadRequestException")


def test_appended_files_come_in_parts_as_well(table: PlannedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    first = table.append(table.file("a.parquet"))
    for n in range(5):
        last = table.append(table.file(f"b{n}.parquet"), table.file(f"c{n}.parquet"))
    monkeypatch.setattr(table_scans, "FILES", 3)
    assert len(table.tasks(start_snapshot_id=first, end_snapshot_id=last)) == 10


def test_a_name_that_was_another_columns_excludes_nothing(table: PlannedTable) -> None:
    """Clients bind filters to the snapshot's schema or to the present one."""
    first = table.append(table.file("a.parquet", (0, 4)))
    fields = [{"id": 1, "name": "old_id", "type": "long", "required": False},
              {"id": 4, "name": "id", "type": "long", "required": False}]  # fmt: skip
    schema = {"type": "struct", "schema-id": 1, "fields": fields}
    answer = table.client.commit(
        {"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}, path=table.path
    )
    assert answer.status == 200, answer.text
    assert set(table.tasks(filter=FIVE)) == {"a.parquet"}
    assert set(table.tasks(filter=FIVE, snapshot_id=first, use_snapshot_schema=True)) == {"a.parquet"}
    assert table.tasks(filter={**FIVE, "term": "old_id"}) == {}
    assert set(table.tasks(filter={**FIVE, "term": "old_id"}, use_snapshot_schema=True)) == {"a.parquet"}


def test_i12_manifests_elsewhere_are_not_read(table: PlannedTable) -> None:
    """Whoever may write a table may name any file in it, another table's among them."""
    other = PlannedTable(table.client, "i2")
    other.append(other.file("secret.parquet"))
    table.append(table.file("a.parquet"), kept=other._manifests)
    message = refused(table.client.post(f"{table.path}/plan", {}), 400, "BadRequestException")
    assert "is not below the table's location" in message and "secret" not in message


def test_a_manifest_that_is_missing_or_damaged(table: PlannedTable) -> None:
    table.append(table.file("a.parquet"))
    path = f"{table.location}/metadata/m10-data.avro"
    whole = table.files[path]
    table.files[path] = (whole[0][:-20], 0)
    assert "not a readable Avro file" in refused(
        table.client.post(f"{table.path}/plan", {}), 400, "BadRequestException"
    )
    del table.files[path]
    assert "is missing" in refused(table.client.post(f"{table.path}/plan", {}), 400, "BadRequestException")


def test_an_encrypted_file(table: PlannedTable) -> None:
    table.append(table.file("a.parquet", key_metadata=b"k"))
    message = refused(table.client.post(f"{table.path}/plan", {}), 400, "BadRequestException")
    assert "its files are encrypted" in message and "scan-planning-mode=client" in message


def test_a_snapshot_that_is_encrypted_or_has_no_manifest_list(table: PlannedTable) -> None:
    """Of format version 1 a snapshot may name its manifests itself."""
    table.append(table.file("a.parquet", (0, 4)), table.file("b.parquet", (5, 9)))
    metadata = parse(json.dumps(table.client.load(table.path)["metadata"]).encode())
    (snapshot,) = metadata.snapshots
    scans = TableScans(table.client.world.storages)
    entity = IcebergTable("i1", table.id, table.location, "", 0)

    def planned(**changes: Any) -> list[str]:
        changed = msgspec.structs.replace(metadata, snapshots=(msgspec.structs.replace(snapshot, **changes),))
        page = scans.plan(entity, changed, [table.location], PlanRequest(filter=FIVE))
        return [task["data-file"]["file-path"].rpartition("/")[2] for task in page.tasks.file_scan_tasks]

    manifest = f"{table.location}/metadata/m10-data.avro"
    assert planned(manifest_list="", manifests=(manifest,)) == ["b.parquet"] == planned()
    with pytest.raises(UnsupportedTable, match="snapshot 10 is encrypted"):
        planned(key_id="k")
    metadata = msgspec.structs.replace(metadata, partition_specs=(*metadata.partition_specs, PartitionSpec((), 1)))
    with pytest.raises(UnsupportedTable, match="several partition specs"):
        planned(manifest_list="", manifests=(manifest,))


@pytest.mark.parametrize("text", ["", "x", "AAAA"])
def test_an_unknown_plan_task(table: PlannedTable, text: str) -> None:
    refused(table.client.post(f"{table.path}/tasks", {"plan-task": text}), 404, "NoSuchPlanTaskException")


def test_a_plan_task_of_another_table_or_of_a_snapshot_that_is_gone(
    table: PlannedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_scans, "FILES", 1)
    first = table.append(table.file("a.parquet"), table.file("b.parquet"))
    task = {"plan-task": table.plan()["plan-tasks"][0]}
    other = PlannedTable(table.client, "i2")
    refused(table.client.post(f"{other.path}/tasks", task), 404, "NoSuchPlanTaskException")
    table.append(table.file("c.parquet"))
    assert table.client.post(f"{table.path}/tasks", task).status == 200
    gone = table.client.commit({"action": "remove-snapshots", "snapshot-ids": [first]}, path=table.path)
    assert gone.status == 200, gone.text
    refused(table.client.post(f"{table.path}/tasks", task), 404, "NoSuchPlanTaskException")


def test_a_filter_too_long_for_a_plan_task(table: PlannedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_scans, "TASK_CHARACTERS", 200)
    table.append(table.file("a.parquet"), table.file("b.parquet"))
    body = {"filter": {"type": "in", "term": "id", "values": list(range(100))}}
    assert len(table.client.post(f"{table.path}/plan", body).json["file-scan-tasks"]) == 2, "one answer needs none"
    monkeypatch.setattr(table_scans, "FILES", 1)
    assert "the filter takes" in refused(table.client.post(f"{table.path}/plan", body), 400, "BadRequestException")


def test_no_such_table(client: Iceberg) -> None:
    refused(client.post(f"{SALES}/tables/none/plan", {}), 404, "NoSuchTableException")


class Vendor:
    def vend(self, location: str, operation: Any) -> tuple[VendedCredentials, ...]:
        return (VendedCredentials(location, operation, 9, {"s3.access-key-id": operation}),)


def test_credentials_of_a_plan_only_read() -> None:
    table = PlannedTable(Iceberg(vendor=Vendor()))
    table.append(table.file("a.parquet"))
    wants = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    loaded = table.client.get(table.path, headers=wants).json["storage-credentials"]
    planned = table.client.post(f"{table.path}/plan", {}, headers=wants).json["storage-credentials"]
    assert [each["config"]["s3.access-key-id"] for each in (*loaded, *planned)] == ["READ_WRITE", "READ"]
    assert planned[0]["prefix"] == table.location
    assert "storage-credentials" not in table.plan()
