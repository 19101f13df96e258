"""Commits a second through the server, beside a bare endpoint that does one synced insert:
``python -m benchmarks.server_commits``.

Clients are processes that speak HTTP/1.1 over one socket each, as cheaply as Python can. Every heat
has fresh tables, and ends when everything is acknowledged; the published log is checked afterwards.

    named, 1 client on 1 table        the latency that one writer sees
    named, 8 clients on 8 tables      writers that do not meet
    tickets, 32 clients on 1 table    writers that ask for the next version: nobody loses
    named, 8 clients on 1 table       writers that name versions and rebase after a conflict
    bare                              the same clients against one INSERT with synchronous=FULL, in
                                      WSGI on granian and in ASGI on uvicorn (if it is installed),
                                      on the same disk
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.processes import cpu_s
from benchmarks.racing.table import append, create
from turnstile_server import Server
from turnstile_server.settings import ServerSettings, default_workers

_LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
BARE_PORT = 8791


class Connection:
    """One socket; the next request is sent when the last is answered."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = f"127.0.0.1:{port}".encode()

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        return self.request("POST", path, body)

    def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        head = b"%s %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self._socket.sendall(head % (method.encode(), path.encode(), self._host, len(body)) + body)
        received = b""
        while b"\r\n\r\n" not in received:
            received += self._receive()
        headers, _, rest = received.partition(b"\r\n\r\n")
        length = int(_LENGTH.search(headers)[1])
        while len(rest) < length:
            rest += self._receive()
        return int(headers[9:12]), rest

    def _receive(self) -> bytes:
        data = self._socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data


def named(port: int, table_id: str, count: int) -> tuple[list[float], Counter]:
    """Commits that name their version; a conflict says the latest one, and the next attempt follows
    it."""
    connection = Connection(port)
    ms = []
    other = Counter()
    version = 1
    while len(ms) < count:
        content = append(uuid.uuid4().hex, int(time.time() * 1000), version - 1, row_tracking=False)
        began = time.perf_counter()
        body = {"version": version, "base": version - 1, "inline": {"content": content}}
        status, answer = connection.post(f"/v1/tables/{table_id}/commits", json.dumps(body).encode())
        if status == 200:
            ms.append((time.perf_counter() - began) * 1000)
            version = json.loads(answer)["commit"]["version"] + 1
        else:
            version = _refused(json.loads(answer)["error"], other) or version
    return ms, other


def tickets(port: int, table_id: str, count: int) -> tuple[list[float], Counter]:
    """Commits that ask for the next version."""
    connection = Connection(port)
    ms = []
    other = Counter()
    base = 0
    while len(ms) < count:
        content = append(uuid.uuid4().hex, int(time.time() * 1000), base, row_tracking=False)
        body = json.dumps({"version": None, "base": base, "inline": {"content": content}}).encode()
        began = time.perf_counter()
        while True:
            status, answer = connection.post(f"/v1/tables/{table_id}/commits", body)
            if status == 200:
                base = json.loads(answer)["commit"]["version"]
                break
            _refused(json.loads(answer)["error"], other)
        ms.append((time.perf_counter() - began) * 1000)
    return ms, other


def bare(port: int, _: str, count: int) -> tuple[list[float], Counter]:
    """Requests of the same size to the bare endpoint."""
    connection = Connection(port)
    ms = []
    body = b"x" * 900
    for _ in range(count):
        began = time.perf_counter()
        status, answer = connection.post("/", body)
        assert status == 200, answer
        ms.append((time.perf_counter() - began) * 1000)
    return ms, Counter()


def _refused(error: dict[str, Any], other: Counter) -> int | None:
    other[error["type"]] += 1
    if error["type"] == "BacklogFull":
        time.sleep(error.get("retry_after_ms", 100) / 1000)
        return None
    if error["type"] == "ConcurrentChange":
        return None
    if "latest" not in error:
        raise RuntimeError(error)
    return error["latest"] + 1


def _play(play: Callable[[], Any], barrier: Any, out: Any) -> None:
    barrier.wait()
    out.put(play())


def heat(
    title: str, play: Callable, port: int, targets: list[str], count: int, *, pids: tuple[int, ...]
) -> dict[str, Any]:
    """Plays one heat: a client for each target. CPU is that of the server's processes, publishing
    included."""
    out = multiprocessing.Queue()
    barrier = multiprocessing.Barrier(len(targets) + 1)
    clients = [
        multiprocessing.Process(target=_play, args=(functools.partial(play, port, target, count), barrier, out))
        for target in targets
    ]
    for client in clients:
        client.start()
    barrier.wait()
    began = time.perf_counter()
    cpu = cpu_s(pids)
    answers = [out.get() for _ in clients]
    seconds = time.perf_counter() - began
    cpu = cpu_s(pids) - cpu
    for client in clients:
        client.join()
    ms = sorted(value for times, _ in answers for value in times)
    other = sum((refusals for _, refusals in answers), Counter())
    figures = {
        "heat": title,
        "clients": len(targets),
        "per_s": round(len(ms) / seconds),
        "p50_ms": round(ms[len(ms) // 2], 2),
        "p99_ms": round(ms[int(len(ms) * 0.99)], 2),
        "cpu_ms": round(cpu * 1000 / len(ms), 2),
        "refused": dict(other),
        "load": round(os.getloadavg()[0], 1),
    }
    print(
        f"{title:38} {figures['per_s']:6}/s   p50 {figures['p50_ms']:7.2f}   p99 {figures['p99_ms']:7.2f} ms   "
        f"CPU {figures['cpu_ms']:5.2f} ms   load {figures['load']:4}   {dict(other) or ''}",
        flush=True,
    )
    return figures


# -- the bare endpoint -------------------------------------------------------------------------------------------------


@functools.cache
def _database() -> Any:
    from turnstile.adapters.sqlite.database import Database

    return Database(Path(os.environ["BARE_FILE"]))


def _insert(body: bytes) -> bytes:
    def run(connection: Any) -> None:
        connection.execute("INSERT INTO feed (key) VALUES (?)", (body.decode(),))

    _database().write(run)
    return b'{"ok": true}'


def wsgi(environ: dict[str, Any], start: Callable) -> list[bytes]:
    answer = _insert(environ["wsgi.input"].read())
    start("200 OK", [("content-type", "application/json"), ("content-length", str(len(answer)))])
    return [answer]


async def asgi(scope: dict[str, Any], receive: Callable, send: Callable) -> None:
    import asyncio

    if scope["type"] != "http":
        return
    body = b""
    more = True
    while more:
        message = await receive()
        body = body + message.get("body", b"")
        more = message.get("more_body", False)
    answer = await asyncio.to_thread(_insert, body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


@contextmanager
def bare_server(kind: str, folder: str) -> Iterator[tuple[int, tuple[int, ...]]]:
    target = f"benchmarks.server_commits:{kind}"
    command = (
        ["granian", "--interface", "wsgi", "--blocking-threads", "32", "--no-access-log", "--log-level", "error"]
        if kind == "wsgi"
        else ["uvicorn", "--no-access-log", "--log-level", "error"]
    )
    environment = {**os.environ, "BARE_FILE": f"{folder}/bare-{kind}.db"}
    process = subprocess.Popen([sys.executable, "-m", *command, "--port", str(BARE_PORT), target], env=environment)
    try:
        while True:
            try:
                Connection(BARE_PORT).post("/", b"first")
                break
            except OSError:
                time.sleep(0.05)
        yield BARE_PORT, _family(process.pid)
    finally:
        process.terminate()
        process.wait()


def _family(pid: int) -> tuple[int, ...]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return (pid, *(int(child) for child in children))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=2000, help="commits of each heat, all clients together")
    parser.add_argument("--repeat", type=int, default=3, help="how often all heats are played, one after the other")
    parser.add_argument("--workers", type=int, default=default_workers(), help="HTTP processes of the server")
    parser.add_argument("--threads", type=int, default=32, help="requests that one of them answers at once")
    parser.add_argument("--out", type=Path, help="file that the figures are appended to, a JSON line each")
    options = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as folder:
        home = f"{folder}/home"
        with Server.start(
            home, 0, settings=ServerSettings(home, workers=options.workers, threads=options.threads)
        ) as server:
            time.sleep(1)

            def tables(count: int) -> list[str]:
                return [create(server.url, server.token, f"t{uuid.uuid4().hex[:10]}").table_id for _ in range(count)]

            for _ in range(options.repeat):
                n = options.commits
                pids = server.pids
                results += [
                    heat("named, 1 client on 1 table", named, server.port, tables(1), n, pids=pids),
                    heat("named, 8 clients on 8 tables", named, server.port, tables(8), n // 8, pids=pids),
                    heat("tickets, 32 clients on 1 table", tickets, server.port, tables(1) * 32, n // 32, pids=pids),
                    heat("named, 8 clients on 1 table", named, server.port, tables(1) * 8, n // 16, pids=pids),
                ]
        for kind in ("wsgi", "asgi"):
            try:
                __import__("granian" if kind == "wsgi" else "uvicorn")
            except ImportError:
                continue
            with bare_server(kind, folder) as (port, pids):
                for _ in range(options.repeat):
                    for clients in (1, 8, 32):
                        title = f"bare {kind}, {clients} clients"
                        results.append(heat(title, bare, port, [""] * clients, options.commits // clients, pids=pids))
    if options.out:
        with options.out.open("a") as out:
            out.writelines(json.dumps(result) + "\n" for result in results)


if __name__ == "__main__":
    main()
