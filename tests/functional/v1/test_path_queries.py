"""Path queries over HTTP and from the command line, as docs/path-queries.md describes them."""

from __future__ import annotations

import json
import re

import httpx
import pytest

from tests.support.access.realm import Realm
from tests.support.cli import run, service
from tests.support.functions import Http, function
from tests.support.queries import Thing, catalog_with
from tests.support.repository import ROOT
from turnstile.catalog.query.core.parser import parse

PAGE = (ROOT / "docs" / "path-queries.md").read_text()


@pytest.fixture
def http() -> Http:
    there = {
        ("Sales",): Thing(properties={"region": "eu"}, comment="what was sold"),
        ("Sales", "Orders"): Thing(table=True, properties={"tier": "gold"}),
        ("Sales", "rates"): Thing(table=True, external=True, properties={"tier": "gold"}, comment="c"),
        ("hr",): Thing(properties={"region": "us"}),
    }
    app = function("catalog")
    app.use_world(catalog_with(there).world)
    return Http(app.app)


def test_what_matches_is_reported_with_what_the_tree_knows_of_it(http: Http) -> None:
    answer = http.get("/v1/find", query='/MAIN/[region = "eu"]')
    assert answer.status == 200
    assert answer.json["head"].startswith("commit/")
    (one,) = answer.json["found"]
    assert (one["name"], one["kind"], one["comment"]) == ("main.Sales", "namespace", "what was sold")
    assert one["properties"] == {"region": "eu"}
    assert "next_page_token" not in answer.json
    orders, rates = http.get("/v1/find", query='/main/*/[tier = "gold"]').json["found"]
    assert (orders["name"], orders["kind"], orders["format"]) == ("main.Sales.Orders", "table", "delta")
    assert "properties" not in orders, "a Delta table's are not in the tree"
    assert (rates["name"], rates["properties"]) == ("main.Sales.rates", {"tier": "gold"})


def test_pages_are_followed_by_their_tokens(http: Http) -> None:
    first = http.get("/v1/find", query="/main/*", max_results=1).json
    assert [one["name"] for one in first["found"]] == ["main.hr"]
    second = http.get("/v1/find", query="/main/*", max_results=1, page_token=first["next_page_token"]).json
    assert [one["name"] for one in second["found"]] == ["main.Sales"]
    assert second["head"] == first["head"]
    assert "next_page_token" not in second


def test_a_query_that_cannot_be_read_says_where_and_what_to_write(http: Http) -> None:
    answer = http.get("/v1/find", query="/main/[region = eu]")
    assert answer.status == 400
    assert answer.error == {
        "type": "InvalidRequest",
        "message": "query, character 17: expected a value, found 'eu]'",
        "code": 400,
        "field": "query",
        "remedy": 'write a text in quotes ("eu"), a number, true or false',
        "position": 17,
    }
    assert http.get("/v1/find").error["field"] == "query"
    assert http.get("/v1/find", query="/nope/*").error["type"] == "NoSuchCatalog"
    assert http.get("/v1/find", query="/main/*", page_token="x").error["field"] == "page_token"
    assert http.get("/v1/find", query="/main/*", depth=3).error["field"] == "depth"


def test_i12_only_what_may_be_seen_is_found() -> None:
    """Neither what a query leads to, nor what it passes through."""
    realm = Realm()
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    found = {"query": "/main/*/*"}
    everything = [one["name"] for one in realm.must("GET", "/v1/find", **found).json["found"]]
    assert "main.sales.t1" in everything
    assert realm.ask("ann", "GET", "/v1/find", **found).json["found"] == []
    assert realm.ask("bob", "GET", "/v1/find", **found).status == 403
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    assert realm.ask("ann", "GET", "/v1/find", **found).json["found"] == []
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    assert [one["name"] for one in realm.ask("ann", "GET", "/v1/find", **found).json["found"]] == ["main.sales.t1"]


def test_every_query_on_the_page_can_be_read() -> None:
    queries = re.findall(r"^(/\w+/.*)$", PAGE, re.MULTILINE)
    assert len(queries) >= 6
    for query in queries:
        text = query.split("   ")[0]
        parse(text, files="/files[" in text)


# -- the command --------------------------------------------------------------------------------------------------


def row(name: str) -> dict[str, object]:
    return {"name": name, "kind": "table", "id": "i", "created": 1_770_000_000_000, "format": "delta"}


def test_find_follows_empty_pages_and_says_when_there_are_more() -> None:
    query = '/main/*/[name prefix "a"]'
    asked = f"GET /v1/find?{httpx.QueryParams(query=query)}"
    pages = {
        asked: (200, {"found": [], "head": "h", "next_page_token": "t1"}),
        f"{asked}&page_token=t1": (200, {"found": [row("main.s.a1")], "head": "h", "next_page_token": "t2"}),
        f"{asked}&page_token=t2": (200, {"found": [row("main.s.a2")], "head": "h"}),
    }
    with service(pages) as canned:
        told = json.loads(run("find", query, "--url", canned.url, "--output", "json").stdout)
        limited = run("find", query, "--limit", "1", "--url", canned.url).stdout
    assert [one["name"] for one in told["found"]] == ["main.s.a1", "main.s.a2"]
    assert told["more"] is False
    assert "main.s.a1" in limited and "main.s.a2" not in limited
    assert "more than 1" in limited


def test_find_asks_for_files_where_the_last_level_is_of_files() -> None:
    query = "/main/*/[tier = '/x/files[']/ Files [size < 16mb]"
    asked = f"GET /v1/find/files?{httpx.QueryParams(query=query, max_results='3')}"
    file = {"table": "main.s.t", "table_id": "i", "version": 4, "path": "f", "size": 2048, "records": None}
    left_out = [{"table": "main.s.u", "reason": "it has no column 'day'"}]
    pages = {
        asked: (200, {"found": [file], "left_out": [], "next_page_token": "t1"}),
        asked.replace("max_results=3", "max_results=2") + "&page_token=t1": (
            200,
            {"found": [file, file], "left_out": left_out},
        ),
    }
    with service(pages) as canned:
        told = json.loads(run("find", query, "--limit", "2", "--url", canned.url, "--output", "json").stdout)
        shown = run("find", query, "--limit", "2", "--url", canned.url).stdout
    assert told == {"query": query, "found": [file, file], "left_out": left_out, "more": True}
    assert "main.s.t" in shown and "main.s.u was left out" in shown and "more than 2" in shown


@pytest.mark.parametrize("query", ["/main/files[x = 1]", "/main/*/files", "/main/*/[comment = '/a/files[']"])
def test_find_asks_for_entries_where_the_last_level_is_none_of_files(query) -> None:
    with service({f"GET /v1/find?{httpx.QueryParams(query=query)}": (200, {"found": [], "head": "h"})}) as canned:
        assert run("find", query, "--url", canned.url).exit_code == 0


def test_find_refuses_files_of_the_past() -> None:
    ended = run("find", "/main/*/*/files[]", "--as-of", "seq:1", "--url", "http://127.0.0.1:1")
    assert ended.exit_code == 2 and "--version" in ended.stderr


def test_find_tells_the_services_refusal_with_its_remedy() -> None:
    error = {"type": "InvalidRequest", "message": "query, character 1: expected '/'", "code": 400, "remedy": "begin"}
    with service({"GET /v1/find": (400, {"error": error})}) as canned:
        ended = run("find", "x", "--url", canned.url)
    assert ended.exit_code == 4
    assert "character 1" in ended.stderr and "begin" in ended.stderr
