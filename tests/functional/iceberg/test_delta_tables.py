"""Delta tables through the Iceberg API are loaded and planned, and every change is refused (ADR
43)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.clones import clone
from tests.support.fakes import delta
from tests.support.iceberg.client import MAIN, SALES, Iceberg, refused, set_properties
from tests.support.iceberg.delta_table import VECTOR, DeltaTable, add, field, metadata
from turnstile.iceberg.scans import delta_scans
from turnstile.planning import appends
from turnstile.store.core.names import published_path
from turnstile.store.ports import VendedCredentials

EU = {"type": "eq", "term": "id", "value": 5}


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


def two_days(client: Iceberg, **more: Any) -> DeltaTable:
    table = DeltaTable(client, **more)
    table.commit(add("day=2026-11-01/a.parquet", 5, day="2026-11-01", ids=(0, 4)))
    table.commit(add("day=2026-11-02/b%20c.parquet", 5, day="2026-11-02", ids=(5, 9)), add("n.parquet", 1, ids=(1, 9)))
    return table


def test_it_is_listed_and_exists(client: Iceberg) -> None:
    table = DeltaTable(client)
    client.create("i1")
    names = [one["name"] for one in client.get(f"{SALES}/tables").json["identifiers"]]
    assert names == ["d1", "i1"]
    first = client.get(f"{SALES}/tables", pageToken="", pageSize=1).json
    second = client.get(f"{SALES}/tables", pageToken=first["next-page-token"], pageSize=1).json
    assert [first["identifiers"][0]["name"], second["identifiers"][0]["name"]] == ["d1", "i1"]
    assert client.head(table.path) == 204
    assert client.post(f"{table.path}/metrics", {"report-type": "scan-report"}).status == 204


def test_its_metadata(client: Iceberg) -> None:
    table = two_days(client, **{"owner": "ann", "delta.appendOnly": "false"})
    answer = client.get(table.path)
    body = answer.json
    shown = answer.json["metadata"]
    assert body["config"] == {"scan-planning-mode": "server"}
    assert body["metadata-location"] == f"{table.location}/_delta_log/{2:020d}.json"
    assert (shown["format-version"], shown["table-uuid"], shown["location"]) == (2, table.id, table.location)
    assert shown["schemas"] == [{
        "type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "id", "type": "long", "required": False},
            {"id": 2, "name": "day", "type": "date", "required": False},
        ],
    }]  # fmt: skip
    spec = {"spec-id": 0, "fields": [{"source-id": 2, "name": "day", "transform": "identity", "field-id": 1000}]}
    assert shown["partition-specs"] == [spec]
    assert shown["current-snapshot-id"] == 3 and [one["snapshot-id"] for one in shown["snapshots"]] == [1, 2, 3]
    assert shown["properties"] == {
        "owner": "ann",
        "gc.enabled": "false",
        "turnstile.format": "delta",
        "schema.name-mapping.default": json.dumps(
            [{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["day"]}], separators=(",", ":")
        ),
    }
    times = [one["timestamp-ms"] for one in shown["snapshots"]]
    assert times == sorted(times) and times[-1] == table.head.last_ict == shown["last-updated-ms"]
    assert len(client.load(table.path, snapshots="refs")["metadata"]["snapshots"]) <= 3


def test_a_tag_changes_with_every_commit(client: Iceberg) -> None:
    table = two_days(client)
    tag = client.get(table.path).headers["etag"]
    assert client.get(table.path, headers={"If-None-Match": tag}).status == 304
    table.commit(add("more.parquet", ids=(1, 1), day="2026-11-03"))
    assert client.get(table.path, headers={"If-None-Match": tag}).status == 200


def test_i6_a_plan_has_what_is_ratified_whether_or_not_it_is_published(client: Iceberg) -> None:
    table = two_days(client)
    everything = {"day=2026-11-01/a.parquet": True, "day=2026-11-02/b c.parquet": True, "n.parquet": True}
    assert table.files() == everything
    table.publish()
    assert table.files() == everything
    table.commit(delta.remove("n.parquet"))
    del everything["n.parquet"]
    assert table.files() == everything


def test_a_task_says_all_that_a_reader_needs(client: Iceberg) -> None:
    table = two_days(client)
    plan = table.plan(filter={"type": "eq", "term": "day", "value": "2026-11-01"}, snapshot_id=2)
    assert plan["status"] == "completed" and "plan-tasks" not in plan and "delete-files" not in plan
    assert plan["file-scan-tasks"] == [{
        "data-file": {
            "spec-id": 0, "content": "data", "file-path": f"{table.location}/day=2026-11-01/a.parquet",
            "file-format": "parquet",
            "partition": ["2026-11-01"], "file-size-in-bytes": 10, "record-count": 5,
        },
        "residual-filter": True,
    }]  # fmt: skip


def test_a_filter_leaves_out_files_and_stays_where_it_is_needed(client: Iceberg) -> None:
    table = two_days(client)
    assert table.files(filter=EU) == {"day=2026-11-02/b c.parquet": EU, "n.parquet": EU}
    assert table.files(filter={"type": "gt-eq", "term": "ID", "value": 5}, case_sensitive=False) == {
        "day=2026-11-02/b c.parquet": True,
        "n.parquet": {"type": "gt-eq", "term": "ID", "value": 5},
    }
    missing = {"type": "eq", "term": "ID", "value": 5}
    assert table.files(filter=missing) == dict.fromkeys(table.files(), missing), "unknown, so nothing is left out"


def test_time_travel(client: Iceberg) -> None:
    table = two_days(client)
    assert table.files(snapshot_id=1) == {} and len(table.files(snapshot_id=2)) == 1
    assert len(table.files(snapshot_id=0)) == 3, "what Delta's client says for the current one"
    for missing in (4, -1):
        refused(client.post(f"{table.path}/plan", {"snapshot-id": missing}), 400, "BadRequestException")


def test_a_version_with_other_columns_is_refused_unless_all_of_them_are_still_there(client: Iceberg) -> None:
    table = two_days(client)
    table.publish()
    table.commit(metadata([field("id", "long"), field("day", "date"), field("more", "string")], ("day",)))
    table.publish()
    assert len(table.files(snapshot_id=2)) == 1
    table.commit(metadata([field("id", "string"), field("day", "date")], ("day",)))
    table.publish()
    message = refused(client.post(f"{table.path}/plan", {"snapshot-id": 2}), 400, "BadRequestException")
    assert "column 'id' of the version is another one in the table's present schema" in message


def test_large_scans_come_in_parts_that_any_server_answers(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    table = DeltaTable(client)
    table.commit(*(add(f"f{n}.parquet", ids=(n, n), day="2026-11-01") for n in range(10)))
    monkeypatch.setattr(delta_scans, "FILES", 3)
    first = table.plan(filter={"type": "lt", "term": "id", "value": 8})
    assert len(first["file-scan-tasks"]) == 3
    table.commit(delta.remove("f1.parquet"))
    other = Iceberg(beside=client)
    names = []
    answer = first
    while True:
        names += [task["data-file"]["file-path"].rpartition("/")[2] for task in answer["file-scan-tasks"]]
        if "plan-tasks" not in answer:
            break
        answer = other.post(f"{table.path}/tasks", {"plan-task": answer["plan-tasks"][0]}).json
    assert sorted(names) == [f"f{n}.parquet" for n in range(8)], "of the version that was planned, each once"


def test_an_answer_is_no_longer_than_a_response_may_be(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    table = DeltaTable(client)
    table.commit(*(add(f"f{n}.parquet", ids=(n, n), day="2026-11-01") for n in range(10)))
    monkeypatch.setattr(delta_scans, "PAGE_BYTES", 1_500)
    assert 1 <= len(table.plan()["file-scan-tasks"]) < 10
    assert len(table.files()) == 10


@pytest.mark.parametrize("text", ["", "x", "AAAA"])
def test_an_unknown_plan_task(client: Iceberg, text: str) -> None:
    table = two_days(client)
    refused(client.post(f"{table.path}/tasks", {"plan-task": text}), 404, "NoSuchPlanTaskException")


def test_a_plan_task_of_another_table(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta_scans, "FILES", 1)
    task = two_days(client).plan()["plan-tasks"][0]
    other = two_days(client, name="d2")
    refused(client.post(f"{other.path}/tasks", {"plan-task": task}), 404, "NoSuchPlanTaskException")


def test_deletion_vectors_are_those_of_format_version_3(client: Iceberg) -> None:
    table = DeltaTable(client, features=("deletionVectors",))
    table.commit(add("a.parquet", 9, day="2026-11-01"))
    table.commit(delta.remove("a.parquet"), add("a.parquet", 9, day="2026-11-01", deletionVector=VECTOR))
    assert client.load(table.path)["metadata"]["format-version"] == 3
    plan = table.plan()
    (task,) = plan["file-scan-tasks"]
    (deletes,) = plan["delete-files"]
    assert task["delete-file-references"] == [0]
    assert deletes == {
        "spec-id": 0, "content": "position-deletes", "file-format": "puffin", "partition": ["2026-11-01"],
        "file-path": f"{table.location}/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
        "file-size-in-bytes": 52, "record-count": 6, "referenced-data-file": f"{table.location}/a.parquet",
        "content-offset": 4, "content-size-in-bytes": 48,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        ({"features": ("variantType",)}, "the feature variantType"),
        ({"fields": [field("v", "void")]}, "column 'v' is of type void"),
        ({"fields": [field("s", "string", __COLLATIONS={"s": "icu.de"})]}, "column 's' has a collation"),
    ],
    ids=str,
)  # fmt: skip
def test_what_iceberg_would_read_wrongly_is_refused_by_name(
    client: Iceberg, made: dict[str, Any], problem: str
) -> None:
    table = DeltaTable(client, **made)
    assert problem in refused(client.get(table.path), 400, "BadRequestException")
    assert problem in refused(client.post(f"{table.path}/plan", {}), 400, "BadRequestException")


def test_a_file_that_cannot_be_described_is_named(client: Iceberg) -> None:
    table = DeltaTable(client)
    table.commit(add("a.parquet", day="2026-11-01", stats="{}"))
    assert "'a.parquet'" in refused(client.post(f"{table.path}/plan", {}), 400, "BadRequestException")


def test_versions_before_a_gap_in_the_log_are_not_shown(client: Iceberg) -> None:
    table = DeltaTable(client)
    for n in range(6):
        table.commit(add(f"f{n}.parquet", ids=(n, n), day="2026-11-01"))
    table.publish()
    assert [one["snapshot-id"] for one in client.load(table.path)["metadata"]["snapshots"]] == [1, 2, 3, 4, 5, 6, 7]
    client.world.storages.open(table.location).delete(published_path(0))
    shown = [one["snapshot-id"] for one in client.load(table.path)["metadata"]["snapshots"]]
    assert shown == [version + 1 for version in range(table.head.tail_from, 7)]


def test_a_filter_too_long_for_a_plan_task(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    table = two_days(client)
    monkeypatch.setattr(delta_scans, "TASK_CHARACTERS", 100)
    body = {"filter": {"type": "in", "term": "id", "values": list(range(100))}}
    assert len(client.post(f"{table.path}/plan", body).json["file-scan-tasks"]) == 3, "one answer needs no plan task"
    monkeypatch.setattr(delta_scans, "FILES", 1)
    assert "the filter takes" in refused(client.post(f"{table.path}/plan", body), 400, "BadRequestException")


def test_a_clone_is_refused_since_its_files_are_its_sources(client: Iceberg) -> None:
    table = two_days(client)
    table.publish()
    clone(client.services.open_catalog, "sales.d1", "sales.c1")
    for answer in (client.get(f"{SALES}/tables/c1"), client.post(f"{SALES}/tables/c1/plan", {})):
        assert "pinned to version 2" in refused(answer, 400, "BadRequestException")


def test_an_incremental_scan_has_what_appends_added_between_two_snapshots(
    client: Iceberg, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = DeltaTable(client)  # snapshot 1, 2
    for number in range(4):
        table.commit(add(f"f{number}.parquet", ids=(number, number), day="2026-11-01"))
    last = client.load(table.path)["metadata"]["current-snapshot-id"]
    spans = {(last - 2, last): [2, 3], (last - 4, last - 1): [0, 1, 2], (last, last): [], (last - 1, 0): [3]}
    for (start, end), numbers in spans.items():
        assert sorted(table.files(**{"start-snapshot-id": start, "end-snapshot-id": end})) == [
            f"f{n}.parquet" for n in numbers
        ]
    span = {"start-snapshot-id": last - 4, "end-snapshot-id": last}
    assert sorted(table.files(**span, filter={"type": "gt", "term": "id", "value": 1})) == ["f2.parquet", "f3.parquet"]
    table.publish()
    monkeypatch.setattr(delta_scans, "FILES", 1)
    assert sorted(table.files(**span)) == [f"f{n}.parquet" for n in range(4)], "by the page"
    table.commit(
        {"remove": {**delta.remove("f1.parquet")["remove"], "dataChange": False}},
        add("g.parquet", ids=(1, 1), day="2026-11-01", dataChange=False),
    )
    assert sorted(table.files(**{**span, "end-snapshot-id": last + 1})) == [f"f{n}.parquet" for n in range(4)], (
        "rows are the same"
    )
    table.commit(delta.remove("f2.parquet"))
    message = refused(
        client.post(f"{table.path}/plan", {**span, "end-snapshot-id": last + 2}), 400, "BadRequestException"
    )
    assert f"version {last + 1} removes rows" in message


@pytest.mark.parametrize(
    "body",
    [
        {"start-snapshot-id": 1}, {"end-snapshot-id": 2},
        {"start-snapshot-id": 1, "end-snapshot-id": 2, "snapshot-id": 2},
        {"start-snapshot-id": 2, "end-snapshot-id": 1}, {"start-snapshot-id": 1, "end-snapshot-id": 99},
        {"start-snapshot-id": 98, "end-snapshot-id": 99},
    ],
    ids=str,
)  # fmt: skip
def test_an_incremental_scan_has_two_ends(client: Iceberg, body: dict[str, int]) -> None:
    refused(client.post(f"{two_days(client).path}/plan", body), 400, "BadRequestException")


def test_an_incremental_scan_is_bounded(client: Iceberg, monkeypatch: pytest.MonkeyPatch) -> None:
    table = DeltaTable(client)
    table.commit(*(add(f"f{n}.parquet", ids=(n, n), day="2026-11-01") for n in range(3)))
    last = client.load(table.path)["metadata"]["current-snapshot-id"]
    span = {"start-snapshot-id": last - 1, "end-snapshot-id": last}
    for bound, most, taken in (
        ("MAX_ADDED", 3, 200),
        ("MAX_ADDED", 2, 400),
        ("MAX_VERSIONS", 1, 200),
        ("MAX_VERSIONS", 0, 400),
    ):
        with monkeypatch.context() as bounds:
            bounds.setattr(appends, bound, most)
            assert client.post(f"{table.path}/plan", span).status == taken


def test_this_api_has_no_writes(client: Iceberg) -> None:
    table = two_days(client)
    before = client.heads()
    rename = {"source": {"namespace": ["sales"], "name": "d1"}, "destination": {"namespace": ["sales"], "name": "d2"}}
    transaction = {
        "table-changes": [{"identifier": rename["source"], "requirements": [], "updates": [set_properties(a="1")]}]
    }
    for answer in (
        client.commit(set_properties(a="1"), path=table.path),
        client.delete(table.path),
        client.post(f"{table.path}/unregister"),
        client.post(f"{MAIN}/tables/rename", rename),
        client.post(f"{MAIN}/transactions/commit", transaction),
    ):
        assert "'main.sales.d1' is a Delta table" in refused(answer, 400, "BadRequestException")
    assert client.heads() == before


def test_the_past_of_a_catalog_has_no_delta_tables(client: Iceberg) -> None:
    table = two_days(client)
    client.services.open_catalog.named_snapshots.create("main", "then")
    past = "/iceberg/v1/main@snapshot:then/namespaces/sales/tables"
    assert client.get(past).json["identifiers"] == []
    refused(client.get(f"{past}/d1"), 404, "NoSuchTableException")
    assert client.head(table.path) == 204


class Vendor:
    def vend(self, location: str, operation: Any) -> tuple[VendedCredentials, ...]:
        return (VendedCredentials(location, operation, 9, {"s3.access-key-id": "k", "s3.session-token": "s"}),)


def test_credentials_only_read() -> None:
    client = Iceberg(vendor=Vendor())
    table = two_days(client)
    wants = {"X-Iceberg-Access-Delegation": "vended-credentials"}
    loaded = client.get(table.path, headers=wants).json
    assert loaded["storage-credentials"][0]["prefix"] == table.location
    assert loaded["config"]["scan-planning-mode"] == "server" and loaded["config"]["s3.access-key-id"] == "k"
    planned = client.post(f"{table.path}/plan", {}, headers=wants).json
    assert planned["storage-credentials"] == loaded["storage-credentials"]
    assert "storage-credentials" not in client.post(f"{table.path}/plan", {}).json
    assert client.get(f"{table.path}/credentials").json["storage-credentials"][0]["prefix"] == table.location
