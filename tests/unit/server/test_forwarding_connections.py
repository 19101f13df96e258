"""Requests between servers: both sides prove their identity, and a request without the order to
begin has not begun."""

from __future__ import annotations

import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from turnstile.fleet.core import forwarded as words
from turnstile.fleet.core.forwarded import Failed, ForwardedRequest, ForwardedResponse, Reached, Receive, Send
from turnstile.fleet.core.owners import Address, Owners
from turnstile_server.fleet import forwarding
from turnstile_server.fleet.forwarding import Listener, OwnerClient, OwnersFile, SocketConnection, Subject, subject_of

pytestmark = pytest.mark.timeout(120)

HOST = "127.0.0.1"
REQUEST = ForwardedRequest("POST", "/v1/catalogs/main/namespaces", "a=b", {"authorization": "Bearer t"}, b"{}")
FRAME = Send(words.encode(REQUEST), 30, framed=True)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late."""
    monkeypatch.setattr(words, "TAKEN_S", 30.0)
    monkeypatch.setattr(forwarding, "CONNECT_S", 30.0)


class Owner:
    """A listener that runs in a thread."""

    def __init__(self, answer: Callable[[ForwardedRequest], ForwardedResponse] | None = None) -> None:
        self.asked: list[ForwardedRequest] = []
        self._reply = answer or (lambda request: ForwardedResponse(200, {"x": "y"}, request.body * 2))
        self.listener = Listener(HOST, 0, "secret", self._answer)
        self.address = Address(HOST, self.listener.port, "secret")
        self._thread = threading.Thread(target=self.listener.run, daemon=True)
        self._thread.start()

    def _answer(self, request: ForwardedRequest) -> ForwardedResponse:
        self.asked.append(request)
        return self._reply(request)

    def close(self) -> None:
        self.listener.close()
        self._thread.join(30)
        assert not self._thread.is_alive()


@pytest.fixture
def owner() -> Iterator[Owner]:
    one = Owner()
    yield one
    one.close()


def test_the_owner_gets_the_request_as_it_is_and_its_response_comes_back(owner: Owner) -> None:
    asker = OwnerClient()
    assert asker.ask(owner.address, REQUEST) == ForwardedResponse(200, {"x": "y"}, b"{}{}")
    large = ForwardedRequest("POST", "/", "", {}, b"x" * 3_000_000)
    assert asker.ask(owner.address, large).body == b"x" * 6_000_000
    assert owner.asked == [REQUEST, large]
    assert len(asker._idle[owner.address]) == 1, "the second request went over the same connection"


def test_many_ask_at_once(owner: Owner) -> None:
    asker = OwnerClient()
    bodies = list[bytes]()

    def ask(number: int) -> None:
        bodies.append(asker.ask(owner.address, ForwardedRequest("POST", "/", "", {}, str(number).encode())).body)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(bodies) == sorted(str(number).encode() * 2 for number in range(20))


def test_a_caller_that_does_not_know_the_secret_is_not_answered(owner: Owner) -> None:
    with pytest.raises(Failed) as failed:
        OwnerClient().ask(Address(HOST, owner.address.port, "another"), REQUEST)
    assert failed.value.reached is Reached.NOT_SENT
    with socket.create_connection((HOST, owner.address.port), 30) as stranger:
        stranger.settimeout(30)
        stranger.sendall(b"n" * 32)
        assert len(forwarding._exactly(stranger, 64)) == 64
        stranger.sendall(b"p" * 32)  # no proof
        SocketConnection(stranger).send(FRAME)
        assert stranger.recv(1) == b""
    assert owner.asked == []


def listening(serve: Callable[[socket.socket], None]) -> tuple[Address, threading.Thread]:
    """Somebody else at an address, who serves one connection."""
    listener = socket.create_server((HOST, 0))

    def run() -> None:
        with listener:
            connection, _ = listener.accept()
            with connection:
                serve(connection)

    thread = threading.Thread(target=run, daemon=True)
    address = Address(HOST, listener.getsockname()[1], "secret")
    thread.start()
    return address, thread


def knows_the_secret(connection: socket.socket) -> None:
    theirs = forwarding._exactly(connection, 32)
    own = b"o" * 32
    connection.sendall(own + forwarding._proof("secret", b"owner", theirs + own))
    forwarding._exactly(connection, 32)


def test_a_token_is_not_sent_to_another_server_at_the_same_address() -> None:
    received = bytearray()

    def serve(connection: socket.socket) -> None:
        connection.settimeout(30)
        received.extend(connection.recv(1000))
        connection.sendall(b"o" * 64)
        while part := connection.recv(1000):
            received.extend(part)

    address, thread = listening(serve)
    with pytest.raises(Failed) as failed:
        OwnerClient().ask(address, REQUEST)
    thread.join(30)
    assert failed.value.reached is Reached.NOT_SENT
    assert len(received) == 32, "a nonce, and nothing else"


def test_no_server_at_the_address() -> None:
    listener = socket.create_server((HOST, 0))
    address = Address(HOST, listener.getsockname()[1], "secret")
    listener.close()
    with pytest.raises(Failed) as failed:
        OwnerClient().ask(address, REQUEST)
    assert failed.value.reached is Reached.NOT_SENT


def test_an_owner_that_is_frozen_has_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    begun = list[bytes]()

    def serve(connection: socket.socket) -> None:
        knows_the_secret(connection)
        SocketConnection(connection).receive(Receive(30, framed=True))
        told.wait(30)  # frozen, and the asker has gone when it goes on
        connection.settimeout(30)
        begun.append(connection.recv(1))

    address, thread = listening(serve)
    monkeypatch.setattr(words, "TAKEN_S", 0.05)
    with pytest.raises(Failed) as failed:
        OwnerClient().ask(address, REQUEST)
    assert failed.value.reached is Reached.NOT_STARTED
    told.set()
    thread.join(30)
    assert begun == [b""], "it was never told to begin"


def test_i3_an_owner_that_dies_after_it_began_leaves_the_outcome_open() -> None:
    def serve(connection: socket.socket) -> None:
        knows_the_secret(connection)
        SocketConnection(connection).receive(Receive(30, framed=True))
        connection.sendall(words.TAKEN)
        assert forwarding._exactly(connection, 1) == words.BEGIN

    address, thread = listening(serve)
    with pytest.raises(Failed) as failed:
        OwnerClient().ask(address, REQUEST)
    thread.join(30)
    assert failed.value.reached is Reached.STARTED


def test_an_asker_that_leaves_before_it_says_begin_changes_nothing(owner: Owner) -> None:
    asker = OwnerClient()
    connection = asker._connection(owner.address)
    connection.send(FRAME)
    assert connection.receive(Receive(30)) == words.TAKEN
    connection.close()
    asker.ask(owner.address, ForwardedRequest("POST", "/after", "", {}, b""))
    assert [request.path for request in owner.asked] == ["/after"]


def test_a_connection_that_the_owner_closed_meanwhile_is_not_used() -> None:
    first = Owner()
    asker = OwnerClient()
    asker.ask(first.address, REQUEST)
    (idle,) = asker._idle[first.address]
    assert isinstance(idle, SocketConnection)
    idle._socket.shutdown(socket.SHUT_RDWR)
    assert asker.ask(first.address, REQUEST).status == 200
    first.close()
    assert len(first.asked) == 2


def test_a_request_that_is_too_large_is_applied_where_it_is(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "FRAME_BYTES", 1000)
    with pytest.raises(Failed) as failed:
        OwnerClient().ask(owner.address, ForwardedRequest("POST", "/", "", {}, b"x" * 1000))
    assert failed.value.reached is Reached.NOT_SENT


def test_the_view_of_the_background_is_read_by_its_own_processes_only(tmp_path: Path) -> None:
    writer = OwnersFile(tmp_path / "owners")
    reader = OwnersFile(tmp_path / "owners")
    assert reader.read() == Owners()
    for until_ms in (1, 2):
        owners = Owners(until_ms, 4, {"catalogs/1": Address(HOST, 80, "secret")})
        writer.write(owners)
        assert reader.read() == owners
    assert stat.S_IMODE((tmp_path / "owners").stat().st_mode) == 0o600
    (tmp_path / "owners").write_bytes(b"{")
    assert reader.read() == Owners()


def test_only_changes_of_catalogs_are_asked_for() -> None:
    assert subject_of("PATCH", "/v1/catalogs/{catalog}/namespaces/{namespace}", {"catalog": "Main"}) == Subject("main")
    assert subject_of("POST", "/iceberg/v1/{prefix}/transactions/commit", {"prefix": "main"}) == Subject("main")
    assert subject_of("GET", "/v1/catalogs/{catalog}/namespaces/{namespace}", {"catalog": "main"}) is None
    assert subject_of("POST", "", {}) is None


def test_a_commit_is_of_its_table_by_id_or_by_name() -> None:
    route = "/v1/tables/{table_id}/commits"
    assert subject_of("POST", route, {"table_id": "x"}) == Subject("table/x", is_table=True, is_commit=True)
    assert subject_of("GET", route, {"table_id": "x"}) is None
    unity = "/api/2.1/unity-catalog/delta/v1/catalogs/{catalog}/schemas/{schema}/tables/{table}"
    named = {"catalog": "Main", "schema": "s", "table": "T"}
    assert subject_of("POST", unity, named) == Subject("table/main.s.t", is_table=True)
    assert subject_of("GET", unity, named) is None
