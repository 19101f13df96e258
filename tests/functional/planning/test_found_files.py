"""Path queries that reach files, over HTTP: their results page by page, and their refusals."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.access.realm import Realm
from tests.support.fakes import delta
from tests.support.functions import Answer
from tests.support.openapi import check, operations
from tests.support.v1 import CatalogApi, PlansApi, refused
from turnstile.planning import finding
from turnstile.store.core.opaque import seal, unseal


class Site(PlansApi):
    """A catalog with tables that have an ``id``; files of ten ids and so many megabytes each."""

    def table(self, name: str, **megabytes: int) -> str:
        """A table with a file for each name; the number in the name is its least id."""
        id = str(self.create(name)["table_id"])
        added = []
        for path, size in megabytes.items():
            low = int(path[1:])
            stats = {"numRecords": 10, "minValues": {"id": low}, "maxValues": {"id": low + 9}, "nullCount": {"id": 0}}
            added.append(delta.add(path, stats=json.dumps(stats) if path[0] == "f" else None, size=size * 1024**2))
        self.add_files(id, *added)
        return id

    def ask(self, query: str, **more: Any) -> Answer:
        return self.plans.get("/v1/find/files", query=query, **more)

    def found(self, query: str) -> list[str]:
        """Tables and files that a query finds, all pages of them."""
        names = list[str]()
        token = None
        for _ in range(100):
            answer = self.ask(query, **({"page_token": token} if token else {}))
            assert answer.status == 200, answer.text
            check(operations()["findFiles"], answer)
            names += [f"{file['table'].rpartition('.')[2]}/{file['path']}" for file in answer.json["found"]]
            token = answer.json.get("next_page_token")
            if token is None:
                return names
        raise AssertionError("the pages have no end")


@pytest.fixture
def site(api: CatalogApi) -> Site:
    site = Site(api)
    site.table("a", f0=1, f10=20, f20=3)
    site.table("b", f0=30, x5=2)
    return site


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("/main/default/a/files[]", ["a/f0", "a/f10", "a/f20"]),
        ("/MAIN/Default/A / FILES [ id = 12 ]", ["a/f10"]),
        ("/main/default/*/files[size < 16mb]", ["a/f0", "a/f20", "b/x5"]),
        ("/main/default/*/files[SIZE >= 20mb]", ["a/f10", "b/f0"]),
        ("/main/default/*/files[size = 1.5gb or size = 1048576]", ["a/f0"]),
        ("/main/default/*/files[id = 12 and not size > 16MB]", ["b/x5"]),
        ("/main/default/*/files[records is null]", ["b/x5"]),
        ("/main/default/*/files[records = 10 and path in ('f0', 'x5')]", ["a/f0", "b/f0"]),
        ("/main/default/[name = \"b\"]/files[path = ']' or path like 'x%']", ["b/x5"]),
        ("/main/default/*/files[modified > 1]", []),
        ("/main/default/*/files[modified = 1 and id > 15]", ["a/f10", "a/f20", "b/x5"]),
        ("/main/default/none/files[]", []),
        ("/main/default/files[]", []),
    ],
)
def test_files_are_found_by_their_columns_and_by_what_is_known_of_them(site, query, found) -> None:
    if query == "/main/default/files[]":  # the files of what is called default, which is no table
        assert site.ask(query).json == {"found": [], "left_out": []}
    assert sorted(site.found(query)) == found


@pytest.mark.parametrize("tables", [1, 20])
def test_pages_are_all_files_once_in_the_order_of_the_tables(site, monkeypatch, tables) -> None:
    monkeypatch.setattr(finding, "MAX_TABLES", tables)
    names = list[str]()
    token = None
    pages = 0
    while pages == 0 or (token is not None and pages < 20):
        answer = site.ask("/main/default/*/files[]", max_results=2, **({"page_token": token} if token else {}))
        assert len(answer.json["found"]) <= 2
        names += [f"{file['table']}/{file['path']}" for file in answer.json["found"]]
        token = answer.json.get("next_page_token")
        pages = pages + 1
    assert names == [f"main.default.{name}" for name in ("a/f0", "a/f10", "a/f20", "b/f0", "b/x5")]
    assert pages >= 3


def test_a_token_is_good_for_every_spelling_of_the_catalog(site) -> None:
    token = site.ask("/main/default/*/files[]", max_results=3).json["next_page_token"]
    rest = site.ask("/MAIN/default/*/files[]", page_token=token).json
    assert [file["path"] for file in rest["found"]] == ["f0", "x5"]


def test_a_page_that_goes_on_in_a_table_is_of_the_version_that_it_began_with(site) -> None:
    first = site.ask("/main/default/a/files[]", max_results=1).json
    head = site.commits.get(f"/v1/tables/{first['found'][0]['table_id']}/head").json
    content = delta.lines(delta.info("later", head["timestamp"] + 1), delta.add("f99")).decode()
    path = f"/v1/tables/{first['found'][0]['table_id']}/commits"
    assert site.commits.post(path, {"version": head["latest"] + 1, "inline": {"content": content}}).status == 200
    rest = site.ask("/main/default/a/files[]", page_token=first["next_page_token"]).json
    assert [file["path"] for file in (*first["found"], *rest["found"])] == ["f0", "f10", "f20"]
    assert {file["version"] for file in (*first["found"], *rest["found"])} == {head["latest"]}


def test_a_table_that_cannot_be_asked_is_named_with_the_reason(site) -> None:
    answer = site.ask("/main/default/*/files[nothing = 1]").json
    assert answer["found"] == []
    assert [(table["table"], "nothing" in table["reason"]) for table in answer["left_out"]] == [
        ("main.default.a", True),
        ("main.default.b", True),
    ]
    assert "size" in site.ask("/main/default/a/files[size < 'x']").json["left_out"][0]["reason"]


@pytest.mark.parametrize(
    ("query", "field", "problem"),
    [
        ("/main/default/a", "query", "does not ask for files"),
        ("/main/default/a/files", "query", "does not ask for files"),
        ("/main/default/a/files[size < 16mb", "query", "expected"),
        ("/main/default/a/files[path = 'x]", "query", "expected"),
        ("/main/default/a/files[]/more", "query", "expected the end"),
        ("/main/default/a/files[size <]", "predicate", "cannot be read"),
        ("/main/default/a/files[size < 16xb]", "predicate", "no literal"),
        ("/main/default/a/files[length(path) > 3]", "predicate", "functions are not supported"),
    ],
)
def test_what_cannot_be_read_is_refused(site, query, field, problem) -> None:
    answer = site.ask(query)
    assert (answer.status, answer.error["field"]) == (400, field)
    assert problem in answer.error["message"]


def test_a_query_without_files_is_another_route(site) -> None:
    answer = site.http.get("/v1/find", query="/main/default/a/files[size < 16mb]")
    assert (answer.status, answer.error["field"]) == (400, "query")
    assert "/v1/find/files" in answer.error["remedy"]


def test_a_name_in_backquotes_or_of_several_parts_is_the_tables(site) -> None:
    for name in ("`size`", "size.x", "records.`size`"):
        left_out = site.ask(f"/main/default/a/files[{name} = 1]").json["left_out"]
        assert [table["table"] for table in left_out] == ["main.default.a"]
        assert "no column" in left_out[0]["reason"]


def test_a_token_whose_plan_is_gone_is_refused(site) -> None:
    token = site.ask("/main/default/*/files[]", max_results=1).json["next_page_token"]
    place = unseal(token, finding._PLACE, "page token")
    gone = seal(msgspec.structs.replace(place, page="AAAA"))
    refused(site.ask("/main/default/*/files[]", page_token=gone), 400, "InvalidRequest", "page_token")
    other = seal(msgspec.structs.replace(place, page=None, query="another"))
    refused(site.ask("/main/default/*/files[]", page_token=other), 400, "InvalidRequest", "page_token")


def test_tokens_of_other_queries_and_of_tables_that_are_gone_are_refused(site) -> None:
    token = site.ask("/main/default/*/files[]", max_results=1).json["next_page_token"]
    assert site.ask("/main/default/*/files[size > 1]", page_token=token).error["field"] == "page_token"
    assert site.ask("/main/default/*/files[]", page_token=token[:-2]).error["field"] == "page_token"
    assert site.http.delete("/v1/catalogs/main/namespaces/default/tables/a").status < 300
    gone = site.ask("/main/default/*/files[]", page_token=token)
    assert (gone.status, gone.error["field"]) == (400, "page_token")
    refused(site.ask("/nope/*/files[]"), 404, "NoSuchCatalog")
    refused(site.ask("/main/*/files[]", as_of="seq:1"), 400, "InvalidRequest", "as_of")
    refused(site.plans.get("/v1/find/files"), 400, "InvalidRequest", "query")


def test_i12_files_of_tables_that_may_not_be_read_are_not_found() -> None:
    """To see a table is not to read it."""
    realm = Realm()
    query = {"query": "/main/*/*/files[]"}
    everything = realm.must("GET", "/v1/find/files", **query).json
    assert {table["table"] for member in ("found", "left_out") for table in everything[member]} == {"main.sales.t1"}
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    realm.grant("table", "main.sales.t1", "ann", "MODIFY")
    assert [found["name"] for found in realm.ask("ann", "GET", "/v1/find", query="/main/*/*").json["found"]] == [
        "main.sales.t1"
    ]
    assert realm.ask("ann", "GET", "/v1/find/files", **query).json == {"found": [], "left_out": []}
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    readable = realm.ask("ann", "GET", "/v1/find/files", **query).json
    assert {table["table"] for member in ("found", "left_out") for table in readable[member]} == {"main.sales.t1"}
