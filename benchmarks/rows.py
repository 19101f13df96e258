"""Rows over HTTP a second, and how long a request waits for its version: ``python -m
benchmarks.rows``.

Producers have a connection each, and send the next request when the last is answered; one process
has all of them. Each heat has fresh tables. Afterwards every acknowledged row is looked for in the
table: there once, and no other.

    --producers 100 --tables 10 --rows 100    batches
    --producers 100 --tables 10 --rows 1      single rows
    --maintain                                and a worker puts the files together meanwhile
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import selectors
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.processes import cpu_s
from turnstile_client import connect
from turnstile_server import Server
from turnstile_server.settings import ServerSettings, default_workers

_LENGTH = re.compile(rb"(?i)content-length: *(\d+)")
SCHEMA = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string())])


@dataclass
class Producer:
    """One connection: its state between two requests."""

    table: str
    number: int
    rows: int
    socket: socket.socket
    sequence: int = 0
    sent_s: float = 0.0
    received: bytes = b""
    added: list[int] = field(default_factory=list)
    pending: bytes = b""

    def next_request(self) -> bytes:
        first = self.number * 10_000_000 + self.sequence * self.rows
        ids = range(first, first + self.rows)
        body = b"".join(b'{"id":%d,"amount":%d.5,"name":"row %d"}\n' % (id, id % 1000, id) for id in ids)
        self.sequence += 1
        head = (
            f"POST /v1/catalogs/main/namespaces/default/tables/{self.table}/rows HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Content-Type: application/x-ndjson\r\nTurnstile-Producer: p{self.number}\r\n"
            f"Turnstile-Sequence: {self.sequence}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def answer(self) -> tuple[int, dict[str, Any]] | None:
        head, found, rest = self.received.partition(b"\r\n\r\n")
        if not found or len(rest) < int(_LENGTH.search(head)[1]):
            return None
        self.received = b""
        return int(head[9:12]), json.loads(rest)


def play(producers: list[Producer], seconds: float) -> tuple[list[float], Counter]:
    """Sends for some seconds; returns the milliseconds of each answered request, and refusals."""
    ms = []
    refused = Counter()
    until = time.perf_counter() + seconds
    with selectors.DefaultSelector() as ready:
        open_requests = 0
        for one in producers:
            ready.register(one.socket, selectors.EVENT_READ, one)
            _send(one, one.next_request())
            open_requests += 1
        while open_requests:
            for key, _ in ready.select(timeout=1):
                one = key.data
                one.received += one.socket.recv(65_536)
                answer = one.answer()
                if answer is None:
                    continue
                open_requests -= 1
                status, document = answer
                now = time.perf_counter()
                if status == 200:
                    ms.append((now - one.sent_s) * 1000)
                    one.added.append(one.sequence)
                    following = one.next_request() if now < until else None
                else:
                    refused[document["error"]["type"]] += 1
                    following = one.pending if now < until + 30 else None  # the same request again
                if following is not None:
                    _send(one, following)
                    open_requests += 1
    return ms, refused


def _send(producer: Producer, request: bytes) -> None:
    producer.pending = request
    producer.sent_s = time.perf_counter()
    producer.socket.sendall(request)


def verify(url: str, token: str | None, tables: list[str], producers: list[Producer]) -> Iterator[dict[str, int]]:
    """Compares the rows of each table with what was acknowledged. Yields its figures."""
    with connect(url, token=token) as lake:
        for table in tables:
            found = Counter(lake.table(f"default.{table}").read(["id"])["id"].to_pylist())
            senders = [one for one in producers if one.table == table]
            wanted = {
                one.number * 10_000_000 + (sequence - 1) * one.rows + at
                for one in senders
                for sequence in one.added
                for at in range(one.rows)
            }
            assert wanted <= found.keys(), f"{table} lacks {len(wanted - found.keys())} acknowledged rows"
            assert max(found.values(), default=1) == 1, f"{table} has rows twice"
            yield {"rows": len(found), "versions": lake.table(f"default.{table}").version()}


@contextmanager
def worker(server: Server, *, works: bool) -> Iterator[None]:
    """Runs a process that puts small files together by policy; none unless it ``works``."""
    if not works:
        yield
        return
    with server.client() as api:
        policy = {"enabled": "true", "target-file-size": "128mb"}
        api.patch("/v1/catalogs/main/maintenance-policy", json={"set": policy}).raise_for_status()
    command = [sys.executable, "-m", "turnstile_client.maintenance", "run", "--loop", "--pause-s", "1"]
    environment = os.environ | {"TURNSTILE_URL": server.url, "TURNSTILE_TOKEN": server.token or ""}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def count_files(server: Server, tables: list[str]) -> int:
    """The files of all tables, as far as they are published."""
    with server.client() as api:
        found = 0
        for table in tables:
            loaded = api.get(f"/v1/catalogs/main/namespaces/default/tables/{table}").raise_for_status().json()
            shown = api.get(f"/v1/tables/{loaded['table_id']}/maintenance").raise_for_status().json()
            found += shown["files"]["files"]
        return found


def heat(server: Server, options: argparse.Namespace) -> dict[str, Any]:
    tables = [f"rows_{uuid.uuid4().hex[:10]}" for _ in range(options.tables)]
    with connect(server.url, token=server.token) as lake:
        for table in tables:
            lake.create(f"default.{table}", SCHEMA)
            lake.table(f"default.{table}").append_rows([{"id": -1}])
    producers = []
    for number in range(options.producers):
        connection = socket.create_connection(("127.0.0.1", server.port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        producers.append(Producer(tables[number % len(tables)], number, options.rows, connection))
    cpu = cpu_s(server.pids)
    own = resource.getrusage(resource.RUSAGE_SELF)
    began = time.perf_counter()
    with worker(server, works=options.maintain):
        ms, refused = play(producers, options.seconds)
        seconds = time.perf_counter() - began
    cpu = cpu_s(server.pids) - cpu
    spent = resource.getrusage(resource.RUSAGE_SELF)
    own_cpu = spent.ru_utime + spent.ru_stime - own.ru_utime - own.ru_stime
    figures = list(verify(server.url, server.token, tables, producers))
    for one in producers:
        one.socket.close()
    ms.sort()
    commits = sum(figure["versions"] for figure in figures) - len(tables)
    result = {
        "producers": options.producers,
        "tables": options.tables,
        "rows": options.rows,
        "requests_per_s": round(len(ms) / seconds),
        "rows_per_s": round(len(ms) * options.rows / seconds),
        "commits_per_s": round(commits / seconds),
        "p50_ms": round(ms[len(ms) // 2], 1),
        "p99_ms": round(ms[int(len(ms) * 0.99)], 1),
        "cpu_ms": round(cpu * 1000 / len(ms), 2),
        "sender_cpu_ms": round(own_cpu * 1000 / len(ms), 2),
        "files": count_files(server, tables),
        "refused": dict(refused),
        "load": round(os.getloadavg()[0], 1),
    }
    print(json.dumps(result), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--producers", type=int, default=100)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 100], help="of a request; a heat for each")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--maintain", action="store_true", help="a worker puts small files together meanwhile")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--workers", type=int, default=default_workers(), help="HTTP processes of the server")
    parser.add_argument("--threads", type=int, default=32, help="requests that one of them answers at once")
    parser.add_argument("--out", type=Path, help="file that the figures are appended to, a JSON line each")
    options = parser.parse_args()
    sizes = options.rows
    results = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as folder:
        home = f"{folder}/home"
        settings = ServerSettings(home, workers=options.workers, threads=options.threads)
        with Server.start(home, 0, settings=settings) as server:
            for _ in range(options.repeat):
                for options.rows in sizes:
                    results.append(heat(server, options))
    if options.out:
        with options.out.open("a") as out:
            out.writelines(json.dumps(result) + "\n" for result in results)


if __name__ == "__main__":
    main()
