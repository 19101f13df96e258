"""Who may add rows, and to which tables: by rights, by principal, by kind of table."""

from __future__ import annotations

import functools
import hashlib
import json
from typing import Any

import pytest

from tests.support.access.realm import USERS, Realm
from tests.support.fakes import delta
from tests.support.functions import Answer, Function, Http, function
from tests.support.iceberg.client import MAIN, SALES, SCHEMA
from tests.support.unity import V1
from tests.support.v1 import refused
from turnstile.catalog.services import build
from turnstile.store.core.names import published_path

KEY = "0197c9a0-0000-7000-8000-000000000001"
QUARANTINE = "on_error=quarantine"
NS = "/v1/catalogs/main/namespaces/sales"


@functools.cache
def ingest() -> Function:
    tokens = json.dumps({hashlib.sha256(token.encode()).hexdigest(): user for token, user in USERS.items()})
    return Function("ingest", TURNSTILE_AUTHENTICATION="required", TURNSTILE_TOKENS=tokens)


@functools.cache
def stock() -> Realm:
    return Realm()


@pytest.fixture
def realm() -> Realm:
    made = stock().copy()
    ingest().use_world(made.world)
    return made


def send(user: str, table: str, rows: Any = None, query: str = "", **headers: str) -> Answer:
    path = (
        f"/v1/tables/{table}/rows"
        if table.count("-") == 4
        else f"/v1/catalogs/main/namespaces/sales/tables/{table}/rows"
    )
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Http(ingest().app, user).post(path, rows or [{"id": 1}], headers=sent, query=query)


@pytest.mark.parametrize("by_name", [False, True])
def test_rows_are_added_with_modify_only(realm: Realm, by_name: bool) -> None:
    table = "t1" if by_name else realm.table
    before = realm.state()
    hidden = send("ann", table)
    assert hidden.status in (403, 404)
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    refused(send("ann", table), 403, "PermissionDenied")
    assert realm.state()[2] == before[2], "no file was written"
    realm.grant("table", "main.sales.t1", "ann", "MODIFY")
    assert send("ann", table).json["outcome"] == "added"
    refused(send("", table), 401, "NotAuthenticated")


@pytest.mark.parametrize("by_name", [False, True])
def test_i12_the_table_for_rows_that_do_not_fit_is_made_by_the_right_to_create_tables_and_its_owners(
    realm: Realm, by_name: bool
) -> None:
    table = "t1" if by_name else realm.table
    bad = [{"id": "x"}, {"id": 1}]
    for user in ("ann", "bob"):
        realm.grant("catalog", "main", user, "USE CATALOG")
        realm.grant("schema", "main.sales", user, "USE SCHEMA")
        realm.grant("table", "main.sales.t1", user, "MODIFY")
    before = realm.state()
    error = refused(send("ann", table, bad, query=QUARANTINE), 403, "PermissionDenied")
    assert "may not modify table: table 'main.sales.t1_rejected'" in error["message"]
    assert realm.state() == before
    realm.grant("schema", "main.sales", "ann", "CREATE TABLE")
    for user in ("ann", "ann", "bob"):
        assert send(user, table, bad, query=QUARANTINE).json["rejected"]["rows"] == 1
    for user in ("ann", "bob"):
        plan = realm.ask(user, "GET", "/v1/catalogs/main/namespaces/sales/tables/t1_rejected")
        assert plan.status in (403, 404), "a sender reads no rows of another one"


def create_as_bob(realm: Realm) -> None:
    """A table of bob's with the name of the table of rejected rows."""
    realm.grant("catalog", "main", "bob", "USE CATALOG", "USE SCHEMA", "CREATE TABLE")
    made = realm.ask("bob", "POST", f"{NS}/staging-tables", {"name": "t1_rejected"}).json
    zero = delta.version_zero("zero", realm.world.clock.now_ms())
    realm.world.storages.open(made["location"]).put_if_absent(published_path(0), zero)
    registered = realm.ask("bob", "POST", f"{NS}/tables", {"name": "t1_rejected", "table_id": made["table_id"]})
    assert registered.status == 201, registered.text


@pytest.mark.parametrize("kind", ["table of another owner", "external table", "nothing"])
def test_i12_a_sender_without_the_right_to_create_tables_learns_nothing_of_a_name_that_is_taken(
    realm: Realm, kind: str
) -> None:
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    realm.grant("table", "main.sales.t1", "ann", "MODIFY")
    if kind == "external table":
        realm.must("POST", f"{V1}/catalogs/main/schemas/sales/tables/e1/rename", {"new-name": "t1_rejected"})
        realm.grant("table", "main.sales.t1_rejected", "bob", "MODIFY")
    elif kind == "table of another owner":
        create_as_bob(realm)
    error = refused(send("ann", "t1", [{"id": "x"}], query=QUARANTINE), 403, "PermissionDenied")
    assert error["message"] == "rows do not fit, and 'ann' may not modify table: table 'main.sales.t1_rejected'"


def test_i12_a_table_of_another_owner_takes_no_rejected_rows(realm: Realm) -> None:
    """Its owner would read the rows of all senders."""
    create_as_bob(realm)
    error = refused(send("root", "t1", [{"id": "x"}], query=QUARANTINE), 400, "UnsupportedTable", "on_error")
    assert "belongs to another owner than the table" in error["message"]


@pytest.mark.parametrize("kind", ["external table", "namespace"])
def test_something_else_with_the_name_of_the_table_for_rows_that_do_not_fit_refuses_them(
    realm: Realm, kind: str
) -> None:
    if kind == "namespace":
        realm.must("POST", "/v1/catalogs/main/namespaces", {"name": "sales.t1_rejected"})
    else:
        realm.must("POST", f"{V1}/catalogs/main/schemas/sales/tables/e1/rename", {"new-name": "t1_rejected"})
    before = realm.state()
    error = refused(send("root", "t1", [{"id": "x"}, {"id": 1}], query=QUARANTINE), 400, "UnsupportedTable", "on_error")
    assert "sales.t1_rejected is no Delta table" in error["message"]
    assert realm.state() == before


def test_a_name_that_is_too_long_for_a_table_beside_it_refuses_rows_that_do_not_fit(realm: Realm) -> None:
    fits = "t" * 246
    name = "t" * 247
    realm.must("POST", "/v1/catalogs/main/namespaces/sales/tables/t1/rename", {"name": fits})
    assert send("root", fits, [{"id": "x"}], query=QUARANTINE).status == 200
    realm.must("POST", f"/v1/catalogs/main/namespaces/sales/tables/{fits}/rename", {"name": name})
    error = refused(send("root", name, [{"id": "x"}], query=QUARANTINE), 400, "InvalidRows", "on_error")
    assert "is over 255 bytes" in error["message"]


def test_i26_the_key_of_another_principal_is_another_request(realm: Realm) -> None:
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA", "MODIFY", "SELECT")
    first = send("root", realm.table, Idempotency_Key=KEY).json
    second = send("ann", realm.table, Idempotency_Key=KEY).json
    assert (first["outcome"], second["outcome"]) == ("added", "added")
    assert second["version"] == first["version"] + 1
    for user, answer in (("root", first), ("ann", second)):
        again = send(user, realm.table, Idempotency_Key=KEY).json
        assert (again["outcome"], again["version"]) == ("replayed", answer["version"])


def test_a_conflict_shows_no_content_of_other_commits(realm: Realm, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnstile.ingest import turns

    monkeypatch.setattr(turns, "_ATTEMPTS", 1)
    read_many = realm.world.refs.read_many
    state = {"is_done": False}

    def overtaken(*args: Any, **named: Any) -> Any:
        rows = read_many(*args, **named)
        row = next((one for one in rows.values() if one["kind"] == "table"), None)
        if row is not None and not state["is_done"]:
            state["is_done"] = True
            content = delta.lines(delta.info("m", realm.world.clock.now_ms()), delta.metadata(note="secret"))
            body = {"version": row["latest"] + 1, "inline": {"content": content.decode()}}
            realm.must("POST", f"/v1/tables/{realm.table}/commits", body)
        return rows

    monkeypatch.setattr(realm.world.refs, "read_many", overtaken)
    answer = send("root", realm.table)
    refused(answer, 409, "ConcurrentChange")
    assert "secret" not in answer.text


def test_an_external_table_takes_no_rows(realm: Realm) -> None:
    refused(send("root", "e1"), 400, "UnsupportedTable", "table")
    refused(send("root", realm.external), 404, "NoSuchTable")
    refused(send("root", "nothing"), 404, "NoSuchTable")


def test_a_table_of_iceberg_takes_no_rows() -> None:
    from tests.support.fakes.world import fake_world

    world = fake_world()
    build(world, lake_root="file:///lake").catalogs.create("main")
    function("iceberg").use_world(world)
    function("ingest").use_world(world)
    iceberg = Http(function("iceberg").app)
    assert iceberg.post(f"{MAIN}/namespaces", {"namespace": ["sales"]}).status == 200
    table = iceberg.post(f"{SALES}/tables", {"name": "t1", "schema": SCHEMA}).json
    rows = Http(function("ingest").app)
    named = rows.post("/v1/catalogs/main/namespaces/sales/tables/t1/rows", [{"id": 1}])
    by_id = rows.post(f"/v1/tables/{table['metadata']['table-uuid']}/rows", [{"id": 1}])
    refused(named, 404, "NoSuchTable")
    refused(by_id, 404, "NoSuchTable")


def test_i12_a_principal_uses_half_of_the_memory_for_rows_and_is_told_when_to_come_again(
    realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = ingest().services.row_appender.budget
    monkeypatch.setattr(budget, "_most", 300)
    monkeypatch.setattr(budget, "_each", 200)
    realm.grant("catalog", "main", "ann", "USE CATALOG", "USE SCHEMA", "MODIFY")
    before = realm.state()
    with budget.share_of("root") as share:
        share.grow(190)
        answer = send("root", realm.table)
        error = refused(answer, 429, "Throttled")
        assert int(answer.headers["retry-after"]) >= 0
        assert error["retry_after_ms"] > 0
        assert realm.state() == before
        assert send("ann", realm.table).status == 200
        with budget.share_of("ann") as other:
            other.grow(105)
            refused(send("ann", realm.table), 429, "Throttled")
    assert send("root", realm.table).status == 200
