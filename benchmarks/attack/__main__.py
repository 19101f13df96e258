"""Eight honest clients beside each probe of an attacker without rights: ``python -m
benchmarks.attack``.

An honest client commits to a table of its own, asks for its HEAD and lists the namespace, twenty
requests a second. The attacker has a token, and no grant:

    calm              no attacker
    predicates        32 nested predicates of 181 characters at once, each second
    idle              connections without a request (1,100; then 10,000: each takes a file of this
                      process, and one of the server)
    bodies            64 requests with bodies of which one byte comes
    reservations      64 reservations of a table that the attacker may not change, 8 at once, each
                      second
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import socket
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.attack.honest import CLIENTS, OPERATOR, run_client
from benchmarks.racing.table import append, create
from turnstile_server import Server

STRANGER = "a stranger's token"
PREDICATE = "DATE(" * 30 + "a" + ")" * 30


class Attacker:
    """Probes of a server by a principal without rights. ``answers`` counts statuses."""

    def __init__(self, server: Server, table_id: str, other_id: str) -> None:
        self._server = server
        self._table_id = table_id
        self._other_id = other_id
        self.answers: Counter[Any] = Counter()

    @contextmanager
    def each_second(self, count: int, at_once: int, probe: Callable[[httpx.Client], httpx.Response]) -> Iterator[None]:
        """``count`` requests, again and again, until the block ends."""
        over = threading.Event()

        def run(api: httpx.Client) -> None:
            try:
                self.answers[probe(api).status_code] += 1
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1

        def repeat() -> None:
            headers = {"authorization": f"Bearer {STRANGER}"}
            limits = httpx.Limits(max_connections=at_once)
            with (
                httpx.Client(
                    base_url=self._server.url, headers=headers, trust_env=False, timeout=30, limits=limits
                ) as api,
                ThreadPoolExecutor(at_once) as pool,
            ):
                while not over.is_set():
                    list(pool.map(run, [api] * count))
                    over.wait(1)

        thread = threading.Thread(target=repeat)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def predicates(self) -> Any:
        read = {"table_id": self._table_id, "version": 0, "predicate": PREDICATE}
        content = append(uuid.uuid4().hex, int(time.time() * 1000), 0, row_tracking=False)
        commit = {"table_id": self._other_id, "version": 1, "inline": {"content": content}}
        body = {"id": str(uuid.uuid4()), "commits": [commit], "reads": [read]}
        return self.each_second(32, 32, lambda api: api.post("/v1/transactions", json=body))

    def reservations(self) -> Any:
        def probe(api: httpx.Client) -> httpx.Response:
            return api.put(f"/v1/reservations/{uuid.uuid4()}", json={"tables": [self._table_id], "lease_ms": 120_000})

        return self.each_second(64, 8, probe)

    @contextmanager
    def connections(self, count: int, sent: bytes = b"") -> Iterator[None]:
        with ExitStack() as stack:
            for _ in range(count):
                wire = stack.enter_context(socket.create_connection(("127.0.0.1", self._server.port), timeout=60))
                if sent:
                    wire.sendall(sent)
            yield

    def bodies(self) -> Any:
        head = f"POST /v1/transactions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {STRANGER}\r\n"
        return self.connections(64, f"{head}Content-Length: 1000\r\n\r\n{{".encode())


def measure(server: Server, tables: list[str], seconds: float) -> tuple[list[float], Counter[int]]:
    context = multiprocessing.get_context("spawn")
    start = context.Barrier(CLIENTS)
    out = context.Queue()
    clients = [context.Process(target=run_client, args=(server.url, table, seconds, start, out)) for table in tables]
    for client in clients:
        client.start()
    ms: list[float] = []
    other: Counter[int] = Counter()
    for _ in clients:
        one, refused = out.get()
        ms += one
        other += refused
    for client in clients:
        client.join()
    return sorted(ms), other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--idle", type=int, nargs="*", default=[1_100, 10_000])
    given = parser.parse_args()
    stranger = {hashlib.sha256(STRANGER.encode()).hexdigest(): {"name": "stranger", "roles": []}}
    with tempfile.TemporaryDirectory() as home:
        environment = {"TURNSTILE_TOKENS": json.dumps(stranger)}
        with Server.start(Path(home), 0, OPERATOR, environment=environment) as server:
            tables = [create(server.url, OPERATOR, f"t{number}").table_id for number in range(CLIENTS)]
            attacker = Attacker(server, *tables[:2])
            probes: list[tuple[str, Callable[[], Any]]] = [("calm", lambda: attacker.connections(0))]
            probes += [("predicates", attacker.predicates)]
            probes += [(f"idle {count}", lambda count=count: attacker.connections(count)) for count in given.idle]
            probes += [("bodies", attacker.bodies), ("reservations", attacker.reservations)]
            for name, probe in probes:
                attacker.answers.clear()
                with probe():
                    ms, other = measure(server, tables, given.seconds)
                p50, p99 = (ms[int(len(ms) * part)] for part in (0.5, 0.99))
                line = f"{len(ms)} requests, p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {ms[-1]:.1f} ms"
                print(f"{name:14} {line}, not answered {dict(other)}, attacker {dict(attacker.answers)}", flush=True)


if __name__ == "__main__":
    main()
