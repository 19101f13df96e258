"""Renaming a namespace over HTTP: the answer, the refusals, and whose right it is (I9, I12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access.operations import NS, SALES
from tests.support.access.realm import B, Realm, ask
from tests.support.catalog import complete
from tests.support.functions import Answer
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, refused


@pytest.fixture
def realm() -> Realm:
    return Realm()


def move(realm: Realm, user: str, name: str, namespace: str | None = None, path: str = SALES) -> Answer:
    return realm.ask(user, "POST", f"{path}/rename", {"name": name, "namespace": namespace})


# -- what happens -----------------------------------------------------------------------------------------------------


def test_i9_a_namespace_gets_another_name_with_everything_in_it(api: CatalogApi) -> None:
    before = api.http.post(NAMESPACES, {"name": "Sales", "comment": "c", "properties": {"a": "b"}}).json
    api.http.post(NAMESPACES, {"name": "Sales.EU"})
    table = api.create("Orders", "sales.eu")
    answer = api.http.post(f"{NAMESPACES}/SALES/rename", {"name": "Trade"})
    assert (answer.status, answer.json) == (200, {**before, "name": "Trade"})
    assert api.http.get(f"{NAMESPACES}/trade").json == answer.json
    assert api.http.get(f"{NAMESPACES}/sales").status == 404
    assert [one["name"] for one in api.http.get("/v1/tables").json["tables"]] == ["main.Trade.EU.Orders"]
    listed = api.http.get(f"{NAMESPACES}/trade.eu/tables").json["tables"]
    assert [(one["name"], one["table_id"]) for one in listed] == [("Orders", table["table_id"])]
    complete(api.world)


def test_i9_it_moves_below_another_one_and_back_to_the_top(api: CatalogApi) -> None:
    api.create("t")
    api.http.post(NAMESPACES, {"name": "old"})
    assert api.http.post(f"{DEFAULT}/rename", {"name": "d", "namespace": "OLD"}).json["name"] == "old.d"
    assert api.http.post(f"{NAMESPACES}/old.d/rename", {"name": "e", "namespace": None}).json["name"] == "old.e"
    assert api.http.post(f"{NAMESPACES}/old.e/rename", {"name": "default", "namespace": ""}).json["name"] == "default"
    complete(api.world)


@pytest.mark.parametrize(
    ("path", "body", "status", "type", "field"),
    [
        (DEFAULT, {}, 400, "InvalidRequest", "name"),
        (DEFAULT, {"name": 1}, 400, "InvalidRequest", "name"),
        (DEFAULT, {"name": ""}, 400, "InvalidRequest", "name"),
        (DEFAULT, {"name": "a.b"}, 400, "InvalidRequest", "name"),
        (DEFAULT, {"name": "a", "namespace": "a..b"}, 400, "InvalidRequest", "namespace"),
        (DEFAULT, {"name": "a", "parent": "b"}, 400, "InvalidRequest", "parent"),
        (DEFAULT, {"name": "a", "namespace": "Default"}, 400, "InvalidRequest", "namespace"),
        (DEFAULT, {"name": "a", "namespace": "default.b"}, 400, "InvalidRequest", "namespace"),
        (DEFAULT, {"name": "a", "namespace": "other." + ".".join("abcdefghi")}, 400, "InvalidRequest", "namespace"),
        (DEFAULT, {"name": "a", "namespace": "nope"}, 404, "NoSuchNamespace", "namespace"),
        (f"{NAMESPACES}/nope", {"name": "a"}, 404, "NoSuchNamespace", "namespace"),
        ("/v1/catalogs/nope/namespaces/a", {"name": "a"}, 404, "NoSuchCatalog", "catalog"),
        (DEFAULT, {"name": "OTHER"}, 409, "AlreadyExists", "name"),
        (f"{NAMESPACES}/other", {"name": "T", "namespace": "default"}, 409, "AlreadyExists", "name"),
    ],
)
def test_i9_what_is_refused_changes_nothing(
    api: CatalogApi, path: str, body: dict[str, Any], *, status: int, type: str, field: str
) -> None:
    api.create("t")
    api.http.post(NAMESPACES, {"name": "other"})
    before = dict(api.world.refs.rows)
    refused(api.http.post(f"{path}/rename", body), status, type, field)
    assert api.world.refs.rows == before


def test_a_namespace_with_more_tables_than_one_transaction_holds_says_what_to_do(
    api: CatalogApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turnstile.catalog.rename.MAX_TABLES", 1)
    for name in ("t", "u"):
        api.create(name)
    error = refused(api.http.post(f"{DEFAULT}/rename", {"name": "d"}), 413, "TooLarge", "namespace")
    assert "one by one" in error["remedy"]
    for name in ("t", "u"):  # as it says
        api.http.post(NAMESPACES, {"name": "d"})
        assert api.http.post(f"{DEFAULT}/tables/{name}/rename", {"name": name, "namespace": "d"}).status == 200
    complete(api.world)


# -- whose right it is ------------------------------------------------------------------------------------------------


def test_i12_both_the_namespace_and_the_place_where_it_goes_are_judged(realm: Realm) -> None:
    """As a table's rename: who owns the one may not put it anywhere, who may create there may not
    take it."""
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA")
    realm.own("schema", "main.sales", "ann")
    assert move(realm, "ann", "s9").status == 403
    assert move(realm, "ann", "s9", "hr").status == 403
    realm.grant("schema", "main.hr", "ann", "CREATE SCHEMA")
    assert move(realm, "ann", "hr", "sales", f"{NS}/hr").status == 403, "not hers to move"
    assert move(realm, "ann", "s9").status == 403
    assert move(realm, "ann", "s9", "hr").json["name"] == "hr.s9"
    assert realm.ask("ann", "PATCH", f"{NS}/hr.s9", {"comment": "still hers"}).status == 200


def test_i12_a_refusal_says_nothing_of_what_is_where_it_would_go(realm: Realm) -> None:
    realm.grant("catalog", "main", "ann", "USE CATALOG", "CREATE SCHEMA")
    realm.own("schema", "main.sales", "ann")
    realm.must("POST", NS, {"name": "hr.secret"})
    realm.revoke("catalog", "main", "ann", "CREATE SCHEMA")
    found = [move(realm, "ann", "x", parent) for parent in ("hr.secret", "hr.nothing", "nowhere")]
    assert [answer.status for answer in found] == [403] * 3
    texts = [answer.error["message"].replace(name, "") for answer, name in zip(
        found, ("hr.secret", "hr.nothing", "nowhere"), strict=True)]  # fmt: skip
    assert len({*texts}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("taken", ["owner", "place"])
def test_i12_a_rename_is_judged_by_the_very_rights_that_it_replaces(realm: Realm, taken: str) -> None:
    """A right on either side is taken away between the judgement and the swap: it is refused, and
    judged again."""
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA")
    realm.grant("schema", "main.hr", "ann", "CREATE SCHEMA")
    realm.own("schema", "main.sales", "ann")
    objs = realm.world.objs
    put = realm.world.objs.put_many

    def put_many(batch: Any) -> None:
        put(batch)
        objs.put_many = put  # type: ignore[method-assign]
        if taken == "owner":
            realm.own("schema", "main.sales", "bob")
        else:
            realm.revoke("schema", "main.hr", "ann", "CREATE SCHEMA")

    objs.put_many = put_many  # type: ignore[method-assign]
    assert move(realm, "ann", "s9", "hr").status == 403
    assert realm.must("GET", SALES).json["name"] == "sales"


def test_i12_rights_go_with_the_namespace_and_what_is_in_it(realm: Realm) -> None:
    realm.grant("catalog", "main", "bob", "USE CATALOG")
    realm.grant("schema", "main.sales", "bob", "USE SCHEMA", "SELECT")
    realm.grant("table", "main.sales.t1", "bob", "MODIFY")
    by_id = f"/v1/tables/{realm.table}/head"
    assert realm.ask("bob", "GET", by_id).status == 200
    assert move(realm, "root", "s9").status == 200
    assert realm.ask("bob", "GET", f"{NS}/s9/tables/t1").status == 200
    assert realm.ask("bob", "GET", by_id).status == 200
    assert realm.ask("bob", "POST", f"/v1/tables/{realm.table}/commits", realm.append(2, "mine")).status == 200
    realm.must("POST", NS, {"name": "sales"})
    realm.create("t1", "sales")
    assert realm.ask("bob", "GET", f"{SALES}/tables/t1").status == 403, "the name has no rights, what has it does"


def test_i12_a_table_that_is_named_by_uuid_is_judged_where_its_namespace_is_now(realm: Realm) -> None:
    realm.grant("catalog", "main", "bob", "USE CATALOG", "USE SCHEMA")
    realm.grant("schema", "main.hr", "bob", "SELECT")
    for table_id in (realm.table, realm.external):
        assert realm.ask("bob", "POST", f"{B}/temporary-table-credentials",
                         {"table_id": table_id, "operation": "READ"}).status == 403  # fmt: skip
    assert move(realm, "root", "sales", "hr").status == 200
    for table_id in (realm.table, realm.external):
        assert realm.ask("bob", "POST", f"{B}/temporary-table-credentials",
                         {"table_id": table_id, "operation": "READ"}).status == 200  # fmt: skip


def test_i3_i12_the_mover_of_a_namespace_gets_its_new_place_again(realm: Realm) -> None:
    """Nothing is left under the old name that could be judged."""
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA")
    realm.grant("schema", "main.hr", "ann", "CREATE SCHEMA")
    realm.own("schema", "main.sales", "ann")
    asked = ("POST", f"{SALES}/rename", {"name": "s9", "namespace": "hr"})
    key = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}
    first, again = (ask("ann", asked, **key) for _ in range(2))
    assert (first.status, again.json) == (200, first.json)
    assert ask("ann", asked).status == 403
    realm.own("schema", "main.hr.s9", "bob")
    realm.revoke("catalog", "main", "ann", "USE SCHEMA")
    assert ask("ann", asked, **key).status == 403, "it may not be seen any more"


def test_i12_another_case_of_its_name_is_its_owners_to_give(realm: Realm) -> None:
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.own("schema", "main.sales", "ann")
    assert move(realm, "ann", "Sales").json["name"] == "Sales"
    assert realm.ask("ann", "PATCH", f"{B}/schemas/main.sales", {"new_name": "SALES"}).json["name"] == "SALES"
    assert realm.ask("ann", "PATCH", f"{B}/schemas/main.sales", {"new_name": "s9"}).status == 403
