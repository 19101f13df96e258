"""A damaged row is shown by key to operators, and the other tables are shown and served as
before."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.support.catalog import create, fakes, fresh, head_of
from tests.support.clones import commit
from tests.support.delta_table import Table, table_id
from tests.support.fakes import delta
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.functions import Http, function
from tests.support.gc import collect
from turnstile.access.clients import Clients
from turnstile.adapters.dynamo.models import KINDS as STORED
from turnstile.api.doctor.damage import KINDS
from turnstile.delta.proposals import CommitRequest, GroupRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.delta.sweep import Sweeper
from turnstile.delta.transactions.groups import GroupRatifier
from turnstile.delta.transactions.journal import Announcement, Journal
from turnstile.rights.grants import Principal
from turnstile.store.core.limits import Limits
from turnstile_server.store.health import look
from turnstile_server.world import OpenStore

ONE = "a0000000-0000-4000-8000-000000000001"
TWO = "b0000000-0000-4000-8000-000000000002"
SINGLE = {"attention": "tables", "fleet": "members", "reservations": "all"}
"""Kinds of which there is one row."""


def test_every_look_at_all_tables_names_the_damaged_row_and_goes_on() -> None:
    world = fake_world()
    damaged = Table(world, table_id(1))
    good = Table(world, table_id(2))
    world.refs.damage(damaged.key)
    catalog = function("catalog")
    catalog.use_world(world)
    http = Http(catalog.app)
    listed = http.get("/v1/tables").json
    assert [head["table_id"] for head in listed["tables"]] == [good.id]
    (row,) = listed["unreadable"]
    assert row["key"] == damaged.key and damaged.key in row["message"]
    refused = http.get(f"/v1/tables/{damaged.id}/repair")
    assert (refused.status, refused.error["type"]) == (503, "StorageFault")
    assert damaged.key in refused.error["message"] and "backup" in refused.error["remedy"]
    assert http.get(f"/v1/tables/{good.id}/repair").status == 200
    checks = {check["name"]: check for check in http.post("/v1/checks", {}).json["checks"]}
    assert checks["rows"]["result"] == "failed" and damaged.key in checks["rows"]["message"]
    assert checks["tables"]["message"].startswith("1 tables")
    swept = Sweeper(world, Publisher(world)).sweep(until_ms=world.clock.now + 1_000, each_ms=1_000)
    assert [each.table_id for each in swept.unreadable] == [damaged.id]


def test_an_operator_is_shown_that_a_clock_was_ahead() -> None:
    world = fake_world()
    table = Table(world, table_id(1))
    world.refs.rows[table.key] |= {"reserved_by": "h", "reserved_until": world.clock.now + 40 * 86_400_000}
    catalog = function("catalog")
    catalog.use_world(world)
    checks = {check["name"]: check for check in Http(catalog.app).post("/v1/checks", {}).json["checks"]}
    assert checks["clocks"]["result"] == "warning"
    assert f"reserved_until of {table.key} is 40.0 days ahead" in checks["clocks"]["message"]


OF_GC = {"catalog", "gone", "group", "ref", "staging", "table", "transaction"}
"""The kinds of rows that a run of gc reads, less those that it writes itself."""


class Company:
    """A store with a catalog, two tables, an open transaction of each, and a client."""

    def __init__(self) -> None:
        self.services = fresh()
        self.world: FakeWorld = fakes(self.services)
        self.first = create(self.services, "first")
        self.second = create(self.services, "second")
        for number, (table, id) in enumerate([(self.first, ONE), (self.second, TWO)]):
            self.announce(table, id)
            commit(self.world, table)
            assert head_of(self.world, table).latest > head_of(self.world, table).floor, number
        self.clients = Clients(self.world, os.urandom)
        self.client = self.clients.create("etl", [], admin=False, creator=Principal("ann")).client
        catalog = function("catalog")
        catalog.use_world(self.world)
        self.http = Http(catalog.app)

    def announce(self, table: str, id: str) -> None:
        journal = Journal(self.world, GroupRatifier(self.world, Ratifier(self.world), Limits()))
        content = delta.append(id, self.world.clock.now_ms())
        commits = (CommitRequest(table, head_of(self.world, table).latest + 1, content=content),)
        journal.announce(Announcement(GroupRequest(id, commits), owner="ann"))

    def damage(self, kind: str) -> str:
        """Damages a row of the kind, of another subject than the second table; returns its key."""
        of_kind = {"table": self.first, "transaction": ONE, "client": "client-other"}
        key = f"{self.world.space.realm}/{kind}/{of_kind.get(kind) or SINGLE.get(kind, 'other')}"
        self.world.refs.damage(key)
        return key

    def get(self, path: str, **query: Any) -> Any:
        answer = self.http.get(path, **query)
        assert answer.status == 200, answer.json
        return answer.json


def test_the_look_at_every_row_knows_every_kind() -> None:
    assert dict(KINDS) == {kind: KINDS[kind] for kind in STORED}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_damaged_row_of_any_kind_stops_no_look_at_the_others(kind: str) -> None:
    company = Company()
    world = company.world
    key = company.damage(kind)

    checks = {check["name"]: check for check in company.http.post("/v1/checks", {}).json["checks"]}
    assert checks["rows"]["result"] == "failed" and key in checks["rows"]["message"]
    others = [name for name, check in checks.items() if check["result"] == "failed" and name != "rows"]
    assert others == (["releases"] if kind == "attention" else []), checks
    tables = company.get("/v1/tables")
    assert company.second in [head["table_id"] for head in tables["tables"]]
    assert [row["key"] for row in tables.get("unreadable", [])] == ([key] if kind == "table" else [])
    transactions = company.get("/v1/transactions")
    assert TWO in [entry["id"] for entry in transactions["transactions"]]
    assert [row["key"] for row in transactions.get("unreadable", [])] == ([key] if kind == "transaction" else [])
    clients, damaged = company.clients.list()
    assert clients == [company.client] and [row.key for row in damaged] == ([key] if kind == "client" else [])
    pins = company.get(f"/v1/tables/{company.second}/pins")["pins"]
    assert [pin["holder"] for pin in pins if pin["kind"] == "transaction"] == [TWO], "of the other table none"
    listed = company.get("/api/2.1/unity-catalog/tables", catalog_name="main", schema_name="default")["tables"]
    assert company.second in [table["table_id"] for table in listed]
    found = company.get("/v1/find", query='/main/default/[delta.enableInCommitTimestamps = "true"]')["found"]
    assert "main.default.second" in [each["name"] for each in found]
    look(OpenStore(world, None))  # of /readyz

    sweeper = Sweeper(world, Publisher(world), release="1")
    for _ in range(2):
        swept = sweeper.sweep_part(until_ms=world.clock.now + 10_000, each_ms=1_000, rows_max=1_000)
        told = [each.message for each in swept.unreadable]
        assert len(told) == (kind in ("table", "attention")) and all(key in message for message in told)
    assert head_of(world, company.second).floor == head_of(world, company.second).latest
    report = collect(world)
    assert report.complete
    assert {key in problem.message for problem in report.problems} == ({True} if kind in OF_GC else set())


def test_what_a_damaged_transaction_may_need_is_held_and_other_tables_are_cleaned() -> None:
    company = Company()
    key = company.damage("transaction")
    (held,) = (pin for pin in company.get(f"/v1/tables/{company.first}/pins")["pins"] if pin["kind"] == "transaction")
    assert (held["first"], held["last"], held["holder"]) == (0, None, ONE)
    vacuum = company.http.post(f"/v1/tables/{company.first}/vacuums", {"retention_ms": 0, "dry_run": True})
    assert vacuum.status == 200 and vacuum.json["leaves"]["readable_from"] == vacuum.json["files_before_ms"] == 0
    for place in [place for place in company.world.objs.rows if ONE in str(place)]:
        del company.world.objs.rows[place]
    refused = company.http.get(f"/v1/tables/{company.second}/pins")
    assert (refused.status, refused.error["type"]) == (503, "StorageFault")
    assert key in refused.error["message"] and "nothing of any table is removed" in refused.error["message"]
    assert company.get("/v1/tables")["tables"], "what needs no pins goes on"


def test_a_request_for_a_table_with_a_damaged_row_is_refused_by_its_key() -> None:
    company = Company()
    commits = function("commit")
    commits.use_world(company.world)
    path = "/v1/catalogs/main/namespaces/default/tables/first"
    assert [Http(commits.app).get(path).status for _ in range(2)] == [200, 200], "the second one guesses the row"
    key = company.damage("table")
    loaded = Http(commits.app).get(path)
    keys = company.http.post(
        "/api/2.1/unity-catalog/temporary-table-credentials", {"table_id": company.first, "operation": "READ"}
    )
    assert (loaded.status, loaded.error["type"]) == (503, "StorageFault")
    assert key in loaded.error["message"] and key in keys.text
