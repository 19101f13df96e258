"""A commit names the principal that proposed it, by whichever API it came: in the HEAD, in lists,
in answers, and to a loser."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.access.operations import OPERATIONS
from tests.support.access.realm import Realm
from tests.support.fakes import delta
from tests.support.lake import ORDERS, make_lake
from turnstile.delta.core.content import read_content
from turnstile.delta.core.head import PRINCIPAL_MAX
from turnstile.delta.proposals import CommitRequest, proposal_of
from turnstile.delta.publish import Publisher
from turnstile.ingest.core.identity import Identity, common_principal

EVERYTHING = ("USE CATALOG", "USE SCHEMA", "SELECT", "MODIFY")


@pytest.fixture
def realm() -> Realm:
    """Ann and bob may read and change every table."""
    made = Realm()
    for user in ("ann", "bob"):
        made.grant("catalog", "main", user, *EVERYTHING)
    return made


def principals(realm: Realm) -> list[str | None]:
    """The principals of the commits that the HEAD carries, by version."""
    found = realm.must("GET", f"/v1/tables/{realm.table}/head").json["tail"]
    return [commit.get("principal") for commit in found]


def operation(realm: Realm, name: str, user: str = "ann") -> Any:
    asked = OPERATIONS[name](realm)
    answer = realm.ask(user, asked.method, asked.path, asked.body, **asked.query)
    assert answer.status < 300, answer.text
    return answer.json


@pytest.mark.parametrize("name", ["commit", "transact", "delta update", "preview commit", "append rows"])
def test_a_commit_by_any_api_names_its_principal(realm: Realm, name: str) -> None:
    operation(realm, name)
    assert principals(realm) == ["root", "ann"]


def test_the_answer_the_list_and_a_loser_name_the_principal(realm: Realm) -> None:
    path = f"/v1/tables/{realm.table}/commits"
    won = realm.ask("ann", "POST", path, realm.append(2, "a")).json
    assert won["commit"]["principal"] == "ann"
    lost = realm.ask("bob", "POST", path, realm.append(2, "b"))
    assert lost.status == 409
    assert [winner.get("principal") for winner in lost.json["error"]["winners"]] == ["ann"]
    listed = realm.ask("bob", "GET", path).json["commits"]
    assert [commit.get("principal") for commit in listed] == ["root", "ann"]


def test_a_replay_keeps_the_principal_of_the_first_request(realm: Realm) -> None:
    path = f"/v1/tables/{realm.table}/commits"
    proposal = realm.append(2, "a")
    assert realm.ask("ann", "POST", path, proposal).json["outcome"] == "ratified"
    again = realm.ask("bob", "POST", path, proposal).json
    assert (again["outcome"], again["commit"]["principal"]) == ("replayed", "ann")


def test_an_announced_transaction_that_is_resumed_by_another_names_the_principal_that_announced_it(
    realm: Realm,
) -> None:
    id = str(uuid.uuid4())
    body = {"commits": [{"table_id": realm.table, **realm.append(2, "a")}]}
    assert realm.ask("ann", "PUT", f"/v1/transactions/{id}", body).status < 300
    realm.must("POST", f"/v1/transactions/{id}/resume")
    assert principals(realm) == ["root", "ann"]


def test_rows_of_several_principals_in_one_commit_name_none() -> None:
    assert common_principal(map(Identity, ("ann", "ann"))) == "ann"
    assert common_principal(map(Identity, ("ann", "bob"))) == ""
    assert common_principal(()) == ""


def test_a_published_commit_keeps_its_principal_while_the_head_carries_it(realm: Realm) -> None:
    operation(realm, "commit")
    Publisher(realm.world).publish(realm.table)
    assert principals(realm)[-1] == "ann"


def test_a_long_name_is_cut() -> None:
    content = delta.append("t", 2_000_000_000_000)
    request = CommitRequest(str(uuid.uuid4()), 1, base=0, content=content, principal="n" * 200)
    entry = proposal_of(request, read_content(content), content, now=2_000_000_000_000).entry
    assert entry.principal == "n" * PRINCIPAL_MAX


@pytest.mark.parametrize("resumed", [False, True])
def test_the_operator_is_not_named_also_in_an_announced_transaction(resumed: bool) -> None:
    lake = make_lake()
    id = str(uuid.uuid4())
    body = {
        "commits": [{"table_id": ORDERS, "version": 1, "inline": {"content": delta.append("t", lake.now()).decode()}}]
    }
    assert lake.http.call("PUT", f"/v1/transactions/{id}", json_body=body).status < 300
    path = f"/v1/transactions/{id}/resume" if resumed else "/v1/transactions"
    sent = None if resumed else {"id": id, "journal": True, **body}
    answer = lake.http.call("POST", path, json_body=sent)
    assert answer.status < 300, answer.text
    assert [commit.get("principal") for commit in lake.get("head").json["tail"]] == [None]
