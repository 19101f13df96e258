"""A hidden entity is answered like one that does not exist, and listings have the visible entities
only (I12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access.operations import NS, SALES, V1
from tests.support.access.realm import B, Realm, functions
from tests.support.functions import Answer, Http


def ask(realm: Realm, path: str, user: str = "ann", **query: Any) -> Answer:
    return realm.ask(user, "GET", path, **query)


NAMED = [
    (f"{V1}/catalogs/{{c}}/schemas/{{s}}/tables/{{t}}", {}),
    (f"{NS.replace('main', '{c}')}/{{s}}/tables/{{t}}", {}),
    (f"{B}/tables/{{c}}.{{s}}.{{t}}", {}),
    (f"{V1}/catalogs/{{c}}/schemas/{{s}}/tables/{{t}}/credentials", {"operation": "READ"}),
]
RIGHTS: list[tuple[tuple[str, str, str], ...]] = [
    (),
    (("catalog", "main", "USE CATALOG"),),
    (("catalog", "main", "USE CATALOG"), ("schema", "main.sales", "USE SCHEMA")),
]


@pytest.mark.parametrize("rights", RIGHTS)
@pytest.mark.parametrize("missing", ["c", "s", "t"])
@pytest.mark.parametrize(("path", "query"), NAMED)
def test_i12_a_missing_name_is_refused_in_the_words_of_an_existing_one(
    realm: Realm, path: str, query: dict[str, str], missing: str, rights: tuple[tuple[str, str, str], ...]
) -> None:
    for kind, name, privilege in rights:
        realm.grant(kind, name, "ann", privilege)
    there = {"c": "main", "s": "sales", "t": "t1"}
    gone = there | {missing: "nope"}
    existing = realm.ask("ann", "GET", path.format(**there), **query)
    absent = realm.ask("ann", "GET", path.format(**gone), **query)
    assert existing.status == absent.status == 403
    assert absent.text.replace("nope", there[missing]) == existing.text


@pytest.mark.parametrize(
    ("rights", "path", "type"),
    [
        ((("catalog", "main", "USE CATALOG"), ("schema", "main.sales", "USE SCHEMA"),
          ("schema", "main.sales", "SELECT")),
         f"{SALES}/tables/nope", "NoSuchTable"),
        ((("catalog", "main", "USE CATALOG"), ("schema", "main.sales", "USE SCHEMA"),
          ("schema", "main.sales", "CREATE TABLE")), f"{SALES}/tables/nope", "NoSuchTable"),
        ((("catalog", "main", "USE CATALOG"), ("catalog", "main", "CREATE SCHEMA")), f"{NS}/nope", "NoSuchNamespace"),
        ((("catalog", "main", "USE CATALOG"), ("catalog", "main", "CREATE SCHEMA")),
         f"{NS}/nope/tables/t1", "NoSuchNamespace"),
        ((("catalog", "main", "USE CATALOG"), ("catalog", "main", "USE SCHEMA")), f"{NS}/nope", "NoSuchNamespace"),
        ((("metastore", "m", "CREATE CATALOG"),), "/v1/catalogs/nope/namespaces", "NoSuchCatalog"),
    ],
)  # fmt: skip
def test_a_caller_that_would_have_been_let_in_or_may_create_it_learns_that_it_does_not_exist(
    realm: Realm, rights: tuple[tuple[str, str, str], ...], path: str, type: str
) -> None:
    for kind, name, privilege in rights:
        realm.grant(kind, name, "ann", privilege)
    answer = ask(realm, path)
    assert (answer.status, answer.error["type"]) == (404, type), answer.text


def test_i12_what_only_admins_may_do_is_not_begun_for_others_where_nothing_is_there(realm: Realm) -> None:
    """An import looks at files before it looks for the name."""
    realm.grant("catalog", "main", "ann", "USE CATALOG", "CREATE SCHEMA", "USE SCHEMA", "CREATE TABLE")
    before = realm.state()
    for namespace in ("sales", "nope"):
        answer = realm.ask("ann", "POST", f"{NS}/{namespace}/imports", {"name": "i", "location": "s3://other/e1"})
        assert answer.status == 403, answer.text
    assert realm.state() == before


def test_a_uuid_that_leads_to_no_table_is_not_found_and_one_that_does_is_refused(realm: Realm) -> None:
    """A uuid cannot be guessed: who has it was told once."""
    assert ask(realm, f"/v1/tables/{realm.table}/head").status == 403
    assert ask(realm, "/v1/tables/99999999-9999-4999-8999-999999999999/head").status == 404
    realm.must("DELETE", f"{SALES}/tables/t1")
    realm.open()
    answer = ask(realm, f"/v1/tables/{realm.table}/head")
    assert answer.status == 404, answer.text


def names(answer: Answer, member: str) -> list[str]:
    assert answer.status == 200, answer.text
    return [one["name"] for one in answer.json[member]]


def test_i12_catalogs_are_listed_for_principals_that_may_use_them(realm: Realm) -> None:
    for name in ("ann-s", "bob-s"):
        realm.must("POST", "/v1/catalogs", {"name": name})
    realm.own("catalog", "ann-s", "ann")
    for path in ("/v1/catalogs", f"{B}/catalogs"):
        assert names(ask(realm, path), "catalogs") == ["ann-s"]
        realm.grant("catalog", "main", "ann", "USE CATALOG")
        assert names(ask(realm, path), "catalogs") == ["ann-s", "main"]
        realm.revoke("catalog", "main", "ann", "USE CATALOG")
        assert names(ask(realm, path, "root"), "catalogs") == ["ann-s", "bob-s", "main"]
    first = ask(realm, f"{B}/catalogs", "root", max_results=1)
    assert (names(first, "catalogs"), first.json["next_page_token"]) == (["ann-s"], "ann-s")
    assert first.json["catalogs"][0]["owner"] == "ann"


def test_i12_schemas_are_listed_for_principals_that_may_use_or_own_them(realm: Realm) -> None:
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    for path, member, query in ((NS, "namespaces", {}), (f"{B}/schemas", "schemas", {"catalog_name": "main"})):
        assert names(ask(realm, path, **query), member) == []
        realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
        assert names(ask(realm, path, **query), member) == ["sales"]
        realm.own("schema", "main.hr", "ann")
        assert names(ask(realm, path, **query), member) == ["hr", "sales"]
        realm.own("schema", "main.hr", "")
        realm.revoke("schema", "main.sales", "ann", "USE SCHEMA")


def test_i12_tables_are_listed_for_principals_that_may_see_them_page_by_page(realm: Realm) -> None:
    for number in range(2, 8):
        realm.create(f"t{number}")
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    for name, privilege in (("t2", "SELECT"), ("t5", "MODIFY"), ("t7", "SELECT")):
        realm.grant("table", f"main.sales.{name}", "ann", privilege)
    unity = {"catalog_name": "main", "schema_name": "sales"}
    for path, query in ((f"{SALES}/tables", {}), (f"{B}/tables", unity)):
        found = []
        token = {}
        while True:
            page = ask(realm, path, max_results=1, **query, **token)
            found += names(page, "tables")
            if not page.json.get("next_page_token"):
                break
            token = {"page_token": page.json["next_page_token"]}
        assert found == ["t2", "t5", "t7"]
    assert "t1" in names(ask(realm, f"{SALES}/tables", "root"), "tables")


def test_i12_a_later_page_is_judged_by_the_rights_of_now(realm: Realm) -> None:
    for number in range(2, 6):
        realm.create(f"t{number}")
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA", "SELECT")
    first = ask(realm, f"{SALES}/tables", max_results=1)
    assert names(first, "tables") == ["e1"]
    token = first.json["next_page_token"]
    realm.revoke("schema", "main.sales", "ann", "SELECT")
    realm.grant("table", "main.sales.t4", "ann", "SELECT")
    assert names(ask(realm, f"{SALES}/tables", page_token=token), "tables") == ["t4"]
    realm.must("DELETE", f"{SALES}/tables/t4")
    assert names(ask(realm, f"{SALES}/tables", page_token=token), "tables") == []
    realm.revoke("schema", "main.sales", "ann", "USE SCHEMA")
    assert ask(realm, f"{SALES}/tables", page_token=token).status == 403


@pytest.mark.parametrize("operation", ["PATH_READ", "PATH_READ_WRITE", "PATH_CREATE_TABLE"])
def test_i12_a_path_that_belongs_to_tables_is_refused_in_the_words_of_one_that_does_not(
    realm: Realm, operation: str
) -> None:
    free = "s3://other/free"
    places = ["s3://other/e1", "s3://other/e1/part", "s3://other", realm.head().location, "file:///lake"]

    def refusal(url: str) -> str:
        answer = realm.ask("ann", "POST", f"{B}/temporary-path-credentials", {"url": url, "operation": operation})
        assert answer.status == 403
        return answer.text.replace(url, free)

    assert {refusal(place) for place in places} == {refusal(free)}
    realm.grant("metastore", "m", "ann", "READ FILES", "WRITE FILES", "CREATE EXTERNAL TABLE")
    assert "belongs to tables" in refusal(realm.head().location)


def schemas(realm: Realm, user: str, **query: Any) -> list[str]:
    """Every page of the older API's schemas."""
    found: list[str] = []
    while True:
        page = ask(realm, f"{B}/schemas", user, catalog_name="main", **query)
        found += names(page, "schemas")
        if not page.json["next_page_token"]:
            return found
        query["page_token"] = page.json["next_page_token"]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 100])
def test_schemas_of_all_levels_are_listed_page_by_page_as_they_were_written(realm: Realm, size: int) -> None:
    for name in ("sales.EU.de", "sales.EU.fr", "Hr.it", "sales2"):
        realm.must("POST", NS, {"name": name})
    every = ["hr", "hr.it", "sales", "sales.EU", "sales.EU.de", "sales.EU.fr", "sales2"]
    assert schemas(realm, "root", max_results=size) == every


def test_i12_nested_schemas_are_listed_for_principals_that_may_use_every_level(realm: Realm) -> None:
    for name in ("sales.eu.de", "hr.it"):
        realm.must("POST", NS, {"name": name})
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.grant("schema", "main.sales.eu", "ann", "USE SCHEMA")
    realm.own("schema", "main.hr.it", "ann")
    assert schemas(realm, "ann") == []
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    assert schemas(realm, "ann") == ["sales", "sales.eu", "sales.eu.de"]
    realm.own("schema", "main.hr", "ann")
    assert schemas(realm, "ann", max_results=1) == ["hr", "hr.it", "sales", "sales.eu", "sales.eu.de"]


def test_a_page_token_of_one_kind_of_listing_is_none_of_another(realm: Realm) -> None:
    token = ask(realm, f"{B}/schemas", "root", catalog_name="main", max_results=1).json["next_page_token"]
    assert ask(realm, NS, "root", page_token=token).status == 400


def test_i12_a_catalog_that_is_created_again_shows_nothing_of_the_one_that_has_the_name_by_now(realm: Realm) -> None:
    realm.grant("metastore", "metastore", "ann", "CREATE CATALOG")
    key = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}

    def create() -> Answer:
        http = Http(functions()["catalog"].app, "ann")
        return http.post("/v1/catalogs", {"name": "mine"}, headers=key)

    first = create()
    assert (first.status, create().json) == (201, first.json)
    assert realm.ask("ann", "DELETE", f"{B}/catalogs/mine").status < 300
    realm.must("POST", "/v1/catalogs", {"name": "mine"})
    assert create().status == 403
    realm.grant("catalog", "mine", "ann", "USE CATALOG")
    assert create().status == 201
