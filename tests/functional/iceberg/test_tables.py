"""Tables through the real handler: create, load, register, rename, drop (I9, I10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.clones import clone
from tests.support.functions import Answer
from tests.support.iceberg.client import (
    MAIN,
    SALES,
    SCHEMA,
    T1,
    V1,
    VIEW,
    Iceberg,
    add_snapshot,
    at_ref,
    creation,
    refused,
    set_properties,
    set_ref,
)
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.iceberg.core.draft import NEW_TABLE_DEFAULTS


def test_a_warehouse_need_not_be_named_where_there_is_one_catalog(client: Iceberg) -> None:
    assert client.get(f"{V1}/config").json == client.get(f"{V1}/config", warehouse="main").json
    client.services.open_catalog.catalogs.create("second")
    message = refused(client.get(f"{V1}/config"), 400, "BadRequestException")
    assert message == "warehouse is missing, and there are 2 catalogs to choose from; name the catalog: warehouse=main"


def test_a_new_table_has_the_defaults_of_javas_library_unless_it_chooses(client: Iceberg) -> None:
    assert client.create()["metadata"]["properties"] == {"write.parquet.compression-codec": "zstd"}
    chosen = {"write.parquet.compression-codec": "snappy"}
    assert client.create("t2", properties=chosen)["metadata"]["properties"] == chosen
    staged = client.create("t3", **{"stage-create": True})["metadata"]
    assert staged["properties"] == {"write.parquet.compression-codec": "zstd"}


def test_statistics_may_come_before_their_snapshot(client: Iceberg) -> None:
    client.create()
    file = {"snapshot-id": 7, "statistics-path": "file:///lake/s", "file-size-in-bytes": 9}
    puffin = {**file, "file-footer-size-in-bytes": 1, "blob-metadata": []}
    updates = [{"action": "set-statistics", "statistics": puffin}]
    updates.append({"action": "set-partition-statistics", "partition-statistics": file})
    made = client.commit(*updates).json["metadata"]
    assert made["statistics"] == [puffin] and made["partition-statistics"] == [file]
    assert Iceberg(beside=client).load()["metadata"] == made


def test_the_folder_of_metadata_is_there_when_a_table_is_staged_in_a_file_system(client: Iceberg) -> None:
    location = client.create(**{"stage-create": True})["metadata"]["location"]
    storage = client.world.storages.open(location)
    assert storage.stat("metadata/.turnstile-staged") is not None
    client.create("t2", location="s3://bucket/t2", **{"stage-create": True})
    assert not [path for path in client.world.storages.files if path.startswith("s3:")]


def register(client: Iceberg, name: str, file: str, **more: Any) -> Answer:
    return client.post(f"{SALES}/register", {"name": name, "metadata-location": file, **more})


def test_i9_a_registration_that_overwrites_takes_the_place_of_another_table(client: Iceberg) -> None:
    first = client.create("t1")
    second = client.create("t2")
    assert client.delete(f"{SALES}/tables/t2").status == 204
    file = second["metadata-location"]
    refused(register(client, "t1", file), 409, "AlreadyExistsException")
    made = register(client, "t1", file, overwrite=True)
    assert made.status == 200 and made.json["metadata"] == second["metadata"] == client.load()["metadata"]
    back = register(client, "t2", first["metadata-location"])
    assert back.status == 200, "the table that was replaced was dropped, and its files stayed"
    refused(register(client, "t3", file, overwrite=True), 400, "BadRequestException")  # it is t1
    assert register(client, "t4", "file:///lake/none.json", overwrite=True).status == 404
    assert client.head(f"{SALES}/tables/t4") == 404 and client.load()["metadata"] == second["metadata"]


def test_i9_a_registration_that_overwrites_goes_on_from_a_file_of_the_same_table(client: Iceberg) -> None:
    file = client.create()["metadata-location"]
    client.commit(add_snapshot(1), set_ref(1))
    made = register(client, "t1", file, overwrite=True).json
    assert made["metadata-location"] == file and made["metadata"]["snapshots"] == []
    assert Iceberg(beside=client).load() == made
    assert client.commit(add_snapshot(1), set_ref(1)).status == 200
    assert client.post(f"{SALES}/views", VIEW).status == 200
    words = "View with same name already exists: sales.v1; "
    assert refused(register(client, "v1", file, overwrite=True), 409, "AlreadyExistsException").startswith(words)
    assert register(client, "t9", "s3://x/none.json", overwrite=True).status == 404


def test_i10_of_two_tables_elsewhere_one_is_dropped_before_the_other_is_registered(client: Iceberg) -> None:
    for name in ("t1", "t2"):
        client.create(name, location=f"s3://bucket/{name}")
    file = client.load(f"{SALES}/tables/t2")["metadata-location"]
    assert client.delete(f"{SALES}/tables/t2").status == 204
    rows = client.heads()
    message = refused(register(client, "t1", file, overwrite=True), 400, "BadRequestException")
    assert message.endswith("; drop the table first") and client.heads() == rows
    assert client.delete(T1).status == 204 and register(client, "t1", file).status == 200


def test_i9_a_clones_source_is_not_overwritten(client: Iceberg) -> None:
    client.create("t1")
    file = client.create("t2")["metadata-location"]
    assert client.delete(f"{SALES}/tables/t2").status == 204
    clone(client.services.open_catalog, "sales.t1", "sales.c")
    rows = client.heads()
    refused(register(client, "t1", file, overwrite=True), 409, "TableHasClonesException")
    assert client.heads() == rows


def test_a_location_with_one_slash_stays_as_it_was_written(client: Iceberg) -> None:
    made = client.create(location="file:/elsewhere/t1/")
    assert made["metadata"]["location"] == "file:/elsewhere/t1"
    committed = client.commit(add_snapshot(1), set_ref(1)).json
    assert committed["metadata"]["location"] == "file:/elsewhere/t1"
    assert Iceberg(beside=client).load()["metadata"] == committed["metadata"]
    for same in ("file:///elsewhere/t1", "file:/elsewhere/t1"):
        assert client.commit({"action": "set-location", "location": same}).json["metadata"]["location"] == same
    staged = client.create("t2", location="file:/elsewhere/t2", **{"stage-create": True})["metadata"]
    assert staged["location"] == "file:/elsewhere/t2"
    path = f"{SALES}/tables/t2"
    answer = client.commit(*creation(staged), require=[{"type": "assert-create"}], path=path)
    assert answer.json["metadata"]["location"] == "file:/elsewhere/t2"
    assert client.create("t3", location="s3a://bucket/t3")["metadata"]["location"] == "s3://bucket/t3"


@pytest.fixture
def client() -> Iceberg:
    return Iceberg()


def test_configuration_names_the_prefix_and_every_operation_that_is_served(client: Iceberg) -> None:
    said = client.get(f"{V1}/config", warehouse="MAIN").json
    assert said["overrides"] == {"prefix": "main"} and said["idempotency-key-lifetime"] == "PT30M"
    routes = {
        f"{method} /v1{route.removeprefix('/iceberg/v1').replace('plan_id', 'plan-id')}"
        for route, methods in client.app.app.routes.items()
        for method in methods
        if route.startswith("/iceberg/")
    }
    assert {*said["endpoints"]} | {"GET /v1/config"} == routes
    refused(client.get(f"{V1}/config", warehouse="none"), 404, "NoSuchWarehouseException")


def test_i9_a_table_is_there_once_its_metadata_file_and_its_name_are(client: Iceberg) -> None:
    made = client.create(properties={"owner": "alice", "format-version": "3"}, **{"partition-spec": {
        "fields": [{"source-id": 2, "transform": "identity", "name": "region"}]}})  # fmt: skip
    assert client.load() == made and client.head(T1) == 204
    stored = json.loads(client.world.storages.files[made["metadata-location"]][0])
    assert stored == made["metadata"] and stored["format-version"] == 3
    assert stored["properties"] == {"owner": "alice", **NEW_TABLE_DEFAULTS}
    uuid = stored["table-uuid"]
    assert stored["location"] == f"file:///lake/main/sales/{uuid}"
    assert client.world.refs.rows[f"test/location/{stored['location']}"]["table_id"] == uuid
    assert not [key for key in client.world.refs.rows if key.startswith("test/staging/")]
    assert client.get(f"{SALES}/tables").json == {
        "identifiers": [{"namespace": ["sales"], "name": "t1"}],
        "next-page-token": None,
    }


def test_a_staged_table_is_no_table_until_a_commit_creates_it(client: Iceberg) -> None:
    staged = client.create(**{"stage-create": True})
    assert "metadata-location" not in staged and client.head(T1) == 404 and client.files() == set()
    said = staged["metadata"]
    answer = client.commit(*creation(said), require=[{"type": "assert-create"}])
    assert answer.status == 200, answer.text
    assert answer.json["metadata"]["location"] == said["location"]
    assert client.load()["metadata"]["table-uuid"] == said["table-uuid"]
    assert not [key for key in client.world.refs.rows if key.startswith("test/staging/")]
    again = client.commit(*creation(said), require=[{"type": "assert-create"}])
    refused(again, 409, "CommitFailedException")


def test_a_staged_location_makes_one_table_only(client: Iceberg) -> None:
    said = client.create(**{"stage-create": True})["metadata"]
    assert client.commit(*creation(said), require=[{"type": "assert-create"}]).status == 200
    before = client.files()
    other = client.commit(*creation(said), require=[{"type": "assert-create"}], path=f"{SALES}/tables/t2")
    refused(other, 400, "BadRequestException")
    assert client.head(f"{SALES}/tables/t2") == 404 and client.files() == before


def test_a_name_leads_to_one_thing_whatever_its_case_or_kind(client: Iceberg) -> None:
    client.create()
    refused(client.post(f"{SALES}/tables", {"name": "T1", "schema": SCHEMA}), 409, "AlreadyExistsException")
    client.services.open_catalog.namespaces.create("main", ("sales", "taken"))
    refused(client.post(f"{SALES}/tables", {"name": "taken", "schema": SCHEMA}), 409, "AlreadyExistsException")
    refused(client.get(f"{SALES}/tables/taken"), 404, "NoSuchTableException")


@pytest.mark.parametrize(
    ("path", "body", "status", "type"),
    [
        (f"{MAIN}/namespaces/none/tables", {"name": "t", "schema": SCHEMA}, 404, "NoSuchNamespaceException"),
        (f"{V1}/none/namespaces/sales/tables", {"name": "t", "schema": SCHEMA}, 404, "NoSuchWarehouseException"),
        (f"{SALES}/tables", {"name": "a\nb", "schema": SCHEMA}, 400, "BadRequestException"),
        (f"{SALES}/tables", {"schema": SCHEMA}, 400, "BadRequestException"),
        (f"{SALES}/tables", {"name": "t"}, 400, "BadRequestException"),
        (f"{SALES}/tables", {"name": "t", "schema": {**SCHEMA, "fields": 1}}, 400, "BadRequestException"),
        (f"{SALES}/tables", {"name": "t", "schema": SCHEMA, "location": "s3://bucket"}, 400, "BadRequestException"),
        (f"{SALES}/tables", {"name": "t", "schema": SCHEMA, "location": "file:///lake/x"}, 400, "BadRequestException"),
        (f"{SALES}/tables", {"name": "t", "schema": SCHEMA, "properties": {"format-version": "9"}}, 400,
         "BadRequestException"),
        (f"{SALES}/tables", {"name": "t", "schema": SCHEMA, "properties": {"write.data.path": "s3://b/x"}}, 400,
         "BadRequestException"),
        (f"{SALES}/tables/t1", {"requirements": [], "updates": [{"action": "x"}]}, 400, "BadRequestException"),
        (f"{SALES}/tables/t1", {"requirements": [{"type": "x"}], "updates": []}, 400, "BadRequestException"),
        (f"{SALES}/tables/t1", {"requirements": [], "updates": []}, 404, "NoSuchTableException"),
        (f"{SALES}/register", {"name": "t", "metadata-location": "file:///none/v1.metadata.json"}, 404,
         "NotFoundException"),
        (f"{SALES}/register", {"name": "t", "metadata-location": "nowhere"}, 400, "BadRequestException"),
    ],
)  # fmt: skip
def test_what_cannot_be_created_or_changed_is_refused_and_nothing_is_left(
    client: Iceberg, path: str, body: Any, status: int, type: str
) -> None:
    client.create("other")
    before = client.heads()
    files = client.files()
    refused(client.post(path, body), status, type)
    staging = {key for key in client.heads() if key.startswith("test/staging/")}
    assert {key: row for key, row in client.heads().items() if key not in staging and "/location/" not in key} == {
        key: row for key, row in before.items() if "/location/" not in key
    }
    assert client.files() == files


def test_i10_a_location_of_its_own_choice_is_its_alone(client: Iceberg) -> None:
    client.create(location="s3://elsewhere/x/t1/")
    assert client.load()["metadata"]["location"] == "s3://elsewhere/x/t1"
    for overlapping in ("s3://elsewhere/x/t1", "s3a://elsewhere/x", "s3://elsewhere/x/t1/below"):
        answer = client.post(f"{SALES}/tables", {"name": "t2", "schema": SCHEMA, "location": overlapping})
        assert (
            "belongs" in refused(answer, 400, "BadRequestException")
            or "contains" in answer.text
            or "below" in answer.text
        )
    assert client.delete(T1).status == 204
    client.create("t2", location="s3://elsewhere/x")


def test_an_unchanged_table_is_not_sent_again(client: Iceberg) -> None:
    client.create()
    first = client.get(T1)
    tag = first.headers["etag"]
    same = client.get(T1, headers={"If-None-Match": f'"other", W/{tag}'})
    assert (same.status, same.text, same.headers["etag"]) == (304, "", tag)
    refs = client.get(T1, headers={"If-None-Match": tag}, snapshots="refs")
    assert refs.status == 200 and refs.headers["etag"] != tag
    changed = client.commit(set_properties(a="1"))
    assert client.get(T1, headers={"If-None-Match": tag}).status == 200
    assert client.get(T1, headers={"If-None-Match": changed.headers["etag"]}).status == 304


def test_snapshots_that_no_branch_names_can_be_left_out(client: Iceberg) -> None:
    client.create()
    assert client.commit(add_snapshot(1), set_ref(1), require=[at_ref(None)]).status == 200
    assert client.commit(add_snapshot(2, 1, 2), set_ref(2), require=[at_ref(1)]).status == 200
    assert [one["snapshot-id"] for one in client.load()["metadata"]["snapshots"]] == [1, 2]
    assert [one["snapshot-id"] for one in client.load(snapshots="refs")["metadata"]["snapshots"]] == [2]
    refused(client.get(T1, snapshots="some"), 400, "BadRequestException")


def test_a_renamed_table_is_the_same_table(client: Iceberg) -> None:
    made = client.create()
    client.create("taken")
    client.post(f"{MAIN}/namespaces", {"namespace": ["archive"]})

    def rename(namespace: str, name: str) -> Any:
        to = {"namespace": [namespace], "name": name}
        return client.post(
            f"{MAIN}/tables/rename", {"source": {"namespace": ["sales"], "name": "t1"}, "destination": to}
        )

    refused(rename("sales", "taken"), 409, "AlreadyExistsException")
    refused(rename("none", "t1"), 404, "NoSuchNamespaceException")
    assert rename("sales", "T1").status == 204
    assert client.get(f"{SALES}/tables").json["identifiers"][0]["name"] == "T1"
    assert rename("archive", "old").status == 204
    assert client.load(f"{MAIN}/namespaces/archive/tables/old") == made
    refused(rename("archive", "old"), 404, "NoSuchTableException")


def test_i10_dropped_without_a_purge_its_files_stay_and_it_can_come_back(client: Iceberg) -> None:
    made = client.create()
    assert client.delete(T1).status == 204
    refused(client.delete(T1), 404, "NoSuchTableException")
    assert made["metadata-location"] in client.files()
    body = {"name": "t2", "metadata-location": made["metadata-location"], "overwrite": False}
    back = client.post(f"{SALES}/register", body)
    assert back.status == 200 and back.json == made
    again = client.post(f"{SALES}/register", {**body, "name": "t3"})
    assert "another table" in refused(again, 400, "BadRequestException")
    assert client.delete(f"{SALES}/tables/t2", purgeRequested="true").status == 204
    refused(client.post(f"{SALES}/register", body), 400, "BadRequestException")


def test_i10_purged_files_go_after_the_grace_period_and_not_before(client: Iceberg) -> None:
    made = client.create()
    client.world.storages.files[made["metadata"]["location"] + "/data/x.parquet"] = (b"x", 1)
    other = client.create("other")
    assert client.delete(T1, purgeRequested="true").status == 204
    collector = Collector(client.world, Grace(dropped_ms=1_000))
    assert collector.collect(["dropped"], dry_run=False, until_ms=2**60).items == ()
    assert made["metadata-location"] in client.files()
    client.world.clock.now += 10_000
    assert collector.collect(["dropped"], dry_run=False, until_ms=2**60).deleted == 1
    left = set(client.world.storages.files)
    assert not [path for path in left if path.startswith(made["metadata"]["location"])]
    assert other["metadata-location"] in left and f"test/location/{made['metadata']['location']}" not in client.heads()


def test_i10_a_purge_touches_no_head_that_is_there_already(client: Iceberg) -> None:
    """Uuids of tables that are purged were given out here, so there is none; but it would be
    another table's."""
    uuid = client.create()["metadata"]["table-uuid"]
    client.world.refs.rows[f"test/table/{uuid}"] = {"key": f"test/table/{uuid}", "kind": "table", "state": "active"}
    before = client.heads()
    refused(client.delete(T1, purgeRequested="true"), 400, "BadRequestException")
    assert client.heads() == before and client.delete(T1).status == 204


def test_i10_what_lies_elsewhere_is_not_purged(client: Iceberg) -> None:
    client.create(location="s3://elsewhere/t1")
    refused(client.delete(T1, purgeRequested="true"), 406, "UnsupportedOperationException")
    assert client.head(T1) == 204


def test_a_table_is_unregistered_with_its_last_metadata(client: Iceberg) -> None:
    client.create()
    changed = client.commit(set_properties(a="1")).json
    assert client.post(f"{T1}/unregister").json == changed
    refused(client.commit(set_properties(a="2")), 404, "NoSuchTableException")
    assert changed["metadata-location"] in client.files()


def test_i9_a_namespace_with_tables_or_views_is_not_dropped_by_any_client(client: Iceberg) -> None:
    client.create()
    refused(client.delete(SALES), 409, "NamespaceNotEmptyException")
    from turnstile.store.core.errors import StateConflict

    with pytest.raises(StateConflict, match="Iceberg table"):
        client.services.open_catalog.namespace_dropper.drop("main", ("sales",), cascade=True)
    assert client.delete(T1).status == 204 and client.delete(SALES).status == 204


def test_a_table_of_a_missing_namespace_is_a_missing_table(client: Iceberg) -> None:
    """Spark asks so for ``sales.t1.branch_audit``, and takes it for a branch only when the table is
    missing."""
    client.create()
    path = f"{MAIN}/namespaces/sales%1Ft1/tables/branch_audit"
    refused(client.get(path), 404, "NoSuchTableException")
    refused(client.commit(set_properties(a="1"), path=path), 404, "NoSuchTableException")
    refused(client.get(path.replace("/tables/", "/views/")), 404, "NoSuchViewException")


def test_metrics_are_taken_note_of(client: Iceberg) -> None:
    client.create()
    report = {"report-type": "scan-report", "table-name": "t1", "snapshot-id": 1, "metrics": {}}
    assert client.post(f"{T1}/metrics", report).status == 204
    refused(client.post(f"{SALES}/tables/none/metrics", report), 404, "NoSuchTableException")
    refused(client.post(f"{T1}/metrics", {}), 400, "BadRequestException")


def test_a_path_or_method_without_a_route_is_answered_in_the_same_shape(client: Iceberg) -> None:
    refused(client.get(f"{V1}/main/functions"), 404, "NotFoundException")
    refused(client.call("PUT", T1, {}), 405, "UnsupportedOperationException")


def test_staged_tables_that_never_come_are_collected(client: Iceberg) -> None:
    client.create(**{"stage-create": True})
    client.world.clock.now += 10_000
    Collector(client.world, Grace(staging_ms=1_000)).collect(["staging"], dry_run=False, until_ms=2**60)
    assert not [key for key in client.heads() if key.startswith("test/staging/")]
