"""The journal of transactions through the real handlers (I3, I8, I12; docs/api.md)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.functions import Answer
from tests.support.v1 import NOBODY, Pair, refused


class Journal(Pair):
    """A site whose transactions are announced."""

    def announce(self, id: str, *commits: dict[str, Any], **more: Any) -> Answer:
        return self.ask("announceTransaction", {"commits": list(commits), **more}, path=f"/v1/transactions/{id}")

    def entry(self, id: str) -> dict[str, Any]:
        return dict(self.ask("showTransaction", path=f"/v1/transactions/{id}").json)

    def resume(self, id: str) -> Answer:
        return self.ask("resumeTransaction", path=f"/v1/transactions/{id}/resume")

    def abort(self, id: str) -> Answer:
        return self.ask("abortTransaction", path=f"/v1/transactions/{id}")

    def listed(self, **query: str) -> list[str]:
        return [entry["id"] for entry in self.ask("listTransactions", query=query).json["transactions"]]

    def both(self) -> list[dict[str, Any]]:
        return [self.inline(self.table, 4, "a"), self.inline(self.second, 1, "b")]


@pytest.fixture
def site() -> Journal:
    return Journal()


@pytest.fixture
def id() -> str:
    return str(uuid.uuid4())


def test_i3_an_announced_transaction_is_shown_and_resumed_by_its_id(site: Journal, id: str) -> None:
    reads = [{"table_id": site.third, "version": 0}]
    answer = site.announce(id, *site.both(), reads=reads, isolation="serializable", ttl_ms=3_600_000)
    assert answer.status == 200, answer.text
    entry = site.entry(id)
    assert entry == answer.json
    assert (entry["id"], entry["state"], entry["isolation"], entry["attempt"]) == (id, "open", "serializable", 1)
    assert entry["commits"] == [{"table_id": site.table, "version": 4}, {"table_id": site.second, "version": 1}]
    assert entry["reads"] == reads and entry["until"] - entry["created"] == 3_600_000
    assert site.latest(site.table, site.second) == [3, 0]
    resumed = site.resume(id)
    assert (resumed.status, resumed.json["outcome"], resumed.json["id"]) == (200, "ratified", id)
    assert site.latest(site.table, site.second) == [4, 1]
    entry = site.entry(id)
    assert entry["state"] == "committed" and entry["settled"] > 0
    again = site.resume(id)
    assert again.json == {**resumed.json, "outcome": "replayed"}


def test_i8_slack_is_announced_shown_and_holds_when_it_is_resumed(site: Journal, id: str) -> None:
    reads = [{"table_id": site.third, "version": 0, "slack": 1}, {"table_id": site.second, "version": 0}]
    own = site.inline(site.table, 4, "a")
    assert site.announce(id, own, reads=reads).json["reads"] == reads
    wider = [{**reads[0], "slack": 2}, reads[1]]
    answer = site.transact(own, id=id, reads=wider, journal=True)
    assert refused(answer, 409, "TransactionSuperseded", "attempt")["attempt"] == 1, "another slack, other commits"
    for version in (1, 2):
        assert site.transact(site.inline(site.third, version, f"w{version}")).status == 200
    error = refused(site.resume(id), 409, "TransactionConflict", "reads[0].version")
    assert [winner["version"] for winner in error["members"][0]["winners"]] == [2, 1]
    assert site.announce(id, own, reads=wider, attempt=2).json["reads"] == wider == site.entry(id)["reads"]
    assert site.resume(id).status == 200
    assert site.latest(site.table) == [4]


def test_i8_the_client_itself_commits_with_its_entry(site: Journal, id: str) -> None:
    commits = site.both()
    site.announce(id.upper(), *commits)
    first = site.transact(*commits, id=id.upper(), journal=True)
    assert (first.json["outcome"], first.json["id"]) == ("ratified", id)
    assert site.entry(id)["state"] == "committed"
    assert site.resume(id).json["outcome"] == "replayed"


def test_i3_an_aborted_transaction_is_refused_for_good(site: Journal, id: str) -> None:
    commits = site.both()
    site.announce(id, *commits)
    assert site.abort(id).json["state"] == "aborted"
    assert site.abort(id).json["state"] == "aborted"
    refused(site.resume(id), 409, "TransactionAborted", "id")
    refused(site.transact(*commits, id=id, journal=True), 409, "TransactionAborted", "id")
    refused(site.announce(id, *commits), 409, "TransactionAborted", "id")
    assert site.latest(site.table, site.second) == [3, 0]


def test_i3_a_committed_transaction_cannot_be_aborted(site: Journal, id: str) -> None:
    site.announce(id, *site.both())
    site.resume(id)
    refused(site.abort(id), 409, "TransactionCommitted", "id")


def test_i8_a_resumed_transaction_that_lost_says_which_commits_won(site: Journal, id: str) -> None:
    site.announce(id, *site.both())
    site.append(4, "winner")
    error = refused(site.resume(id), 409, "TransactionConflict", "commits[0].version")
    assert [winner["txn_id"] for winner in error["members"][0]["winners"]] == ["winner"]
    assert site.entry(id)["state"] == "open", "its client may put it on top of the other commit"
    refused(site.announce(id, site.inline(site.second, 1, "b"), attempt=2), 409, "TransactionSuperseded", "attempt")
    assert site.announce(id, site.inline(site.table, 5, "a"), site.inline(site.second, 1, "b"), attempt=2).status == 200
    assert site.resume(id).status == 200


def test_entries_are_listed_by_id_and_state(site: Journal) -> None:
    ids = sorted(str(uuid.uuid4()) for _ in range(3))
    for id in ids:
        site.announce(id, *site.both())
    site.abort(ids[1])
    assert site.listed() == ids
    assert site.listed(state="open") == [ids[0], ids[2]]
    assert site.listed(state="aborted") == [ids[1]]
    page = site.ask("listTransactions", query={"max_results": "2"}).json
    assert [entry["id"] for entry in page["transactions"]] == ids[:2]
    assert site.listed(page_token=page["next_page_token"]) == ids[2:]
    refused(site.ask("listTransactions", query={"state": "lost"}), 400, "InvalidRequest", "state")


@pytest.mark.parametrize("operation", ["showTransaction", "resumeTransaction", "abortTransaction"])
def test_a_transaction_that_was_not_announced_is_not_there(site: Journal, operation: str) -> None:
    resume = "/resume" if operation == "resumeTransaction" else ""
    before = site.state()
    refused(site.ask(operation, path=f"/v1/transactions/{NOBODY}{resume}"), 404, "NoSuchTransaction", "id")
    refused(site.ask(operation, path=f"/v1/transactions/no-uuid{resume}"), 400, "InvalidRequest", "transaction_id")
    assert site.state() == before


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"commits": []}, "commits"),
        ({"attempt": 0}, "attempt"),
        ({"ttl_ms": 1}, "ttl_ms"),
        ({"isolation": "x" * 41}, "isolation"),
        ({"reads": [{"table_id": NOBODY, "version": -1}]}, "reads[0].version"),
        ({"state": "committed"}, "state"),
    ],
)
def test_a_bad_announcement_is_refused_and_changes_nothing(
    site: Journal, id: str, change: dict[str, Any], field: str
) -> None:
    before = site.state()
    body = {"commits": site.both(), **change}
    refused(site.ask("announceTransaction", body, path=f"/v1/transactions/{id}"), 400, "InvalidRequest", field)
    assert site.state() == before


# -- rights -----------------------------------------------------------------------------------------------------------


class Rights(Realm):
    """Two tables; ann may write the first, and see the second."""

    def __init__(self) -> None:
        super().__init__()
        self.second = self.create("t2")
        for kind, name, right in (("catalog", "main", "USE CATALOG"), ("schema", "main.sales", "USE SCHEMA")):
            self.grant(kind, name, "ann", right)
            self.grant(kind, name, "bob", right)
        self.grant("table", "main.sales.t1", "ann", "MODIFY")
        self.grant("table", "main.sales.t2", "ann", "SELECT")

    def announce(self, user: str, *tables: str, reads: tuple[str, ...] = ()) -> tuple[str, Answer]:
        id = str(uuid.uuid4())
        versions = {self.table: 2, self.second: 1}
        commits = [{"table_id": table, **self.append(versions[table], f"{id}-{table}")} for table in tables]
        read = [{"table_id": table, "version": versions[table] - 1} for table in reads]
        answer = self.ask(user, "PUT", f"/v1/transactions/{id}", {"commits": commits, "reads": read})
        return id, answer


def test_i12_a_transaction_is_announced_by_principals_that_may_commit_it() -> None:
    realm = Rights()
    before = realm.state()
    assert realm.announce("ann", realm.table, realm.second)[1].status == 403
    assert realm.announce("bob", realm.table)[1].status == 403
    assert realm.state() == before
    id, answer = realm.announce("ann", realm.table, reads=(realm.second,))
    assert answer.status == 200 and answer.json["owner"] == "ann"
    assert realm.ask("ann", "POST", f"/v1/transactions/{id}/resume").status == 200


def test_i12_a_transaction_is_shown_and_settled_only_for_principals_that_may_commit_it() -> None:
    realm = Rights()
    both, _ = realm.announce("root", realm.table, realm.second)
    read, _ = realm.announce("root", realm.table, reads=(realm.second,))
    mine, _ = realm.announce("ann", realm.table)
    before = realm.state()
    for user, ids in (("ann", [both]), ("bob", [both, read, mine])):
        for id in ids:
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/resume")):
                answer = realm.ask(user, method, f"/v1/transactions/{id}{path}")
                assert (answer.status, answer.error["type"]) == (403, "PermissionDenied")
                assert realm.table not in answer.text and realm.second not in answer.text
    assert realm.state() == before
    for user, expected in (("root", {both, read, mine}), ("ann", {read, mine}), ("bob", set())):
        listed = realm.ask(user, "GET", "/v1/transactions").json["transactions"]
        assert {entry["id"] for entry in listed} == expected
    realm.revoke("table", "main.sales.t2", "ann", "SELECT")
    assert {entry["id"] for entry in realm.ask("ann", "GET", "/v1/transactions").json["transactions"]} <= {mine, read}


@pytest.mark.parametrize("kind", ["table", "transaction"])
def test_i12_a_damaged_row_leaves_the_other_transactions_listed_and_is_told_to_admins_alone(kind: str) -> None:
    realm = Rights()
    other, _ = realm.announce("root", realm.second)
    mine, _ = realm.announce("ann", realm.table)
    space = realm.world.space
    key = space.table(realm.second) if kind == "table" else space.transaction(other)
    realm.world.refs.damage(key)
    ann = realm.ask("ann", "GET", "/v1/transactions").json
    assert [entry["id"] for entry in ann["transactions"]] == [mine] and "unreadable" not in ann
    root = realm.ask("root", "GET", "/v1/transactions").json
    assert mine in [entry["id"] for entry in root["transactions"]]
    assert [row["key"] for row in root.get("unreadable", [])] == ([key] if kind == "transaction" else [])


def test_i12_staged_files_are_freed_by_principals_that_may_write_files() -> None:
    """MODIFY commits; to remove files takes SELECT as well, as credentials that write do."""
    realm = Rights()
    freed = []
    for grant in (False, True):
        if grant:
            realm.grant("table", "main.sales.t1", "ann", "SELECT")
            realm.open()
        id = str(uuid.uuid4())
        name = f"{2:020d}.{uuid.uuid4()}.json"
        commit = {"table_id": realm.table, "version": 2, "staged": {"name": name, "size": 10}}
        assert realm.ask("ann", "PUT", f"/v1/transactions/{id}", {"commits": [commit]}).status == 200
        assert realm.ask("ann", "DELETE", f"/v1/transactions/{id}").json["state"] == "aborted"
        row = realm.world.refs.rows[realm.world.space.transaction(id)]
        freed.append(row.get("freed"))
        expected = [f"{realm.table}/{name}"]
    assert freed == [None, expected]
