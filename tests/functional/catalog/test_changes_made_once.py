"""Changes of the catalog that carry an Idempotency-Key are made once, whatever becomes of their answers (I3)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tests.functional.v1.test_catalog import DEFAULT, NAMESPACES, Stack, refused, stack
from tests.support.access.realm import Realm, functions
from tests.support.catalog import complete
from tests.support.cli import run, service
from tests.support.faults import Crash, Faulty
from tests.support.http import Answer, Http, function
from turnstile_cli.codes import Exit
from turnstile_spark.api import Api
from turnstile_spark.errors import ApiError
from turnstile_spark.http import Http as ClientHttp

__all__ = ["stack"]

KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
OTHER = KEY.replace("0", "1")
CATALOG = "/v1/catalogs/main"
COUNT = {"merge": {"rows": {"op": "add", "value": 5}, "top": {"op": "max", "value": 7}}}

Change = tuple[str, str, Any]


def keyed(stack: Stack, change: Change, key: str = KEY) -> Answer:
    method, (path, _, query), body = change[0], change[1].partition("?"), change[2]
    return stack.http.call(method, path, query=query, json_body=body, headers={"Idempotency-Key": key})


def register(stack: Stack) -> Change:
    return "POST", DEFAULT + "/tables", {"name": "new", "table_id": stack.stage("new")["table_id"]}


def reset(stack: Stack) -> Change:
    """To before the table ``gone`` was dropped and ``late`` was made."""
    stack.create("gone")
    seq = stack.http.get(f"{CATALOG}/log").json["commits"][0]["seq"]
    stack.http.delete(f"{DEFAULT}/tables/gone")
    stack.create("late")
    return "POST", f"{CATALOG}/reset", {"to": {"seq": seq}}


def cascade(stack: Stack) -> Change:
    """More tables than one transaction drops."""
    stack.http.post(NAMESPACES, {"name": "many"})
    for n in range(92):
        stack.create(f"t{n}", "many")
    return "DELETE", f"{NAMESPACES}/many?cascade=true", None


CHANGES: dict[str, Callable[[Stack], Change]] = {
    "catalog": lambda _: ("POST", "/v1/catalogs", {"name": "second"}),
    "namespace": lambda _: ("POST", NAMESPACES, {"name": "a.b", "properties": {"x": "1"}}),
    "update": lambda _: ("PATCH", DEFAULT, COUNT),
    "update that changes nothing": lambda _: ("PATCH", DEFAULT, {}),
    "drop namespace": lambda stack: (stack.http.post(NAMESPACES, {"name": "n"}), ("DELETE", f"{NAMESPACES}/n", None))[1],
    "rename namespace": lambda stack: (stack.create("t"), ("POST", f"{DEFAULT}/rename", {"name": "u"}))[1],
    "register": register,
    "rename": lambda stack: (stack.create("t"), ("POST", f"{DEFAULT}/tables/t/rename", {"name": "u"}))[1],
    "drop": lambda stack: (stack.create("t"), ("DELETE", f"{DEFAULT}/tables/t", None))[1],
    "snapshot": lambda stack: (stack.create("t"), ("POST", f"{CATALOG}/snapshots", {"name": "s"}))[1],
    "drop snapshot": lambda stack: (
        stack.http.post(f"{CATALOG}/snapshots", {"name": "s"}), ("DELETE", f"{CATALOG}/snapshots/s", None)
    )[1],
    "reset": reset,
}  # fmt: skip


def seqs(stack: Stack) -> dict[str, int]:
    return {key: row["seq"] for key, row in stack.world.refs.rows.items() if row["kind"] == "catalog"}


@pytest.mark.parametrize("what", CHANGES)
def test_i3_a_change_sent_again_is_made_once_and_answered_the_same(stack: Stack, what: str) -> None:
    change = CHANGES[what](stack)
    first = keyed(stack, change)
    assert first.status in (200, 201, 204), first.text
    after = seqs(stack)
    again = keyed(stack, change)
    assert (again.status, again.json) == (first.status, first.json)
    assert seqs(stack) == after
    complete(stack.world)


@pytest.mark.parametrize("how", ["before", "after", "unsent", "lost"])
@pytest.mark.parametrize("at", [1, 2])
def test_i3_a_counter_is_added_to_once_whatever_fails_at_every_write(stack: Stack, at: int, how: Any) -> None:
    app, faulty = function("catalog"), Faulty(stack.world, at, how)
    app.use_world(faulty.world)
    answer = None
    with contextlib.suppress(Crash):
        answer = keyed(stack, ("PATCH", DEFAULT, COUNT))
    assert len(faulty.writes) >= at
    app.use_world(stack.world)
    again = keyed(stack, ("PATCH", DEFAULT, COUNT))
    assert again.status == 200, again.text
    assert answer is None or answer.status >= 500 or answer.json == again.json
    assert stack.http.get(DEFAULT).json["properties"] == {"rows": "5", "top": "7"}


def test_i3_without_a_key_a_counter_is_added_to_by_every_request(stack: Stack) -> None:
    for _ in range(2):
        assert stack.http.patch(DEFAULT, COUNT).status == 200
    assert stack.http.get(DEFAULT).json["properties"]["rows"] == "10"


def test_i3_a_repetition_is_told_what_the_first_was_told_not_what_is_now(stack: Stack) -> None:
    first = keyed(stack, ("PATCH", DEFAULT, COUNT))
    assert stack.http.patch(DEFAULT, COUNT).json["properties"]["rows"] == "10"
    assert keyed(stack, ("PATCH", DEFAULT, COUNT)).json == first.json


@pytest.mark.parametrize("at", range(1, 7))
def test_i3_a_cascade_of_several_changes_goes_on_where_it_was_and_is_done_once(stack: Stack, at: int) -> None:
    change, app = cascade(stack), function("catalog")
    app.use_world(Faulty(stack.world, at, "after").world)
    with contextlib.suppress(Crash):
        keyed(stack, change)
    app.use_world(stack.world)
    assert keyed(stack, change).status == 204
    assert stack.http.get(f"{NAMESPACES}/many").status == 404
    stack.http.post(NAMESPACES, {"name": "many"})
    assert keyed(stack, change).status == 204
    assert stack.http.get(f"{NAMESPACES}/many").status == 200, "what came later was not meant"


def test_i3_a_final_refusal_stays_one_whatever_happens_meanwhile(stack: Stack) -> None:
    change = ("POST", NAMESPACES, {"name": "default"})
    said = refused(keyed(stack, change), 409, "AlreadyExists")
    assert stack.http.delete(DEFAULT).status == 204
    assert refused(keyed(stack, change), 409, "AlreadyExists") == said
    assert set(said) == {"type", "message", "code", "field", "remedy", "kind"}
    assert keyed(stack, change, OTHER).status == 201


@pytest.mark.parametrize(
    ("change", "type"),
    [
        (("POST", NAMESPACES, {"name": "a..b"}), "InvalidRequest"),
        (("PATCH", DEFAULT, {"set": {"x": "y" * 40_000}}), "TooLarge"),
        (("PATCH", f"{NAMESPACES}/none", COUNT), "NoSuchNamespace"),
        (("PATCH", DEFAULT, {"merge": {"x" * 30_000: {"op": "add", "value": 2**70}}}), "InvalidRequest"),
        (("POST", f"{CATALOG}/reset", {"to": {"seq": 10_000}}), "NoSuchCatalogCommit"),
    ],
)
def test_i3_a_refusal_is_told_again_with_its_member_its_remedy_and_its_data(
    stack: Stack, change: Change, type: str
) -> None:
    first = keyed(stack, change)
    assert 400 <= first.status < 500 and first.json["error"]["type"] == type
    assert {"field", "remedy"} <= set(first.json["error"])
    again = keyed(stack, change)
    assert (again.status, again.json) == (first.status, first.json)


def test_i3_what_was_refused_for_the_moment_may_succeed_later(stack: Stack) -> None:
    app = function("catalog")
    app.use_world(Faulty(stack.world, 1, "unsent").world)
    assert keyed(stack, ("PATCH", DEFAULT, COUNT)).status >= 500
    app.use_world(stack.world)
    assert keyed(stack, ("PATCH", DEFAULT, COUNT)).json["properties"]["rows"] == "5"


def test_i3_a_key_belongs_to_one_request(stack: Stack) -> None:
    assert keyed(stack, ("PATCH", DEFAULT, COUNT)).status == 200
    before = seqs(stack)
    for other in (("PATCH", DEFAULT, {"set": {"a": "b"}}), ("DELETE", DEFAULT, None),
                  ("DELETE", f"{DEFAULT}?cascade=true", None)):  # fmt: skip
        refused(keyed(stack, other), 422, "KeyReused", "Idempotency-Key")
    assert seqs(stack) == before


@pytest.mark.parametrize("key", ["", "x", KEY[:-1], KEY + "0"])
def test_a_key_that_is_none_is_refused_and_changes_nothing(stack: Stack, key: str) -> None:
    before = seqs(stack)
    refused(keyed(stack, ("PATCH", DEFAULT, COUNT), key), 400, "InvalidRequest", "Idempotency-Key")
    assert seqs(stack) == before


def test_i3_the_same_request_from_many_threads_is_one(stack: Stack) -> None:
    answers: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: answers.append(keyed(stack, ("PATCH", DEFAULT, COUNT)))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(answer.status, answer.json) for answer in answers] == [(200, answers[0].json)] * 6
    assert stack.http.get(DEFAULT).json["properties"]["rows"] == "5"


def test_a_key_costs_one_read_and_no_write_of_its_own(stack: Stack) -> None:
    stack.http.patch(DEFAULT, COUNT)

    def requests(call: Callable[[], Answer]) -> int:
        before = len(stack.world.refs.requests)
        assert call().status == 200
        return len(stack.world.refs.requests) - before

    plain = requests(lambda: stack.http.patch(DEFAULT, COUNT))
    assert requests(lambda: keyed(stack, ("PATCH", DEFAULT, COUNT))) == plain + 1


def ask(user: str, change: Change, **headers: str) -> Answer:
    """A request of one of the realm's users."""
    method, path, body = change
    return Http(functions()["catalog"].app, user).call(method, path, json_body=body, headers=headers)


def test_i3_i12_who_owned_what_it_dropped_is_told_so_again_and_nobody_else_is() -> None:
    realm = Realm()
    realm.own("table", "main.sales.t1", "ann")
    realm.grant("catalog", "main", "ann", "USE CATALOG")
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    drop = ("DELETE", f"{NAMESPACES}/sales/tables/t1", None)
    named = {"Idempotency-Key": KEY}
    assert ask("ann", drop, **named).status == 204
    assert ask("ann", drop).status == 403, "its rights went with the table"
    assert ask("ann", drop, **named).status == 204
    assert ask("bob", drop, **named).status == 403


def test_i12_what_somebody_without_rights_is_refused_leaves_no_row() -> None:
    realm = Realm()
    before = realm.state()
    change = ("PATCH", f"{NAMESPACES}/sales", {"set": {"a": "1"}, "unset": ["a"]})
    for key in (KEY, OTHER):
        assert ask("ann", change, **{"Idempotency-Key": key}).status in (400, 403)
    assert realm.state() == before


def test_i3_the_command_line_sends_a_change_again_under_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnstile_cli.api.PAUSES", (0.0, 0.0))
    path = "/v1/catalogs/main/reset"
    with service({f"POST {path}": (0, None)}) as canned:
        ended = run("catalog", "reset", "main", "--to", "3", "--url", canned.url)
    assert ended.exit_code == Exit.UNKNOWN
    assert [(one[0], one[1], one[2]) for one in canned.seen] == [("POST", path, {"to": {"seq": 3}})] * 3
    keys = {one[3]["idempotency-key"] for one in canned.seen}
    assert len(keys) == 1
    with service({f"POST {path}": (409, {"error": {"type": "CannotReset", "message": "m", "code": 409}})}) as canned:
        assert run("catalog", "reset", "main", "--to", "3", "--url", canned.url).exit_code == Exit.REFUSED
    assert len(canned.seen) == 1, "a refusal is final"
    assert canned.seen[0][3]["idempotency-key"] not in keys, "another command is another request"


@pytest.mark.slow
def test_i3_the_spark_client_sends_every_change_of_a_catalog_again_under_one_key() -> None:
    calls: dict[str, Callable[[Api], Any]] = {
        "POST /v1/catalogs/main/namespaces": lambda api: api.create_namespace("n", None, {}),
        "PATCH /v1/catalogs/main/namespaces/n": lambda api: api.alter_namespace("n", None, {"a": "1"}, []),
        "DELETE /v1/catalogs/main/namespaces/n": lambda api: api.drop_namespace("n", cascade=False),
        "POST /v1/catalogs/main/namespaces/n/tables": lambda api: api.register("n", "t", "id"),
        "POST /v1/catalogs/main/namespaces/n/tables/t/rename": lambda api: api.rename("n", "t", "n", "u"),
        "DELETE /v1/catalogs/main/namespaces/n/tables/t": lambda api: api.drop("n", "t"),
    }
    keys: set[str] = set()
    for route, call in calls.items():
        with service({route: (503, {})}) as canned:
            http = ClientHttp(canned.url, None, deadline=0.2)
            with pytest.raises(ApiError):
                call(Api(http, "main"))
            http.close()
        sent = [one[3]["idempotency-key"] for one in canned.seen]
        assert len(sent) > 1 and len({*sent}) == 1, route
        keys |= {*sent}
    assert len(keys) == len(calls), "every change is another request"
