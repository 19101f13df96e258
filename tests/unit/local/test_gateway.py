"""The gateway in front of the emulator: the requests that reach it, refusals after a kill, and its
record of the last run (I1)."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.local.asgi import GUARD, KEY, request, signed
from turnstile_local.gateway import Checkpoint, Gateway
from turnstile_local.guards import Message, Receive, Scope, Send
from turnstile_local.home import Layout

TABLES = b"DynamoDB_20120810.UpdateItem"


class Emulator:
    """Notes what reaches it, and answers as the emulator does: to every origin."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, scope: Scope, _receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Access-Control-Allow-Origin", b"*")]})
        await send({"type": "http.response.body", "body": b"{}"})


class Site:
    def __init__(self, home: Path, *, is_open: bool) -> None:
        self.layout = Layout.at(home)
        self.emulator = Emulator()
        self.layout.create()
        self.checkpoint = Checkpoint(self.layout)
        self.gateway = Gateway(self.emulator, GUARD, {"pid": 1}, self.checkpoint, is_open=is_open)

    def send(self, scope: Scope) -> tuple[int, dict[bytes, bytes], Any]:
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b""}

        async def send(message: Message) -> None:
            sent.append(message)

        asyncio.run(self.gateway(scope, receive, send))
        return sent[0]["status"], dict(sent[0]["headers"]), json.loads(sent[1]["body"])


@pytest.fixture
def closed(tmp_path: Path) -> Site:
    return Site(tmp_path, is_open=False)


def test_i1_after_a_kill_the_api_answers_nothing_until_the_holder_of_the_key_opens_it(closed: Site) -> None:
    for method in ("GET", "POST"):
        status, headers, document = closed.send(request("/v1/tables/x/commits", method=method))
        assert (status, headers[b"retry-after"], document["error"]["type"]) == (503, b"1", "Unavailable")
    assert closed.send(request("/_turnstile/open", method="POST"))[0] == 403
    assert closed.send(request("/_turnstile/open", authorization=signed(KEY)))[0] == 200, "a GET opens nothing"
    assert closed.send(request("/v1"))[0] == 503 and closed.emulator.paths == []
    assert closed.send(request("/2015-03-31/functions", authorization=signed(KEY)))[0] == 200
    assert closed.send(request("/_turnstile/open", method="POST", authorization=signed(KEY)))[0] == 200
    assert closed.send(request("/v1"))[0] == 200
    assert closed.emulator.paths == ["/2015-03-31/functions", "/_aws/execute-api/turnstile/$default/v1"]


def test_i12_what_is_refused_does_not_reach_the_emulator_and_answers_allow_no_origin(tmp_path: Path) -> None:
    site = Site(tmp_path, is_open=True)
    assert site.send(request("/v1", origin="https://evil.example"))[0] == 403
    assert site.send(request("/2015-03-31/functions"))[0] == 403
    assert site.emulator.paths == []
    status, headers, _ = site.send(request("/v1"))
    assert status == 200 and headers == {}


def test_a_websocket_is_closed(tmp_path: Path) -> None:
    site = Site(tmp_path, is_open=True)
    sent = []

    async def send(message: Message) -> None:
        sent.append(message["type"])

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    asyncio.run(site.gateway({"type": "websocket", "path": "/v1", "headers": []}, receive, send))
    assert sent == ["websocket.close"] and site.emulator.paths == []


# -- what is known of the last run -------------------------------------------------------------------------------------


def test_a_first_start_and_one_after_an_orderly_stop_have_lost_nothing(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path)
    layout.create()
    for _ in range(2):
        layout.note_start()
        assert layout.running.exists() and not layout.recovery_marker.exists()
        layout.note_end(saved=True)
        assert not layout.running.exists()


@pytest.mark.parametrize("kind", ["killed", "not saved"])
def test_i1_a_start_after_a_kill_knows_since_when_state_is_lost_until_it_is_made_up_for(
    tmp_path: Path, kind: str
) -> None:
    layout = Layout.at(tmp_path)
    layout.create()
    layout.note_start()
    layout.tables.write_text("{}")
    os.utime(layout.tables, (1_000_000, 1_000_000))
    if kind == "not saved":
        layout.note_end(saved=False)
    for _ in range(2):  # also the next one, if nobody did
        layout.note_start()
        assert layout.recovery_marker.stat().st_mtime == 1_000_000
        layout.tables.write_text("{} ")
        layout.note_end(saved=True)
        assert layout.recovery_marker.exists()


def test_tables_that_are_older_than_their_last_change_are_not_saved(tmp_path: Path) -> None:
    layout = Layout.at(tmp_path)
    layout.create()
    checkpoint = Checkpoint(layout)
    assert checkpoint.is_saved(), "nothing was written, nothing is missing"
    checkpoint.note([(b"x-amz-target", TABLES)])
    assert not checkpoint.is_saved()
    layout.tables.write_text("{}")
    assert checkpoint.is_saved()
    os.utime(layout.tables, (time.time() - 60, time.time() - 60))
    assert not checkpoint.is_saved()
