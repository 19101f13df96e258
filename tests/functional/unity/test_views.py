"""Views through Unity's older API: entities of the catalog, the ones of Iceberg's API and of
Spark's lake."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.access.realm import functions
from tests.support.fakes.world import fake_world
from tests.support.functions import Answer, Http, function
from tests.support.unity import T1, B, Unity, refused, refused_old

NAMES = {"catalog_name": "main", "schema_name": "sales"}
ID = {"name": "id", "type": "long", "nullable": True, "metadata": {"comment": "the key"}}
COLUMNS = [
    {"name": "id", "type_text": "bigint", "type_json": json.dumps(ID), "type_name": "LONG", "position": 0},
    {
        "name": "small",
        "type_text": "smallint",
        "type_json": '"short"',
        "type_name": "SHORT",
        "position": 1,
        "comment": "c",
    },
]
SQL = "SELECT id, small FROM main.sales.t1"
YAML = "version: 0.1\nsource: main.sales.t1\nmeasures: []\n"
ICEBERG = "/iceberg/v1/main/namespaces/sales/views"


class Site:
    """Unity's API and Iceberg's on one catalog."""

    def __init__(self) -> None:
        self.unity = Unity()
        function("iceberg").use_world(self.unity.world, lake_root="file:///lake")
        self.iceberg = Http(function("iceberg").app)

    def view(self, name: str = "v1", **more: Any) -> Answer:
        asked = {**NAMES, "name": name, "table_type": "VIEW", "columns": COLUMNS, "view_definition": SQL, **more}
        return self.unity.post(f"{B}/tables", asked)

    def of_iceberg(self, name: str, sql: str, dialect: str = "spark") -> None:
        version = {
            "version-id": 1, "timestamp-ms": 1_770_000_000_000, "schema-id": 0, "summary": {},
            "default-namespace": ["sales"],
            "representations": [{"type": "sql", "sql": sql, "dialect": dialect}],
        }  # fmt: skip
        fields = [{"id": 1, "name": "n", "type": "int", "required": False, "doc": "d"}]
        schema = {"type": "struct", "schema-id": 0, "fields": fields}
        body = {"name": name, "schema": schema, "view-version": version, "properties": {"comment": "c"}}
        answer = self.iceberg.call("POST", ICEBERG, json_body=body)
        assert answer.status == 200, answer.text

    def listed(self, **query: str) -> list[str]:
        names = list[str]()
        token = ""
        while True:
            page = self.unity.get(f"{B}/tables", **NAMES, **query, **({"page_token": token} if token else {})).json
            names += [table["name"] for table in page["tables"]]
            if not (token := page["next_page_token"] or ""):
                return names


@pytest.fixture
def site() -> Site:
    return Site()


def test_a_view_is_made_and_shown_as_it_was_sent(site: Site) -> None:
    made = site.view(comment="about it", properties={"a": "1"})
    assert made.status == 200, made.text
    told = made.json
    assert (told["table_type"], told["view_definition"], told["comment"]) == ("VIEW", SQL, "about it")
    assert (told["storage_location"], told["data_source_format"], told["properties"]) == (None, None, {"a": "1"})
    assert [(one["name"], one["type_name"], one["comment"]) for one in told["columns"]] == [
        ("id", "LONG", "the key"),
        ("small", "SHORT", "c"),
    ]
    assert site.unity.get(f"{B}/tables/main.sales.v1").json == told


def test_it_is_the_view_of_icebergs_clients_and_of_spark(site: Site) -> None:
    made = site.view().json
    loaded = site.iceberg.call("GET", f"{ICEBERG}/v1").json["metadata"]
    version = loaded["versions"][0]
    assert version["representations"] == [{"type": "sql", "sql": SQL, "dialect": "spark"}]
    assert (version["default-namespace"], loaded["view-uuid"]) == (["sales"], made["table_id"])
    assert [(field["name"], field["type"]) for field in loaded["schemas"][0]["fields"]] == [
        ("id", "long"),
        ("small", "int"),
    ]
    assert site.iceberg.call("DELETE", f"{ICEBERG}/v1").status == 204
    refused_old(site.unity.get(f"{B}/tables/main.sales.v1"), 404, "TABLE_NOT_FOUND")


def test_a_view_of_another_api_is_shown_where_its_dialect_allows(site: Site) -> None:
    site.of_iceberg("theirs", "select 1 as n")
    site.of_iceberg("trino", "select 1 as n", "trino")
    told = site.unity.get(f"{B}/tables/main.sales.theirs").json
    assert (told["table_type"], told["view_definition"], told["comment"]) == ("VIEW", "select 1 as n", "c")
    assert [(one["name"], one["type_text"], one["comment"]) for one in told["columns"]] == [("n", "int", "d")]
    assert site.unity.get(f"{B}/tables/main.sales.trino").json["view_definition"] is None


def test_a_metric_view_keeps_its_definition_and_what_it_depends_on(site: Site) -> None:
    depends = {"dependencies": [{"table": {"table_full_name": "main.sales.t1"}}]}
    made = site.view(table_type="METRIC_VIEW", view_definition=YAML, columns=[], view_dependencies=depends)
    assert made.status == 200, made.text
    assert (made.json["table_type"], made.json["view_definition"]) == ("METRIC_VIEW", YAML)
    assert (made.json["view_dependencies"], made.json["columns"]) == (depends, [])


def test_views_are_listed_after_the_tables_on_pages_of_any_size(site: Site) -> None:
    for name in ("e1", "e2", "e3"):
        site.unity.external(name, location=f"s3://other/{name}")
    for name in ("v1", "v2", "v3"):
        assert site.view(name).status == 200
    every = ["e1", "e2", "e3", "v1", "v2", "v3"]
    assert site.listed() == every
    for size in ("1", "2", "3", "4", "5", "6"):
        assert site.listed(max_results=size) == every, size


def test_i9_a_view_and_a_table_cannot_have_one_name(site: Site) -> None:
    site.unity.external("e1")
    refused_old(site.view("e1"), 409, "TABLE_ALREADY_EXISTS")
    assert site.view().status == 200
    refused_old(site.view(), 409, "TABLE_ALREADY_EXISTS")
    answer = site.unity.post(f"{B}/staging-tables", {**NAMES, "name": "v1"})
    assert answer.status == 409


def test_a_view_is_dropped_by_the_api_that_made_it(site: Site) -> None:
    assert site.view().status == 200
    assert site.unity.call("DELETE", f"{B}/tables/main.sales.v1").status == 200
    assert site.listed() == []
    refused_old(site.unity.call("DELETE", f"{B}/tables/main.sales.v1"), 404, "TABLE_NOT_FOUND")
    assert site.view().status == 200, "the name is free again"


def test_the_delta_api_sends_engines_to_the_older_one(site: Site) -> None:
    assert site.view("t1").status == 200
    refused(site.unity.get(T1), 400, "UnsupportedTableFormatException")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"view_definition": None}, "view_definition is missing"),
        ({"view_definition": ""}, "view_definition is missing"),
        ({"storage_location": "s3://other/v"}, "a view has no location"),
        (
            {"columns": [{"name": "i", "type_text": "interval", "type_json": '"interval month"', "position": 0}]},
            "no counterpart",
        ),
    ],
)
def test_what_cannot_be_a_view_is_refused_in_words(site: Site, changes: dict[str, Any], said: str) -> None:
    refusal = site.view(**changes)
    refused_old(refusal, 400, "INVALID_ARGUMENT")
    assert said in refusal.json["message"]
    assert site.listed() == []


def test_i12_metadata_files_of_a_view_go_elsewhere_only_for_principals_that_may_use_locations() -> None:
    app = functions()["catalog"]
    app.use_world(fake_world(), lake_root="s3://lake/base")
    root, ann = (Http(app.app, user) for user in ("root", "ann"))
    assert root.post("/v1/catalogs", {"name": "main"}).status == 201
    assert root.post("/v1/catalogs/main/namespaces", {"name": "sales"}).status == 201
    for securable, privileges in (
        ("catalog/main", ["USE CATALOG"]),
        ("schema/main.sales", ["USE SCHEMA", "CREATE TABLE"]),
    ):
        grant = {"principal": "ann", "add": privileges, "remove": []}
        assert root.call("PATCH", f"{B}/permissions/{securable}", json_body={"changes": [grant]}).status == 200
    asked = {**NAMES, "name": "v1", "table_type": "VIEW", "columns": COLUMNS, "view_definition": SQL}
    elsewhere = {**asked, "properties": {"write.metadata.path": "s3://x/y"}}
    assert ann.post(f"{B}/tables", elsewhere).status == 403
    assert ann.post(f"{B}/tables", asked).status == 200
    assert root.post(f"{B}/tables", {**elsewhere, "name": "v2"}).status == 200
