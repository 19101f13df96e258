"""Rights on a reference over HTTP: its owner and its grantees use it, and other principals learn
nothing (I12)."""

from __future__ import annotations

import json
from typing import Any

from tests.support.access.realm import Realm
from tests.support.cli import run, service
from tests.support.functions import Answer

REF = "/v1/refs/app"
RIGHTS = "/v1/permissions/ref/app"
MAKER = ("metastore", "metastore", "ann", "CREATE REFERENCE")


def denied(answer: Answer) -> str:
    assert (answer.status, answer.error["type"]) == (403, "PermissionDenied"), answer.text
    return str(answer.error["message"])


def change(realm: Realm, user: str, principal: str, add: Any = (), *, remove: Any = (), ref: str = "mine") -> Answer:
    body = {"changes": [{"principal": principal, "add": [*add], "remove": [*remove]}]}
    return realm.ask(user, "PATCH", f"/v1/permissions/ref/{ref}", body)


def made(realm: Realm, user: str = "ann") -> str:
    realm.grant(*MAKER)
    answer = realm.ask(user, "POST", "/v1/refs", {"name": "mine", "value": "a", "request_id": "one"})
    assert answer.status == 201, answer.text
    return str(answer.json["token"])


def test_i12_the_creator_of_a_reference_owns_it_and_hands_out_what_is_to_be_had(realm: Realm) -> None:
    token = made(realm)
    assert realm.ask("ann", "GET", "/v1/permissions/ref/mine").json == {"owner": "ann", "grants": []}
    denied(realm.ask("bob", "GET", "/v1/refs/mine"))
    denied(realm.ask("bob", "POST", "/v1/refs/mine", {"token": token, "value": "b"}))
    assert change(realm, "ann", "bob", ["SELECT"]).json["grants"] == [{"principal": "bob", "privileges": ["SELECT"]}]
    assert realm.ask("bob", "GET", "/v1/refs/mine").json["value"] == "a"
    denied(realm.ask("bob", "POST", "/v1/refs/mine", {"token": token, "value": "b"}))
    change(realm, "ann", "team", ["MODIFY"])
    swapped = realm.ask("member", "POST", "/v1/refs/mine", {"token": token, "value": "b"})
    assert (swapped.status, swapped.json["value"]) == (200, "b")
    denied(realm.ask("member", "DELETE", "/v1/refs/mine", token=swapped.json["token"]))
    denied(change(realm, "member", "member", ["SELECT"]))
    assert realm.ask("ann", "DELETE", "/v1/refs/mine", token=swapped.json["token"]).status == 204


def test_i12_a_right_that_was_taken_away_serves_no_more_and_changes_nothing(realm: Realm) -> None:
    token = made(realm)
    change(realm, "ann", "bob", ["MODIFY", "SELECT"])
    change(realm, "ann", "bob", remove=["MODIFY"])
    before = realm.state()
    denied(realm.ask("bob", "POST", "/v1/refs/mine", {"token": token, "value": "b"}))
    assert realm.state() == before
    change(realm, "ann", "bob", remove=["SELECT"])
    denied(realm.ask("bob", "GET", "/v1/refs/mine/history"))


def test_i12_handing_a_reference_over_leaves_nothing_behind(realm: Realm) -> None:
    token = made(realm)
    assert realm.ask("ann", "PATCH", "/v1/permissions/ref/mine", {"owner": "bob"}).json["owner"] == "bob"
    denied(realm.ask("ann", "GET", "/v1/refs/mine"))
    again = {"name": "mine", "value": "a", "request_id": "one"}
    denied(realm.ask("ann", "POST", "/v1/refs", again))
    taken = realm.ask("ann", "POST", "/v1/refs", {"name": "mine", "value": "a"})
    assert (taken.status, taken.error["type"]) == (409, "AlreadyExists") and "current" not in taken.error
    assert realm.ask("bob", "DELETE", "/v1/refs/mine", token=token).status == 204
    denied(realm.ask("ann", "POST", "/v1/refs", again))
    assert realm.ask("ann", "POST", "/v1/refs", {"name": "mine", "value": "a"}).status == 201
    denied(realm.ask("bob", "GET", "/v1/refs/mine"))


def test_i12_what_is_not_there_looks_like_what_is_not_ones_own(realm: Realm) -> None:
    token = made(realm)
    for method, what, body in (
        ("GET", "", None),
        ("GET", "/history", None),
        ("POST", "", {"token": token, "value": "b"}),
    ):
        missing, there = (realm.ask("bob", method, f"/v1/refs/{name}{what}", body) for name in ("nope", "mine"))
        assert denied(missing).replace("nope", "mine") == denied(there)
    assert denied(change(realm, "bob", "bob", ["SELECT"])) == denied(
        change(realm, "bob", "bob", ["SELECT"], ref="nope")
    ).replace("nope", "mine")
    shown = [realm.ask("bob", "GET", f"/v1/permissions/ref/{name}").json for name in ("nope", "mine")]
    assert shown == [{"owner": None, "grants": []}] * 2
    for user in ("ann", "root"):
        for method, path in (("GET", "/v1/refs/nope"), ("GET", "/v1/permissions/ref/nope")):
            answer = realm.ask(user, method, path)
            assert (answer.status, answer.error["type"]) == (404, "NoSuchRef"), "it may create it"


def test_i12_a_lost_swap_is_shown_to_principals_that_may_read_and_after_a_deletion_too(realm: Realm) -> None:
    token = made(realm)
    change(realm, "ann", "bob", ["MODIFY"])
    second = realm.ask("ann", "POST", "/v1/refs/mine", {"token": token, "value": "b"}).json["token"]
    lost = realm.ask("bob", "POST", "/v1/refs/mine", {"token": token, "value": "c"})
    assert (lost.status, lost.error["type"], lost.error["current"]["value"]) == (409, "RefMoved", "b")
    denied(realm.ask("member", "POST", "/v1/refs/mine", {"token": token, "value": "c"}))
    named = {"token": second, "request_id": "end"}
    assert [realm.ask("ann", "DELETE", "/v1/refs/mine", **named).status for _ in range(2)] == [204, 204]


def test_rights_cost_no_request(realm: Realm) -> None:
    token = made(realm)
    change(realm, "ann", "bob", ["MODIFY"])
    asked = realm.world.refs.requests
    for user in ("bob", "ann", "root"):
        asked.clear()
        token = realm.ask(user, "POST", "/v1/refs/mine", {"token": token, "value": user}).json["token"]
        assert asked == ["write"]
        asked.clear()
        assert realm.ask(user, "GET", "/v1/refs/mine").status == 200
        assert asked == ["read"]
        asked.clear()
        assert realm.ask(user, "POST", "/v1/refs/mine", {"token": "0." + "0" * 24, "value": "x"}).status == 409
        assert asked == ["write"]


def test_what_cannot_be_granted_is_named_and_changes_nothing(realm: Realm) -> None:
    made(realm)
    before = realm.state()
    for body, field in (
        ({"changes": [{"principal": "bob", "add": ["USE CATALOG"]}]}, "changes.add"),
        ({"changes": [{"principal": "bob", "remove": ["nothing"]}]}, "changes.remove"),
        ({"changes": [{"principal": "", "add": ["SELECT"]}]}, "changes.principal"),
        ({"owner": "a\n"}, "owner"),
        ({}, "changes"),
    ):
        answer = realm.ask("ann", "PATCH", "/v1/permissions/ref/mine", body)
        assert (answer.status, answer.error["field"]) == (400, field)
    many = [{"principal": f"p{n}", "add": ["SELECT"]} for n in range(20)]
    large = realm.ask("ann", "PATCH", "/v1/permissions/ref/mine", {"changes": many})
    assert (large.status, large.error["limit"]) == (413, 20)
    unity = realm.ask("ann", "GET", "/api/2.1/unity-catalog/permissions/ref/mine")
    assert unity.status == 400, "Unity Catalog knows no references"
    assert realm.state() == before


def test_the_command_line_shows_and_grants_rights_on_references() -> None:
    told = {"owner": "ann", "grants": [{"principal": "bob", "privileges": ["SELECT"]}]}
    with service({f"PATCH {RIGHTS}": (200, told), f"GET {RIGHTS}": (200, told)}) as canned:
        ended = run("grants", "grant", "app", "bob", "select", "--on", "ref", "--url", canned.url, "--output", "json")
        assert json.loads(ended.stdout) == told
        assert "bob" in run("grants", "show", "app", "--on", "ref", "--url", canned.url).stdout
    assert canned.seen[0][2] == {"changes": [{"principal": "bob", "add": ["SELECT"]}]}
