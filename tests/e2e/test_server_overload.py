"""What a server answers to others while clients hold connections, bodies and waits (I12)."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final
from uuid import uuid4

import httpx
import pytest

from turnstile_server import Server
from turnstile_server.settings import ServerSettings

OPERATOR = "an operator's token"
READER = "a reader's token"
IDLE: Final = 1_100
"""More than the thousand connections at which granian stops, by default, to take any."""

THREADS: Final = 4


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("overload")
    reader = {hashlib.sha256(READER.encode()).hexdigest(): {"name": "reader", "roles": []}}
    environment = {"TURNSTILE_TOKENS": json.dumps(reader)}
    settings = ServerSettings(str(home), threads=THREADS)
    with Server.start(home, 0, OPERATOR, settings=settings, environment=environment) as running:
        yield running


def connect(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def ask(server: Server, method: str, path: str, token: str = "", body: object = None) -> tuple[int, object]:
    """One request on a connection of its own."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as api:
        answer = api.request(method, path, headers=headers, json=body)
    return answer.status_code, answer.json() if answer.content else None


def is_open(wire: socket.socket) -> bool:
    """Whether the server has neither closed the connection nor sent anything."""
    wire.setblocking(False)
    try:
        wire.recv(1)
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False


def require_open(server: Server) -> None:
    """Health, reads and changes are answered."""
    for path in ("/healthz", "/readyz"):
        assert ask(server, "GET", path)[0] == 200, path
    assert ask(server, "GET", "/v1/catalogs", OPERATOR)[0] == 200
    status, told = ask(server, "POST", "/v1/catalogs/main/namespaces", OPERATOR, {"name": f"n{uuid4().hex[:8]}"})
    assert status == 201, told


KINDS = {
    "silent": b"",
    "in the middle of a header": b"GET /v1/catalogs HTTP/1.1\r\nHost: local",
    "kept alive": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


@pytest.mark.parametrize("kind", KINDS)
def test_i12_more_than_a_thousand_idle_connections_do_no_harm(guarded: Server, kind: str) -> None:
    with ExitStack() as wires:
        idle = [wires.enter_context(closing(connect(guarded))) for _ in range(IDLE)]
        for wire in idle:
            wire.sendall(KINDS[kind])
        if kind == "kept alive":
            for wire in idle:
                assert wire.recv(4_096).startswith(b"HTTP/1.1 200")
        require_open(guarded)
        assert all(is_open(wire) for wire in idle), "the server has not made room by closing them"


@pytest.mark.parametrize("length", [b"Content-Length: 100000\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_i12_bodies_of_a_principal_that_never_come_leave_the_server_to_all_others(
    guarded: Server, length: bytes
) -> None:
    head = b"POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {READER}\r\n".encode()
    with ExitStack() as wires:
        for _ in range(10 * THREADS):
            wire = wires.enter_context(closing(connect(guarded)))
            wire.sendall(head + length + b"\r\n" + (b"1\r\n{\r\n" if b"chunked" in length else b"{"))
        for _ in range(2 * THREADS):
            require_open(guarded)
        assert ask(guarded, "GET", "/v1/catalogs", READER)[0] == 200


def test_i12_waits_for_events_of_a_principal_leave_the_server_to_all_others(guarded: Server) -> None:
    _, first = ask(guarded, "GET", "/v1/events?catalog=main&after=now", OPERATOR)
    assert isinstance(first, dict)
    request = f"GET /v1/events?catalog=main&wait_s=20&after={first['cursor']} HTTP/1.1\r\nHost: localhost\r\n"
    request += f"Authorization: Bearer {OPERATOR}\r\n\r\n"
    with ExitStack() as wires:
        for _ in range(4 * THREADS):
            wires.enter_context(closing(connect(guarded))).sendall(request.encode())
        require_open(guarded)


def test_a_body_that_does_not_come_is_answered_and_the_server_goes_on(tmp_path: Path) -> None:
    settings = ServerSettings(str(tmp_path / "home"), threads=2, body_s=0.5)
    head = (
        b"POST /v1/catalogs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
        b"100\r\n\r\n"
    )
    with Server.start(tmp_path / "home", 0, settings=settings) as server, ExitStack() as wires:
        late = [wires.enter_context(closing(connect(server))) for _ in range(4)]
        for wire in late:
            wire.sendall(head + b"{")
        for wire in late:
            answer = http.client.HTTPResponse(wire)
            answer.begin()
            assert answer.status == 429
            assert "did not come in time" in json.load(answer)["error"]["message"]
            assert (answer.headers["Retry-After"], answer.headers["Connection"]) == ("1", "close")
        require_open(server)
