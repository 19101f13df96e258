"""Events over HTTP: read from a cursor, filtered by table and by the caller's rights, refused
clearly."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource, ServerSentEvent

from tests.support.access.realm import B, Realm
from tests.support.cli import run, service
from tests.support.functions import Answer
from tests.support.v1 import DEFAULT, NAMESPACES, CatalogApi, refused
from turnstile.access.authorizer import Authorizer
from turnstile.api.v1 import events as view
from turnstile.events.append import RETENTION_MS, Appender, behind
from turnstile.store.ports import World
from turnstile_cli.commands import events as command

EVENTS = "/v1/events"


def append(world: World) -> None:
    appender = Appender(world)
    appender.append(list(behind(world, appender)))


def types(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.text
    return [event["type"].removeprefix("turnstile.") for event in answer.json["events"]]


def of_tables(answer: Answer) -> list[tuple[str, str | None]]:
    assert answer.status == 200, answer.text
    return [
        (event["type"].rpartition(".")[2], event["data"].get("name"))
        for event in answer.json["events"]
        if event["type"].startswith("turnstile.table.")
    ]


def test_what_happens_to_a_table_becomes_cloudevents_in_order(api: CatalogApi) -> None:
    id = api.create("t")["table_id"]
    append(api.world)
    assert api.http.post(DEFAULT + "/tables/t/rename", {"name": "u"}).status == 200
    append(api.world)
    assert api.http.delete(DEFAULT + "/tables/u").status == 204
    append(api.world)
    answer = api.http.get(EVENTS, catalog="main")
    assert types(answer) == [
        "table.created", "catalog.created", "table.renamed", "catalog.changed", "table.dropped", "catalog.changed",
    ]  # fmt: skip
    event = answer.json["events"][0]
    assert event["specversion"] == "1.0" and event["datacontenttype"] == "application/json"
    assert (event["source"], event["subject"]) == ("/v1/catalogs/main", id)
    assert event["data"] == {"name": "main.default.t", "version": 0}
    assert event["time"].endswith("Z") and len({each["id"] for each in answer.json["events"]}) == 6
    assert types(api.http.get(EVENTS, catalog="MAIN", table_id=id)) == [
        "table.created",
        "table.renamed",
        "table.dropped",
    ]


def test_a_cursor_goes_on_where_an_answer_ended(api: CatalogApi) -> None:
    for name in "abc":
        api.create(name)
        append(api.world)
    cursor = None
    seen = list[str]()
    for _ in range(20):
        after = {} if cursor is None else {"after": cursor}
        page = api.http.get(EVENTS, catalog="main", limit=1, **after).json
        assert len(page["events"]) <= 1
        seen += [event["id"] for event in page["events"]]
        cursor = page["cursor"]
    assert seen == [event["id"] for event in api.http.get(EVENTS, catalog="main").json["events"]]
    assert len(seen) == len(set(seen)) == 6
    now = api.http.get(EVENTS, catalog="main", after="now").json
    assert now["events"] == []
    api.create("d")
    append(api.world)
    assert of_tables(api.http.get(EVENTS, catalog="main", after=now["cursor"])) == [("created", "main.default.d")]


def streamed(api: CatalogApi, last_id: str | None = None, **query: Any) -> list[ServerSentEvent]:
    """Returns the events that a client of server-sent events reads from one answer."""
    headers = {"Accept": "text/event-stream"} | ({} if last_id is None else {"Last-Event-ID": last_id})
    answer = api.http.call("GET", EVENTS, query={"catalog": "main", "wait_s": 0, **query}, headers=headers)
    assert answer.status == 200, answer.text
    return list(EventSource(httpx.Response(200, headers=answer.headers, text=answer.text)).iter_sse())


def test_a_client_of_server_sent_events_gets_the_same_events_and_comes_back_where_it_was(api: CatalogApi) -> None:
    for name in "ab":
        api.create(name)
        append(api.world)
    events = api.http.get(EVENTS, catalog="main").json["events"]
    *heard, end = streamed(api)
    assert [message.json() for message in heard] == events
    assert [message.event for message in heard] == [event["type"] for event in events]
    assert (end.data, end.retry) == ("", view.RECONNECT_MS)
    for position, message in enumerate(heard, start=1):
        assert [later.json() for later in streamed(api, message.id)[:-1]] == events[position:]
    assert [message.id for message in streamed(api, end.id)] == [end.id]
    # what a client heard last counts, not the address that it comes back to
    assert [message.json() for message in streamed(api, heard[0].id, after=end.id)[:-1]] == events[1:]
    refused(
        api.http.call(
            "GET", EVENTS, query={"catalog": "main"}, headers={"Accept": "text/event-stream", "Last-Event-ID": "x"}
        ),
        400,
        "InvalidRequest",
        "after",
    )


def test_a_cursor_in_last_event_id_counts_for_server_sent_events_only(api: CatalogApi) -> None:
    api.create("t")
    append(api.world)
    (*_, end) = streamed(api)
    answer = api.http.call("GET", EVENTS, query={"catalog": "main"}, headers={"Last-Event-ID": end.id})
    assert len(answer.json["events"]) == 2


def test_i13_a_cursor_of_what_is_not_kept_is_refused_with_what_to_do(api: CatalogApi) -> None:
    api.create("t")
    append(api.world)
    cursor = api.http.get(EVENTS, catalog="main", limit=1).json["cursor"]
    for number in range(40):
        assert api.http.post(NAMESPACES, {"name": f"n{number}"}).status == 201
        append(api.world)
    api.world.clock.now += RETENTION_MS
    error = refused(api.http.get(EVENTS, catalog="main", after=cursor), 410, "CursorExpired", "after")
    assert "now" in error["remedy"]
    assert api.http.get(EVENTS, catalog="main").status == 200


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "catalog"),
        ({"catalog": "a/b"}, "catalog"),
        ({"catalog": "main", "after": "nonsense"}, "after"),
        ({"catalog": "main", "limit": "0"}, "limit"),
        ({"catalog": "main", "limit": "1001"}, "limit"),
        ({"catalog": "main", "wait_s": "21"}, "wait_s"),
        ({"catalog": "main", "table_id": "t"}, "table_id"),
        ({"catalog": "main", "from": "x"}, "from"),
    ],
)
def test_a_bad_query_is_refused_at_the_member_at_fault(api: CatalogApi, query: dict[str, str], field: str) -> None:
    refused(api.http.get(EVENTS, **query), 400, "InvalidRequest", field)


def test_a_catalog_that_does_not_exist_is_refused_and_of_a_dropped_one_an_admin_reads_the_end(api: CatalogApi) -> None:
    refused(api.http.get(EVENTS, catalog="nope"), 404, "NoSuchCatalog", "catalog")
    assert api.http.post("/v1/catalogs", {"name": "other"}).status == 201
    append(api.world)
    assert api.http.delete("/api/2.1/unity-catalog/catalogs/other").status == 200
    append(api.world)
    assert types(api.http.get(EVENTS, catalog="other")) == ["catalog.created", "catalog.dropped"]


def test_a_request_waits_for_an_event_but_not_for_more_than_it_says(
    api: CatalogApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    append(api.world)
    cursor = api.http.get(EVENTS, catalog="main", after="now").json["cursor"]
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            api.create("t")
            append(api.world)

    monkeypatch.setattr(view, "pause", sleep)
    answer = api.http.get(EVENTS, catalog="main", after=cursor, wait_s=2)
    assert of_tables(answer) == [("created", "main.default.t")] and len(waits) == 3
    waits.extend([0] * 100)
    before = len(waits)
    assert api.http.get(EVENTS, catalog="main", after=answer.json["cursor"], wait_s=2).json["events"] == []
    assert sum(waits[before:]) == 2


# -- rights -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def realm() -> Realm:
    made = Realm()
    made.create("t9", "hr")
    made.grant("catalog", "main", "ann", "USE CATALOG")
    append(made.world)
    return made


def seen(realm: Realm, user: str = "ann", **query: Any) -> list[tuple[str, str | None]]:
    return of_tables(realm.ask(user, "GET", EVENTS, catalog="main", **query))


def test_i12_events_of_a_table_are_for_principals_that_may_see_it_now(realm: Realm) -> None:
    assert len(seen(realm, "root")) == 3
    assert seen(realm) == []
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    assert seen(realm) == []
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    assert seen(realm) == [("created", "main.sales.t1"), ("ratified", "main.sales.t1")]
    assert seen(realm, table_id=realm.table) == seen(realm)
    realm.revoke("table", "main.sales.t1", "ann", "SELECT")
    realm.world.clock.now += 10_000
    assert seen(realm) == []


def test_i12_events_of_the_catalog_are_for_principals_that_may_edit_it(realm: Realm) -> None:
    def changes(user: str) -> int:
        answer = realm.ask(user, "GET", EVENTS, catalog="main")
        return sum(event["type"].startswith("turnstile.catalog.") for event in answer.json["events"])

    assert (changes("root"), changes("ann")) == (1, 0)
    realm.own("catalog", "main", "ann")
    assert changes("ann") == 1


def test_i12_a_dropped_tables_events_are_for_principals_that_could_see_every_table_there(realm: Realm) -> None:
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    realm.must("DELETE", "/v1/catalogs/main/namespaces/sales/tables/t1")
    append(realm.world)
    assert seen(realm) == []
    realm.create("t1")  # another table of that name shows nothing of the first
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    append(realm.world)
    assert seen(realm) == [("created", "main.sales.t1")]
    realm.grant("schema", "main.sales", "ann", "SELECT")
    realm.world.clock.now += 10_000
    assert [kind for kind, _ in seen(realm)] == ["created", "ratified", "dropped", "created"]


def test_i12_the_name_that_a_table_had_is_left_out_for_principals_that_may_not_see_that_namespace(realm: Realm) -> None:
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA", "SELECT")
    renamed = {"name": "t9", "namespace": "sales"}
    realm.must("POST", "/v1/catalogs/main/namespaces/hr/tables/t9/rename", renamed)
    append(realm.world)
    mine = [(kind, name) for kind, name in seen(realm) if name != "main.sales.t1"]
    assert mine == [("created", None), ("renamed", "main.sales.t9")]


def test_i12_a_table_that_is_renamed_while_its_events_are_read_is_seen_by_principals_that_may_see_it(
    realm: Realm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I13, too: the cursor passes no event of it."""
    realm.grant("schema", "main.sales", "ann", "USE SCHEMA")
    realm.grant("table", "main.sales.t1", "ann", "SELECT")
    for reads in range(1, 4):
        realm.open()  # no name is known yet
        left = [reads]
        current = Authorizer.current_since

        def renamed_meanwhile(self: Authorizer, catalog: str) -> Any:
            tree = current(self, catalog)  # noqa: B023
            left[0] -= 1  # noqa: B023
            if left[0] == 0:  # noqa: B023
                path = f"/v1/catalogs/main/namespaces/sales/tables/t{reads}/rename"  # noqa: B023
                realm.must("POST", path, {"name": f"t{reads + 1}"})  # noqa: B023
            return tree

        with monkeypatch.context() as patch:
            patch.setattr(Authorizer, "current_since", renamed_meanwhile)
            kinds = [kind for kind, _ in seen(realm)]
        assert kinds[:2] == ["created", "ratified"]
        if left[0] > 0:
            break
    assert reads > 2, "the tree was read often enough to be renamed in between"


def test_i12_the_creator_of_a_new_namespace_sees_nothing_of_what_was_in_the_one_before(realm: Realm) -> None:
    realm.must("POST", "/v1/catalogs/main/namespaces", {"name": "pay"})
    realm.create("roll", "pay")
    append(realm.world)
    realm.must("DELETE", "/v1/catalogs/main/namespaces/pay/tables/roll")
    realm.must("DELETE", "/v1/catalogs/main/namespaces/pay")
    append(realm.world)
    realm.grant("catalog", "main", "ann", "CREATE SCHEMA")
    assert realm.ask("ann", "POST", "/v1/catalogs/main/namespaces", {"name": "pay"}).status == 201
    assert seen(realm) == []
    realm.create("roll", "pay")
    append(realm.world)
    assert seen(realm) == [("created", "main.pay.roll")]
    realm.own("catalog", "main", "ann")
    realm.world.clock.now += 10_000
    assert [kind for kind, name in seen(realm) if name == "main.pay.roll"] == ["created", "dropped", "created"]


def test_i12_the_creator_of_a_new_catalog_sees_nothing_of_the_one_before(realm: Realm) -> None:
    realm.must("DELETE", B + "/catalogs/main", force="true")
    append(realm.world)
    realm.must("POST", "/v1/catalogs", {"name": "main"})
    realm.own("catalog", "main", "ann")
    append(realm.world)
    answer = realm.ask("ann", "GET", EVENTS, catalog="main")
    assert types(answer) == ["catalog.created"]
    assert {"table.created", "catalog.dropped"} <= set(types(realm.ask("root", "GET", EVENTS, catalog="main")))


def test_i12_a_cursor_passes_what_one_may_not_see(realm: Realm) -> None:
    page = realm.ask("ann", "GET", EVENTS, catalog="main").json
    assert page["events"] == []
    realm.grant("schema", "main.hr", "ann", "USE SCHEMA", "SELECT")
    assert seen(realm, after=page["cursor"]) == [] and seen(realm) == [("created", "main.hr.t9")]


# -- the command line -------------------------------------------------------------------------------------------------


def test_the_command_line_shows_events_for_people_and_for_programs() -> None:
    event = {"type": "turnstile.table.ratified", "subject": "x", "time": "2026-02-02T04:40:00.123Z",
             "data": {"name": "main.default.t", "version": 5}}  # fmt: skip
    answers = {
        "GET /v1/events?catalog=main&limit=1000&wait_s=0": (200, {"events": [event], "cursor": "c1"}),
        "GET /v1/events?catalog=main&limit=1000&after=c1&wait_s=0": (200, {"events": [], "cursor": "c2"}),
        "GET /v1/events?catalog=main&limit=1000&after=c2&wait_s=0": (200, {"events": [], "cursor": "c2"}),
        "GET /v1/events?catalog=main&limit=1000&after=gone&wait_s=0": (
            410, {"error": {"type": "CursorExpired", "message": "not kept", "remedy": "begin with 'now'", "code": 410}},
        ),
    }  # fmt: skip
    with service(answers) as canned:
        lines = run("events", "--url", canned.url, "-o", "json").stdout.splitlines()
        assert [json.loads(line) for line in lines] == [event, {"cursor": "c2"}]
        shown = run("events", "--url", canned.url).stdout
        assert (
            "2026-02-02 04:40:00.123Z" in shown and "table.ratified" in shown and "main.default.t  version=5" in shown
        )
        expired = run("events", "--url", canned.url, "--after", "gone")
        assert (expired.exit_code, "begin with 'now'" in expired.stderr) == (4, True)


def test_the_command_line_follows_over_an_answer_that_fails_until_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "sleep", lambda _: answers.update(later))
    answers: dict[str, Any] = {
        "GET /v1/events?catalog=main&limit=1000&wait_s=0": (200, {"events": [], "cursor": "c1"}),
        "GET /v1/events?catalog=main&limit=1000&after=c1&wait_s=20": (503, {"error": {"type": "StorageFault"}}),
    }
    later = {
        "GET /v1/events?catalog=main&limit=1000&after=c1&wait_s=20": (200, {"events": [], "cursor": "c2"}),
        "GET /v1/events?catalog=main&limit=1000&after=c2&wait_s=20": (403, {"error": {"type": "PermissionDenied"}}),
    }
    with service(answers) as canned:
        ended = run("events", "--follow", "--url", canned.url, "-o", "json")
        assert ended.exit_code == 4
        assert [path.partition("after=")[2][:2] for _, path, _, _ in canned.seen] == ["", "c1", "c1", "c2"]
