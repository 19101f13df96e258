"""The proxy that counts and delays requests of S3, which benchmarks and tests believe."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from benchmarks.counting_proxy import CountingProxy, kind_and_path

LOG = "/lake/t/_delta_log/00000000000000000001.json"


class Store(http.server.BaseHTTPRequestHandler):
    """Answers with what it was sent."""

    protocol_version = "HTTP/1.1"

    def do_ANY(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = f"{self.command} {self.path} {self.headers['X-Amz-Date']} ".encode() + body
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", '"e"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST = do_ANY

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def proxy() -> Iterator[CountingProxy]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Store) as store:
        threading.Thread(target=store.serve_forever, args=(0.01,), daemon=True).start()
        with CountingProxy(f"http://127.0.0.1:{store.server_port}") as running:
            yield running
        store.shutdown()


def send(
    proxy: CountingProxy, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, str | None, bytes]:
    connection = HTTPConnection("127.0.0.1", int(proxy.url.rpartition(":")[2]), timeout=10)
    connection.request(method, path, body or None, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.headers["ETag"], content


@pytest.mark.parametrize(
    ("method", "raw", "headers", "expected"),
    [
        ("HEAD", LOG, {}, ("HEAD", LOG)),
        ("GET", LOG, {}, ("GET", LOG)),
        ("PUT", LOG, {}, ("PUT", LOG)),
        ("PUT", LOG, {"x-amz-copy-source": "/lake/a"}, ("COPY", LOG)),
        ("DELETE", LOG, {}, ("DELETE", LOG)),
        ("GET", "/lake?list-type=2&prefix=t%2F_delta_log%2F&delimiter=%2F", {}, ("LIST", "/lake/t/_delta_log/")),
        ("GET", "/lake/?prefix=t", {}, ("LIST", "/lake/t")),
        ("POST", "/lake?delete", {}, ("DELETE", "/lake")),
        ("POST", "/lake/a?uploads", {}, ("MULTIPART", "/lake/a")),
        ("PUT", "/lake/a?partNumber=1&uploadId=u", {}, ("MULTIPART", "/lake/a")),
        ("DELETE", "/lake/a?uploadId=u", {}, ("MULTIPART", "/lake/a")),
    ],
)
def test_the_kind_of_a_request(method: str, raw: str, headers: dict[str, str], expected: tuple[str, str]) -> None:
    assert kind_and_path(method, raw, headers) == expected


def test_a_request_passes_unchanged_and_is_counted(proxy: CountingProxy) -> None:
    signed = "AWS4-HMAC-SHA256 Credential=ASIAX/20260101/us-east-1/s3/aws4_request, SignedHeaders=host"
    path = "/lake/t%2Fx%20y/_delta_log/1.json?versionId=a%2Fb"
    referer = "https://audit.example.org/hadoop/1/op_create/x/?op=op_create&p1=t"
    answer = send(proxy, "PUT", path, b"body", X_Amz_Date="D", Authorization=signed, Referer=referer)
    assert answer == (200, '"e"', f"PUT {path} D body".encode())
    (request,) = proxy.requests()
    assert (request.kind, request.area, request.operation, request.access_key) == ("PUT", "log", "op_create", "ASIAX")
    assert send(proxy, "HEAD", "/lake/a") == (200, '"e"', b"")
    assert proxy.counts() == {("PUT", "log"): 1, ("HEAD", "data"): 1}
    proxy.clear()
    assert proxy.counts() == {}


def test_requests_are_delayed_by_their_kind(proxy: CountingProxy) -> None:
    proxy.latency = {"": 0.05, "LIST": 0.2}
    send(proxy, "HEAD", LOG)
    send(proxy, "GET", "/lake?list-type=2")
    shorter, longer = proxy.requests()
    assert shorter.ms >= 50 and longer.ms >= 200
