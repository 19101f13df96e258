"""External tables, tables that are not Delta, and keys, in both APIs."""

from __future__ import annotations

import json

import pytest

from tests.support.conformance.cases import covers
from tests.support.conformance.drive import NOBODY
from tests.support.fakes.storage import FakeClock
from tests.support.unity import COLUMNS, SCHEMA, T1, V1, B, Unity, refused, refused_old
from turnstile.adapters.credentials import StaticCredentials, StaticCredentialVendor, VendorByLocation


@pytest.fixture
def unity() -> Unity:
    return Unity()


# -- external tables --------------------------------------------------------------------------------------------------


@covers(createUnityTable=200, deleteTable=204, getTable=200, loadTable=200, renameTable=204, tableExists=204)
def test_an_external_table_as_the_recording_has_it(unity: Unity) -> None:
    made = unity.external(location="file:/data/ext/e1")
    assert made["storage_location"] == "file:///data/ext/e1" and made["table_type"] == "EXTERNAL"
    assert unity.get(f"{B}/tables/main.sales.e1").json == made
    loaded = unity.get(f"{SCHEMA}/tables/e1").json
    assert set(loaded) == {"metadata", "commits"} and loaded["commits"] == []
    assert set(loaded["metadata"]) == {
        "etag", "table-type", "table-uuid", "location", "created-time", "updated-time", "columns",
        "partition-columns", "properties",
    }  # fmt: skip
    assert loaded["metadata"]["columns"] == {"type": "struct", "fields": []}
    assert unity.call("HEAD", f"{SCHEMA}/tables/e1").status == 204
    assert unity.post(f"{SCHEMA}/tables/e1/rename", {"new-name": "e2"}).status == 204
    assert unity.call("DELETE", f"{SCHEMA}/tables/e2").status == 204
    assert unity.external(location="file:///data/ext/e1")["table_id"] != made["table_id"]  # the place is free again


@covers(createUnityTable=200, createTable=200)
def test_a_path_without_a_scheme_is_one_of_a_file_system_as_in_the_reference(unity: Unity) -> None:
    assert unity.external(location="/data/ext/e1")["storage_location"] == "file:///data/ext/e1"
    body = {
        "name": "e2", "location": "/data/ext/e2/", "table-type": "EXTERNAL", "columns": COLUMNS, "properties": {},
        "protocol": {"min-reader-version": 1, "min-writer-version": 2}, "last-commit-timestamp-ms": 7,
    }  # fmt: skip
    assert unity.post(f"{SCHEMA}/tables", body).json["metadata"]["location"] == "file:///data/ext/e2"
    keys = unity.post(f"{B}/temporary-path-credentials", {"url": "/data/ext/e3", "operation": "PATH_READ"})
    assert (keys.status, keys.json["url"]) == (200, "file:///data/ext/e3")
    refused_old(
        unity.post(f"{B}/temporary-path-credentials", {"url": "data/e3", "operation": "PATH_READ"}),
        400,
        "INVALID_ARGUMENT",
    )


@covers(createUnityTable=200, getTable=200)
@pytest.mark.parametrize(
    ("metadata", "comment"), [({}, "beside"), ({"comment": "in it"}, "in it"), ({"a": 1}, "beside"), (None, "beside")]
)
def test_the_comment_of_a_column_is_kept_wherever_it_is(unity: Unity, metadata: object, comment: str) -> None:
    field = {"name": "id", "type": "long", "nullable": False, "metadata": metadata}
    column = {
        "name": "id",
        "type_name": "LONG",
        "type_text": "bigint",
        "type_json": json.dumps(field),
        "position": 0,
        "comment": "beside",
    }
    made = unity.external(columns=[column])
    assert [one["comment"] for one in made["columns"]] == [comment]
    assert json.loads(made["columns"][0]["type_json"])["metadata"]["comment"] == comment
    assert unity.get(f"{B}/tables/main.sales.e1").json == made


@covers(createTable=200, getTable=200, loadTable=200, updateTable=(200, 400, 409))
def test_an_external_table_of_the_delta_api_and_its_updates(unity: Unity) -> None:
    body = {
        "name": "e1", "location": "s3://other/e1", "table-type": "EXTERNAL", "columns": COLUMNS,
        "properties": {"a": "1"},
        "protocol": {"min-reader-version": 1, "min-writer-version": 2}, "last-commit-timestamp-ms": 7,
    }  # fmt: skip
    made = unity.post(f"{SCHEMA}/tables", body)
    assert made.status == 200, made.text
    said = made.json["metadata"]
    path = f"{SCHEMA}/tables/e1"
    assert said["properties"]["delta.minWriterVersion"] == "2" and said["columns"] == COLUMNS
    wider = {"type": "struct", "fields": [*COLUMNS["fields"], {"name": "p", "type": "string", "nullable": True,
                                                               "metadata": {}}]}  # fmt: skip
    answer = unity.update(
        {"action": "set-columns", "columns": wider},
        {"action": "set-partition-columns", "partition-columns": ["p"]},
        {"action": "set-properties", "updates": {"b": "2"}},
        {"action": "remove-properties", "removals": ["a"]},
        {"action": "set-protocol", "protocol": {"min-reader-version": 3, "min-writer-version": 7,
                                                "reader-features": [], "writer-features": ["clustering"]}},
        {"action": "set-domain-metadata", "updates": {"delta.clustering": {"clusteringColumns": [["id"]]}}},
        {"action": "set-table-comment", "comment": "c"},
        {"action": "update-metadata-snapshot-version", "last-commit-version": 4, "last-commit-timestamp-ms": 9},
        uuid=said["table-uuid"], etag=said["etag"], path=path,
    )  # fmt: skip
    assert answer.status == 200, answer.text
    new = answer.json["metadata"]
    assert (new["columns"], new["partition-columns"]) == (wider, ["p"])
    assert (new["last-commit-version"], new["last-commit-timestamp-ms"]) == (4, 9)
    assert "a" not in new["properties"] and new["properties"]["b"] == "2"
    assert new["properties"]["clusteringColumns"] == '[["id"]]'
    assert new["etag"] != said["etag"] and unity.get(path).json == answer.json
    assert unity.get(f"{B}/tables/main.sales.e1").json["comment"] == "c"
    gone = {"action": "remove-domain-metadata", "domains": ["delta.clustering"]}
    assert "clusteringColumns" not in unity.update(gone, uuid=said["table-uuid"], path=path).text
    stale = unity.update(gone, uuid=said["table-uuid"], etag=said["etag"], path=path)
    refused(stale, 409, "UpdateRequirementConflictException")
    refused(unity.update(gone, uuid=NOBODY, path=path), 409, "UpdateRequirementConflictException")
    claim = {"action": "set-latest-backfilled-version", "latest-published-version": 1}
    refused(unity.update(claim, uuid=said["table-uuid"], path=path), 400, "InvalidParameterValueException")


@covers(createUnityTable=200, getTable=200, loadTable=400, updateTable=400)
def test_a_table_that_is_not_delta_sends_engines_to_the_older_api(unity: Unity) -> None:
    unity.external("p1", "s3://other/p1", data_source_format="PARQUET")
    path = f"{SCHEMA}/tables/p1"
    refused(unity.get(path), 400, "UnsupportedTableFormatException")
    refused(unity.update({"action": "set-table-comment", "comment": "x"}, uuid=NOBODY, path=path), 400,
            "UnsupportedTableFormatException")  # fmt: skip
    assert unity.get(f"{B}/tables/main.sales.p1").json["data_source_format"] == "PARQUET"


@covers(createUnityTable=(200, 400))
def test_i10_no_two_tables_share_a_place(unity: Unity) -> None:
    unity.external("e1", "s3://other/a/b")
    for location in ("s3://other/a/b", "s3://other/a", "s3a://other/a/b/c/", "file:///lake/main"):
        body = {"name": "e2", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
                "storage_location": location}  # fmt: skip
        refused_old(unity.post(f"{B}/tables", body), 400, "INVALID_ARGUMENT")


# -- keys -------------------------------------------------------------------------------------------------------------


@covers(
    createStagingTable=200,
    createTable=200,
    generateTemporaryPathCredentials=200,
    generateTemporaryTableCredentials=200,
    getStagingTableCredentials=200,
    getTableCredentials=200,
)
def test_local_files_need_no_keys(unity: Unity) -> None:
    staged = unity.stage()
    assert unity.get(f"{V1}/staging-tables/{staged['table-id']}/credentials").json == {"storage-credentials": []}
    unity.create()
    assert unity.get(f"{T1}/credentials", operation="READ").json == {"storage-credentials": []}
    table = unity.post(f"{B}/temporary-table-credentials", {"table_id": unity.uuid, "operation": "READ"}).json
    assert table["aws_temp_credentials"] is None
    asked = {"url": "file:/data/x", "operation": "PATH_CREATE_TABLE"}
    assert unity.post(f"{B}/temporary-path-credentials", asked).json["url"] == "file:///data/x"


@covers(
    createUnityTable=200,
    generateTemporaryTableCredentials=200,
    getTableCredentials=200,
    getTemporaryPathCredentials=200,
)
def test_keys_of_s3_in_both_apis() -> None:
    unity = Unity(VendorByLocation(StaticCredentialVendor(StaticCredentials("id", "secret", "token"), FakeClock())))
    made = unity.external()
    (found,) = unity.get(f"{SCHEMA}/tables/e1/credentials", operation="READ_WRITE").json["storage-credentials"]
    assert found["config"] == {"s3.access-key-id": "id", "s3.secret-access-key": "secret", "s3.session-token": "token"}
    assert (found["prefix"], found["operation"]) == ("s3://other/e1", "READ_WRITE")
    assert found["expiration-time-ms"] > unity.world.clock.now_ms()
    old = unity.post(f"{B}/temporary-table-credentials", {"table_id": made["table_id"], "operation": "READ"}).json
    assert old["aws_temp_credentials"] == {
        "access_key_id": "id",
        "secret_access_key": "secret",
        "session_token": "token",
    }
    assert set(old) == {
        "aws_temp_credentials", "azure_user_delegation_sas", "gcp_oauth_token", "expiration_time", "url",
    }  # fmt: skip
    path = unity.get(f"{V1}/temporary-path-credentials", location="s3://other/new", operation="PATH_CREATE_TABLE")
    assert path.json["storage-credentials"][0]["prefix"] == "s3://other/new"


@covers(
    createStagingTable=200,
    createTable=200,
    generateTemporaryPathCredentials=400,
    generateTemporaryTableCredentials=404,
    getStagingTableCredentials=404,
    getTableCredentials=(400, 404),
    getTemporaryPathCredentials=400,
)
def test_refusals_of_keys(unity: Unity) -> None:
    unity.create()
    invalid = "InvalidParameterValueException"
    refused(unity.get(f"{T1}/credentials"), 400, invalid)
    refused(unity.get(f"{T1}/credentials", operation="WRITE"), 400, invalid)
    refused(unity.get(f"{SCHEMA}/tables/x/credentials", operation="READ"), 404, "NoSuchTableException")
    refused(unity.get(f"{V1}/staging-tables/{unity.uuid}/credentials"), 404, "NotFoundException")
    refused(unity.get(f"{V1}/staging-tables/x/credentials"), 404, "NotFoundException")
    refused(unity.get(f"{V1}/temporary-path-credentials", operation="READ"), 400, invalid)
    refused(unity.get(f"{V1}/temporary-path-credentials", location="s3://a/b"), 400, invalid)
    other = {"table_id": "99999999-9999-4999-8999-999999999999", "operation": "READ"}
    refused_old(unity.post(f"{B}/temporary-table-credentials", other), 404, "TABLE_NOT_FOUND")
    refused_old(unity.post(f"{B}/temporary-path-credentials", {"url": "x", "operation": "READ"}), 400,
                "INVALID_ARGUMENT")  # fmt: skip


@covers(generateTemporaryPathCredentials=403, getTemporaryPathCredentials=403)
def test_i12_no_path_opens_the_tables_of_the_catalog(unity: Unity) -> None:
    location = unity.create()["metadata"]["location"]
    for place in (location, "file:///lake", "file:///lake/main/x", f"{location}/_delta_log"):
        denied = unity.get(f"{V1}/temporary-path-credentials", location=place, operation="READ")
        refused(denied, 403, "PermissionDeniedException")
        refused_old(unity.post(f"{B}/temporary-path-credentials", {"url": place, "operation": "PATH_READ"}), 403,
                    "PERMISSION_DENIED")  # fmt: skip
