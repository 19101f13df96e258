"""Announced transactions of a catalog through the real handlers: changes and commits with an entry
(I3, I8, I9, I12; docs/api.md)."""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest

from tests.support.access.realm import Realm
from tests.support.fakes.refs import FakeRefs
from tests.support.faults import CRASHES, LOSSES, Crash, Faulty, How
from tests.support.functions import Answer, function
from tests.support.store.catalog_site import Lake, drop, iceberg, new_namespace, new_table, rename
from tests.support.v1 import refused
from turnstile.store.core.errors import OutcomeUnknown


class Announced(Lake):
    """A lake whose transactions are announced."""

    def announce(self, id: str, *changes: dict[str, Any], **more: Any) -> Answer:
        path = f"/v1/catalogs/main/transactions/{id}"
        return self.ask("announceCatalogTransaction", {"changes": list(changes), **more}, path=path)

    def entry(self, id: str) -> dict[str, Any]:
        return dict(self.ask("showTransaction", path=f"/v1/transactions/{id}").json)

    def resume(self, id: str) -> Answer:
        return self.ask("resumeCatalogTransaction", path=f"/v1/catalogs/main/transactions/{id}/resume")

    def abort(self, id: str) -> Answer:
        return self.ask("abortTransaction", path=f"/v1/transactions/{id}")

    def members(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """A namespace with a new table, another name for ``second``, a commit of Iceberg and one of
        Delta."""
        changes = [
            new_namespace("eu"),
            new_table("new", self.stage("new"), "eu"),
            rename("second", "moved"),
            iceberg(a="1"),
        ]
        return changes, {"commits": [self.inline(self.table, 4, "a")], "reads": []}

    def is_applied(self) -> bool:
        done = [self.names() == {"orders", "moved"}, self.latest(self.table) == [4], self.properties().get("a") == "1"]
        done.append(self.ask("listTables", path="/v1/catalogs/main/namespaces/eu/tables").status == 200)
        assert all(done) or not any(done), "all or nothing"
        return all(done)


@pytest.fixture
def lake() -> Announced:
    return Announced()


@pytest.fixture
def id() -> str:
    return str(uuid.uuid4())


def test_i8_an_announced_transaction_is_committed_with_its_entry_and_again_is_a_replay(
    lake: Announced, id: str
) -> None:
    changes, more = lake.members()
    answer = lake.announce(id, *changes, **more, isolation="serializable")
    assert answer.status == 200, answer.text
    assert (answer.json["state"], answer.json["catalog"]) == ("open", "main") and not lake.is_applied()
    assert lake.announce(id, *changes, **more, isolation="serializable").json == answer.json
    first = lake.transact(*changes, **more, id=id, journal=True)
    assert first.json["outcome"] == "applied" and lake.is_applied()
    assert lake.entry(id)["state"] == "committed"
    before = lake.state()
    again = lake.transact(*changes, **more, id=id, journal=True)
    resumed = lake.resume(id)
    for replay in (again, resumed):
        assert (replay.json["outcome"], replay.json["commits"]) == ("replayed", first.json["commits"])
    assert lake.state() == before
    refused(lake.abort(id), 409, "TransactionCommitted", "id")
    refused(lake.announce(id, *changes, **more, attempt=2), 409, "TransactionCommitted", "id")


def test_i3_one_whose_client_died_is_resumed_by_its_id(lake: Announced, id: str) -> None:
    changes, more = lake.members()
    lake.announce(id, *changes, **more)
    wrong = lake.ask("resumeTransaction", path=f"/v1/transactions/{id}/resume")
    assert "/v1/catalogs/main/transactions" in refused(wrong, 400, "InvalidRequest", "transaction_id")["remedy"]
    assert not lake.is_applied()
    assert lake.resume(id).json["outcome"] == "applied" and lake.is_applied()
    assert lake.transact(*changes, **more, id=id, journal=True).json["outcome"] == "replayed", (
        "the client that was thought dead"
    )


def test_i3_one_that_was_aborted_is_refused_for_good(lake: Announced, id: str) -> None:
    changes, more = lake.members()
    lake.announce(id, *changes, **more)
    assert lake.abort(id).json["state"] == "aborted"
    refused(lake.transact(*changes, **more, id=id, journal=True), 409, "TransactionAborted", "id")
    refused(lake.resume(id), 409, "TransactionAborted", "id")
    assert not lake.is_applied()


@pytest.mark.parametrize("aborts", [False, True])
def test_i3_an_entry_that_is_settled_under_way_decides(lake: Announced, id: str, aborts: bool) -> None:
    """Between what the request reads of its entry and its one write, a copy of it commits, or
    somebody aborts it."""
    changes, more = lake.members()
    lake.announce(id, *changes, **more)
    together = FakeRefs.transact
    done = []

    def overtaken(self: FakeRefs, writes: Any, token: str) -> Any:
        if not done:
            done.append(1)
            done.append(lake.abort(id) if aborts else lake.resume(id))
        return together(self, writes, token)

    with patch.object(FakeRefs, "transact", overtaken):
        answer = lake.transact(*changes, **more, id=id, journal=True)
    assert done[1].status == 200
    if aborts:
        refused(answer, 409, "TransactionAborted", "id")
    else:
        assert answer.json["outcome"] == "replayed" and answer.json["commits"] == done[1].json["commits"]
    assert lake.is_applied() is not aborts


@pytest.mark.parametrize("applied", [False, True])
def test_i3_after_a_lost_answer_the_entry_tells_what_became_of_it(lake: Announced, id: str, applied: bool) -> None:
    changes, more = lake.members()
    lake.announce(id, *changes, **more)
    together = FakeRefs.transact
    lost = []

    def losing(self: FakeRefs, writes: Any, token: str) -> Any:
        if applied and not lost:
            together(self, writes, token)
        lost.append(1)
        raise OutcomeUnknown("the answer was lost")

    with patch.object(FakeRefs, "transact", losing):
        answer = lake.transact(*changes, **more, id=id, journal=True)
    assert lost and (answer.json.get("outcome") == "replayed" if applied else answer.status >= 500)
    assert lake.is_applied() is applied
    assert lake.entry(id)["state"] == ("committed" if applied else "open")
    assert lake.resume(id).json["outcome"] == ("replayed" if applied else "applied") and lake.is_applied()


@pytest.mark.parametrize("how", [*CRASHES, *LOSSES])
def test_i3_i8_after_a_failure_at_any_write_the_transaction_is_there_once_or_can_be_resumed(how: How) -> None:
    """Announced and sent by a server that fails at the n-th write; resumed by another one."""
    settled: list[str] = []
    for at in range(1, 30):
        lake = Announced()
        id = str(uuid.uuid4())
        changes, more = lake.members()
        faulty = Faulty(lake.world, at, how)
        function("catalog").use_world(faulty.world)
        with suppress(Crash):
            announced = lake.http["catalog"].call(
                "PUT", f"/v1/catalogs/main/transactions/{id}", json_body={"changes": changes, **more}
            )
            if announced.status == 200:
                body = {"id": id, "changes": changes, **more, "journal": True}
                answer = lake.http["catalog"].call("POST", "/v1/catalogs/main/transactions", json_body=body)
                assert answer.status in (200, 500, 503), answer.text
                assert answer.status != 200 or lake.is_applied()
        function("catalog").use_world(lake.world)
        is_announced = lake.world.space.transaction(id) in lake.world.refs.rows
        was_applied = lake.is_applied()
        if not is_announced:
            assert not was_applied
            settled.append("nothing")
            continue
        assert lake.entry(id)["state"] == ("committed" if was_applied else "open")
        assert lake.resume(id).json["outcome"] == ("replayed" if was_applied else "applied")
        assert lake.is_applied() and lake.resume(id).json["outcome"] == "replayed"
        settled.append("applied" if was_applied else "resumed")
        if len(faulty.writes) < at:
            break
    else:
        raise AssertionError("it makes more writes than were tried")
    assert set(settled) == {"nothing", "resumed", "applied"}


def test_i8_a_refusal_leaves_the_entry_open_and_later_content_is_another_attempt(lake: Announced, id: str) -> None:
    changes = [rename("second", "moved")]
    more = {"commits": [lake.inline(lake.table, 3, "late")]}
    lake.announce(id, *changes, **more)
    answer = lake.transact(*changes, **more, id=id, journal=True)
    assert (answer.status, answer.error["type"]) == (409, "TransactionConflict")
    assert lake.entry(id)["state"] == "open"
    later = {"commits": [lake.inline(lake.table, 4, "late")]}
    refused(lake.transact(*changes, **later, id=id, journal=True), 409, "TransactionSuperseded", "attempt")
    refused(lake.announce(id, drop("second"), **later), 409, "TransactionSuperseded", "attempt")
    assert lake.announce(id, *changes, **later, attempt=2).status == 200
    refused(lake.transact(*changes, **more, id=id, journal=True), 409, "TransactionSuperseded", "attempt")
    assert lake.transact(*changes, **later, id=id, journal=True).json["outcome"] == "applied"
    assert lake.names() == {"orders", "moved"} and lake.latest(lake.table) == [4]
    refused(lake.transact(*changes, **more, id=id, journal=True), 409, "TransactionCommitted", "id")


def test_commits_are_not_taken_for_the_transaction_with_its_changes(lake: Announced, id: str) -> None:
    changes = [rename("second", "moved")]
    more = {"commits": [lake.inline(lake.table, 4, "a")]}
    lake.announce(id, *changes, **more)
    alone = lake.ask("transact", {"id": id, **more, "journal": True})
    refused(alone, 409, "TransactionSuperseded", "attempt")
    assert lake.ask("transact", {"id": id, **more}).status == 200, "without the journal it is another transaction"
    assert lake.transact(*changes, **more, id=id, journal=True).status == 409
    assert lake.names() == {"orders", "second"} and lake.entry(id)["state"] == "open"


def test_bad_announcements_change_nothing(lake: Announced, id: str) -> None:
    before = lake.state()
    refused(lake.announce(id), 400, "InvalidRequest", "changes")
    refused(lake.announce(id, new_namespace("a/b")), 400, "InvalidRequest", "changes[0].name")
    ticket = lake.inline(lake.table, None, "a", base=3)
    refused(lake.announce(id, new_namespace("eu"), commits=[ticket]), 400, "InvalidRequest", "commits[0].version")
    refused(lake.announce("x", new_namespace("eu")), 400, "InvalidRequest", "transaction_id")
    bad_read = [{"query": "/main/*", "head": "x", "ids": []}]
    assert lake.announce(id, new_namespace("eu"), catalog_reads=bad_read).status == 400
    refused(lake.transact(new_namespace("eu"), id=id, journal=True), 404, "NoSuchTransaction", "id")
    refused(lake.resume(id), 404, "NoSuchTransaction", "id")
    assert lake.state() == before


def test_a_read_of_the_catalog_is_judged_when_it_is_resumed(lake: Announced, id: str) -> None:
    reads = [{"query": "/main/sales/second", "ids": [lake.second]}]
    commits = [lake.inline(lake.table, 4, "a")]
    assert lake.announce(id, commits=commits, catalog_reads=reads).status == 200
    assert lake.transact(rename("second", "moved")).status == 200
    assert lake.resume(id).status == 409 and lake.latest(lake.table) == [3]
    assert lake.transact(rename("moved", "second")).status == 200
    assert lake.resume(id).json["outcome"] == "applied" and lake.latest(lake.table) == [4]


def test_i12_an_entry_is_its_owners_and_its_changes_need_what_they_need_alone(id: str) -> None:
    realm = Realm()
    realm.grant("catalog", "main", "ann", "USE CATALOG", "CREATE SCHEMA")
    path = f"/v1/catalogs/main/transactions/{id}"
    changes = {"changes": [new_namespace("mine"), drop("t1")]}
    before = realm.state()
    assert realm.ask("bob", "PUT", path, changes).status == 403 and realm.state() == before
    realm.grant("catalog", "main", "bob", "USE CATALOG", "CREATE SCHEMA")
    assert realm.ask("ann", "PUT", path, changes).status == 200
    for user, method, where in (
        ("bob", "GET", f"/v1/transactions/{id}"),
        ("bob", "DELETE", f"/v1/transactions/{id}"),
        ("bob", "POST", f"{path}/resume"),
    ):
        assert realm.ask(user, method, where).status == 403
    assert realm.ask("bob", "PUT", path, {**changes, "attempt": 2}).status == 409
    assert realm.ask("ann", "POST", f"{path}/resume").status == 403, "she may not drop the table"
    assert realm.ask("ann", "GET", f"/v1/transactions/{id}").json["state"] == "open"
    assert realm.ask("root", "POST", f"{path}/resume").status == 200, "an admin may"
