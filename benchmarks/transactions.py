"""What a transaction over tables costs beside a single commit:
``python -m benchmarks.transactions``.

One client on a server sends, in turns, a single commit and groups of 2, 10 and 100 tables, so that
all see the same machine; each group is one request. Beside them the same tables written one after
the other by single commits, and cuts of them. Every commit is inline and names its version. The
published logs are checked afterwards.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from benchmarks.racing.table import append, create
from benchmarks.server_commits import Connection
from turnstile_server import Server

SIZES = (1, 2, 10, 100)
CUT_MAX = 100
"""Tables of a cut. A group may have more: up to 1,000, in two phases."""


class Writer:
    """One client; the next version of each table of its own."""

    def __init__(self, port: int, tables: list[str]) -> None:
        self.connection = Connection(port)
        self.tables = tables
        self.versions = dict.fromkeys(tables, 1)

    def _body(self, table: str) -> dict[str, Any]:
        version = self.versions[table]
        content = append(uuid.uuid4().hex, int(time.time() * 1000), version - 1, row_tracking=False)
        return {"version": version, "base": version - 1, "inline": {"content": content}}

    def _post(self, path: str, body: dict[str, Any]) -> float:
        """Sends until it is accepted (a backlog may be full for a while); returns the ms of the
        request that was."""
        encoded = json.dumps(body).encode()
        while True:
            began = time.perf_counter()
            status, answer = self.connection.post(path, encoded)
            ms = (time.perf_counter() - began) * 1000
            if status == 200:
                return ms
            if status not in (409, 429) or b"BacklogFull" not in answer:
                raise RuntimeError(answer)
            time.sleep(0.2)

    def alone(self, table: str) -> float:
        """A single commit."""
        ms = self._post(f"/v1/tables/{table}/commits", self._body(table))
        self.versions[table] += 1
        return ms

    def group(self, count: int) -> float:
        """A group over the first ``count`` tables."""
        tables = self.tables[:count]
        commits = [{"table_id": table, **self._body(table)} for table in tables]
        ms = self._post("/v1/transactions", {"id": str(uuid.uuid4()), "commits": commits})
        for table in tables:
            self.versions[table] += 1
        return ms

    def cut(self, count: int) -> float:
        """A cut of the first ``count`` tables."""
        return self._post("/v1/snapshots", {"tables": self.tables[:count]})


def run(rounds: int, sizes: tuple[int, ...]) -> dict[str, list[float]]:
    """The ms of each request, by what it was; those of the first rounds are left out."""
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home, Server.start(Path(home), 0) as server:
        tables = [create(server.url, server.token, f"t{number}") for number in range(max(sizes))]
        writer = Writer(server.port, [table.table_id for table in tables])
        warm_up = max(3, rounds // 10)
        for number in range(rounds + warm_up):
            ms = {"single commit": writer.alone(writer.tables[0])}
            for count in sizes:
                ms[f"group of {count}"] = writer.group(count)
                if count <= CUT_MAX:
                    ms[f"cut of {count}"] = writer.cut(count)
            ms["10 tables, one after the other"] = sum(map(writer.alone, writer.tables[:10]))
            if number >= warm_up:
                for name, value in ms.items():
                    figures.setdefault(name, []).append(value)
            time.sleep(0.05)  # what is published meanwhile is nobody's latency
        _check(writer, tables)
    return figures


def _check(writer: Writer, tables: list[Any]) -> None:
    """Everything acknowledged is published."""
    deadline = time.monotonic() + 120
    for table in tables:
        last = writer.versions[table.table_id] - 1
        while not Path(table.log, f"{last:020d}.json").exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"version {last} of {table.table_id} was not published")
            time.sleep(0.05)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100, help="requests of each kind (100)")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="tables of a group (1,2,10,100)")
    options = parser.parse_args()
    figures = run(options.rounds, tuple(int(size) for size in options.sizes.split(",")))
    single = statistics.median(figures["single commit"])
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {options.rounds} rounds")
    print(f"{'request':32s} {'p50 ms':>8s} {'p99 ms':>8s} {'of a single commit':>20s}")
    for name, values in figures.items():
        p50 = statistics.median(values)
        p99 = statistics.quantiles(values, n=100)[98]
        print(f"{name:32s} {p50:8.2f} {p99:8.2f} {p50 / single:20.2f}")


if __name__ == "__main__":
    main()
