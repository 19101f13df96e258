"""Reservations of tables through the real handlers (I12, I18; docs/api.md)."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.support.access.realm import Realm
from tests.support.v1 import NOBODY, Pair
from turnstile.delta.core.reservations import RESERVATIONS_MAX

ID = "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"
OTHER = "bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb"


@pytest.fixture
def site() -> Pair:
    return Pair()


def reserve(site: Pair, id: str, *tables: str, **more: Any) -> Any:
    return site.ask("reserveTables", {"tables": list(tables), **more}, path=f"/v1/reservations/{id}")


def release(site: Pair, id: str) -> int:
    return int(site.ask("releaseTables", path=f"/v1/reservations/{id}").status)


def test_i18_others_wait_for_a_reserved_table_and_its_holder_commits(site: Pair) -> None:
    assert reserve(site, ID, site.table, site.second).json["state"] == "held"
    answer = site.transact(site.inline(site.table, 4, "other"))
    assert answer.status == 409 and answer.error["members"][0]["type"] == "ConcurrentChange"
    assert 0 < answer.error["members"][0]["retry_after_ms"] <= 1_000
    alone = site.append(4, "alone")
    assert (alone.status, alone.error["type"]) == (409, "ConcurrentChange")
    mine = site.transact(site.inline(site.table, 4, "mine"), site.inline(site.second, 1, "too"), reservation=ID)
    assert mine.status == 200, mine.text
    assert release(site, ID) == 204
    assert site.transact(site.inline(site.table, 5, "later")).status == 200


def test_i18_a_ticket_passes(site: Pair) -> None:
    reserve(site, ID, site.table)
    assert site.transact(site.inline(site.table, None, "ticket", base=3)).status == 200


def test_i18_a_waiting_transaction_gets_the_holder_and_when_to_ask_again(site: Pair) -> None:
    reserve(site, ID, site.table)
    waiting = reserve(site, OTHER, site.table, site.second).json
    assert (waiting["state"], waiting["held"], waiting["waits_for"]) == ("waiting", [], [ID])
    assert waiting["wanted"] == sorted([site.table, site.second]) and waiting["retry_after_ms"] > 0
    listed = site.ask("listReservations", path="/v1/reservations").json["reservations"]
    assert [(each["id"], each["state"]) for each in listed] == [(ID, "held"), (OTHER, "waiting")]
    assert release(site, ID) == 204
    assert reserve(site, OTHER, site.table, site.second).json["held"] == waiting["wanted"]


def test_i18_of_two_that_wait_for_each_other_the_later_one_is_the_victim(site: Pair) -> None:
    reserve(site, ID, site.table)
    reserve(site, OTHER, site.second)
    assert reserve(site, OTHER, site.table).json["state"] == "waiting"
    assert reserve(site, ID, site.second).json["state"] == "held"
    listed = site.ask("listReservations", path="/v1/reservations").json["reservations"]
    assert [each["state"] for each in listed] == ["held", "victim"]
    victim = reserve(site, OTHER, site.table).json
    assert (victim["state"], victim["held"], victim["wanted"]) == ("victim", [], [])


def test_i18_there_is_an_end_to_how_many_wait(site: Pair) -> None:
    for _ in range(RESERVATIONS_MAX):
        reserve(site, str(uuid.uuid4()), site.table)
    full = reserve(site, ID, site.table)
    assert (full.status, full.error["type"]) == (429, "Throttled")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"tables": []}, "tables"),
        ({"tables": ["orders"]}, "tables"),
        ({"tables": [NOBODY] * 33 + [str(uuid.uuid4()) for _ in range(33)]}, "tables"),
        ({"tables": [NOBODY], "lease_ms": 999}, "lease_ms"),
        ({"tables": [NOBODY], "lease_ms": 120_001}, "lease_ms"),
        ({"tables": [NOBODY], "until": 5}, "until"),
    ],
)
def test_a_bad_request_is_refused_with_its_member_and_changes_nothing(site: Pair, body: Any, field: str) -> None:
    before = site.state()
    answer = site.ask("reserveTables", body, path=f"/v1/reservations/{ID}")
    assert (answer.status, answer.error["field"]) in ((400, field), (404, field), (404, None)), answer.text
    assert site.state() == before


def realm_of_writers() -> Realm:
    """A realm in which ann and bob may write a table."""
    realm = Realm()
    for kind, name, right in (("catalog", "main", "USE CATALOG"), ("schema", "main.sales", "USE SCHEMA")):
        for user in ("ann", "bob"):
            realm.grant(kind, name, user, right)
    for user in ("ann", "bob"):
        realm.grant("table", "main.sales.t1", user, "MODIFY")
    return realm


def test_i12_a_reservation_is_of_use_to_its_principal_only_and_shown_to_principals_that_may_write() -> None:
    """Who may write the table, too, and knows the id, has none."""
    realm = realm_of_writers()
    assert realm.ask("ann", "PUT", f"/v1/reservations/{ID}", {"tables": [realm.table]}).json["state"] == "held"
    commit = {"table_id": realm.table, **realm.append(2, "bob's")}
    transaction = {"id": str(uuid.uuid4()), "commits": [commit], "reservation": ID}
    assert realm.ask("bob", "POST", "/v1/transactions", transaction).status == 409
    assert realm.ask("bob", "DELETE", f"/v1/reservations/{ID}").status == 204, "of one that he never had"
    assert realm.ask("bob", "POST", "/v1/transactions", transaction).status == 409
    seen = [realm.ask(user, "GET", "/v1/reservations").json["reservations"] for user in ("ann", "bob", "member")]
    assert [[each["id"] for each in listed] for listed in seen] == [[ID], [ID], []]
    assert realm.ask("member", "PUT", f"/v1/reservations/{OTHER}", {"tables": [realm.table]}).status == 403
    assert realm.ask("ann", "POST", "/v1/transactions", transaction).status == 200
    assert realm.ask("root", "DELETE", f"/v1/reservations/{ID}").status == 204
    assert realm.ask("bob", "PUT", f"/v1/reservations/{OTHER}", {"tables": [realm.table]}).json["state"] == "held"


def test_i18_a_principal_alone_does_not_take_all_places() -> None:
    realm = realm_of_writers()
    asked = [realm.ask("ann", "PUT", f"/v1/reservations/{uuid.uuid4()}", {"tables": [realm.table]}) for _ in range(40)]
    assert {answer.status for answer in asked[:32]} == {200} and {answer.status for answer in asked[32:]} == {429}
    assert "'ann' has 16 reservations" in asked[-1].error["message"]
    assert realm.ask("bob", "PUT", f"/v1/reservations/{ID}", {"tables": [realm.table]}).status == 200
