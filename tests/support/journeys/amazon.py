"""An HTTPS proxy at which S3's own addresses lead to an emulator: for clients that take no
endpoint."""

from __future__ import annotations

import datetime as dt
import http.client
import http.server
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOSTS: Final = ("*.amazonaws.com", "s3.us-east-1.amazonaws.com", "*.s3.us-east-1.amazonaws.com", "*.s3.amazonaws.com")
_OF_A_CONNECTION: Final = frozenset(("host", "connection", "content-length", "transfer-encoding", "server", "date"))


class Amazon:
    """A running proxy. TLS of ``HOSTS`` ends here, with a certificate of ``authority``; requests go
    on to ``target``, where the bucket is the first part of the path."""

    def __init__(self, folder: Path, target: str) -> None:
        self.authority, chain = _certificates(folder)
        self._target = urlsplit(target)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(chain)
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Clients that this process creates within the block pass the proxy and accept its
        certificate."""
        url = f"http://127.0.0.1:{self._server.server_port}"
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {
                "HTTPS_PROXY": url,
                "NO_PROXY": "127.0.0.1",
                "SSL_CERT_FILE": str(self.authority),
            }.items():
                patch.setenv(name, value)
                patch.delenv(name.lower(), raising=False)
            yield

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[http.server.BaseHTTPRequestHandler]:
        amazon = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_CONNECT(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.connection = amazon._tls.wrap_socket(self.connection, server_side=True)
                self.rfile = self.connection.makefile("rb")
                self.wfile = self.connection.makefile("wb", buffering=0)
                self.close_connection = False

            def handle_any(self) -> None:
                amazon._pass_on(self)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, *_: Any) -> None:
                """Quiet."""

        return Handler

    def _pass_on(self, request: http.server.BaseHTTPRequestHandler) -> None:
        bucket, _, rest = request.headers["Host"].partition(".s3.")
        path = f"/{bucket}{request.path}" if rest else request.path
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection(self._target.hostname or "", self._target.port, timeout=60)
        try:
            headers = {name: text for name, text in request.headers.items() if name.lower() not in _OF_A_CONNECTION}
            connection.request(request.command, path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            request.close_connection = True
            return
        finally:
            connection.close()
        size = answer.headers["Content-Length"] if request.command == "HEAD" else str(len(content))
        request.send_response(answer.status)
        for name, text in answer.headers.items():
            if name.lower() not in _OF_A_CONNECTION:
                request.send_header(name, text)
        request.send_header("Content-Length", size)
        request.end_headers()
        request.wfile.write(content)


def _certificates(folder: Path) -> tuple[Path, Path]:
    """Makes an authority and its certificate for ``HOSTS``. Returns the files of the authority and
    of the certificate with its key."""
    authority_key = ec.generate_private_key(ec.SECP256R1())
    key = ec.generate_private_key(ec.SECP256R1())
    root = _certificate("authority", authority_key).add_extension(
        x509.BasicConstraints(ca=True, path_length=None), True
    )
    names = x509.SubjectAlternativeName([x509.DNSName(host) for host in HOSTS])
    leaf = _certificate("s3", key).add_extension(names, critical=False)
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    authority = folder / "authority.pem"
    authority.write_bytes(root.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    chain = folder / "s3.pem"
    chain.write_bytes(leaf.sign(authority_key, hashes.SHA256()).public_bytes(pem) + private)
    return authority, chain


def _certificate(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    day = dt.timedelta(days=1)
    return x509.CertificateBuilder(
        issuer_name=_name("authority"),
        subject_name=_name(subject),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - day,
        not_valid_after=now + day,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
