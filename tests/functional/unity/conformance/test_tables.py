"""The Delta API: load, exists, delete, rename and metrics; lists of the older API for DuckDB."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.conformance.cases import covers
from tests.support.unity import SCHEMA, T1, V1, B, Unity, refused
from turnstile.api.unity.columns import is_read_by_duckdb, to_infos

INVALID = "InvalidParameterValueException"


@pytest.fixture
def unity() -> Unity:
    return Unity()


# -- load, exists, delete, rename, metrics ----------------------------------------------------------------------------


@covers(loadTable=404)
def test_what_is_missing_is_404_by_its_kind(unity: Unity) -> None:
    refused(unity.get(T1), 404, "NoSuchTableException")
    refused(unity.get(T1.replace("sales", "nope")), 404, "NoSuchSchemaException")
    refused(unity.get(T1.replace("main", "nope")), 404, "NoSuchCatalogException")
    refused(unity.get(f"{SCHEMA}/tables/not a name"), 404, "NoSuchTableException")
    refused(unity.get(f"{V1}/nothing"), 404, "NotFoundException")


@covers(tableExists=(204, 404))
def test_head_says_whether_a_table_exists_without_a_body(unity: Unity) -> None:
    gone = unity.call("HEAD", T1)
    assert (gone.status, gone.text) == (404, "")
    unity.create()
    there = unity.call("HEAD", T1)
    assert (there.status, there.text) == (204, "")


@covers(deleteTable=(204, 404), loadTable=404)
def test_delete_is_204_and_then_404(unity: Unity) -> None:
    unity.create()
    answer = unity.call("DELETE", T1)
    assert (answer.status, answer.text) == (204, "")
    refused(unity.call("DELETE", T1), 404, "NoSuchTableException")
    refused(unity.get(T1), 404, "NoSuchTableException")


@covers(renameTable=(204, 400, 404, 409))
def test_rename_keeps_uuid_and_location(unity: Unity) -> None:
    before = unity.create()
    unity.create("t2")
    refused(unity.post(f"{T1}/rename", {"new-name": "t2"}), 409, "AlreadyExistsException")
    refused(unity.post(f"{T1}/rename", {"new-name": "a b"}), 400, INVALID)
    refused(unity.post(f"{T1}/rename", {}), 400, INVALID)
    assert unity.post(f"{T1}/rename", {"new-name": "t1"}).status == 204
    answer = unity.post(f"{T1}/rename", {"new-name": "t3"})
    assert (answer.status, answer.text) == (204, "")
    assert unity.get(f"{SCHEMA}/tables/t3").json["metadata"]["location"] == before["metadata"]["location"]
    refused(unity.post(f"{T1}/rename", {"new-name": "t4"}), 404, "NoSuchTableException")


@covers(reportMetrics=(204, 400, 404))
def test_metrics_are_judged_and_forgotten(unity: Unity) -> None:
    unity.create()
    report = {"commit-report": {"num-files-added": 1, "file-size-histogram": {"commit-version": 1}}}
    answer = unity.post(f"{T1}/metrics", {"table-id": unity.uuid, "report": report})
    assert (answer.status, answer.text) == (204, "")
    refused(unity.post(f"{T1}/metrics", {"table-id": "x", "report": report}), 400, INVALID)
    refused(unity.post(f"{T1}/metrics", {"report": report}), 400, INVALID)
    refused(unity.post(f"{SCHEMA}/tables/t2/metrics", {"table-id": "x", "report": {}}), 404, "NoSuchTableException")


def struct(**fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": [{"name": name, "type": type} for name, type in fields.items()]}


def array(type: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": type}


def map_of(type: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": "string", "valueType": type}


@pytest.mark.parametrize(
    "type",
    ["long", "void", "decimal(10,2)", array("decimal(10,2)"), map_of(array("integer")), struct(a=struct(b="date"))],
)
def test_duckdb_parses_these_types(type: Any) -> None:
    assert is_read_by_duckdb(to_infos([{"name": "c", "type": type}], []))


@pytest.mark.parametrize(
    "type",
    [
        "timestamp_ntz", "variant", "interval day to second", "string collate UTF8_LCASE", "geometry(4326)",
        {"type": "udt", "class": "x"}, array("timestamp_ntz"), map_of("decimal(10,2)"), struct(a=array("decimal(3,1)")),
        struct(), struct(**{"a,b": "long"}),
    ],
)  # fmt: skip
def test_duckdb_parses_none_of_these_types(type: Any) -> None:
    assert not is_read_by_duckdb(to_infos([{"name": "a", "type": "long"}, {"name": "c", "type": type}], []))


def test_lists_for_duckdb_have_no_columns_of_tables_that_it_cannot_read() -> None:
    """It parses the columns of all tables of a schema, and ends at a type that it does not know."""
    unity = Unity()
    unity.external("e1", "s3://other/e1", columns=[{"name": "a", "type_name": "LONG", "position": 0}])
    unity.external("e2", "s3://other/e2", columns=[{"name": "a", "type_name": "TIMESTAMP_NTZ", "position": 0}])

    def columns(agent: str) -> dict[str, int]:
        query = {"catalog_name": "main", "schema_name": "sales"}
        answer = unity.call("GET", f"{B}/tables", query=query, headers={"User-Agent": agent})
        return {table["name"]: len(table["columns"]) for table in answer.json["tables"]}

    assert columns("duckdb/v1.5.5(linux_amd64) python/3.11") == {"e1": 1, "e2": 0}
    assert columns("unitycatalog-python") == {"e1": 1, "e2": 1}
