"""The permissions API: bodies as in the reference, visibility by principal, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access.realm import B, Realm
from tests.support.fakes.world import fake_world
from tests.support.functions import Answer

T1 = "table/main.sales.t1"


@pytest.fixture
def realm() -> Realm:
    return Realm()


def patch(realm: Realm, securable: str, *changes: dict[str, Any], user: str = "root") -> Answer:
    return realm.ask(user, "PATCH", f"{B}/permissions/{securable}", {"changes": changes})


def get(realm: Realm, securable: str, user: str = "root", **query: str) -> Any:
    answer = realm.ask(user, "GET", f"{B}/permissions/{securable}", **query)
    assert answer.status == 200, answer.text
    return answer.json


def change(principal: str, add: list[str], remove: list[str] | None = None) -> dict[str, Any]:
    return {"principal": principal, "add": add, "remove": remove or []}


def assignments(**grants: list[str]) -> dict[str, Any]:
    return {"privilege_assignments": [{"principal": name, "privileges": held} for name, held in grants.items()]}


def test_grants_are_shown_in_the_references_words(realm: Realm) -> None:
    assert get(realm, T1) == {"privilege_assignments": []}
    answer = patch(realm, T1, change("bob", ["SELECT"]), change("ann", ["SELECT", "MODIFY"]))
    assert (answer.status, answer.json) == (200, assignments(ann=["MODIFY", "SELECT"], bob=["SELECT"]))
    assert get(realm, T1) == answer.json
    assert get(realm, T1, principal="bob") == assignments(bob=["SELECT"])
    assert get(realm, T1, principal="zoe") == assignments()


def test_a_change_is_answered_with_the_grants_of_the_principals_that_it_names(realm: Realm) -> None:
    patch(realm, T1, change("bob", ["SELECT"]))
    assert patch(realm, T1, change("ann", ["MODIFY"])).json == assignments(ann=["MODIFY"])
    assert patch(realm, T1, change("bob", [], ["SELECT"])).json == assignments()
    assert get(realm, T1) == assignments(ann=["MODIFY"])


@pytest.mark.parametrize(
    ("securable", "privilege"),
    [("metastore/anything", "CREATE CATALOG"), ("catalog/main", "USE CATALOG"), ("schema/main.sales", "CREATE TABLE"),
     (T1, "SELECT"), ("table/MAIN.Sales.T1", "MODIFY"), ("schema/main.sales.eu", "USE SCHEMA")],
)  # fmt: skip
def test_every_type_of_securable_has_grants(realm: Realm, securable: str, privilege: str) -> None:
    realm.must("POST", "/v1/catalogs/main/namespaces", {"name": "sales.eu"})
    answer = patch(realm, securable, change("ann", [privilege]))
    assert answer.json == assignments(ann=[privilege]), answer.text
    assert get(realm, securable) == answer.json


def test_a_change_that_changes_nothing_writes_nothing(realm: Realm) -> None:
    patch(realm, T1, change("ann", ["SELECT"]))
    before = realm.state()
    assert patch(realm, T1, change("ann", ["SELECT"], ["MODIFY"])).json == assignments(ann=["SELECT"])
    assert patch(realm, T1).json == assignments()
    assert realm.state() == before


def test_a_change_is_applied_wholly_or_not_at_all(realm: Realm) -> None:
    before = realm.state()
    answer = patch(realm, T1, change("ann", ["SELECT"]), change("bob", ["USE CATALOG"]))
    assert answer.status == 400
    assert realm.state() == before


@pytest.mark.parametrize(
    ("securable", "body"),
    [
        ("volume/main.sales.v", {"changes": []}),
        (T1, {"changes": [change("ann", ["OWNER"])]}),
        (T1, {"changes": [change("ann", ["EXECUTE"])]}),
        (T1, {"changes": [change("ann", ["select"])]}),
        ("metastore/m", {"changes": [change("ann", ["USE CATALOG"])]}),
        (T1, {"changes": [change("", ["SELECT"])]}),
        (T1, {"changes": [change("a\nb", ["SELECT"])]}),
        (T1, {"changes": [change(f"p{n}", ["SELECT"]) for n in range(201)]}),
        (T1, {}),
        (T1, {"changes": [{"add": ["SELECT"]}]}),
    ],
)
def test_what_has_no_meaning_is_refused(realm: Realm, securable: str, body: dict[str, Any]) -> None:
    answer = realm.ask("root", "PATCH", f"{B}/permissions/{securable}", body)
    assert answer.status == 400, answer.text
    assert set(answer.json) == {"error_code", "message", "details"}
    assert answer.json["error_code"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("securable", "code"),
    [("catalog/nope", "CATALOG_NOT_FOUND"), ("schema/main.nope", "SCHEMA_NOT_FOUND"),
     ("schema/main", "SCHEMA_NOT_FOUND"),
     ("table/main.sales.nope", "TABLE_NOT_FOUND"), ("table/main.nope.t", "SCHEMA_NOT_FOUND"),
     ("table/sales", "TABLE_NOT_FOUND")],
)  # fmt: skip
def test_what_is_missing_has_no_grants(realm: Realm, securable: str, code: str) -> None:
    answer = patch(realm, securable, change("ann", []))
    assert (answer.status, answer.json["error_code"]) == (404, code)
    assert realm.ask("root", "GET", f"{B}/permissions/{securable}").status == 404


@pytest.mark.parametrize("user", ["ann", "member"])
def test_i12_a_principal_that_may_not_change_grants_sees_its_own_and_its_roles(realm: Realm, user: str) -> None:
    patch(realm, T1, change("ann", ["SELECT"]), change("team", ["MODIFY"]), change("bob", ["SELECT"]))
    mine = {"ann": assignments(ann=["SELECT"]), "member": assignments(team=["MODIFY"])}
    assert get(realm, T1, user) == mine[user]
    assert get(realm, T1, user, principal="bob") == assignments()
    own = realm.ask(user, "GET", f"/v1/permissions/{T1}").json
    assert own == {"owner": None, "grants": mine[user]["privilege_assignments"]}


def test_i12_the_grants_on_what_is_missing_look_like_those_on_what_is_not_mine(realm: Realm) -> None:
    patch(realm, T1, change("bob", ["SELECT"]))
    for securable in (
        T1,
        "table/main.sales.nope",
        "table/main.nope.t",
        "table/nope.a.b",
        "schema/main.nope",
        "catalog/nope",
    ):
        assert get(realm, securable, "ann") == assignments(), securable


def test_owners_of_what_it_is_in_see_all_grants(realm: Realm) -> None:
    patch(realm, T1, change("bob", ["SELECT"]))
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    for kind, name in (("catalog", "main"), ("schema", "main.sales")):
        assert get(realm, T1, "ann") == assignments()
        realm.own(kind, name, "ann")
        assert get(realm, T1, "ann") == assignments(bob=["SELECT"])
        realm.own(kind, name, "")


def test_inherited_grants_are_not_repeated(realm: Realm) -> None:
    patch(realm, "catalog/main", change("ann", ["SELECT"]))
    assert get(realm, T1) == assignments()


def test_the_metastore_has_no_owner_and_its_rights_are_admins_to_give(realm: Realm) -> None:
    assert realm.ask("root", "PATCH", "/v1/permissions/metastore/metastore", {"owner": "ann"}).status == 400
    assert patch(realm, "metastore/m", change("ann", ["CREATE CATALOG"]), user="ann").status == 403


def test_a_realm_without_catalogs_has_grants() -> None:
    empty = Realm(fake_world())
    assert get(empty, "metastore/m", "ann") == assignments()
    for path in ("/v1/tables", "/v1/catalogs/main/namespaces"):
        assert empty.ask("ann", "GET", path).status == 403  # nothing is there, and that is nobody's to know
    assert empty.ask("ann", "POST", "/v1/catalogs", {"name": "hers"}).status == 403
    assert patch(empty, "metastore/m", change("ann", ["CREATE CATALOG"])).status == 200
    assert empty.ask("ann", "POST", "/v1/catalogs", {"name": "hers"}).status == 201
    assert empty.ask("bob", "POST", "/v1/catalogs", {"name": "his"}).status == 403


@pytest.mark.parametrize(
    "body",
    [{}, {"owner": "a\nb"}, {"owner": 1}, {"changes": [], "typo": 1}, {"changes": [{"principal": "a", "typo": 1}]}],
)
def test_our_own_form_refuses_what_it_does_not_know(realm: Realm, body: dict[str, Any]) -> None:
    answer = realm.ask("root", "PATCH", f"/v1/permissions/{T1}", body)
    assert (answer.status, answer.error["type"]) == (400, "InvalidRequest")
