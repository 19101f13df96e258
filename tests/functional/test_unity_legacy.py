"""What engines still call of Unity's older API: catalogs, schemas, tables, keys, the preview commits. Exact errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.storage import FakeClock
from tests.functional.unity_kit import B, COLUMNS, SCHEMA, T1, V1, Unity, metadata, refused, refused_old
from turnstile.adapters.vending import FileVendor, Keys, StaticVendor

PREVIEW = f"{B}/delta/preview/commits"


@pytest.fixture
def unity() -> Unity:
    return Unity()


# -- catalogs ---------------------------------------------------------------------------------------------------------


def test_a_catalog_is_made_changed_listed_and_dropped(unity: Unity) -> None:
    made = unity.post(f"{B}/catalogs", {"name": "Second", "comment": "c", "properties": {"a": "1"}}).json
    assert set(made) == {
        "name", "comment", "properties", "owner", "created_at", "created_by", "updated_at", "updated_by", "id",
        "storage_root", "storage_location",
    }  # fmt: skip
    assert (made["name"], made["comment"], made["properties"]) == ("Second", "c", {"a": "1"})
    assert unity.get(f"{B}/catalogs/second").json == made
    changed = unity.call("PATCH", f"{B}/catalogs/Second", {"comment": "d"}).json
    assert (changed["comment"], changed["properties"], changed["id"]) == ("d", {"a": "1"}, made["id"])
    assert [one["name"] for one in unity.get(f"{B}/catalogs").json["catalogs"]] == ["main", "Second"]
    answer = unity.call("DELETE", f"{B}/catalogs/Second")
    assert (answer.status, answer.json) == (200, {})
    refused_old(unity.get(f"{B}/catalogs/Second"), 404, "CATALOG_NOT_FOUND")
    assert unity.post(f"{B}/catalogs", {"name": "second"}).status == 200


def test_i9_a_catalog_with_something_in_it_is_dropped_by_force_only(unity: Unity) -> None:
    unity.create()
    unity.external()
    refused_old(unity.call("DELETE", f"{B}/catalogs/main"), 400, "FAILED_PRECONDITION")
    assert unity.call("DELETE", f"{B}/catalogs/main", query={"force": "true"}).status == 200
    refused(unity.get(T1), 404, "NoSuchCatalogException")


def test_refusals_of_catalogs(unity: Unity) -> None:
    refused_old(unity.post(f"{B}/catalogs", {"name": "MAIN"}), 400, "CATALOG_ALREADY_EXISTS")
    refused_old(unity.post(f"{B}/catalogs", {"name": "a b"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(f"{B}/catalogs", {}), 400, "INVALID_ARGUMENT")
    refused_old(unity.call("DELETE", f"{B}/catalogs/nope"), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.call("PATCH", f"{B}/catalogs/nope", {"comment": "x"}), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.call("PATCH", f"{B}/catalogs/main", {"new_name": "x"}), 501, "UNIMPLEMENTED")
    refused_old(unity.get(f"{B}/nothing"), 404, "NOT_FOUND")
    refused_old(unity.call("DELETE", f"{B}/catalogs"), 405, "UNIMPLEMENTED")


def test_the_metastore_has_an_id_that_stays(unity: Unity) -> None:
    found = unity.get(f"{B}/metastore_summary").json
    assert set(found) == {"metastore_id"} and len(found["metastore_id"]) == 36
    assert unity.get(f"{B}/metastore_summary").json == found


# -- schemas ----------------------------------------------------------------------------------------------------------


def test_a_schema_as_the_recording_has_it(unity: Unity) -> None:
    body = {"name": "s1", "catalog_name": "main", "properties": {"owner": "root"}}
    made = unity.post(f"{B}/schemas", body)
    assert made.status == 200
    assert set(made.json) == {
        "name", "catalog_name", "comment", "properties", "full_name", "owner", "created_at", "created_by", "updated_at",
        "updated_by", "schema_id", "storage_root", "storage_location",
    }  # fmt: skip
    assert (made.json["full_name"], made.json["properties"], made.json["comment"]) == ("main.s1", {"owner": "root"}, None)
    assert unity.get(f"{B}/schemas/main.s1").json == made.json
    listed = unity.get(f"{B}/schemas", catalog_name="main", max_results=0).json
    assert [one["name"] for one in listed["schemas"]] == ["s1", "sales"] and listed["next_page_token"] is None
    changed = unity.call("PATCH", f"{B}/schemas/main.s1", {"properties": {"b": "2"}, "comment": "c"}).json
    assert (changed["properties"], changed["comment"]) == ({"b": "2"}, "c")
    assert unity.call("DELETE", f"{B}/schemas/main.s1", query={"force": "false"}).status == 200


def test_refusals_of_schemas(unity: Unity) -> None:
    refused_old(unity.post(f"{B}/schemas", {"name": "sales", "catalog_name": "main"}), 400, "SCHEMA_ALREADY_EXISTS")
    refused_old(unity.post(f"{B}/schemas", {"name": "x", "catalog_name": "nope"}), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.post(f"{B}/schemas", {"name": "a.b", "catalog_name": "main"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.get(f"{B}/schemas/main.nope"), 404, "SCHEMA_NOT_FOUND")
    refused_old(unity.get(f"{B}/schemas/main"), 404, "SCHEMA_NOT_FOUND")
    refused_old(unity.get(f"{B}/schemas"), 400, "INVALID_ARGUMENT")
    refused_old(unity.get(f"{B}/schemas", catalog_name="nope"), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.get(f"{B}/schemas", catalog_name="main", max_results=-1), 400, "INVALID_ARGUMENT")
    unity.external()
    refused_old(unity.call("DELETE", f"{B}/schemas/main.sales"), 400, "FAILED_PRECONDITION")


def test_pages_are_clamped_and_large_sizes_are_no_error(unity: Unity) -> None:
    for number in range(4):
        unity.post(f"{B}/schemas", {"name": f"n{number}", "catalog_name": "main"})
    assert len(unity.get(f"{B}/schemas", catalog_name="main", max_results=2**31 - 1).json["schemas"]) == 5
    names, token = [], ""
    while token is not None:
        page = unity.get(f"{B}/schemas", catalog_name="main", max_results=2, page_token=token).json
        names += [one["name"] for one in page["schemas"]]
        token = page["next_page_token"]
    assert names == ["n0", "n1", "n2", "n3", "sales"]
    page = unity.get(f"{B}/catalogs", max_results=1).json
    assert page == {"catalogs": page["catalogs"], "next_page_token": None}
    refused_old(unity.get(f"{B}/schemas", catalog_name="main", page_token="x"), 400, "INVALID_ARGUMENT")


# -- tables -----------------------------------------------------------------------------------------------------------


def test_a_managed_table_in_the_older_api(unity: Unity) -> None:
    made = unity.create()
    found = unity.get(f"{B}/tables/main.sales.t1", read_streaming_table_as_managed="true").json
    assert found["columns"] == [
        {
            "name": "id", "type_text": "bigint", "type_name": "LONG", "type_precision": None, "type_scale": None,
            "type_interval_type": None, "position": 0, "comment": None, "nullable": True, "partition_index": None,
            "type_json": '{"name":"id","type":"long","nullable":true,"metadata":{}}',
        }
    ]  # fmt: skip
    assert (found["table_type"], found["data_source_format"]) == ("MANAGED", "DELTA")
    assert found["properties"] == made["metadata"]["properties"]
    assert (found["name"], found["catalog_name"], found["schema_name"]) == ("t1", "main", "sales")
    assert found["storage_location"] == made["metadata"]["location"]
    assert unity.get(f"{B}/tables", catalog_name="main", schema_name="sales", max_results=0).json == {
        "tables": [found],
        "next_page_token": None,
    }
    assert unity.call("DELETE", f"{B}/tables/main.sales.t1").json == {}
    refused_old(unity.call("DELETE", f"{B}/tables/main.sales.t1"), 404, "TABLE_NOT_FOUND")


def test_refusals_of_tables(unity: Unity) -> None:
    refused_old(unity.get(f"{B}/tables/main.sales.t1"), 404, "TABLE_NOT_FOUND")
    refused_old(unity.get(f"{B}/tables/main.nope.t1"), 404, "SCHEMA_NOT_FOUND")
    refused_old(unity.get(f"{B}/tables/main.t1"), 404, "TABLE_NOT_FOUND")
    refused_old(unity.get(f"{B}/tables"), 400, "INVALID_ARGUMENT")
    refused_old(unity.get(f"{B}/tables", catalog_name="main", schema_name="no"), 404, "SCHEMA_NOT_FOUND")
    base = {"name": "x", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL"}
    refused_old(unity.post(f"{B}/tables", base), 400, "INVALID_ARGUMENT")
    at = {"storage_location": "s3://other/x"}
    refused_old(unity.post(f"{B}/tables", base | at | {"data_source_format": "X"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(f"{B}/tables", base | at | {"table_type": "VIEW"}), 501, "UNIMPLEMENTED")
    refused_old(unity.post(f"{B}/tables", base | {"storage_location": "s3://bucket"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(f"{B}/tables", base | {"storage_location": "file:///lake/x"}), 400, "INVALID_ARGUMENT")
    unity.external("e1")
    refused_old(unity.post(f"{B}/tables", base | at | {"name": "e1"}), 400, "TABLE_ALREADY_EXISTS")


def test_a_managed_table_is_made_through_the_older_api_too(unity: Unity) -> None:
    asked = {"name": "t1", "catalog_name": "main", "schema_name": "sales"}
    staged = unity.post(f"{B}/staging-tables", asked).json
    assert set(staged) == {"name", "catalog_name", "schema_name", "id", "staging_location"}
    unity.write_zero({"table-id": staged["id"], "location": staged["staging_location"]})
    location = staged["staging_location"].replace("file:///", "file:/")
    body = {**asked, "table_type": "MANAGED", "data_source_format": "DELTA", "columns": [],
            "storage_location": location, "properties": {"io.unitycatalog.tableId": staged["id"], "own": "1"}}  # fmt: skip
    made = unity.post(f"{B}/tables", body)
    assert made.status == 200, made.text
    assert made.json["properties"]["own"] == "1" and made.json["table_id"] == staged["id"]


# -- external tables --------------------------------------------------------------------------------------------------


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


def test_an_external_table_of_the_delta_api_and_its_updates(unity: Unity) -> None:
    body = {
        "name": "e1", "location": "s3://other/e1", "table-type": "EXTERNAL", "columns": COLUMNS, "properties": {"a": "1"},
        "protocol": {"min-reader-version": 1, "min-writer-version": 2}, "last-commit-timestamp-ms": 7,
    }  # fmt: skip
    made = unity.post(f"{SCHEMA}/tables", body)
    assert made.status == 200, made.text
    said, path = made.json["metadata"], f"{SCHEMA}/tables/e1"
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
    refused(unity.update(gone, uuid="x", path=path), 409, "UpdateRequirementConflictException")
    claim = {"action": "set-latest-backfilled-version", "latest-published-version": 1}
    refused(unity.update(claim, uuid=said["table-uuid"], path=path), 400, "InvalidParameterValueException")


def test_a_table_that_is_not_delta_sends_engines_to_the_older_api(unity: Unity) -> None:
    unity.external("p1", "s3://other/p1", data_source_format="PARQUET")
    path = f"{SCHEMA}/tables/p1"
    refused(unity.get(path), 400, "UnsupportedTableFormatException")
    refused(unity.update({"action": "set-table-comment", "comment": "x"}, uuid="x", path=path), 400,
            "UnsupportedTableFormatException")  # fmt: skip
    assert unity.get(f"{B}/tables/main.sales.p1").json["data_source_format"] == "PARQUET"


def test_i10_no_two_tables_share_a_place(unity: Unity) -> None:
    unity.external("e1", "s3://other/a/b")
    for location in ("s3://other/a/b", "s3://other/a", "s3a://other/a/b/c/", "file:///lake/main"):
        body = {"name": "e2", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
                "storage_location": location}  # fmt: skip
        refused_old(unity.post(f"{B}/tables", body), 400, "INVALID_ARGUMENT")


# -- keys -------------------------------------------------------------------------------------------------------------


def test_local_files_need_no_keys(unity: Unity) -> None:
    staged = unity.stage()
    assert unity.get(f"{V1}/staging-tables/{staged['table-id']}/credentials").json == {"storage-credentials": []}
    unity.create()
    assert unity.get(f"{T1}/credentials", operation="READ").json == {"storage-credentials": []}
    table = unity.post(f"{B}/temporary-table-credentials", {"table_id": unity.uuid, "operation": "READ"}).json
    assert table["aws_temp_credentials"] is None
    asked = {"url": "file:/data/x", "operation": "PATH_CREATE_TABLE"}
    assert unity.post(f"{B}/temporary-path-credentials", asked).json["url"] == "file:///data/x"


def test_keys_of_s3_in_both_apis() -> None:
    unity = Unity(FileVendor(StaticVendor(Keys("id", "secret", "token"), FakeClock())))
    made = unity.external()
    (found,) = unity.get(f"{SCHEMA}/tables/e1/credentials", operation="READ_WRITE").json["storage-credentials"]
    assert found["config"] == {"s3.access-key-id": "id", "s3.secret-access-key": "secret", "s3.session-token": "token"}
    assert (found["prefix"], found["operation"]) == ("s3://other/e1", "READ_WRITE")
    assert found["expiration-time-ms"] > unity.world.clock.now_ms()
    old = unity.post(f"{B}/temporary-table-credentials", {"table_id": made["table_id"], "operation": "READ"}).json
    assert old["aws_temp_credentials"] == {"access_key_id": "id", "secret_access_key": "secret", "session_token": "token"}
    assert set(old) == {
        "aws_temp_credentials", "azure_user_delegation_sas", "gcp_oauth_token", "expiration_time", "url",
    }  # fmt: skip
    path = unity.get(f"{V1}/temporary-path-credentials", location="s3://other/new", operation="PATH_CREATE_TABLE")
    assert path.json["storage-credentials"][0]["prefix"] == "s3://other/new"


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


def test_i12_no_path_opens_the_tables_of_the_catalog(unity: Unity) -> None:
    location = unity.create()["metadata"]["location"]
    for place in (location, "file:///lake", "file:///lake/main/x", f"{location}/_delta_log"):
        denied = unity.get(f"{V1}/temporary-path-credentials", location=place, operation="READ")
        refused(denied, 403, "PermissionDeniedException")
        refused_old(unity.post(f"{B}/temporary-path-credentials", {"url": place, "operation": "PATH_READ"}), 403,
                    "PERMISSION_DENIED")  # fmt: skip


# -- preview commits --------------------------------------------------------------------------------------------------


def posted(unity: Unity, version: int, *actions: Any, **more: Any) -> dict[str, Any]:
    commit = unity.commit(version, *actions)["commit"]
    return {
        "table_id": unity.uuid,
        "table_uri": unity.head().location.replace("file:///", "file:/"),
        "commit_info": {key.replace("-", "_"): value for key, value in commit.items()},
        **more,
    }


def test_commits_of_the_older_endpoint_as_the_recording_has_them(unity: Unity) -> None:
    unity.create()
    first = posted(unity, 1, latest_backfilled_version=0)
    answer = unity.post(PREVIEW, first)
    assert (answer.status, answer.json) == (200, {})
    assert unity.post(PREVIEW, first).status == 200  # I3
    asked = {"table_id": unity.uuid, "table_uri": first["table_uri"], "start_version": 0}
    found = unity.call("GET", PREVIEW, asked).json
    assert found == {"commits": [first["commit_info"]], "latest_table_version": 1}
    own = {"io.unitycatalog.tableId": unity.uuid}
    properties = {"properties": own | {"delta.checkpointPolicy": "v2", "mine": "1"}}
    changing = metadata(**own, mine="1")
    changed = posted(unity, 2, changing, latest_backfilled_version=1, metadata={"properties": properties})
    assert unity.post(PREVIEW, changed).status == 200
    assert unity.get(T1).json["metadata"]["properties"]["mine"] == "1"
    claim = {"table_id": unity.uuid, "table_uri": first["table_uri"], "latest_backfilled_version": 2}
    assert unity.post(PREVIEW, claim).status == 200


def test_refusals_of_the_older_endpoint(unity: Unity) -> None:
    unity.create()
    first = posted(unity, 1)
    refused_old(unity.post(PREVIEW, first | {"table_uri": "s3://else/where"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(PREVIEW, first | {"commit_info": None}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(PREVIEW, first | {"metadata": {}}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(PREVIEW, first | {"metadata": {"properties": {"properties": {}}}}), 400, "INVALID_ARGUMENT")
    missing = "99999999-9999-4999-8999-999999999999"
    refused_old(unity.post(PREVIEW, first | {"table_id": missing}), 404, "TABLE_NOT_FOUND")
    assert unity.post(PREVIEW, first).status == 200
    refused_old(unity.post(PREVIEW, posted(unity, 1)), 409, "ABORTED")
    refused_old(unity.post(PREVIEW, posted(unity, 5)), 400, "INVALID_ARGUMENT")
    alone = {"table_id": unity.uuid, "table_uri": first["table_uri"], "latest_backfilled_version": 9}
    refused_old(unity.post(PREVIEW, alone), 400, "INVALID_ARGUMENT")
    unity.call("DELETE", T1)
    refused_old(unity.post(PREVIEW, alone), 404, "TABLE_NOT_FOUND")


def test_columns_of_all_types_come_back_from_the_older_api() -> None:
    from turnstile_unity.columns import to_fields, to_infos

    types: list[Any] = [
        "boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz",
        "string", "binary", "variant", "decimal(10,2)",
        {"type": "array", "elementType": "long", "containsNull": True},
        {"type": "map", "keyType": "string", "valueType": "integer", "valueContainsNull": False},
        {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]},
    ]  # fmt: skip
    fields = [{"name": f"c{at}", "type": type, "nullable": True, "metadata": {}} for at, type in enumerate(types)]
    infos = to_infos(fields, ["c1"])
    assert to_fields(infos) == (tuple(fields), ("c1",))
    assert [info.type_text for info in infos[-4:]] == ["decimal(10,2)", "array<bigint>", "map<string,int>",
                                                       "struct<a:bigint>"]  # fmt: skip
    assert (infos[13].type_name, infos[13].type_precision, infos[13].type_scale) == ("DECIMAL", 10, 2)
