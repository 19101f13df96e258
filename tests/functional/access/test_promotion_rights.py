"""The right to promote a branch, asked for each table and name that the promotion changes, by the
rights of the catalog (I12, I28)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.access.operations import BRANCHES, NS, SALES
from tests.support.access.realm import Realm
from tests.support.functions import Answer
from turnstile.branches.checks import Checker

DEV = "/v1/catalogs/main@dev/namespaces"
PROMOTE = f"{BRANCHES}/dev/promote"
EVERY = ("USE CATALOG", "CREATE SCHEMA", "USE SCHEMA", "CREATE TABLE", "SELECT", "MODIFY")
"""With these a principal reads all of the catalog, and may branch it."""

Place = tuple[str, str]
CATALOG: Place = ("catalog", "main")
SCHEMA: Place = ("schema", "main.sales")
OTHER: Place = ("schema", "main.hr")
TABLE: Place = ("table", "main.sales.t1")
EXTERNAL: Place = ("table", "main.sales.e1")


def branched(realm: Realm) -> None:
    """A branch of ann's, who owns nothing of the catalog."""
    realm.grant("catalog", "main", "ann", *EVERY)
    assert ask(realm, "POST", BRANCHES, {"name": "dev"}).status == 201


def ask(realm: Realm, method: str, path: str, body: Any = None) -> Answer:
    return realm.ask("ann", method, path, body)


def commit(realm: Realm) -> None:
    """A commit to the branch's table."""
    loaded = ask(realm, "GET", f"{DEV}/sales/tables/t1").json
    answer = ask(realm, "POST", f"/v1/tables/{loaded['table_id']}/commits", realm.append(2, "branch"))
    assert answer.status == 200, answer.text


def namespace(method: str, name: str = "", body: Any = None) -> Callable[[Realm], None]:
    """A change of a namespace of the branch."""

    def change(realm: Realm) -> None:
        answer = ask(realm, method, f"{DEV}/{name}" if name else DEV, body)
        assert answer.status < 300, answer.text

    return change


CHANGES: dict[str, tuple[Callable[[Realm], None], str, list[Place]]] = {
    "commit": (commit, "sales.t1", [TABLE, SCHEMA, CATALOG]),
    "create a namespace": (namespace("POST", body={"name": "it"}), "it", [CATALOG]),
    "create one in a new one": (namespace("POST", body={"name": "it.eu"}), "it.eu", [CATALOG]),
    "create a nested one": (namespace("POST", body={"name": "sales.eu"}), "sales.eu", [SCHEMA, CATALOG]),
    "change a namespace": (namespace("PATCH", "sales", {"comment": "c"}), "sales", [SCHEMA, CATALOG]),
    "drop a namespace": (namespace("DELETE", "hr"), "hr", [CATALOG]),
    "drop a table": (namespace("DELETE", "sales/tables/t1"), "sales.t1", [SCHEMA, CATALOG]),
}
"""Changes on a branch, the name in a refusal, and the places at which PROMOTE suffices."""


@pytest.mark.parametrize("change", CHANGES)
def test_i12_a_branch_is_promoted_with_the_right_on_all_that_it_changes(realm: Realm, change: str) -> None:
    make, name, places = CHANGES[change]
    branched(realm)
    make(realm)
    for place in (None, OTHER, EXTERNAL, TABLE, SCHEMA, CATALOG):
        if place is not None:
            realm.grant(*place, "ann", "PROMOTE")
        reasons = ask(realm, "GET", f"{BRANCHES}/dev/diff").json["conflicts"]
        before = realm.state()
        answer = ask(realm.copy(), "POST", PROMOTE, {})
        realm.open()
        if place in places:
            assert (answer.status, reasons) == (200, []), answer.text
            realm.revoke(*place, "ann", "PROMOTE")
        else:
            assert answer.status == 403, (place, answer.text)
            assert realm.state() == before
            error = answer.json["error"]
            assert error["missing"] == reasons and error["count"] == len(reasons)
            assert any(f"'{name}'" in reason for reason in reasons)
            assert all("'ann' may not promote" in reason for reason in reasons) and "PROMOTE" in error["remedy"]


def test_i12_a_refusal_names_every_table_and_name_for_which_the_right_is_missing(realm: Realm) -> None:
    branched(realm)
    commit(realm)
    for number in range(60):
        namespace("POST", body={"name": f"n{number:02d}"})(realm)
    error = ask(realm, "POST", PROMOTE, {}).json["error"]
    assert (error["count"], len(error["missing"])) == (61, 50)
    assert error["missing"][0] == "'ann' may not promote changes of 'sales.t1'"
    assert error["missing"][-1] == "'ann' may not promote in catalog 'main', where 'n48' was created"
    assert "; and 58 more" in error["message"]
    realm.grant(*CATALOG, "ann", "PROMOTE")
    assert ask(realm, "POST", PROMOTE, {}).status == 200


def test_i12_promotion_needs_the_use_of_every_level_above_in_the_catalog(realm: Realm) -> None:
    branched(realm)
    commit(realm)
    realm.grant(*TABLE, "ann", "PROMOTE")
    realm.revoke(*CATALOG, "ann", "USE SCHEMA")
    assert ask(realm, "POST", PROMOTE, {}).status == 403
    realm.grant(*SCHEMA, "ann", "USE SCHEMA")
    assert ask(realm, "POST", PROMOTE, {}).status == 200
    assert realm.head().latest == 2


def test_i12_the_right_on_the_branch_or_without_a_part_in_the_branch_promotes_nothing(realm: Realm) -> None:
    branched(realm)
    commit(realm)
    for catalog in ("main@dev", "main"):
        realm.grant("catalog", catalog, "bob", "PROMOTE", "USE CATALOG", "USE SCHEMA")
    realm.grant("catalog", "main@dev", "ann", "PROMOTE")
    for user in ("ann", "bob"):
        assert realm.ask(user, "POST", PROMOTE, {}).status == 403
    realm.grant("catalog", "main@dev", "bob", *EVERY)
    assert realm.ask("bob", "POST", PROMOTE, {}).status == 200


def test_i12_the_owner_of_the_catalog_promotes_without_a_grant(realm: Realm) -> None:
    realm.own("catalog", "main", "bob")
    branched(realm)
    commit(realm)
    namespace("POST", body={"name": "it"})(realm)
    assert realm.ask("bob", "GET", f"{BRANCHES}/dev/diff").json["conflicts"] == []
    assert realm.ask("bob", "POST", PROMOTE, {}).status == 200


def test_i12_a_revoke_while_a_promotion_is_computed_refuses_it(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    branched(realm)
    commit(realm)
    realm.grant(*TABLE, "ann", "PROMOTE")
    check = Checker.check

    def raced(checker: Checker, *arguments: Any) -> Any:
        realm.revoke(*TABLE, "ann", "PROMOTE")
        return check(checker, *arguments)

    monkeypatch.setattr(Checker, "check", raced)
    answer = ask(realm, "POST", PROMOTE, {})
    assert (answer.status, answer.json["error"]["type"]) == (403, "PermissionDenied"), answer.text
    assert "field" not in answer.json["error"] or answer.json["error"]["field"] is None
    assert realm.head().latest == 1
    assert realm.must("GET", f"{BRANCHES}/dev").json["name"] == "dev"


def test_i12_rights_are_refused_before_anything_is_written_or_conflicts_are_named(realm: Realm) -> None:
    branched(realm)
    commit(realm)
    namespace("PATCH", "hr", {"comment": "of branch"})(realm)
    realm.must("PATCH", f"{NS}/hr", {"comment": "of main"})
    ask(realm, "GET", f"{BRANCHES}/dev/diff")  # publishes the branch's commits
    before = realm.state()
    assert ask(realm, "POST", PROMOTE, {}).status == 403
    assert realm.state() == before
    realm.grant(*CATALOG, "ann", "PROMOTE")
    assert ask(realm, "POST", PROMOTE, {}).status == 409


def test_i12_only_a_principal_that_may_promote_a_table_records_findings_about_it(realm: Realm) -> None:
    realm.must("PATCH", f"{NS}/sales", {"set": {"turnstile.expect.positive": "id >= 0"}})
    branched(realm)
    commit(realm)
    state = ask(realm, "GET", f"{BRANCHES}/dev/diff").json["state"]
    finding = {"table": "sales.t1", "expectation": "positive", "text": "id >= 0", "rows": 4}
    asked = ("POST", f"{BRANCHES}/dev/checks", {"state": state, "findings": [finding]})
    before = realm.state()
    error = ask(realm, *asked).json["error"]
    assert (error["type"], error["missing"]) == ("PermissionDenied", ["'ann' may not promote changes of 'sales.t1'"])
    assert "cannot be checked" in error["message"] and realm.state() == before
    assert realm.ask("bob", *asked).status == 403
    realm.grant(*TABLE, "ann", "PROMOTE")
    recorded = ask(realm, *asked).json["checks"]
    assert [(each["outcome"], each["by"]) for each in recorded] == [("passed", "ann")]
    assert ask(realm, "POST", PROMOTE, {}).status == 200


def test_unitys_permissions_neither_show_nor_take_what_its_clients_do_not_know(realm: Realm) -> None:
    realm.grant(*TABLE, "ann", "SELECT", "PROMOTE")
    realm.grant(*TABLE, "bob", "PROMOTE")
    path = "/permissions/table/main.sales.t1"
    own = realm.must("GET", f"/v1{path}").json["grants"]
    assert own == [
        {"principal": "ann", "privileges": ["PROMOTE", "SELECT"]},
        {"principal": "bob", "privileges": ["PROMOTE"]},
    ]
    unity = f"/api/2.1/unity-catalog{path}"
    assert realm.must("GET", unity).json == {"privilege_assignments": [{"principal": "ann", "privileges": ["SELECT"]}]}
    change = {"changes": [{"principal": "bob", "add": ["PROMOTE"]}]}
    assert realm.ask("root", "PATCH", unity, change).status == 400
    changed = realm.must("PATCH", unity, {"changes": [{"principal": "ann", "add": ["MODIFY"]}]}).json
    assert changed == {"privilege_assignments": [{"principal": "ann", "privileges": ["MODIFY", "SELECT"]}]}
    assert realm.ask("bob", "GET", f"/v1{path}").json["grants"] == own[1:]
    assert realm.ask("ann", "GET", f"/v1{path}").json["grants"][0]["privileges"] == ["MODIFY", "PROMOTE", "SELECT"]
    assert realm.ask("bob", "GET", f"{SALES}/tables/t1").status == 403
