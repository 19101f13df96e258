"""Requests that arrived whole, with answers that broke on the way, over real sockets: lost, under
any name of botocore's (I3)."""

from __future__ import annotations

import datetime as dt
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, EndpointConnectionError, ProxyConnectionError, SSLError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from turnstile.adapters.dynamo.calls import Caller, Fault, fault_of
from turnstile.adapters.dynamo.transport import install
from turnstile.store.core.errors import OutcomeUnknown, StoreUnavailable
from turnstile.store.retry import Patience

ASKED = {"TableName": "t", "Item": {"key": {"S": "a"}}}
Break = Callable[[socket.socket], None]


def _whole(connection: socket.socket) -> bytes:
    """The body of a request, read to its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65_536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        body += connection.recv(65_536)
    return body


@contextmanager
def _service(breaks: Break, tls: ssl.SSLContext | None = None) -> Iterator[tuple[int, list[bytes]]]:
    """A port that takes every request whole and then ``breaks`` its connection; and what it has
    got."""
    got: list[bytes] = []
    with socket.create_server(("localhost", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                connection = tls.wrap_socket(plain, server_side=True) if tls is not None else plain
                got.append(_whole(connection))
                breaks(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], got
        server.shutdown(socket.SHUT_RDWR)


def _garbles(connection: socket.socket) -> None:
    """Something that is no TLS record in place of the answer."""
    plain = socket.socket(fileno=connection.detach())
    plain.sendall(b"\x15\x03\x03\x00\x02\x02\x50this is no record")
    plain.close()


def _resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _client(endpoint: str, **more: Any) -> Any:
    retries = {"mode": "standard", "total_max_attempts": 1}
    session = botocore.session.get_session()
    session.set_credentials("test", "test")
    config = Config(retries=retries, read_timeout=2, **more)
    client = session.create_client("dynamodb", "us-east-1", endpoint_url=endpoint, config=config)
    install(client)
    return client


def _meets(client: Any) -> BotoCoreError:
    with pytest.raises(BotoCoreError) as met:
        client.put_item(**ASKED)
    return met.value


def _writes(client: Any) -> None:
    Caller(client, patience=Patience(deadline_s=0.05, first_s=0.001, longest_s=0.5)).write("put_item", ASKED)


def _require_lost(client: Any, got: Any, kind: type[BotoCoreError]) -> None:
    """That a request which was received whole fails with ``kind``, and that a writer is told of no
    certainty."""
    met = _meets(client)
    assert isinstance(met, kind) and len(got) == 1
    assert fault_of(met) is Fault.LOST
    with pytest.raises(OutcomeUnknown):
        _writes(client)


@pytest.fixture
def tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """A server's side of TLS that this process trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    public = tmp_path / "c.pem"
    private = tmp_path / "k.pem"
    public.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    monkeypatch.setenv("AWS_CA_BUNDLE", str(public))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(public, private)
    return context


def test_i3_an_answer_that_breaks_tls_is_lost_for_the_request_was_received(tls: ssl.SSLContext) -> None:
    """botocore has one ``SSLError`` for a handshake that failed and for an answer that could not be
    decrypted."""
    with _service(_garbles, tls) as (port, got):
        _require_lost(_client(f"https://localhost:{port}"), got, SSLError)


def test_i3_an_answer_that_a_proxy_cuts_off_is_lost_for_the_request_was_received() -> None:
    """urllib3 forgets, while it closes a connection, that this was connected to its proxy: the
    error then names the way to the proxy."""
    with _service(_resets) as (port, got):
        client = _client("http://localhost:1", proxies={"http": f"http://localhost:{port}"})
        _require_lost(client, got, ProxyConnectionError)


def test_i3_an_answer_that_is_cut_off_is_lost() -> None:
    with _service(_resets) as (port, got):
        _require_lost(_client(f"http://localhost:{port}"), got, BotoCoreError)


def test_i3_without_a_listener_nothing_was_sent() -> None:
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    client = _client(f"http://localhost:{port}")
    met = _meets(client)
    assert isinstance(met, EndpointConnectionError) and fault_of(met) is Fault.BUSY
    with pytest.raises(StoreUnavailable):
        _writes(client)
