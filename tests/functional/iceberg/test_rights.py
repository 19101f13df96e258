"""I12: rights of operations through the Iceberg API: every operation declares them, and no
principal gets further."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.support.functions import Answer
from tests.support.iceberg.client import MAIN, SALES, SCHEMA, T1, V1, VIEW, creation, refused
from tests.support.iceberg.realm import ANN, COMMIT, OPERATIONS, TRANSACTION, Realm, guarded
from turnstile.access.authorizer import Authorizer, Target
from turnstile.access.grants import Grants
from turnstile.api.http.authorization import NEEDS
from turnstile.api.iceberg.errors import DELTA_PREFIX
from turnstile.iceberg.core.draft import NEW_TABLE_DEFAULTS
from turnstile.rights.grants import GrantChange, Securable
from turnstile.rights.grants import Privilege as P
from turnstile.store.ports import VendedCredentials


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
def test_i12_a_principal_without_a_right_learns_and_changes_nothing(
    realm: Realm, operation: tuple[str, str, Any]
) -> None:
    before = {key: dict(row) for key, row in realm.world.refs.rows.items()}
    refusal = asked(realm, operation)
    assert refusal.status == 403, refusal.text
    if operation[0] != "HEAD":
        refused(refusal, 403, "ForbiddenException")
    assert asked(realm, operation, missing=True).status == 403, "not even whether it is there"
    assert {key: dict(row) for key, row in realm.world.refs.rows.items()} == before
    assert asked(realm, operation, user="nobody").status == 401


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: f"{one[0]} {one[1]}")
def test_i12_the_owner_of_the_namespace_that_may_use_the_catalog_may_do_it(
    realm: Realm, operation: tuple[str, str, Any]
) -> None:
    realm.grant(Target("main"), P.USE_CATALOG, P.CREATE_SCHEMA)
    for namespace in ("sales", "hr"):
        realm.grant(Target("main", (namespace,)), P.SELECT, P.MODIFY, P.USE_SCHEMA, owner=ANN)
    status = asked(realm, operation).status
    if "/register" in operation[1]:
        assert status == 403, "files elsewhere are the metastore's"
    elif operation[0] == "DELETE" and operation[1] == SALES:
        assert status == 409
    elif operation[1].endswith("/tasks") or (operation[0] == "GET" and "/plan/" in operation[1]):
        assert status == 404, "a plan task, or a plan, of nobody"
    elif operation[1].startswith(DELTA_PREFIX) and operation[1].endswith("/plan"):
        assert status == 406, "an Iceberg table"
    else:
        assert status in (200, 204)


def test_i12_metadata_files_of_a_view_go_elsewhere_only_for_principals_that_may_use_locations(realm: Realm) -> None:
    realm.grant(Target("main"), P.USE_CATALOG)
    realm.grant(Target("main", ("sales",)), P.USE_SCHEMA, owner=ANN)
    body = {**VIEW, "name": "v2", "properties": {"write.metadata.path": "s3://x/y"}}
    refused(realm.ask(ANN, "POST", f"{SALES}/views", body), 403, "ForbiddenException")
    realm.must("POST", f"{SALES}/views", body)


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
    assert realm.must("GET", T1).json["metadata"]["properties"] == NEW_TABLE_DEFAULTS
    assert realm.ask(ANN, "POST", f"{MAIN}/transactions/commit", TRANSACTION).status == 204


def test_i12_listings_show_what_may_be_seen(realm: Realm) -> None:
    realm.must("POST", f"{SALES}/tables", {"name": "t2", "schema": SCHEMA})
    realm.grant(Target("main"), P.USE_CATALOG)
    realm.grant(Target("main", ("sales",)), P.USE_SCHEMA)
    realm.grant(Target("main", ("sales",), "t2"), P.SELECT)
    assert [one["name"] for one in realm.ask(ANN, "GET", f"{SALES}/tables").json["identifiers"]] == ["t2"]
    assert realm.ask(ANN, "GET", f"{SALES}/views").json["identifiers"] == []
    assert realm.ask(ANN, "GET", f"{MAIN}/namespaces").json["namespaces"] == [["sales"]]


def test_i12_the_creator_of_a_table_owns_it(realm: Realm) -> None:
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


def test_i12_overwriting_a_table_needs_the_rights_of_dropping_it(realm: Realm) -> None:
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA, P.CREATE_TABLE, P.SELECT, P.MODIFY)
    realm.grant(Target("."), P.CREATE_EXTERNAL_TABLE)
    file = realm.must("POST", f"{MAIN}/namespaces/hr/tables", {"name": "t9", "schema": SCHEMA}).json[
        "metadata-location"
    ]
    assert realm.ask("root", "DELETE", f"{MAIN}/namespaces/hr/tables/t9").status == 204
    body = {"name": "t1", "metadata-location": file, "overwrite": True}
    before = realm.must("GET", T1).json
    refused(realm.ask(ANN, "POST", f"{SALES}/register", body), 403, "ForbiddenException")
    assert realm.must("GET", T1).json == before
    realm.grant(Target("main", ("sales",), "t1"), owner=ANN)
    assert realm.ask(ANN, "POST", f"{SALES}/register", body).status == 200


def test_i12_only_catalogs_that_a_principal_may_use_are_chosen_from(realm: Realm) -> None:
    refused(realm.ask(ANN, "GET", f"{V1}/config"), 400, "BadRequestException")
    realm.services.catalogs.create("second")
    refused(realm.ask("root", "GET", f"{V1}/config"), 400, "BadRequestException")
    realm.grant(Target("main"), P.USE_CATALOG)
    assert realm.ask(ANN, "GET", f"{V1}/config").json["overrides"] == {"prefix": "main"}


def test_i12_what_was_done_with_a_key_is_shown_to_no_other_principal(realm: Realm) -> None:
    headers = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"}
    assert realm.ask("root", "POST", T1, COMMIT, headers=headers).status == 200
    refused(realm.ask(ANN, "POST", T1, COMMIT, headers=headers), 403, "ForbiddenException")


KEY = {"Idempotency-Key": "017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "X-Iceberg-Access-Delegation": "vended-credentials"}
CREATES = ("create", "register", "commit of a staged create", "view", "registered view")


def creating(realm: Realm, what: str, kind: str) -> tuple[str, dict[str, Any]]:
    """Path and body of a request of ann's that creates ``sales.mine``, a table or a view as
    ``what`` says."""
    if what == "view":
        return f"{SALES}/views", {**VIEW, "name": "mine"}
    if what == "commit of a staged create":
        body = {"name": "mine", "schema": SCHEMA, "stage-create": True}
        staged = realm.ask(ANN, "POST", f"{SALES}/tables", body).json["metadata"]
        return f"{SALES}/tables/mine", {"requirements": [{"type": "assert-create"}], "updates": creation(staged)}
    if what == "create":
        return f"{SALES}/tables", {"name": "mine", "schema": SCHEMA}
    body = {**VIEW, "name": "gone"} if kind == "views" else {"name": "gone", "schema": SCHEMA}
    file = realm.must("POST", f"{MAIN}/namespaces/hr/{kind}", body).json["metadata-location"]
    realm.must("DELETE", f"{MAIN}/namespaces/hr/{kind}/gone")
    path = f"{SALES}/register" if kind == "tables" else f"{SALES}/register-view"
    return path, {"name": "mine", "metadata-location": file}


@pytest.mark.parametrize("what", CREATES)
def test_i12_a_create_that_is_repeated_shows_and_opens_nothing_of_what_has_the_name_by_now(what: str) -> None:
    realm = Realm()
    kind = "views" if "view" in what else "tables"
    guarded().use_world(realm.world, vendor=Sessions())
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA, P.CREATE_TABLE)
    realm.grant(Target("."), P.CREATE_EXTERNAL_TABLE)
    path, body = creating(realm, what, kind)
    first = realm.ask(ANN, "POST", path, body, headers=KEY)
    assert first.status == 200, first.text
    assert realm.ask(ANN, "POST", path, body, headers=KEY).json == first.json
    names = {"source": {"namespace": ["sales"], "name": "mine"}, "destination": {"namespace": ["sales"], "name": "old"}}
    assert realm.ask(ANN, "POST", f"{MAIN}/{kind}/rename", names).status == 204
    others = {**VIEW, "name": "mine"} if kind == "views" else {"name": "mine", "schema": SCHEMA}
    realm.must("POST", f"{SALES}/{kind}", {**others, "properties": {"of": "root"}})
    refused(realm.ask(ANN, "POST", path, body, headers=KEY), 403, "ForbiddenException")
    realm.grant(Target("main", ("sales",), "mine"), P.SELECT)
    shown = realm.ask(ANN, "POST", path, body, headers=KEY).json
    assert shown["metadata"]["properties"]["of"] == "root"
    keys = {config["prefix"] for config in shown.get("storage-credentials", ())}
    assert keys <= {f"READ {shown['metadata']['location']}"}


def test_i12_a_namespace_that_is_created_again_shows_nothing_of_the_one_that_has_the_name_by_now(realm: Realm) -> None:
    realm.grant(Target("main"), P.USE_CATALOG, P.CREATE_SCHEMA)
    path = f"{MAIN}/namespaces"
    body = {"namespace": ["mine"]}
    first = realm.ask(ANN, "POST", path, body, headers=KEY)
    assert (first.status, realm.ask(ANN, "POST", path, body, headers=KEY).json) == (200, first.json)
    assert realm.ask(ANN, "DELETE", f"{path}/mine").status == 204
    realm.must("POST", path, {**body, "properties": {"of": "root"}})
    refused(realm.ask(ANN, "POST", path, body, headers=KEY), 403, "ForbiddenException")
    realm.grant(Target("main", ("mine",)), P.USE_SCHEMA)
    assert realm.ask(ANN, "POST", path, body, headers=KEY).json["properties"]["of"] == "root"


class Sessions:
    """Vends credentials with their purpose as a prefix."""

    def vend(self, location: str, operation: Literal["READ", "READ_WRITE"]) -> tuple[VendedCredentials, ...]:
        return (VendedCredentials(f"{operation} {location}", operation, 1, {"s3.access-key-id": "k"}),)


def test_i12_to_register_what_is_there_already_opens_no_files_to_principals_that_may_not_write_them(
    realm: Realm,
) -> None:
    """The owner of the namespace may replace its entities; its data are for principals with a
    grant."""
    guarded().use_world(realm.world, vendor=Sessions())
    realm.grant(Target("main"), P.USE_CATALOG)
    realm.grant(Target("main", ("sales",)), owner=ANN)
    realm.grant(Target("."), P.CREATE_EXTERNAL_TABLE)
    body = {"name": "t1", "metadata-location": realm.must("GET", T1).json["metadata-location"], "overwrite": True}
    registered = realm.ask(ANN, "POST", f"{SALES}/register", body, headers={name: KEY[name] for name in [*KEY][1:]})
    assert registered.status == 200, registered.text
    assert "storage-credentials" not in registered.json


def test_the_kinds_that_may_be_granted_on_include_icebergs(realm: Realm) -> None:
    assert Securable.TABLE in Securable
    realm.grant(Target("main", ("sales",), "t1"), owner=ANN)
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA)
    assert realm.ask(ANN, "GET", T1).status == 200


@pytest.mark.parametrize("swap", [1, 2], ids=["computed again", "computed a third time"])
def test_i12_a_commit_that_is_computed_again_keeps_the_rights_of_now(
    realm: Realm, monkeypatch: pytest.MonkeyPatch, swap: int
) -> None:
    """A right is taken away and another owner set between an attempt and its swap. The metadata
    file is not written anew for that, and an earlier computation brings no right back."""
    table = Target("main", ("sales",), "t1")
    refs = type(realm.world.refs)
    realm.grant(Target("main"), P.USE_CATALOG, P.USE_SCHEMA)
    realm.grant(table, P.SELECT, P.MODIFY)
    assert realm.ask(ANN, "GET", T1).status == 200
    write = refs.write
    swaps = []
    rights = Grants(realm.services, Authorizer(realm.world, realm.services.reader))
    changes = iter([[GrantChange("bob", (P.SELECT,))], [GrantChange(ANN, remove=(P.SELECT, P.MODIFY))]][-swap:])

    def after_a_change(self: Any, one: Any) -> Any:
        if one.key == realm.world.space.catalog("main") and (change := next(changes, None)) is not None:
            swaps.append(one)
            monkeypatch.setattr(refs, "write", write)
            rights.change(table, change, owner="bob")
            monkeypatch.setattr(refs, "write", after_a_change)
        return write(self, one)

    monkeypatch.setattr(refs, "write", after_a_change)
    assert realm.ask("root", "POST", T1, COMMIT).status == 200
    monkeypatch.undo()
    assert len(swaps) == swap
    authorizer = Authorizer(realm.world, realm.services.reader)
    tree = authorizer.current("main")
    assert tree is not None and authorizer.chain(tree, table).levels[-1].owner == "bob"
    assert realm.ask(ANN, "GET", T1).status == 403
    assert realm.must("GET", T1).json["metadata"]["properties"]["a"] == "1"
