"""Views through the real handler (I9)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyiceberg.view.metadata import ViewMetadata

from tests.support.iceberg.client import MAIN, SALES, SCHEMA, VIEW, Iceberg, refused, set_properties

V = f"{SALES}/views/v1"


@pytest.fixture
def client() -> Iceberg:
    made = Iceberg()
    assert made.post(f"{SALES}/views", VIEW).status == 200
    return made


def version(sql: str, schema: int = -1, *dialects: str, **more: Any) -> dict[str, Any]:
    said = [{"type": "sql", "sql": sql, "dialect": dialect} for dialect in (dialects or ("spark",))]
    made = {**VIEW["view-version"], "version-id": 1, "schema-id": schema, "representations": said, **more}
    return {"action": "add-view-version", "view-version": made}


CURRENT = {"action": "set-current-view-version", "view-version-id": -1}
ADD_SCHEMA = {"action": "add-schema", "schema": {**SCHEMA, "fields": SCHEMA["fields"][:1]}}


def replace(client: Iceberg, *updates: Any, require: Any = ()) -> Any:
    return client.post(V, {"requirements": list(require), "updates": list(updates)})


def test_a_view_is_its_metadata_file_and_pyiceberg_reads_it(client: Iceberg) -> None:
    found = client.get(V).json
    assert json.loads(client.world.storages.files[found["metadata-location"]][0]) == found["metadata"]
    theirs = ViewMetadata.model_validate(found["metadata"])
    assert theirs.versions[0].representations[0].root.sql == "select 1"
    assert client.head(V) == 204 and client.get(f"{SALES}/views").json["identifiers"] == [
        {"namespace": ["sales"], "name": "v1"}
    ]
    refused(client.post(f"{SALES}/views", VIEW), 409, "AlreadyExistsException")
    refused(client.post(f"{SALES}/tables", {"name": "v1", "schema": SCHEMA}), 409, "AlreadyExistsException")
    refused(client.get(f"{SALES}/tables/v1"), 404, "NoSuchTableException")
    refused(client.get(f"{SALES}/views/none"), 404, "NoSuchViewException")


def test_a_view_is_replaced_by_a_version_of_its_own_schema(client: Iceberg) -> None:
    uuid = client.get(V).json["metadata"]["view-uuid"]
    answer = replace(
        client, ADD_SCHEMA, version("select 2"), CURRENT, require=[{"type": "assert-view-uuid", "uuid": uuid}]
    )
    said = answer.json["metadata"]
    assert (said["current-version-id"], said["versions"][1]["schema-id"], len(said["version-log"])) == (2, 1, 2)
    assert client.get(V).json == answer.json
    back = replace(client, {"action": "set-current-view-version", "view-version-id": 1}).json["metadata"]
    assert back["current-version-id"] == 1 and len(back["versions"]) == 2
    same = replace(client, version("select 2", 1), CURRENT).json["metadata"]
    assert same["current-version-id"] == 2 and len(same["versions"]) == 2


def test_old_versions_are_forgotten_but_never_the_current_one(client: Iceberg) -> None:
    assert replace(client, set_properties(**{"version.history.num-entries": "2"})).status == 200
    for n in range(5):
        said = replace(client, version(f"select x{n}", 0), CURRENT).json["metadata"]
    assert [one["version-id"] for one in said["versions"]] == [5, 6]
    assert [one["version-id"] for one in said["version-log"]] == [5, 6]


@pytest.mark.parametrize(
    ("updates", "says"),
    [
        ([version("select 2", -1)], "no schema was added"),
        ([version("select 2", 9)], "schema 9 is not known"),
        ([CURRENT], "no version was added"),
        ([{"action": "set-current-view-version", "view-version-id": 9}], "version 9 is not known"),
        ([version("select 2", 0, "trino"), CURRENT], "lose dialect spark"),
        ([{"action": "assign-uuid", "uuid": "x"}], "cannot be changed"),
        ([{"action": "upgrade-format-version", "format-version": 2}], "not served"),
        ([set_properties(**{"version.history.num-entries": "0"})], "positive number"),
        ([{"action": "set-snapshot-ref"}], "updates"),
    ],
)
def test_a_change_that_makes_no_view_is_refused(client: Iceberg, updates: Any, says: str) -> None:
    before = client.heads()
    files = client.files()
    assert says in refused(replace(client, *updates), 400, "BadRequestException")
    assert client.heads() == before and client.files() == files


def test_two_queries_of_one_dialect_are_refused_as_java_refuses_them(client: Iceberg) -> None:
    before = client.heads()
    files = client.files()
    message = refused(replace(client, version("select 2", 0, "spark", "Spark")), 400, "IllegalArgumentException")
    assert message.startswith("Invalid view version: Cannot add multiple queries for dialect spark; ")
    assert client.heads() == before and client.files() == files


def test_a_dialect_goes_when_the_view_says_so(client: Iceberg) -> None:
    allow = set_properties(**{"replace.drop-dialect.allowed": "true"})
    assert replace(client, allow, version("select 2", 0, "trino"), CURRENT).status == 200


def test_another_view_under_the_same_name_is_a_conflict(client: Iceberg) -> None:
    uuid = client.get(V).json["metadata"]["view-uuid"]
    client.delete(V)
    client.post(f"{SALES}/views", VIEW)
    answer = replace(client, set_properties(a="1"), require=[{"type": "assert-view-uuid", "uuid": uuid}])
    refused(answer, 409, "CommitFailedException")


def test_a_view_is_renamed_and_dropped_and_not_as_a_table(client: Iceberg) -> None:
    to = {"source": {"namespace": ["sales"], "name": "v1"}, "destination": {"namespace": ["sales"], "name": "v2"}}
    refused(client.post(f"{MAIN}/tables/rename", to), 404, "NoSuchTableException")
    refused(client.delete(f"{SALES}/tables/v1"), 404, "NoSuchTableException")
    assert client.post(f"{MAIN}/views/rename", to).status == 204
    assert client.head(f"{SALES}/views/v2") == 204 and client.head(V) == 404
    assert client.delete(f"{SALES}/views/v2").status == 204
    refused(client.delete(f"{SALES}/views/v2"), 404, "NoSuchViewException")


def test_i10_a_location_of_a_view_is_a_text_and_its_files_are_where_the_catalog_chooses(client: Iceberg) -> None:
    """Trino sends one with every view that it creates or replaces."""
    for location in ("s3://x/y", "file:/x/y"):
        made = client.post(f"{SALES}/views", {**VIEW, "name": "v2", "location": location}).json
        assert made["metadata"]["location"] == location
        moved = {"action": "set-location", "location": "s3://x/z"}
        done = client.post(f"{SALES}/views/v2", {"updates": [moved, version("select 3", 0), CURRENT]}).json
        assert done["metadata"]["location"] == "s3://x/z" and done["metadata"]["current-version-id"] == 2
        assert Iceberg(beside=client).load(f"{SALES}/views/v2") == {**done, "config": {}}
        assert client.delete(f"{SALES}/views/v2").status == 204
    assert all(path.startswith("file:///lake/main/sales/") for path in client.world.storages.files)


@pytest.mark.parametrize("location", ["nowhere", "s3://x/../y", ""])
def test_i10_a_view_has_no_location_that_is_none(client: Iceberg, location: str) -> None:
    body = {**VIEW, "name": "v2", "location": location}
    refused(client.post(f"{SALES}/views", body), 400, "BadRequestException")
    refused(replace(client, {"action": "set-location", "location": location}), 400, "BadRequestException")


def test_i10_metadata_files_of_a_view_go_where_it_was_created_to_have_them(client: Iceberg) -> None:
    elsewhere = {"write.metadata.path": "file:/elsewhere/v2"}
    made = client.post(f"{SALES}/views", {**VIEW, "name": "v2", "properties": elsewhere}).json
    assert made["metadata-location"].startswith("file:/elsewhere/v2/metadata/00000-")
    view = f"{SALES}/views/v2"
    after = client.post(view, {"updates": [version("select 3", 0), CURRENT]}).json
    assert after["metadata-location"].startswith("file:/elsewhere/v2/metadata/00001-")
    taken = client.post(f"{SALES}/views", {**VIEW, "name": "v3", "properties": elsewhere})
    assert "belongs to table" in refused(taken, 400, "BadRequestException")
    moved = client.post(view, {"updates": [set_properties(**{"write.metadata.path": "file:///other"})]})
    assert "stay at file:///elsewhere/v2" in refused(moved, 400, "BadRequestException")
    assert client.delete(view).status == 204
    assert after["metadata-location"] in client.files(), "files at a location that was not chosen here stay"
    assert client.post(f"{SALES}/views", {**VIEW, "name": "v3", "properties": elsewhere}).status == 200


def test_i10_registering_a_view_makes_one_with_the_content_of_the_file(client: Iceberg) -> None:
    before = client.get(V).json
    assert client.delete(V).status == 204
    body = {"name": "v2", "metadata-location": before["metadata-location"]}
    made = client.post(f"{SALES}/register-view", body).json
    same = ("schemas", "versions", "version-log", "current-version-id", "properties")
    assert {name: made["metadata"][name] for name in same} == {name: before["metadata"][name] for name in same}
    assert made["metadata"]["view-uuid"] != before["metadata"]["view-uuid"]
    assert made["metadata-location"].startswith(f"{made['metadata']['location']}/metadata/")
    assert client.get(f"{SALES}/views/v2").json == made
    taken = refused(client.post(f"{SALES}/register-view", body), 409, "AlreadyExistsException")
    assert taken.startswith("View already exists: sales.v2; ")
    missing = {"name": "v3", "metadata-location": "file:///lake/none.metadata.json"}
    refused(client.post(f"{SALES}/register-view", missing), 404, "NotFoundException")
    table = client.create()["metadata-location"]
    for file in (table, "nowhere", "gs://x/y/z.metadata.json"):
        answer = client.post(f"{SALES}/register-view", {"name": "v3", "metadata-location": file})
        refused(answer, 400, "BadRequestException")
