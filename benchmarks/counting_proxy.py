"""An HTTP proxy that counts requests and delays them: in front of an S3 server, or of Turnstile's
API.

    python -m benchmarks.counting_proxy --target http://127.0.0.1:8750
        [--port 9000] [--request-ms 30] [--list-ms 60]

From Python, in a thread of its own:

    with CountingProxy("http://127.0.0.1:8750", S3_LATENCY) as proxy:
        ...                                   # a client that has proxy.url as its endpoint
        print(proxy.counts())                 # {("HEAD", "log"): 3, ("PUT", "data"): 1, ...}

Of an S3 request it knows the kind (HEAD, LIST, GET, PUT, DELETE, COPY, MULTIPART) and the area:
``log`` for what is in a ``_delta_log``, ``data`` for everything else. Hadoop's S3A says in the
header ``Referer`` which call of a file system a request belongs to; it is kept as ``operation``.
Every other HTTP server's requests have their method as kind.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

import aiohttp
import yarl
from aiohttp import web

KINDS: Final = ("HEAD", "LIST", "GET", "PUT", "DELETE", "COPY", "MULTIPART")
AREAS: Final = ("log", "data")
S3_LATENCY: Final = {"": 0.030, "LIST": 0.060}
"""Seconds by kind of request; "" is for all that are not named. About what S3 takes."""
COORDINATOR_LATENCY: Final = {"": 0.005}
"""Seconds for a call that makes one request to DynamoDB."""
_CREDENTIAL: Final = re.compile(r"Credential=([^/]+)/")
_NO_CONTENT: Final = (204, 304)
_PER_CONNECTION: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "expect"})


@dataclass(frozen=True, slots=True)
class Request:
    """One request that passed: ``path`` is decoded, for a LIST the prefix that is listed;
    ``access_key`` is the id of the key that signed it; ``ms`` includes the delay."""

    kind: str
    area: str
    path: str
    operation: str
    access_key: str
    status: int
    ms: float


class CountingProxy:
    """A running proxy on a free port (or ``port``) of the loopback address. Thread-safe."""

    def __init__(self, target: str, latency: Mapping[str, float] | None = None, port: int = 0) -> None:
        self.latency = dict(latency or {})
        self._target = target.rstrip("/")
        self._requests: list[Request] = []
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(port,), name="counting-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(10):
            raise RuntimeError("the counting proxy did not start within 10 seconds")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def url(self) -> str:
        """Base URL of the proxy."""
        return f"http://127.0.0.1:{self._port}"

    def clear(self) -> None:
        """Forgets all requests so far."""
        self._requests = []

    def requests(self) -> list[Request]:
        """The requests since :meth:`clear`, in the order of their answers."""
        return list(self._requests)

    def counts(self) -> Counter[tuple[str, str]]:
        """How many requests there were, by kind and area."""
        return Counter((request.kind, request.area) for request in self.requests())

    def _run(self, port: int) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start(port))
        self._started.set()
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._stop())
            self._loop.close()

    async def _start(self, port: int) -> None:
        # Nothing is unpacked or decoded: what passes is what was sent.
        self._upstream = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
            timeout=aiohttp.ClientTimeout(total=None),
        )
        self._runner = web.ServerRunner(web.Server(self._pass_on))
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, shutdown_timeout=1)
        await site.start()
        self._port = int(self._runner.addresses[0][1])

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._upstream.close()

    async def _pass_on(self, request: web.BaseRequest) -> web.StreamResponse:
        began = time.perf_counter()
        kind, path = kind_and_path(request.method, request.raw_path, request.headers)
        await asyncio.sleep(self.latency.get(kind, self.latency.get("", 0.0)))
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _PER_CONNECTION]
        url = yarl.URL(self._target + request.raw_path, encoded=True)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        body = await request.read()
        async with self._upstream.request(
            request.method, url, headers=headers, data=body or None, allow_redirects=False
        ) as answer:
            content = await answer.read()
            response = web.StreamResponse(status=answer.status, reason=answer.reason)
            for name, value in answer.headers.items():
                if name.lower() not in _PER_CONNECTION:
                    response.headers.add(name, value)
            if "Content-Length" not in answer.headers and answer.status not in _NO_CONTENT:
                response.headers["Content-Length"] = str(len(content))
        operation = parse_qs(urlsplit(request.headers.get("Referer", "")).query).get("op", [""])[0]
        area = "log" if "/_delta_log" in path else "data"
        signed = _CREDENTIAL.search(request.headers.get("Authorization", ""))
        access_key = signed[1] if signed else ""
        ms = (time.perf_counter() - began) * 1000
        self._requests.append(Request(kind, area, path, operation, access_key, response.status, ms))
        await response.prepare(request)
        if content:
            await response.write(content)
        await response.write_eof()
        return response


def kind_and_path(method: str, raw_path: str, headers: Mapping[str, str]) -> tuple[str, str]:
    """The kind of an S3 request, and the key that it is about; of a listing, the prefix below its
    bucket."""
    parts = urlsplit(raw_path)
    query = parse_qs(parts.query, keep_blank_values=True)
    path = unquote(parts.path)
    if "uploads" in query or "uploadId" in query:
        return "MULTIPART", path
    if method == "GET" and ("list-type" in query or "prefix" in query):
        return "LIST", f"{path.rstrip('/')}/{query.get('prefix', [''])[0]}"
    if method == "POST" and "delete" in query:
        return "DELETE", path
    if method == "PUT" and "x-amz-copy-source" in headers:
        return "COPY", path
    return method, path


def main() -> None:
    """Runs a proxy until it is interrupted, then prints what it counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, help="base URL of the server behind the proxy")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--request-ms", type=float, default=0.0, help="delay of every request")
    parser.add_argument("--list-ms", type=float, default=0.0, help="delay of a listing")
    options = parser.parse_args()
    latency = {"": options.request_ms / 1000, "LIST": options.list_ms / 1000}
    with CountingProxy(options.target, latency, options.port) as proxy:
        print(f"{proxy.url} -> {options.target}")
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            for (kind, area), count in sorted(proxy.counts().items()):
                print(f"{kind:10} {area:5} {count}")


if __name__ == "__main__":
    main()
