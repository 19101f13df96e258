"""Changes of the catalog with an Idempotency-Key are made once, also if their answers are lost
(I3)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.support.access.realm import Change, Realm, ask
from tests.support.catalog import complete
from tests.support.cli import run, service
from tests.support.faults import Crash, Faulty
from tests.support.functions import Answer, function
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, refused
from turnstile.api.http import idempotency
from turnstile_cli.api import Api as CommandApi
from turnstile_cli.errors import CliError, Exit
from turnstile_http.api import Api
from turnstile_http.errors import ApiError
from turnstile_http.http import Http as ClientHttp

KEY = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
OTHER = KEY.replace("0", "1")
CATALOG = "/v1/catalogs/main"
COUNT = {"merge": {"rows": {"op": "add", "value": 5}, "top": {"op": "max", "value": 7}}}


def keyed(api: CatalogApi, change: Change, key: str = KEY) -> Answer:
    method = change[0]
    path, _, query = change[1].partition("?")
    body = change[2]
    return api.http.call(method, path, query=query, json_body=body, headers={"Idempotency-Key": key})


def register(api: CatalogApi) -> Change:
    return "POST", DEFAULT + "/tables", {"name": "new", "table_id": api.stage("new")["table_id"]}


def reset(api: CatalogApi) -> Change:
    """To before the table ``gone`` was dropped and ``late`` was made."""
    api.create("gone")
    seq = api.http.get(f"{CATALOG}/log").json["commits"][0]["seq"]
    api.http.delete(f"{DEFAULT}/tables/gone")
    api.create("late")
    return "POST", f"{CATALOG}/reset", {"to": {"seq": seq}}


def undrop(api: CatalogApi) -> Change:
    api.create("gone")
    api.http.delete(f"{DEFAULT}/tables/gone")
    return "POST", f"{DEFAULT}/tables/gone/undrop", {"name": "again"}


def cascade(api: CatalogApi) -> Change:
    """More tables than one transaction drops."""
    api.http.post(NAMESPACES, {"name": "many"})
    for n in range(92):
        api.create(f"t{n}", "many")
    return "DELETE", f"{NAMESPACES}/many?cascade=true", None


CHANGES: dict[str, Callable[[CatalogApi], Change]] = {
    "catalog": lambda _: ("POST", "/v1/catalogs", {"name": "second"}),
    "namespace": lambda _: ("POST", NAMESPACES, {"name": "a.b", "properties": {"x": "1"}}),
    "update": lambda _: ("PATCH", DEFAULT, COUNT),
    "update that changes nothing": lambda _: ("PATCH", DEFAULT, {}),
    "drop namespace": lambda api: (api.http.post(NAMESPACES, {"name": "n"}), ("DELETE", f"{NAMESPACES}/n", None))[1],
    "rename namespace": lambda api: (api.create("t"), ("POST", f"{DEFAULT}/rename", {"name": "u"}))[1],
    "register": register,
    "rename": lambda api: (api.create("t"), ("POST", f"{DEFAULT}/tables/t/rename", {"name": "u"}))[1],
    "drop": lambda api: (api.create("t"), ("DELETE", f"{DEFAULT}/tables/t", None))[1],
    "undrop": undrop,
    "snapshot": lambda api: (api.create("t"), ("POST", f"{CATALOG}/snapshots", {"name": "s"}))[1],
    "drop snapshot": lambda api: (
        api.http.post(f"{CATALOG}/snapshots", {"name": "s"}), ("DELETE", f"{CATALOG}/snapshots/s", None)
    )[1],
    "reset": reset,
}  # fmt: skip


def seqs(api: CatalogApi) -> dict[str, int]:
    return {key: row["seq"] for key, row in api.world.refs.rows.items() if row["kind"] == "catalog"}


@pytest.mark.parametrize("what", CHANGES)
def test_i3_a_change_sent_again_is_made_once_and_answered_the_same(api: CatalogApi, what: str) -> None:
    change = CHANGES[what](api)
    first = keyed(api, change)
    assert first.status in (200, 201, 204), first.text
    after = seqs(api)
    again = keyed(api, change)
    assert (again.status, again.json) == (first.status, first.json)
    assert seqs(api) == after
    complete(api.world)


@pytest.mark.parametrize("how", ["before", "after", "unsent", "lost"])
@pytest.mark.parametrize("at", [1, 2])
def test_i3_a_counter_is_added_to_once_whatever_fails_at_every_write(api: CatalogApi, at: int, how: Any) -> None:
    app = function("catalog")
    faulty = Faulty(api.world, at, how)
    app.use_world(faulty.world)
    answer = None
    with contextlib.suppress(Crash):
        answer = keyed(api, ("PATCH", DEFAULT, COUNT))
    assert len(faulty.writes) >= at
    app.use_world(api.world)
    again = keyed(api, ("PATCH", DEFAULT, COUNT))
    assert again.status == 200, again.text
    assert answer is None or answer.status >= 500 or answer.json == again.json
    assert api.http.get(DEFAULT).json["properties"] == {"rows": "5", "top": "7"}


def test_i3_without_a_key_a_counter_is_added_to_by_every_request(api: CatalogApi) -> None:
    for _ in range(2):
        assert api.http.patch(DEFAULT, COUNT).status == 200
    assert api.http.get(DEFAULT).json["properties"]["rows"] == "10"


def test_i3_a_repetition_gets_the_first_answer_not_the_present_state(api: CatalogApi) -> None:
    first = keyed(api, ("PATCH", DEFAULT, COUNT))
    assert api.http.patch(DEFAULT, COUNT).json["properties"]["rows"] == "10"
    assert keyed(api, ("PATCH", DEFAULT, COUNT)).json == first.json


@pytest.mark.parametrize("at", range(1, 7))
def test_i3_a_cascade_of_several_changes_goes_on_where_it_was_and_is_done_once(api: CatalogApi, at: int) -> None:
    change = cascade(api)
    app = function("catalog")
    app.use_world(Faulty(api.world, at, "after").world)
    with contextlib.suppress(Crash):
        keyed(api, change)
    app.use_world(api.world)
    assert keyed(api, change).status == 204
    assert api.http.get(f"{NAMESPACES}/many").status == 404
    api.http.post(NAMESPACES, {"name": "many"})
    assert keyed(api, change).status == 204
    assert api.http.get(f"{NAMESPACES}/many").status == 200, "what came later was not meant"


def test_i3_a_final_refusal_stays_one_whatever_happens_meanwhile(api: CatalogApi) -> None:
    change = ("POST", NAMESPACES, {"name": "default"})
    said = refused(keyed(api, change), 409, "AlreadyExists")
    assert api.http.delete(DEFAULT).status == 204
    assert refused(keyed(api, change), 409, "AlreadyExists") == said
    assert set(said) == {"type", "message", "code", "field", "remedy", "kind"}
    assert keyed(api, change, OTHER).status == 201


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
def test_i3_a_refusal_is_repeated_with_its_member_its_remedy_and_its_data(
    api: CatalogApi, change: Change, type: str
) -> None:
    first = keyed(api, change)
    assert 400 <= first.status < 500 and first.json["error"]["type"] == type
    assert {"field", "remedy"} <= set(first.json["error"])
    again = keyed(api, change)
    assert (again.status, again.json) == (first.status, first.json)


def test_i3_what_was_refused_for_the_moment_may_succeed_later(api: CatalogApi) -> None:
    app = function("catalog")
    app.use_world(Faulty(api.world, 1, "unsent").world)
    assert keyed(api, ("PATCH", DEFAULT, COUNT)).status >= 500
    app.use_world(api.world)
    assert keyed(api, ("PATCH", DEFAULT, COUNT)).json["properties"]["rows"] == "5"


def test_i3_a_key_belongs_to_one_request(api: CatalogApi) -> None:
    assert keyed(api, ("PATCH", DEFAULT, COUNT)).status == 200
    before = seqs(api)
    for other in (("PATCH", DEFAULT, {"set": {"a": "b"}}), ("DELETE", DEFAULT, None),
                  ("DELETE", f"{DEFAULT}?cascade=true", None)):  # fmt: skip
        refused(keyed(api, other), 422, "KeyReused", "Idempotency-Key")
    assert seqs(api) == before


@pytest.mark.parametrize("key", ["", "x", KEY[:-1], KEY + "0"])
def test_a_key_that_is_none_is_refused_and_changes_nothing(api: CatalogApi, key: str) -> None:
    before = seqs(api)
    refused(keyed(api, ("PATCH", DEFAULT, COUNT), key), 400, "InvalidRequest", "Idempotency-Key")
    assert seqs(api) == before


def test_i3_the_same_request_from_many_threads_is_one(api: CatalogApi) -> None:
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(keyed(api, ("PATCH", DEFAULT, COUNT)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [(answer.status, answer.json) for answer in answers] == [(200, answers[0].json)] * 6
    assert api.http.get(DEFAULT).json["properties"]["rows"] == "5"


def test_a_key_costs_one_read_and_no_write_of_its_own(api: CatalogApi) -> None:
    api.http.patch(DEFAULT, COUNT)

    def requests(call: Callable[[], Answer]) -> int:
        before = len(api.world.refs.requests)
        assert call().status == 200
        return len(api.world.refs.requests) - before

    plain = requests(lambda: api.http.patch(DEFAULT, COUNT))
    assert requests(lambda: keyed(api, ("PATCH", DEFAULT, COUNT))) == plain + 1


def test_i3_i12_the_former_owner_of_what_it_dropped_gets_the_same_answer_again_and_no_other_principal_does() -> None:
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


def test_i12_a_refusal_for_missing_rights_leaves_no_row() -> None:
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


def changed(*answers: httpx.Response | Exception) -> CliError:
    """Returns the error of a change by the command line. Its attempts get these answers in order,
    and need all of them."""
    left = list(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        return given

    with CommandApi("http://server", "") as api:
        api._http = httpx.Client(base_url="http://server", transport=httpx.MockTransport(answer))
        with pytest.raises(CliError) as raised:
            api.change("POST", "/v1/x", {})
    assert left == []
    return raised.value


def said(status: int, type: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"type": type, "message": "m", "code": status}})


@pytest.mark.parametrize(
    "after",
    [
        httpx.ConnectError("refused"),
        said(401, "NotAuthenticated"),
        said(403, "PermissionDenied"),
        said(429, "Throttled"),
        said(503, "StorageFault"),
        httpx.Response(403, json={"message": "Forbidden"}),  # of a gateway
        httpx.Response(404, text="no such host"),
        httpx.Response(502, text="bad gateway"),
        httpx.Response(200, text="<html>log in</html>"),
    ],
    ids=str,
)
def test_i3_the_command_line_says_unknown_when_it_cannot_ask_what_became_of_a_change(
    monkeypatch: pytest.MonkeyPatch, after: httpx.Response | Exception
) -> None:
    monkeypatch.setattr("turnstile_cli.api.PAUSES", (0.0, 0.0))
    unknown = changed(httpx.ReadError("cut"), after, after)
    assert (unknown.exit, unknown.type) == (Exit.UNKNOWN, "NoAnswer")


@pytest.mark.parametrize("status", idempotency.FINAL)
def test_i3_the_command_line_takes_what_the_server_remembers_for_final(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    monkeypatch.setattr("turnstile_cli.api.PAUSES", (0.0, 0.0))
    assert changed(httpx.ReadError("cut"), said(status, "Remembered")).type == "Remembered"
    assert (
        changed(httpx.ReadError("cut"), httpx.ConnectError("refused"), said(status, "Remembered")).type == "Remembered"
    )


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
