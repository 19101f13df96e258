"""Operations of Unity's older API that engines still call: catalogs, schemas, tables. Exact
errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.cases import covers
from tests.support.unity import T1, B, Unity, refused, refused_old

PREVIEW = f"{B}/delta/preview/commits"


@pytest.fixture
def unity() -> Unity:
    return Unity()


# -- catalogs ---------------------------------------------------------------------------------------------------------


@covers(createCatalog=200, deleteCatalog=200, getCatalog=(200, 404), listCatalogs=200, updateCatalog=200)
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


@covers(createUnityTable=200, deleteCatalog=(200, 400), loadTable=404)
def test_i9_a_catalog_with_something_in_it_is_dropped_by_force_only(unity: Unity) -> None:
    unity.create()
    unity.external()
    refused_old(unity.call("DELETE", f"{B}/catalogs/main"), 400, "FAILED_PRECONDITION")
    assert unity.call("DELETE", f"{B}/catalogs/main", query={"force": "true"}).status == 200
    refused(unity.get(T1), 404, "NoSuchCatalogException")


@covers(createCatalog=(400, 409), deleteCatalog=404, updateCatalog=(404, 501))
def test_refusals_of_catalogs(unity: Unity) -> None:
    refused_old(unity.post(f"{B}/catalogs", {"name": "MAIN"}), 409, "CATALOG_ALREADY_EXISTS")
    refused_old(unity.post(f"{B}/catalogs", {"name": "a b"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(f"{B}/catalogs", {}), 400, "INVALID_ARGUMENT")
    refused_old(unity.call("DELETE", f"{B}/catalogs/nope"), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.call("PATCH", f"{B}/catalogs/nope", {"comment": "x"}), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.call("PATCH", f"{B}/catalogs/main", {"new_name": "x"}), 501, "UNIMPLEMENTED")
    refused_old(unity.get(f"{B}/nothing"), 404, "NOT_FOUND")
    refused_old(unity.call("DELETE", f"{B}/catalogs"), 405, "UNIMPLEMENTED")


@covers(summary=200)
def test_the_metastore_has_an_id_that_stays(unity: Unity) -> None:
    found = unity.get(f"{B}/metastore_summary").json
    assert set(found) == {"metastore_id"} and len(found["metastore_id"]) == 36
    assert unity.get(f"{B}/metastore_summary").json == found


# -- schemas ----------------------------------------------------------------------------------------------------------


@covers(createSchema=200, deleteSchema=200, getSchema=200, listSchemas=200, updateSchema=200)
def test_a_schema_as_the_recording_has_it(unity: Unity) -> None:
    body = {"name": "s1", "catalog_name": "main", "properties": {"owner": "root"}}
    made = unity.post(f"{B}/schemas", body)
    assert made.status == 200
    assert set(made.json) == {
        "name", "catalog_name", "comment", "properties", "full_name", "owner", "created_at", "created_by", "updated_at",
        "updated_by", "schema_id", "storage_root", "storage_location",
    }  # fmt: skip
    assert (made.json["full_name"], made.json["properties"], made.json["comment"]) == (
        "main.s1",
        {"owner": "root"},
        None,
    )
    assert unity.get(f"{B}/schemas/main.s1").json == made.json
    listed = unity.get(f"{B}/schemas", catalog_name="main", max_results=0).json
    assert [one["name"] for one in listed["schemas"]] == ["s1", "sales"] and listed["next_page_token"] is None
    changed = unity.call("PATCH", f"{B}/schemas/main.s1", {"properties": {"b": "2"}, "comment": "c"}).json
    assert (changed["properties"], changed["comment"]) == ({"b": "2"}, "c")
    changed = unity.call("PATCH", f"{B}/schemas/main.s1", {"properties": {}, "comment": "d"}).json
    assert (changed["properties"], changed["comment"]) == ({"b": "2"}, "d"), (
        "Unity's Java client sends {} with each change"
    )
    for properties in ({"k": "v"}, {}):
        assert unity.call("PATCH", f"{B}/catalogs/main", {"properties": properties, "comment": "e"}).status == 200
    assert unity.get(f"{B}/catalogs/main").json["properties"] == {"k": "v"}
    assert unity.call("DELETE", f"{B}/schemas/main.s1", query={"force": "false"}).status == 200


@covers(createSchema=200, getSchema=(200, 404), getTable=(200, 404), loadTable=200, updateSchema=200)
def test_i9_a_schema_gets_another_name_with_its_tables_and_its_other_changes_in_one_swap(unity: Unity) -> None:
    made = unity.create()
    before = unity.get(f"{B}/schemas/main.sales").json
    changes = {"new_name": "Trade", "comment": "c", "properties": {"a": "b"}}
    changed = unity.call("PATCH", f"{B}/schemas/main.sales", changes)
    assert changed.status == 200, changed.text
    named = {"name": "Trade", "full_name": "main.Trade", "comment": "c", "properties": {"a": "b"}}
    assert changed.json == {**before, **named, "updated_at": changed.json["updated_at"]}
    assert unity.get(f"{B}/schemas/main.trade").json == changed.json
    refused_old(unity.get(f"{B}/schemas/main.sales"), 404, "SCHEMA_NOT_FOUND")
    refused_old(unity.get(f"{B}/tables/main.sales.t1"), 404, "SCHEMA_NOT_FOUND")
    assert unity.get(f"{B}/tables/main.trade.t1").json["table_id"] == made["metadata"]["table-uuid"]
    assert unity.get(T1.replace("sales", "trade")).json["metadata"] == made["metadata"]
    same = unity.call("PATCH", f"{B}/schemas/main.TRADE", {"new_name": "Trade"})
    assert same.json == changed.json
    unity.post(f"{B}/schemas", {"name": "sales", "catalog_name": "main"})
    nested = unity.call("PATCH", f"{B}/schemas/main.trade", {"new_name": "sales.eu"}).json
    assert (nested["name"], nested["full_name"], nested["schema_id"]) == (
        "sales.eu",
        "main.sales.eu",
        before["schema_id"],
    )


@covers(updateSchema=(400, 429))
def test_i10_a_schema_keeps_its_name_while_a_table_in_it_takes_no_commits(unity: Unity) -> None:
    made = unity.create()
    row = unity.world.refs.rows[unity.world.space.table(made["metadata"]["table-uuid"])]
    for state, status, code in (("leaving", 400, "INVALID_ARGUMENT"), ("stuck", 429, "RESOURCE_EXHAUSTED")):
        row["state"] = state
        refused_old(unity.call("PATCH", f"{B}/schemas/main.sales", {"new_name": "trade"}), status, code)
    assert unity.get(f"{B}/schemas/main.sales").status == 200


@covers(createSchema=200, updateSchema=(400, 404, 409))
def test_i9_a_name_that_a_schema_cannot_get_changes_nothing_of_it(unity: Unity) -> None:
    unity.post(f"{B}/schemas", {"name": "hr", "catalog_name": "main"})
    before = unity.get(f"{B}/schemas", catalog_name="main").json
    for schema, new_name, status, code in (
        ("sales", "HR", 409, "SCHEMA_ALREADY_EXISTS"),
        ("sales", "a b", 400, "INVALID_ARGUMENT"),
        ("sales", "", 400, "INVALID_ARGUMENT"),
        ("sales", "sales.it", 400, "INVALID_ARGUMENT"),
        ("sales", "nope.it", 404, "SCHEMA_NOT_FOUND"),
        ("nope", "it", 404, "SCHEMA_NOT_FOUND"),
    ):
        asked = {"new_name": new_name, "comment": "lost"}
        refused_old(unity.call("PATCH", f"{B}/schemas/main.{schema}", asked), status, code)
    assert unity.get(f"{B}/schemas", catalog_name="main").json == before


@covers(createSchema=(400, 404, 409), createUnityTable=200, deleteSchema=400, getSchema=404, listSchemas=(400, 404))
def test_refusals_of_schemas(unity: Unity) -> None:
    refused_old(unity.post(f"{B}/schemas", {"name": "sales", "catalog_name": "main"}), 409, "SCHEMA_ALREADY_EXISTS")
    refused_old(unity.post(f"{B}/schemas", {"name": "x", "catalog_name": "nope"}), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.post(f"{B}/schemas", {"name": "a.b", "catalog_name": "main"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.get(f"{B}/schemas/main.nope"), 404, "SCHEMA_NOT_FOUND")
    refused_old(unity.get(f"{B}/schemas/main"), 404, "SCHEMA_NOT_FOUND")
    refused_old(unity.get(f"{B}/schemas"), 400, "INVALID_ARGUMENT")
    refused_old(unity.get(f"{B}/schemas", catalog_name="nope"), 404, "CATALOG_NOT_FOUND")
    refused_old(unity.get(f"{B}/schemas", catalog_name="main", max_results=-1), 400, "INVALID_ARGUMENT")
    unity.external()
    refused_old(unity.call("DELETE", f"{B}/schemas/main.sales"), 400, "FAILED_PRECONDITION")


@covers(createSchema=200, listCatalogs=200, listSchemas=(200, 400))
def test_pages_are_clamped_and_large_sizes_are_no_error(unity: Unity) -> None:
    for number in range(4):
        unity.post(f"{B}/schemas", {"name": f"n{number}", "catalog_name": "main"})
    assert len(unity.get(f"{B}/schemas", catalog_name="main", max_results=2**31 - 1).json["schemas"]) == 5
    names = []
    token = ""
    while token is not None:
        page = unity.get(f"{B}/schemas", catalog_name="main", max_results=2, page_token=token).json
        names += [one["name"] for one in page["schemas"]]
        token = page["next_page_token"]
    assert names == ["n0", "n1", "n2", "n3", "sales"]
    page = unity.get(f"{B}/catalogs", max_results=1).json
    assert page == {"catalogs": page["catalogs"], "next_page_token": None}
    refused_old(unity.get(f"{B}/schemas", catalog_name="main", page_token="x"), 400, "INVALID_ARGUMENT")


# -- tables -----------------------------------------------------------------------------------------------------------


@covers(deleteUnityTable=(200, 404), getTable=200, listTables=200)
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


@covers(createUnityStagingTable=409, createUnityTable=(200, 400, 409, 501), getTable=404, listTables=(400, 404))
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
    refused_old(unity.post(f"{B}/tables", base | at | {"table_type": "STREAMING_TABLE"}), 501, "UNIMPLEMENTED")
    refused_old(unity.post(f"{B}/tables", base | at | {"table_type": ""}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(f"{B}/tables", base | {"storage_location": "s3://bucket"}), 400, "INVALID_ARGUMENT")
    refused_old(unity.post(f"{B}/tables", base | {"storage_location": "file:///lake/x"}), 400, "INVALID_ARGUMENT")
    unity.external("e1")
    refused_old(unity.post(f"{B}/tables", base | at | {"name": "e1"}), 409, "TABLE_ALREADY_EXISTS")
    taken = {"name": "e1", "catalog_name": "main", "schema_name": "sales"}
    refused_old(unity.post(f"{B}/staging-tables", taken), 409, "TABLE_ALREADY_EXISTS")


@covers(createUnityStagingTable=200, createUnityTable=200)
def test_a_managed_table_is_made_through_the_older_api_too(unity: Unity) -> None:
    asked = {"name": "t1", "catalog_name": "main", "schema_name": "sales"}
    staged = unity.post(f"{B}/staging-tables", asked).json
    assert set(staged) == {"name", "catalog_name", "schema_name", "id", "staging_location"}
    unity.write_zero({"table-id": staged["id"], "location": staged["staging_location"]})
    location = staged["staging_location"].replace("file:///", "file:/")
    body = {
        **asked,
        "table_type": "MANAGED",
        "data_source_format": "DELTA",
        "columns": [],
        "storage_location": location,
        "properties": {"io.unitycatalog.tableId": staged["id"], "own": "1"},
    }
    made = unity.post(f"{B}/tables", body)
    assert made.status == 200, made.text
    assert made.json["properties"]["own"] == "1" and made.json["table_id"] == staged["id"]


def test_columns_of_all_types_come_back_from_the_older_api() -> None:
    from turnstile.api.unity.columns import to_fields, to_infos

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


@pytest.mark.parametrize(
    ("type", "name"),
    [
        ("varchar(5)", "STRING"), ("char(3)", "CHAR"), ("void", "NULL"), ("interval day to second", "INTERVAL"),
        ("geometry(4326)", "USER_DEFINED_TYPE"), ({"type": "udt", "class": "x"}, "USER_DEFINED_TYPE"),
    ],
)  # fmt: skip
def test_types_have_names_that_clients_know(type: Any, name: str) -> None:
    """Clients are generated from the list of names, and fail on another one."""
    from turnstile.api.unity.columns import to_infos

    (found,) = to_infos([{"name": "a", "type": type, "nullable": True, "metadata": {}}], [])
    assert found.type_name == name


@covers(createUnityTable=(200, 400))
def test_a_type_that_is_neither_json_nor_the_name_of_one_is_refused() -> None:
    unity = Unity()
    asked = {"name": "e1", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
             "data_source_format": "PARQUET", "storage_location": "s3://other/e1", "properties": {}}  # fmt: skip
    for type_json in ("not json", "{", '{"type":"set"}', "LONG!"):
        column = {"name": "id", "type_name": "LONG", "type_json": type_json, "position": 0}
        assert unity.post(f"{B}/tables", {**asked, "columns": [column]}).status == 400, type_json
    column = {"name": "id", "type_name": "DECIMAL", "type_json": "decimal(10,2)", "position": 0}
    assert unity.post(f"{B}/tables", {**asked, "columns": [column]}).status == 200
