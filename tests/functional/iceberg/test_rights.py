"""I12: who may do what through the Iceberg API: every operation declares it, and nobody gets further."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.functions import Answer
from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, creation, refused
from tests.support.iceberg.realm import ANN, COMMIT, OPERATIONS, TRANSACTION, Realm, guarded
from turnstile.access.authorizer import Target
from turnstile.access.core.grants import Privilege as P
from turnstile.access.core.grants import Securable
from turnstile.api.http.authorization import NEEDS


def asked(realm: Realm, operation: tuple[str, str, Any], user: str = ANN, missing: bool = False) -> Answer:
    method, path, body = operation
    path, _, query = path.partition("?")
    if missing:
        path = path.replace("sales", "none")
    return realm.ask(user, method, path, body, query=query)


def test_every_route_is_in_the_list_and_declares_what_it_needs() -> None:
    entries = [entry for methods in guarded().app.routes.values() for entry in methods.values()]
    assert len(entries) == len(OPERATIONS)
    assert all(getattr(entry.view_function, NEEDS) for entry in entries)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one[0]} {one[1]}")
def test_i12_who_has_no_right_learns_and_changes_nothing(realm: Realm, operation: tuple[str, str, Any]) -> None:
    before = {key: dict(row) for key, row in realm.world.refs.rows.items()}
    refusal = asked(realm, operation)
    assert refusal.status == 403, refusal.text
    if operation[0] != "HEAD":
        refused(refusal, 403, "ForbiddenException")
    assert asked(realm, operation, missing=True).status == 403, "not even whether it is there"
    assert {key: dict(row) for key, row in realm.world.refs.rows.items()} == before
    assert asked(realm, operation, user="nobody").status == 401


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one[0]} {one[1]}")
def test_i12_the_owner_of_the_namespace_who_may_use_the_catalog_may_do_it(
    realm: Realm, operation: tuple[str, str, Any]
) -> None:
    realm.grant(Target("main"), P.USE_CATALOG, P.CREATE_SCHEMA)
    for namespace in ("sales", "hr"):
        realm.grant(Target("main", (namespace,)), P.SELECT, P.MODIFY, P.USE_SCHEMA, owner=ANN)
    status = asked(realm, operation).status
    if operation[1].endswith("/register"):
        assert status == 403, "files elsewhere are the metastore's"
    elif operation[0] == "DELETE" and operation[1] == SALES:
        assert status == 409
    else:
        assert status in (200, 204)


def test_i12_a_reader_reads_and_does_not_write(realm: Realm) -> None:
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA, P.SELECT)
    assert realm.ask(ANN, "GET", T1).status == 200
    assert realm.ask(ANN, "GET", f"{SALES}/tables").json["identifiers"] != []
    refused(realm.ask(ANN, "POST", T1, COMMIT), 403, "ForbiddenException")
    refused(realm.ask(ANN, "POST", f"{MAIN}/transactions/commit", TRANSACTION), 403, "ForbiddenException")
    refused(realm.ask(ANN, "DELETE", T1), 403, "ForbiddenException")


def test_i12_a_transaction_needs_the_right_on_every_table(realm: Realm) -> None:
    realm.must("POST", f"{SALES}/tables", {"name": "t2", "schema": SCHEMA})
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA)
    realm.grant(Target("main", ("sales",), "t1"), P.SELECT, P.MODIFY)
    second = {"identifier": {"namespace": ["sales"], "name": "t2"}, **COMMIT}
    both = {"table-changes": [*TRANSACTION["table-changes"], second]}
    refused(realm.ask(ANN, "POST", f"{MAIN}/transactions/commit", both), 403, "ForbiddenException")
    assert realm.must("GET", T1).json["metadata"]["properties"] == {}
    assert realm.ask(ANN, "POST", f"{MAIN}/transactions/commit", TRANSACTION).status == 204


def test_i12_listings_show_what_may_be_seen(realm: Realm) -> None:
    realm.must("POST", f"{SALES}/tables", {"name": "t2", "schema": SCHEMA})
    realm.grant(Target("main"), P.USE_CATALOG)
    realm.grant(Target("main", ("sales",)), P.USE_SCHEMA)
    realm.grant(Target("main", ("sales",), "t2"), P.SELECT)
    assert [one["name"] for one in realm.ask(ANN, "GET", f"{SALES}/tables").json["identifiers"]] == ["t2"]
    assert realm.ask(ANN, "GET", f"{SALES}/views").json["identifiers"] == []
    assert realm.ask(ANN, "GET", f"{MAIN}/namespaces").json["namespaces"] == [["sales"]]


def test_i12_who_creates_a_table_owns_it(realm: Realm) -> None:
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA, P.CREATE_TABLE)
    assert realm.ask(ANN, "POST", f"{SALES}/tables", {"name": "mine", "schema": SCHEMA}).status == 200
    assert realm.ask(ANN, "POST", f"{SALES}/tables/mine", COMMIT).status == 200
    assert realm.ask(ANN, "DELETE", f"{SALES}/tables/mine").status == 204


def test_i12_a_staged_table_is_its_creators(realm: Realm) -> None:

    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA, P.CREATE_TABLE)
    staged = realm.must("POST", f"{SALES}/tables", {"name": "s", "schema": SCHEMA, "stage-create": True}).json[
        "metadata"
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": creation(staged)}
    refused(realm.ask(ANN, "POST", f"{SALES}/tables/s", body), 403, "ForbiddenException")
    assert realm.ask("root", "POST", f"{SALES}/tables/s", body).status == 200


def test_i12_a_location_of_ones_own_choice_needs_the_right_on_files(realm: Realm) -> None:
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA, P.CREATE_TABLE)
    elsewhere = {"name": "e", "schema": SCHEMA, "location": "s3://elsewhere/e"}
    refused(realm.ask(ANN, "POST", f"{SALES}/tables", elsewhere), 403, "ForbiddenException")
    realm.grant(Target("."), P.CREATE_EXTERNAL_TABLE)
    assert realm.ask(ANN, "POST", f"{SALES}/tables", elsewhere).status == 200


def test_i12_what_was_done_with_a_key_is_told_to_nobody_else(realm: Realm) -> None:
    headers = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}
    assert realm.ask("root", "POST", T1, COMMIT, headers=headers).status == 200
    refused(realm.ask(ANN, "POST", T1, COMMIT, headers=headers), 403, "ForbiddenException")


def test_the_kinds_that_may_be_granted_on_include_icebergs(realm: Realm) -> None:
    assert Securable.TABLE in Securable
    realm.grant(Target("main", ("sales",), "t1"), owner=ANN)
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA)
    assert realm.ask(ANN, "GET", T1).status == 200
