"""How servers of a fleet ask each other: connections on which both sides prove that they read the same row, and requests that are certain
not to have begun unless they were told to.

    asker                                  owner
      nonce                        ->
                                   <-      nonce, proof that it knows the secret
      proof                        ->                                          (once for each connection)

      request                      ->
                                   <-      "taken": somebody lives here
      "begin"                      ->
                                   <-      response                            (for each request)

An owner that is frozen says nothing at "taken", so the asker knows that nothing happened and applies the change itself. Only between "begin" and
the response an outcome can be unknown. The owner authenticates and authorizes the request by the caller's own token, as if the caller had sent it
there: what the asker says is not believed. Connections are not encrypted; the network between the servers has to be trusted, or tunnelled.
"""

from __future__ import annotations

import hmac
import secrets
import select
import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from turnstile.fleet.core.owners import Address, Owners, Reached
from turnstile_server.struct_file import StructFile

FRAME_BYTES: Final = 8 * 1024 * 1024
"""The largest request or response."""

CONNECTIONS_MOST: Final = 256
"""Connections that an owner keeps; askers beyond apply their changes themselves."""

IDLE_MOST: Final = 64
"""Idle connections to one owner that an asker keeps."""

CONNECT_S: Final = 0.5
TAKEN_S: Final = 0.5
ANSWER_S: Final = 20.0
"""How long an asker waits: longer than a change tries."""

IDLE_S: Final = 60.0

LOOK_S: Final = 1.0
"""How often a listener looks whether it is to end."""

_TAKEN: Final = b"\x01"
_BEGIN: Final = b"\x02"
_LENGTH: Final = struct.Struct(">I")
_NONCE_BYTES: Final = 32


class AskedRequest(msgspec.Struct, array_like=True):
    """A request as the caller sent it."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class AskedResponse(msgspec.Struct, array_like=True):
    """The owner's response to it."""

    status: int
    headers: dict[str, str]
    body: bytes


class Failed(Exception):
    """There is no answer of the owner. ``reached``: how far the request came."""

    def __init__(self, reached: Reached, why: object) -> None:
        super().__init__(f"{reached.value}: {why}")
        self.reached = reached


_encode: Final = msgspec.msgpack.Encoder().encode
_request: Final = msgspec.msgpack.Decoder(AskedRequest).decode
_response: Final = msgspec.msgpack.Decoder(AskedResponse).decode


def _proof(secret: str, side: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret.encode(), side + nonces, "sha256")


def _send(connection: socket.socket, payload: bytes) -> None:
    connection.sendall(_LENGTH.pack(len(payload)) + payload)


def _receive(connection: socket.socket, most: int = FRAME_BYTES) -> bytes:
    """Returns one frame. Raises OSError, ConnectionError for one that is cut off or too large."""
    (length,) = _LENGTH.unpack(_exactly(connection, _LENGTH.size))
    if length > most:
        raise ConnectionError(f"a frame of {length} bytes")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = connection.recv(min(count - len(received), 1 << 16))
        if not part:
            raise ConnectionError("the connection was closed")
        received += part
    return bytes(received)


class Asker:
    """Asks owners. Safe for threads: each request has a connection of its own while it is under way."""

    def __init__(self) -> None:
        self._idle: dict[Address, list[socket.socket]] = defaultdict(list)
        self._mutex = threading.Lock()

    def ask(self, address: Address, request: AskedRequest) -> AskedResponse:
        """Returns the owner's response. Raises Failed."""
        try:
            payload = _encode(request)
            if len(payload) > FRAME_BYTES:
                raise ConnectionError("the request is too large")
            connection = self._connection(address)
        except OSError as error:
            raise Failed(Reached.NOT_SENT, error) from error
        reached = Reached.NOT_STARTED
        try:
            connection.settimeout(TAKEN_S)
            _send(connection, payload)
            if _exactly(connection, 1) != _TAKEN:
                raise ConnectionError("no word of this protocol")
            connection.settimeout(ANSWER_S)
            reached = Reached.STARTED
            connection.sendall(_BEGIN)
            response = _response(_receive(connection))
        except (OSError, msgspec.DecodeError) as error:
            connection.close()
            raise Failed(reached, error) from error
        self._keep(address, connection)
        return response

    def _connection(self, address: Address) -> socket.socket:
        with self._mutex:
            idle = self._idle[address]
            while idle:
                connection = idle.pop()
                if not select.select([connection], [], [], 0)[0]:
                    return connection
                connection.close()  # by the other side
        connection = socket.create_connection((address.host, address.port), CONNECT_S)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.settimeout(CONNECT_S)
            own = secrets.token_bytes(_NONCE_BYTES)
            connection.sendall(own)
            theirs = _exactly(connection, _NONCE_BYTES)
            if not hmac.compare_digest(
                _exactly(connection, _NONCE_BYTES), _proof(address.secret, b"owner", own + theirs)
            ):
                raise ConnectionError("somebody else listens there")
            connection.sendall(_proof(address.secret, b"asker", own + theirs))
        except OSError:
            connection.close()
            raise
        return connection

    def _keep(self, address: Address, connection: socket.socket) -> None:
        with self._mutex:
            for gone in [other for other in self._idle if other.host == address.host and other.port == address.port]:
                if gone != address:  # a process that was there before
                    for idle in self._idle.pop(gone):
                        idle.close()
            if len(self._idle[address]) < IDLE_MOST:
                self._idle[address].append(connection)
                return
        connection.close()


Answer = Callable[[AskedRequest], AskedResponse]


class Listener:
    """Answers those who ask: a thread for each connection, of which there are ``CONNECTIONS_MOST``."""

    def __init__(self, host: str, port: int, secret: str, answer: Answer) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=CONNECTIONS_MOST)
        self._listener.settimeout(LOOK_S)
        self._secret, self._answer = secret, answer
        self._free = threading.BoundedSemaphore(CONNECTIONS_MOST)
        self._closing = threading.Event()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def run(self) -> None:
        """Accepts connections until ``close``."""
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                if self._closing.is_set():
                    return
                time.sleep(0.05)  # no file descriptor is free
                continue
            if not self._free.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), name="asked", daemon=True).start()

    def close(self) -> None:
        """Takes no further connections; requests under way are answered."""
        self._closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, suppress(OSError, msgspec.DecodeError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(CONNECT_S)
                theirs, own = _exactly(connection, _NONCE_BYTES), secrets.token_bytes(_NONCE_BYTES)
                connection.sendall(own + _proof(self._secret, b"owner", theirs + own))
                proof = _exactly(connection, _NONCE_BYTES)
                if not hmac.compare_digest(proof, _proof(self._secret, b"asker", theirs + own)):
                    return
                while not self._closing.is_set():
                    self._one(connection)
        finally:
            self._free.release()

    def _one(self, connection: socket.socket) -> None:
        connection.settimeout(IDLE_S)
        request = _request(_receive(connection))
        connection.settimeout(ANSWER_S)
        connection.sendall(_TAKEN)
        if _exactly(connection, 1) != _BEGIN:
            raise ConnectionError("no word of this protocol")
        _send(connection, _encode(self._answer(request)))


class OwnersFile(StructFile[Owners]):
    """What the background believes of owners, for the processes that answer requests."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, Owners())


_ROUTES: Final[Mapping[str, frozenset[str]]] = {
    **{
        f"/v1/catalogs/{{catalog}}{below}": frozenset(methods.split())
        for below, methods in {
            "/namespaces": "POST",
            "/namespaces/{namespace}": "PATCH DELETE",
            "/namespaces/{namespace}/rename": "POST",
            "/namespaces/{namespace}/tables": "POST",
            "/namespaces/{namespace}/tables/{table}": "DELETE",
            "/namespaces/{namespace}/tables/{table}/rename": "POST",
            "/transactions": "POST",
        }.items()
    },
    **{
        f"/iceberg/v1/{{prefix}}{below}": frozenset(methods.split())
        for below, methods in {
            "/namespaces": "POST",
            "/namespaces/{namespace}": "DELETE",
            "/namespaces/{namespace}/properties": "POST",
            "/namespaces/{namespace}/tables": "POST",
            "/namespaces/{namespace}/tables/{table}": "POST DELETE",
            "/tables/rename": "POST",
            "/transactions/commit": "POST",
            "/namespaces/{namespace}/views": "POST",
            "/namespaces/{namespace}/views/{view}": "POST DELETE",
            "/views/rename": "POST",
        }.items()
    },
}
"""Operations that change a catalog, all of which take an idempotency key or an id. Others are applied where they arrive."""


def changed_catalog(method: str, route: str, params: Mapping[str, Any]) -> str:
    """Returns the catalog that a request changes by one of the operations that owners are asked for; empty for any other."""
    if method not in _ROUTES.get(route, ()):
        return ""
    return str(params.get("catalog") or params.get("prefix") or "")
