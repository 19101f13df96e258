"""Events of a server over real HTTP, while its processes are killed: each version once, in order,
and none is missing (I13)."""

from __future__ import annotations

import base64
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx_sse import EventSource

from tests.histories.killing import needs_proc
from tests.support.clients.deaths import WORKERS, Writer, kill
from tests.support.clients.inbox import Inbox
from tests.support.server import alive
from tests.support.stack import Table, until
from turnstile_server import Server
from turnstile_server.errors import ServerError
from turnstile_server.home import Home, is_locked

pytestmark = needs_proc
KILLS = 3
SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox() as served:
        yield served


def to(inbox: Inbox) -> dict[str, str]:
    """The variables of a server that sends its events there."""
    return {"TURNSTILE_EVENT_TARGETS": f"inbox={inbox.url}", "TURNSTILE_EVENT_SECRET": SECRET}


class Follower:
    """Follows the events of ``main`` over deaths of the server, from one cursor to the next."""

    def __init__(self, server: Server) -> None:
        self._api = server.client()
        self.events: list[dict[str, Any]] = []
        self._over = threading.Event()
        self._faults = list[BaseException]()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        cursor = ""
        try:
            while not self._over.is_set():
                try:
                    answer = self._get(cursor)
                except httpx.TransportError:
                    self._over.wait(0.05)
                    continue
                if answer.status_code >= 500:
                    continue
                assert answer.status_code == 200, answer.text
                events, cursor = self._page(answer)
                self.events += events
        except BaseException as fault:  # told by stop()
            self._faults.append(fault)

    def _get(self, cursor: str) -> httpx.Response:
        after = {"after": cursor} if cursor else {}
        return self._api.get("/v1/events", params={"catalog": "main", "wait_s": "2", **after})

    def _page(self, answer: httpx.Response) -> tuple[list[dict[str, Any]], str]:
        """The events of an answer, and the cursor behind them."""
        return answer.json()["events"], answer.json()["cursor"]

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=60)
        assert not self._faults, self._faults


class StreamFollower(Follower):
    """The same by server-sent events."""

    def _get(self, cursor: str) -> httpx.Response:
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": cursor} if cursor else {})
        return self._api.get("/v1/events", params={"catalog": "main", "wait_s": "2"}, headers=headers)

    def _page(self, answer: httpx.Response) -> tuple[list[dict[str, Any]], str]:
        *messages, end = EventSource(answer).iter_sse()
        return [message.json() for message in messages], end.id


def versions(events: list[dict[str, Any]], table: Table, kind: str = "ratified") -> list[int]:
    wanted = f"turnstile.table.{kind}"
    return [event["data"]["version"] for event in events if event["subject"] == table.id and event["type"] == wanted]


def check(events: Callable[[], list[dict[str, Any]]], writers: list[Writer]) -> None:
    """Every version has its event, once and in order."""
    for writer in writers:
        table = writer.table
        latest = writer.table.get("head")["latest"]
        until(lambda: max(versions(events(), table), default=0) >= latest, "all events are there")  # noqa: B023
        assert versions(events(), table) == list(range(1, latest + 1))
        published = versions(events(), table, "published")
        assert published == sorted(set(published)) and published[-1] <= latest
    ids = [event["id"] for event in events()]
    assert len(ids) == len(set(ids))


def test_i13_no_event_is_missing_or_doubled_when_processes_are_killed(tmp_path: Path) -> None:
    with Server.start(tmp_path / "home", 0, workers=WORKERS) as server:
        writers = [Writer(server) for _ in range(2)]
        follower = Follower(server)
        for number in range(2 * KILLS):
            for writer in writers:
                writer.more()
            kill(server, ("background", "http")[number % 2])
        for writer in writers:
            writer.more()
            writer.stop()
        check(lambda: follower.events, writers)
        follower.stop()


def test_i13_i14_no_event_is_missing_or_doubled_when_the_whole_server_is_killed(tmp_path: Path, inbox: Inbox) -> None:
    server = Server.start(tmp_path / "home", 0, workers=WORKERS, environment=to(inbox))
    writers = [Writer(server) for _ in range(2)]
    followers = [Follower(server), StreamFollower(server)]
    for _ in range(KILLS):
        for writer in writers:
            writer.more()
        pids = server.pids
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(alive, pids)), "its processes have ended")  # noqa: B023 - waited for here
        until(lambda: not is_locked(Home.at(server.home).lock), "the lock of the home is free")  # noqa: B023
        server = Server.start(server.home, workers=WORKERS, environment=to(inbox))
    for writer in writers:
        writer.more()
        writer.stop()
    for follower in followers:
        check(lambda: follower.events, writers)  # noqa: B023
        follower.stop()
    check(inbox.first_seen, writers)
    server.stop()


def test_i14_a_webhook_that_fails_for_a_time_gets_every_event_in_order_while_processes_are_killed(
    tmp_path: Path, inbox: Inbox
) -> None:
    with Server.start(tmp_path / "home", 0, workers=WORKERS, environment=to(inbox)) as server:
        writers = [Writer(server) for _ in range(2)]
        for number in range(KILLS):
            inbox.status = (500, 204, 307)[number]
            asked = len(inbox.requests)
            for writer in writers:
                writer.more()
            until(lambda: len(inbox.requests) > asked, "it is tried")  # noqa: B023
            kill(server, "background")
        inbox.status = 200
        for writer in writers:
            writer.more()
            writer.stop()
        check(inbox.first_seen, writers)
        with server.client() as api:
            figures = api.get("/metrics").text
        assert 'turnstile_event_delivery_failures_total{target="inbox"}' in figures


def test_a_target_that_cannot_be_used_ends_the_start_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="TURNSTILE_EVENT_TARGETS: the target 'nonsense' is no webhook"):
        Server.start(tmp_path / "home", 0, environment={"TURNSTILE_EVENT_TARGETS": "nonsense"})


def test_i17_an_action_is_asked_for_after_publications_by_the_rule_of_a_namespace(tmp_path: Path, inbox: Inbox) -> None:
    actions = {"TURNSTILE_FOLLOW_UPS": f"cache={inbox.url}", "TURNSTILE_EVENT_SECRET": SECRET}
    server = Server.start(tmp_path / "home", 0, environment=actions)
    try:
        rule = {"set": {"follow-ups": "cache after 3 commits, unknown on publish"}}
        with server.client() as api:
            path = "/v1/catalogs/main/namespaces/default/maintenance-policy"
            assert api.patch(path, json=rule).status_code == 200
            refused = api.patch(path, json={"set": {"follow-ups": "https://example.com on publish"}})
            assert (refused.status_code, "follow-ups" in refused.text) == (400, True)
        table = Table(server)
        inbox.status = 503
        for version in range(1, 5):
            table.append(version)
            table.settled(60)
        until(lambda: inbox.requests, "the action was asked for")
        inbox.status = 204
        with server.client() as api:
            until(lambda: _follow_ups(api, table)["cache"]["failures"], "the failure was noted")
            states = _follow_ups(api, table)
        assert states["cache"]["reason"] == "answered 503"
        assert states["unknown"]["done_ms"] == 0
        (event,) = json.loads(inbox.requests[0].body)
        assert (event["type"], event["subject"]) == ("turnstile.table.follow-up", table.id)
        assert event["data"]["action"] == "cache"
        assert event["data"]["version"] - event["data"]["first_version"] >= 2
    finally:
        server.stop()
    with pytest.raises(ServerError, match="TURNSTILE_FOLLOW_UPS: the action 'f' names no function"):
        Server.start(tmp_path / "other", 0, environment={"TURNSTILE_FOLLOW_UPS": "f=lambda:"})


def _follow_ups(api: httpx.Client, table: Table) -> dict[str, dict[str, Any]]:
    return {each["action"]: each for each in api.get(f"/v1/tables/{table.id}/maintenance").json()["follow_ups"]}
