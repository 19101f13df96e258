"""Creations of branches of a large catalog: ``python -m benchmarks.racing.branch_creations``.

The catalog has namespaces of 40 Delta tables, some of them made, the others clones of these. A
round makes a branch, and drops it.

    create_ms   the request that makes the branch
    rows        rows and objs that it writes to the store, with their bytes
    lake        files and bytes that it adds to the tables' storage
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx

from benchmarks.racing.promotions import ROUTE, ask
from benchmarks.racing.table import create
from benchmarks.server_commits import Connection
from turnstile_server import Server
from turnstile_server.settings import ServerSettings

NAMESPACE_TABLES = 40
"""Tables of a namespace: one write of a clone holds no more."""
CLONES = 125
"""Namespaces that are the same tables: a table has at most 200 clones."""


def stored(home: str) -> dict[tuple[str, ...], int]:
    """The bytes of each row and obj of a server's store, by its key and content."""
    with closing(sqlite3.connect(f"file:{home}/turnstile.db?mode=ro", uri=True)) as store:
        refs = {("ref", key, row.hex()): len(row) for key, row in store.execute("SELECT key, row FROM refs")}
        objs = store.execute("SELECT space, id, length(payload) FROM objs")
        return refs | {("obj", space, id): size for space, id, size in objs}


def files(home: str) -> Iterator[int]:
    """The bytes of each file of the tables of a server."""
    return (path.stat().st_size for path in Path(home, "lake").rglob("*") if path.is_file())


def measure(server: Server, home: str, tables: int, rounds: int) -> dict[str, Any]:
    """Makes a catalog of so many tables; returns the figures of creations of its branches."""
    connection = Connection(server.port)
    for number in range(tables // NAMESPACE_TABLES):
        made = f"n{number - number % CLONES}"
        if number % CLONES:
            ask(connection, "POST", "/v1/catalogs/main/clones", {"from": made, "to": f"n{number}"})
            continue
        ask(connection, "POST", "/v1/catalogs/main/namespaces", {"name": made})
        for each in range(NAMESPACE_TABLES):
            create(server.url, server.token, f"t{each}", namespace=made)
        connection = Connection(server.port)  # the other was idle
    headers = {"Authorization": f"Bearer {server.token}"} if server.token else {}
    took: list[float] = []
    for _ in range(rounds):
        connection = Connection(server.port)  # an idle one may have ended
        rows = stored(home)
        lake = list(files(home))
        began = time.perf_counter()
        ask(connection, "POST", ROUTE, {"name": "dev"})
        took.append((time.perf_counter() - began) * 1000)
        new = [size for key, size in stored(home).items() if key not in rows]
        added = list(files(home))
        httpx.delete(f"{server.url}{ROUTE}/dev", headers=headers).raise_for_status()
    return {
        "tables": tables // NAMESPACE_TABLES * NAMESPACE_TABLES,
        "rounds": rounds,
        "create_ms_first": round(took[0], 2),
        "create_ms_p50": round(statistics.median(took[1:]), 2),
        "create_ms_max": round(max(took[1:]), 2),
        "rows": len(new),
        "row_bytes": sum(new),
        "lake_files": len(added) - len(lake),
        "lake_bytes": sum(added) - sum(lake),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=10_000, help="tables of the catalog, rounded down to 40")
    parser.add_argument("--rounds", type=int, default=20, help="branches")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as folder:
        home = f"{folder}/home"
        with Server.start(home, 0, settings=ServerSettings(home)) as server:
            print(json.dumps(measure(server, home, options.tables, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
