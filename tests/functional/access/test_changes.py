"""Owners, grants and changes: the owner of a new entity, and the rights that a change needs
(I12)."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from tests.support.access.operations import NS, SALES, SCHEMA
from tests.support.access.realm import B, Realm, functions
from tests.support.functions import Answer, Function, Http
from turnstile.access.authorizer import Target
from turnstile.api.http.authorization import authorized_by_view, needs
from turnstile.api.services import services
from turnstile.rights.rules import see_table, use_catalog

TABLE = "/v1/permissions/table/main.sales"


def rights(realm: Realm, kind: str, name: str, user: str = "root") -> dict[str, Any]:
    answer = realm.ask(user, "GET", f"/v1/permissions/{kind}/{name}")
    assert answer.status == 200, answer.text
    return dict(answer.json)


def creator(realm: Realm, name: str = "ann") -> None:
    realm.grant("catalog", "main", name, "USE CATALOG", "CREATE SCHEMA", "USE SCHEMA", "CREATE TABLE")
    realm.grant("metastore", "x", name, "CREATE CATALOG", "CREATE EXTERNAL TABLE")


def test_the_creator_of_something_owns_it(realm: Realm) -> None:
    creator(realm)
    asks: list[tuple[str, str, Any]] = [
        ("catalog", "hers", realm.ask("ann", "POST", "/v1/catalogs", {"name": "hers"})),
        ("catalog", "hers2", realm.ask("ann", "POST", f"{B}/catalogs", {"name": "hers2"})),
        ("schema", "main.it", realm.ask("ann", "POST", NS, {"name": "it"})),
        ("schema", "main.it.eu", realm.ask("ann", "POST", NS, {"name": "it.eu.de"})),
        ("schema", "main.it2", realm.ask("ann", "POST", f"{B}/schemas", {"name": "it2", "catalog_name": "main"})),
        ("table", "main.sales.t2", realm.ask("ann", "POST", f"{SCHEMA}/tables", realm.finalised(realm.staged["ann"]))),
        ("table", "main.sales.e2", realm.ask("ann", "POST", f"{B}/tables", {
            "name": "e2", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
            "storage_location": "s3://other/e2", "columns": []})),
    ]  # fmt: skip
    for kind, name, answer in asks:
        assert answer.status < 300, answer.text
        assert rights(realm, kind, name) == {"owner": "ann", "grants": []}
    for path in ("catalogs/hers2", "schemas/main.it2", "tables/main.sales.t2", "tables/main.sales.e2"):
        assert realm.ask("ann", "GET", f"{B}/{path}").json["owner"] == "ann"
    listed = realm.ask("ann", "GET", f"{B}/tables", catalog_name="main", schema_name="sales").json["tables"]
    assert {one["name"]: one["owner"] for one in listed} == {"e2": "ann", "t2": "ann"}


def test_an_admin_with_a_name_owns_what_it_makes_and_hands_it_over(realm: Realm) -> None:
    realm.create("t5")
    assert rights(realm, "table", "main.sales.t5")["owner"] == "root"
    realm.own("table", "main.sales.t5", "ann")
    assert rights(realm, "table", "main.sales.t5")["owner"] == "ann"
    realm.own("table", "main.sales.t5", "")
    assert rights(realm, "table", "main.sales.t5")["owner"] is None


def test_i12_what_a_stack_without_users_made_belongs_to_admins_alone(realm: Realm) -> None:
    open_stack = Function("catalog", TURNSTILE_AUTHENTICATION="none")
    open_stack.use_world(realm.world)
    assert Http(open_stack.app).post(NS, {"name": "early"}).status == 201
    assert rights(realm, "schema", "main.early")["owner"] is None


def test_an_owner_grants_and_hands_over_and_a_grantee_does_not(realm: Realm) -> None:
    for user in ("ann", "bob"):
        realm.grant("catalog", "main", user, "USE CATALOG", "USE SCHEMA")
    realm.own("table", "main.sales.t1", "ann")
    give = {"changes": [{"principal": "bob", "add": ["SELECT"]}]}
    assert realm.ask("bob", "PATCH", f"{TABLE}.t1", give).status == 403
    assert realm.ask("ann", "PATCH", f"{TABLE}.t1", give).status == 200
    assert realm.ask("bob", "GET", f"{SALES}/tables/t1").status == 200
    assert realm.ask("bob", "PATCH", f"{TABLE}.t1", {"owner": "bob"}).status == 403
    assert realm.ask("ann", "PATCH", f"{TABLE}.t1", {"owner": "bob"}).status == 200
    assert realm.ask("ann", "GET", f"{SALES}/tables/t1").status == 403
    assert realm.ask("bob", "DELETE", f"{SALES}/tables/t1").status == 204


def test_a_role_owns_for_all_its_members(realm: Realm) -> None:
    realm.grant("catalog", "main", "team", "USE CATALOG", "USE SCHEMA")
    realm.own("table", "main.sales.t1", "team")
    assert realm.ask("member", "DELETE", f"{SALES}/tables/t1").status == 204


def test_rights_follow_a_table_to_its_new_name_and_end_with_it(realm: Realm) -> None:
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA")
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    realm.must("POST", f"{SALES}/tables/t1/rename", {"name": "t9", "namespace": "hr"})
    assert realm.ask("ann", "GET", f"{NS}/hr/tables/t9").status == 200
    assert realm.ask("ann", "GET", f"{SALES}/tables/t1").status == 403
    realm.must("DELETE", f"{NS}/hr/tables/t9")
    realm.create("t9", "hr")
    assert realm.ask("ann", "GET", f"{NS}/hr/tables/t9").status == 403


def test_other_changes_of_a_securable_keep_its_rights(realm: Realm) -> None:
    before = {}
    for kind, name in (("catalog", "main"), ("schema", "main.sales"), ("table", "main.sales.e1")):
        realm.own(kind, name, "ann")
        realm.grant(kind, name, "bob", "SELECT")
        before[kind, name] = rights(realm, kind, name)
    realm.must("PATCH", f"{B}/catalogs/main", {"comment": "c"})
    realm.must("PATCH", SALES, {"comment": "c", "set": {"a": "b"}})
    realm.must("POST", f"{SCHEMA}/tables/e1/rename", {"new-name": "E1"})
    realm.must("POST", NS, {"name": "more"})
    assert {(kind, name): rights(realm, kind, name) for kind, name in before} == before


@pytest.mark.parametrize(
    ("kind", "name", "path"),
    [
        pytest.param("schema", "main.sales", SALES, marks=pytest.mark.slow),
        ("catalog", "main", f"{B}/catalogs/main"),
    ],
)
def test_i12_a_change_is_judged_by_the_very_rights_that_it_replaces(
    realm: Realm, kind: str, name: str, path: str
) -> None:
    """The right is taken away between the judgement and the swap: the swap is refused, and judged
    again."""
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.own(kind, name, "ann")
    world = realm.world
    put = realm.world.objs.put_many
    once = threading.Event()

    def put_many(objs: Any) -> None:
        put(objs)
        if not once.is_set():
            once.set()
            realm.own(kind, name, "bob")

    world.objs.put_many = put_many  # type: ignore[method-assign]
    answer = realm.ask("ann", "PATCH", path, {"comment": "mine"})
    assert once.is_set() and answer.status == 403, answer.text
    assert realm.must("GET", path).json["comment"] is None


def test_i12_a_staging_table_that_is_a_table_by_now_is_not_shown_to_its_creator_without_a_right(realm: Realm) -> None:
    creator(realm)
    body = realm.finalised(realm.staged["ann"])
    assert realm.ask("ann", "POST", f"{SCHEMA}/tables", body).status == 200
    realm.own("table", "main.sales.t2", "bob")
    answer = realm.ask("ann", "POST", f"{SCHEMA}/tables", body)
    assert answer.status == 403, answer.text
    again = {"name": "t7", "table_id": realm.staged["ann"]}
    answer = realm.ask("ann", "POST", f"{SALES}/tables", again)
    assert answer.status == 409 and "t2" not in answer.text


def test_i12_both_spellings_of_a_tables_type_are_judged(realm: Realm) -> None:
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA", "CREATE TABLE")
    external = {"name": "e2", "catalog_name": "main", "schema_name": "sales", "table_type": "EXTERNAL",
                "table-type": "MANAGED", "storage_location": "s3://other/e2", "columns": []}  # fmt: skip
    assert realm.ask("ann", "POST", f"{B}/tables", external).status == 403
    kebab = {**realm.finalised(realm.staged["ann"]), "table-type": "EXTERNAL", "table_type": "MANAGED"}
    assert realm.ask("ann", "POST", f"{SCHEMA}/tables", {**kebab, "location": "s3://other/e2"}).status == 403


# -- declarations -----------------------------------------------------------------------------------------------------


def _answer(realm: Realm, view: Any) -> Answer:
    """``GET /v1`` answered by another view."""
    module = functions()["commit"]
    entry = module.app.routes["/v1"]["GET"]
    kept = entry.view_function
    entry.view_function = view
    try:
        return realm.ask("ann", "GET", "/v1")
    finally:
        entry.view_function = kept


def test_i12_a_view_that_declares_nothing_gets_no_services(realm: Realm) -> None:
    assert _answer(realm, lambda: {"head": services().commits.head(realm.table)}).status == 500


def test_i12_a_view_reads_no_catalog_that_it_does_not_declare(realm: Realm) -> None:
    realm.must("POST", "/v1/catalogs", {"name": "other"})
    realm.own("catalog", "other", "ann")
    reads = needs((use_catalog, lambda _: Target("other")))(
        lambda: {name: services().reader.current(name).head for name in ("other", "main")}
    )
    assert _answer(realm, reads).status == 403


def test_i12_an_answer_that_was_not_judged_is_not_sent(realm: Realm) -> None:
    target = Target("main", ("sales",), "t1")
    forgets = needs((see_table, lambda _: target))(lambda: {"secret": 1})
    answer = _answer(realm, forgets)
    assert answer.status == 500 and "secret" not in answer.text
    with pytest.raises(ValueError, match="twice"):
        authorized_by_view("nothing, by mistake")(forgets)
