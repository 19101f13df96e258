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
        ([version("select 2", 0, "spark", "Spark")], "two representations"),
        ([version("select 2", 0, "trino"), CURRENT], "lose dialect spark"),
        ([{"action": "assign-uuid", "uuid": "x"}], "cannot be changed"),
        ([{"action": "upgrade-format-version", "format-version": 2}], "not served"),
        ([set_properties(**{"version.history.num-entries": "0"})], "positive number"),
        ([{"action": "set-snapshot-ref"}], "updates"),
    ],
)
def test_a_change_that_makes_no_view_is_refused(client: Iceberg, updates: Any, says: str) -> None:
    before, files = client.heads(), client.files()
    assert says in refused(replace(client, *updates), 400, "BadRequestException")
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


def test_i10_a_location_for_a_view_is_a_wish_and_the_catalog_puts_it_elsewhere(client: Iceberg) -> None:
    """Trino sends one with every view that it creates or replaces."""
    made = client.post(f"{SALES}/views", {**VIEW, "name": "v2", "location": "s3://x/y"})
    assert made.status == 200
    place = made.json["metadata"]["location"]
    assert place.startswith("file:///lake/main/sales/") and made.json["metadata-location"].startswith(f"{place}/")
    moved = {"action": "set-location", "location": "s3://x/z"}
    done = client.post(f"{SALES}/views/v2", {"updates": [moved, version("select 3", 0), CURRENT]})
    assert done.status == 200 and done.json["metadata"]["location"] == place
    assert done.json["metadata"]["current-version-id"] == 2
    assert not [path for path in client.world.storages.files if path.startswith("s3:")]
