"""Content is shown to principals that may read, and to no other, whatever else these may do
(I12)."""

from __future__ import annotations

import uuid

import pytest

from tests.support.access.operations import SALES
from tests.support.access.realm import Realm
from tests.support.fakes import delta
from tests.support.functions import Answer

SECRET = "secret.parquet"
"""A file that the commit of version 1 adds."""


@pytest.fixture
def realm() -> Realm:
    made = Realm()
    made.grant("catalog", "main", "ann", "USE CATALOG")
    made.grant("schema", "main.sales", "ann", "USE SCHEMA")
    made.grant("table", "main.sales.t1", "ann", "MODIFY")
    return made


def commit(realm: Realm, body: object) -> Answer:
    return realm.ask("ann", "POST", f"/v1/tables/{realm.table}/commits", body)


def reader(realm: Realm) -> None:
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    realm.open()  # what comes beside an answer may be as late as the cache


def test_i12_a_transaction_reads_only_tables_that_its_principal_may_read(realm: Realm) -> None:
    """Only principals that may read see that there is another version: MODIFY alone shows the
    table, and no more."""
    other = realm.create("t5")
    realm.grant("table", "main.sales.t5", "ann", "MODIFY")
    body = {
        "id": str(uuid.uuid4()),
        "commits": [{"table_id": realm.table, **realm.append(2, "mine")}],
        "reads": [{"table_id": other, "version": 0}],
    }
    answer = realm.ask("ann", "POST", "/v1/transactions", body)
    assert answer.status == 403, answer.text
    announced = realm.ask("ann", "PUT", f"/v1/transactions/{body['id']}", {k: v for k, v in body.items() if k != "id"})
    assert announced.status == 403, announced.text
    realm.grant("table", "main.sales.t5", "ann", "SELECT")
    assert realm.ask("ann", "POST", "/v1/transactions", body).status == 200


def test_i12_a_loser_that_may_not_read_sees_the_winners_without_their_content(realm: Realm) -> None:
    answer = commit(realm, realm.append(1, "mine"))
    assert answer.status == 409 and SECRET not in answer.text
    assert [winner["version"] for winner in answer.error["winners"]] == [1]
    reader(realm)
    assert SECRET in commit(realm, realm.append(1, "mine")).text


def test_i12_knowing_the_identity_of_a_commit_does_not_give_its_content(realm: Realm) -> None:
    realm.must("POST", f"/v1/tables/{realm.table}/commits", realm.append(None, "ticket", base=1))
    stolen = {
        "version": None,
        "base": 1,
        "inline": {"content": delta.append("ticket", 1).decode().replace("ticket.parquet", "x")},
    }
    answer = commit(realm, stolen)
    assert answer.status == 200 and answer.json["outcome"] == "replayed"
    assert "ticket.parquet" not in answer.text
    reader(realm)
    assert "ticket.parquet" in commit(realm, stolen).text
    realm.must("POST", f"/v1/tables/{realm.table}/publish")
    realm.revoke("table", "main.sales.t1", "ann", "SELECT")
    realm.open()
    assert "ticket.parquet" not in commit(realm, stolen).text


def test_i12_a_load_with_content_gives_names_to_principals_that_may_not_read(realm: Realm) -> None:
    path = f"{SALES}/tables/t1"
    answer = realm.ask("ann", "GET", path, content="true")
    assert answer.status == 200 and SECRET not in answer.text
    (told,) = answer.json["commits"]
    assert "content" not in told and told["name"]
    reader(realm)
    assert SECRET in realm.ask("ann", "GET", path, content="true").text


def test_a_writer_gets_the_bytes_of_its_own_ticket(realm: Realm) -> None:
    answer = commit(realm, realm.append(None, "own", base=1))
    assert answer.status == 200 and "own.parquet" in answer.json["commit"]["content"]


def test_i12_a_predicate_is_not_read_for_a_principal_without_rights(realm: Realm) -> None:
    """Reading it is work that grows with it: a stranger must not be able to ask for it."""
    other = realm.create("other")
    group = {
        "id": str(uuid.uuid4()),
        "commits": [{"table_id": realm.table, **realm.append(2, "mine")}],
        "reads": [{"table_id": other, "version": 0, "predicate": "this is no predicate"}],
    }
    for user, statuses in (("bob", {403, 404}), ("ann", {403, 404}), ("root", {400})):
        answer = realm.ask(user, "POST", "/v1/transactions", group)
        assert answer.status in statuses, (user, answer.text)
        assert (answer.error.get("field") == "reads[0].predicate") is (user == "root"), answer.text


def test_the_predicates_of_a_request_have_a_bound_together(realm: Realm) -> None:
    predicates = ["id = 1" + " " * 15_000] * 7
    answer = realm.ask("root", "POST", f"/v1/tables/{realm.table}/judge", {"after": 0, "predicates": predicates})
    assert (answer.status, answer.error["field"]) == (400, "predicates[6]"), answer.text


def test_i12_a_refusal_by_uuid_names_the_table_to_principals_that_see_it_and_to_no_others(realm: Realm) -> None:
    def refused() -> str:
        answer = realm.ask("ann", "POST", f"/v1/tables/{realm.table}/publish", {})
        assert answer.status == 403, answer.text
        return str(answer.error["message"])

    realm.revoke("table", "main.sales.t1", "ann", "MODIFY")
    assert "sales.t1" not in refused() and realm.table in refused()
    reader(realm)
    assert f"'main.sales.t1' ({realm.table})" in refused()
