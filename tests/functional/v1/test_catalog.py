"""Catalog requests through the handler, as docs/api.md describes them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.catalog import complete
from tests.support.fakes import delta
from tests.support.fakes.world import fake_world
from tests.support.functions import Function, Http, function
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, refused
from turnstile.catalog import services as bootstrap
from turnstile.store.core.names import published_path


def test_catalogs_are_created_and_listed(api: CatalogApi) -> None:
    answer = api.http.post("/v1/catalogs", {"name": "Second"})
    assert answer.status == 201
    assert answer.json["name"] == "Second"
    listed = api.http.get("/v1/catalogs").json["catalogs"]
    assert [one["name"] for one in listed] == ["main", "Second"]
    assert listed[1] == answer.json
    refused(api.http.post("/v1/catalogs", {"name": "SECOND"}), 409, "AlreadyExists", "name")
    refused(api.http.get("/v1/catalogs/third/namespaces"), 404, "NoSuchCatalog", "catalog")


def test_a_namespace_lives_from_its_creation_to_its_drop(api: CatalogApi) -> None:
    http = api.http
    made = http.post(NAMESPACES, {"name": "Sales.eu", "comment": "c", "properties": {"a": "1"}})
    assert made.status == 201
    assert made.json["name"] == "Sales.eu"
    assert made.json == http.get(f"{NAMESPACES}/sales.EU").json
    assert [one["name"] for one in http.get(NAMESPACES).json["namespaces"]] == ["default", "Sales"]
    assert [one["name"] for one in http.get(NAMESPACES, parent="sales").json["namespaces"]] == ["Sales.eu"]
    changed = http.patch(f"{NAMESPACES}/sales.eu", {"set": {"b": "2"}, "unset": ["a"]})
    assert (changed.json["properties"], changed.json["comment"]) == ({"b": "2"}, "c")
    assert http.patch(f"{NAMESPACES}/sales.eu", {"comment": None}).json["comment"] is None
    refused(http.delete(f"{NAMESPACES}/sales"), 409, "NamespaceNotEmpty", "namespace")
    assert http.delete(f"{NAMESPACES}/sales", cascade="true").status == 204
    refused(http.get(f"{NAMESPACES}/sales.eu"), 404, "NoSuchNamespace", "namespace")
    complete(api.world)


def test_pages_are_followed_by_their_tokens(api: CatalogApi) -> None:
    for name in ("a", "b", "c"):
        api.http.post(NAMESPACES, {"name": name})
    first = api.http.get(NAMESPACES, max_results=3).json
    assert [one["name"] for one in first["namespaces"]] == ["a", "b", "c"]
    second = api.http.get(NAMESPACES, max_results=3, page_token=first["next_page_token"]).json
    assert [one["name"] for one in second["namespaces"]] == ["default"]
    assert "next_page_token" not in second
    refused(api.http.get(NAMESPACES, page_token="x"), 400, "InvalidRequest", "page_token")


def test_a_table_lives_from_its_staging_to_its_drop(api: CatalogApi) -> None:
    staged = api.stage("Orders")
    assert set(staged) == {"table_id", "location", "required_features", "required_properties"}
    answer = api.http.post(f"{DEFAULT}/tables", {"name": "Orders", "table_id": staged["table_id"], "comment": "c"})
    assert answer.status == 201
    table = answer.json
    assert (table["name"], table["latest"], table["floor"], table["state"]) == ("main.default.Orders", 0, 0, "active")
    assert table["location"] == staged["location"]
    assert table["metadata"]["schema"]["type"] == "struct"
    assert table["commits"] == []
    assert api.http.post(f"{DEFAULT}/tables", {"name": "Orders", "table_id": staged["table_id"]}).json == table
    listed = api.http.get(f"{DEFAULT}/tables").json["tables"]
    assert listed == [{
        "name": "Orders", "table_id": table["table_id"], "format": "delta", "location": table["location"],
        "created": table["created"],
    }]  # fmt: skip
    api.http.post(NAMESPACES, {"name": "archive"})
    renamed = api.http.post(f"{DEFAULT}/tables/orders/rename", {"name": "Old", "namespace": "ARCHIVE"})
    assert renamed.json == {**table, "name": "main.archive.Old"}
    assert api.http.get(f"{DEFAULT}/tables").json["tables"] == []
    assert api.http.delete(f"{NAMESPACES}/archive/tables/old").status == 204
    refused(api.http.delete(f"{NAMESPACES}/archive/tables/old"), 404, "NoSuchTable", "table")
    complete(api.world)


def test_a_table_that_was_loaded_by_the_other_function_is_the_one_that_was_registered(api: CatalogApi) -> None:
    table = api.create("t")
    commit = function("commit")
    commit.use_world(api.world)
    assert Http(commit.app).get(f"{DEFAULT}/tables/T").json == table


def test_what_version_0_breaks_is_named(api: CatalogApi) -> None:
    staged = api.http.post(f"{DEFAULT}/staging-tables", {"name": "t"}).json
    body = {"name": "t", "table_id": staged["table_id"]}
    refused(api.http.post(f"{DEFAULT}/tables", body), 404, "NoSuchCommit", "table_id")
    storage = api.world.storages.open(staged["location"])
    storage.put_if_absent(published_path(0), delta.lines(delta.info("x", 5), delta.protocol()))
    error = refused(api.http.post(f"{DEFAULT}/tables", body), 400, "InvalidCommit", "metaData")
    assert "version 0" in error["message"]


def test_registering_what_was_never_staged_or_used_before_is_refused(api: CatalogApi) -> None:
    unknown = {"name": "t", "table_id": "11111111-1111-4111-8111-111111111111"}
    refused(api.http.post(f"{DEFAULT}/tables", unknown), 404, "NoSuchStagingTable", "table_id")
    refused(api.http.post(f"{DEFAULT}/tables", {"name": "t", "table_id": "x"}), 400, "InvalidRequest", "table_id")
    table = api.create("t")
    used = {"name": "u", "table_id": table["table_id"]}
    error = refused(api.http.post(f"{DEFAULT}/tables", used), 409, "StagingTableUsed", "table_id")
    assert error["name"] == "main.default.t"
    second = api.http.post(f"{DEFAULT}/staging-tables", {"name": "T"})
    refused(second, 409, "AlreadyExists", "name")


def test_operators_see_every_head_page_by_page_also_dropped_ones(api: CatalogApi) -> None:
    ids = sorted(api.create(f"t{n}")["table_id"] for n in range(3))
    api.http.delete(f"{DEFAULT}/tables/t1")
    first = api.http.get("/v1/tables", max_results=2).json
    second = api.http.get("/v1/tables", max_results=2, page_token=first["next_page_token"]).json
    assert [one["table_id"] for one in (*first["tables"], *second["tables"])] == ids
    assert "next_page_token" not in second
    assert {one["name"]: one["state"] for one in first["tables"] + second["tables"]}["main.default.t1"] == "dropped"
    refused(api.http.get("/v1/tables", page_token="x"), 400, "InvalidRequest", "page_token")


def test_publish_now_publishes_what_was_ratified(api: CatalogApi) -> None:
    table = api.create("t")
    commit = function("commit")
    commit.use_world(api.world)
    content = delta.append("a", api.world.clock.now_ms()).decode()
    path = f"/v1/tables/{table['table_id']}"
    assert Http(commit.app).post(f"{path}/commits", {"version": 1, "inline": {"content": content}}).status == 200
    assert api.http.post(f"{path}/publish").json == {"published": 1, "floor": 1, "latest": 1, "state": "active"}
    assert api.http.post(f"{path}/publish").json["published"] == 0
    found = api.world.storages.open(table["location"]).read(published_path(1))
    assert found is not None
    assert found[0] == content.encode()
    unknown = api.http.post("/v1/tables/11111111-1111-4111-8111-111111111111/publish")
    refused(unknown, 404, "NoSuchTable")


def test_gc_says_what_would_go_and_takes_it_on_request(api: CatalogApi) -> None:
    staged = api.stage("t")
    api.world.clock.now += 25 * 3_600_000
    report = api.http.post("/v1/gc", {"dry_run": True}).json
    assert [(item["kind"], item["id"]) for item in report["items"]] == [("staging", staged["table_id"])]
    assert report["deleted"] == 0
    assert api.http.post("/v1/gc", {}).json["deleted"] == 0, "a dry run unless told otherwise"
    assert api.http.post("/v1/gc", {"dry_run": False, "kinds": ["dropped"]}).json["deleted"] == 0
    assert api.http.post("/v1/gc", {"dry_run": False, "kinds": ["staging"]}).json["deleted"] == 1
    refused(api.http.post("/v1/gc", {"kinds": ["x"]}), 400, "InvalidRequest", "kinds")
    body = {"name": "t", "table_id": staged["table_id"]}
    refused(api.http.post(f"{DEFAULT}/tables", body), 404, "NoSuchStagingTable", "table_id")


@pytest.mark.parametrize(
    ("method", "path", "body", "field"),
    [
        ("POST", "/v1/catalogs", {}, "name"),
        ("POST", "/v1/catalogs", {"name": 1}, "name"),
        ("POST", "/v1/catalogs", {"name": "a/b"}, "name"),
        ("POST", "/v1/catalogs", {"name": "x", "nmae": 1}, "nmae"),
        ("POST", NAMESPACES, {"name": "a..b"}, "name"),
        ("POST", NAMESPACES, {"name": "a.../etc"}, "name"),
        ("POST", NAMESPACES, {"name": "a", "properties": {"k": 1}}, "properties[...]"),
        ("GET", NAMESPACES + "/..%2F..", None, "namespace"),
        ("PATCH", DEFAULT, {"set": {"a": "1"}, "unset": ["a"]}, "unset"),
        ("DELETE", DEFAULT + "?cascade=perhaps", None, "cascade"),
        ("GET", DEFAULT + "/tables?max_results=-1", None, "max_results"),
        ("GET", DEFAULT + "/tables?page=2", None, "page"),
        ("POST", DEFAULT + "/tables", {"name": "t"}, "table_id"),
        ("POST", DEFAULT + "/tables/t/rename", {"name": "a.b"}, "name"),
        ("POST", DEFAULT + "/tables/t/rename", {"name": "a", "namespace": ""}, "namespace"),
        ("DELETE", DEFAULT + "/tables/t%00", None, "table"),
        ("POST", DEFAULT + "/imports", {"name": "t", "location": "x"}, "location"),
        ("POST", DEFAULT + "/imports", {"name": "t", "location": "s3://b/../c"}, "location"),
        ("GET", "/v1/catalogs/./namespaces", None, "catalog"),
    ],
)
def test_bad_input_is_refused_by_member_and_changes_nothing(
    api: CatalogApi, method: str, path: str, body: Any, field: str
) -> None:
    before = (dict(api.world.refs.rows), dict(api.world.objs.rows))
    path, _, query = path.partition("?")
    error = refused(api.http.call(method, path, json_body=body, query=query), 400, "InvalidRequest", field)
    assert error["remedy"]
    assert (api.world.refs.rows, api.world.objs.rows) == before


def test_a_path_without_a_route_and_one_of_the_other_function_differ(api: CatalogApi) -> None:
    refused(api.http.get("/v1/nothing"), 404, "NoSuchRoute")
    refused(api.http.call("PUT", DEFAULT), 405, "MethodNotAllowed")
    error = refused(api.http.call("DELETE", "/v1/tables/x/commits"), 405, "MethodNotAllowed")
    assert error["allowed"] == ["GET", "POST"]


def test_every_request_needs_the_token_of_a_stack_that_has_one() -> None:
    """I12."""
    app = Function("catalog", TURNSTILE_TOKEN="secret")
    world = fake_world()
    bootstrap.ensure(world)
    app.use_world(world)
    refused(Http(app.app).get("/v1/catalogs"), 401, "NotAuthenticated")
    refused(Http(app.app, "wrong").delete(DEFAULT), 401, "NotAuthenticated")
    assert Http(app.app, "secret").get("/v1/catalogs").status == 200


def test_i9_an_external_table_is_not_renamed_by_a_request_that_could_not_show_it(api: CatalogApi) -> None:
    unity = "/api/2.1/unity-catalog/tables"
    external = {
        "name": "e", "catalog_name": "main", "schema_name": "default", "table_type": "EXTERNAL", "columns": [],
        "data_source_format": "DELTA", "storage_location": "file:///elsewhere/e",
    }  # fmt: skip
    assert api.http.post(unity, external).status == 200
    refused(api.http.post(f"{DEFAULT}/tables/e/rename", {"name": "f"}), 400, "UnsupportedTable", "table")
    for dry_run in (True, False):
        error = refused(
            api.http.post(f"{DEFAULT}/tables/e/export", {"dry_run": dry_run}), 400, "UnsupportedTable", "table"
        )
        assert "is external" in error["message"] and error["remedy"]
    assert api.http.get(f"{unity}/main.default.e").json["name"] == "e"
