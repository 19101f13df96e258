"""Forwarding between servers of a fleet: connections on which both sides prove that they read the
same row, and requests that an owner begins only after "begin".

    server                                 owner
      nonce                        ->
                                   <-      nonce, proof that it knows the secret
      proof                        ->                                   (once for each connection)

      request, "taken", "begin", response              (for each request, by ``fleet.core.forwarded``)

The owner authenticates and authorizes the request by the caller's own token, as if the caller had
sent it there; it trusts no claim of the other server. Connections are not encrypted: the network
between the servers has to be trusted, or tunnelled.
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
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import msgspec

from turnstile.api.unity.requests import TABLE as UNITY_TABLE
from turnstile.api.v1.paths import TABLE_BY_ID
from turnstile.catalog.core.paths import fold
from turnstile.fleet.core.forwarded import (
    Answer,
    Failed,
    ForwardedRequest,
    ForwardedResponse,
    Reached,
    Receive,
    Send,
    Step,
    answering,
    asking,
    encode,
)
from turnstile.fleet.core.owners import Address, Owners, table_subject
from turnstile_server.struct_file import StructFile

T = TypeVar("T")

FRAME_BYTES: Final = 80 * 1024 * 1024
"""The largest request or response: an Iceberg table's metadata with everything around it
(``http.METADATA_BYTES``)."""

CONNECTIONS_MOST: Final = 256
"""Connections that an owner keeps; askers beyond apply their changes themselves."""

IDLE_MOST: Final = 64
"""Idle connections to one owner that an asker keeps."""

CONNECT_S: Final = 0.5

LOOK_S: Final = 1.0
"""How often a listener looks whether it is to end."""

_LENGTH: Final = struct.Struct(">I")
_NONCE_BYTES: Final = 32


Answering = Callable[[ForwardedRequest], ForwardedResponse]
"""Carries out a request."""


class Connection(Protocol):
    """A connection on which both sides have proved their identity. Its methods raise OSError when
    it breaks, or when the time limit passes."""

    def send(self, step: Send) -> None: ...

    def receive(self, step: Receive) -> bytes: ...

    def is_fresh(self) -> bool:
        """Whether nothing was received, and the other side has not closed it."""
        ...

    def close(self) -> None: ...


def drive(side: Generator[Step, bytes, T], connection: Connection, answer: Answering | None = None) -> T:
    """Carries out one side of a request on a connection. Returns and raises as ``side``.
    ``answer``: makes an owner's response."""
    try:
        step = next(side)
        while True:
            received = b""
            try:
                match step:
                    case Send():
                        connection.send(step)
                    case Receive():
                        received = connection.receive(step)
                    case Answer():
                        assert answer is not None
                        received = encode(answer(step.request))
            except OSError as error:
                step = side.throw(error)
            else:
                step = side.send(received)
    except StopIteration as ended:
        response: T = ended.value
        return response


def serve(connection: Connection, answer: Answering, is_closing: Callable[[], bool]) -> None:
    """Answers one request after the other, until the connection is of no use any more or
    ``is_closing``."""
    with suppress(OSError, msgspec.DecodeError):
        while not is_closing():
            drive(answering(), connection, answer)


def _proof(secret: str, side: bytes, nonces: bytes) -> bytes:
    return hmac.digest(secret.encode(), side + nonces, "sha256")


class SocketConnection:
    """A ``Connection`` over TCP."""

    def __init__(self, socket: socket.socket) -> None:
        self._socket = socket

    def send(self, step: Send) -> None:
        self._socket.settimeout(step.within_s)
        self._socket.sendall(_LENGTH.pack(len(step.payload)) + step.payload if step.framed else step.payload)

    def receive(self, step: Receive) -> bytes:
        """Raises ConnectionError for a frame that is cut off or too large."""
        self._socket.settimeout(step.within_s)
        if not step.framed:
            return _exactly(self._socket, 1)
        (length,) = _LENGTH.unpack(_exactly(self._socket, _LENGTH.size))
        if length > FRAME_BYTES:
            raise ConnectionError(f"a frame of {length} bytes")
        return _exactly(self._socket, length)

    def is_fresh(self) -> bool:
        return not select.select([self._socket], [], [], 0)[0]

    def close(self) -> None:
        self._socket.close()


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = bytearray()
    while len(received) < count:
        part = connection.recv(min(count - len(received), 1 << 16))
        if not part:
            raise ConnectionError("the connection was closed")
        received += part
    return bytes(received)


def open_connection(address: Address) -> Connection:
    """Returns a new connection to the process that has the secret of ``address``. Raises
    OSError."""
    connection = socket.create_connection((address.host, address.port), CONNECT_S)
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(CONNECT_S)
        own = secrets.token_bytes(_NONCE_BYTES)
        connection.sendall(own)
        theirs = _exactly(connection, _NONCE_BYTES)
        if not hmac.compare_digest(_exactly(connection, _NONCE_BYTES), _proof(address.secret, b"owner", own + theirs)):
            raise ConnectionError("another program listens there")
        connection.sendall(_proof(address.secret, b"asker", own + theirs))
    except OSError:
        connection.close()
        raise
    return SocketConnection(connection)


class OwnerClient:
    """Asks owners. Safe for threads: each request has a connection of its own while it is under
    way."""

    def __init__(self, connect: Callable[[Address], Connection] = open_connection) -> None:
        self._connect = connect
        self._idle: dict[Address, list[Connection]] = defaultdict(list)
        self._mutex = threading.Lock()

    def ask(self, address: Address, request: ForwardedRequest) -> ForwardedResponse:
        """Returns the owner's response. Raises Failed."""
        try:
            payload = encode(request)
            if len(payload) > FRAME_BYTES:
                raise ConnectionError("the request is too large")
            connection = self._connection(address)
        except OSError as error:
            raise Failed(Reached.NOT_SENT, error) from error
        try:
            response = drive(asking(payload), connection)
        except Failed:
            connection.close()
            raise
        self._keep(address, connection)
        return response

    def _connection(self, address: Address) -> Connection:
        with self._mutex:
            idle = self._idle[address]
            while idle:
                connection = idle.pop()
                if connection.is_fresh():
                    return connection
                connection.close()  # the owner has closed it
        return self._connect(address)

    def _keep(self, address: Address, connection: Connection) -> None:
        with self._mutex:
            for gone in [other for other in self._idle if other.host == address.host and other.port == address.port]:
                if gone != address:  # a process that was there before
                    for idle in self._idle.pop(gone):
                        idle.close()
            if len(self._idle[address]) < IDLE_MOST:
                self._idle[address].append(connection)
                return
        connection.close()


class Listener:
    """Answers forwarded requests: one thread for each of at most ``CONNECTIONS_MOST``
    connections."""

    def __init__(self, host: str, port: int, secret: str, answer: Answering) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=CONNECTIONS_MOST)
        self._listener.settimeout(LOOK_S)
        self._secret = secret
        self._answer = answer
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
            with connection, suppress(OSError):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.settimeout(CONNECT_S)
                theirs = _exactly(connection, _NONCE_BYTES)
                own = secrets.token_bytes(_NONCE_BYTES)
                connection.sendall(own + _proof(self._secret, b"owner", theirs + own))
                proof = _exactly(connection, _NONCE_BYTES)
                if not hmac.compare_digest(proof, _proof(self._secret, b"asker", theirs + own)):
                    return
                serve(SocketConnection(connection), self._answer, self._closing.is_set)
        finally:
            self._free.release()


class OwnersFile(StructFile[Owners]):
    """The background's cache of owners, for the processes that answer requests."""

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
"""Operations that change a catalog, all of which take an idempotency key or an id. Others are
applied where they arrive."""


_COMMITS: Final = f"{TABLE_BY_ID}/commits"


class Subject(msgspec.Struct, frozen=True):
    """The catalog or table that a request changes.

    Attributes:
        name: the subject by which its owner is looked up.
        is_table: whether it changes one table's HEAD.
        is_commit: whether it is a commit and nothing else, which its transaction identifies.
    """

    name: str
    is_table: bool = False
    is_commit: bool = False


def subject_of(method: str, route: str, params: Mapping[str, Any]) -> Subject | None:
    """Returns the subject of a request, for the operations that are forwarded to owners; None for
    any other."""
    if route in (_COMMITS, UNITY_TABLE) and method == "POST":
        name = fold(".".join(map(str, params.values())))
        return Subject(table_subject(name), is_table=True, is_commit=route == _COMMITS)
    if method in _ROUTES.get(route, ()):
        return Subject(fold(str(params.get("catalog") or params.get("prefix") or "")))
    return None
