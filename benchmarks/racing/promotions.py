"""Promotions of branches while others read the catalog: ``python -m benchmarks.racing.promotions``.

Each round makes a branch, adds a file to each of some Delta tables on it and appends to some
Iceberg tables, and promotes it; with ``--engines`` Spark, DuckDB and ``turnstile_client`` add a row
to a table each. Readers are processes that read two tables, one after the other,
in a loop: a table has as many changes as there were promotions, so the second one may never have
fewer than the first.

    create      the request that makes the branch
    promote     the request that promotes it
    commit      a commit of one table beside the same readers, for comparison
    mixed       pairs of reads in which a reader saw the first table with a promotion and the second
                one without it
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import statistics
import tempfile
import time
import uuid
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog

from benchmarks.racing.engines import TABLES, Engines
from benchmarks.racing.table import append, create
from benchmarks.server_commits import Connection
from turnstile_server import Server
from turnstile_server.settings import ServerSettings

ROUTE = "/v1/catalogs/main/branches"
NAMESPACE = "/v1/catalogs/main@dev/namespaces/default/tables/"
DELTA = "/v1/catalogs/main/namespaces/default/tables/"
ICEBERG = "/iceberg/v1/main/namespaces/default/tables/"


def ask(connection: Connection, method: str, path: str, body: Any = None) -> dict[str, Any]:
    """Returns the answer to a request that has to succeed."""
    status, answer = connection.request(method, path, b"" if body is None else json.dumps(body).encode())
    if status >= 300:
        raise RuntimeError(f"{method} {path}: {status} {answer[:500]!r}")
    return dict(json.loads(answer)) if answer else {}


def changes(connection: Connection, table: str) -> int:
    """The number of promotions that a table shows: of a Delta table by its versions, of an Iceberg
    table by its snapshots."""
    if table.startswith(ICEBERG):
        return len(ask(connection, "GET", table)["metadata"].get("snapshots", []))
    return int(ask(connection, "GET", table)["latest"])


def read(port: int, tables: dict[str, int], stop: Event, ready: Barrier, queue: Any) -> None:
    """Reads pairs of ``tables`` until ``stop``; puts the number of pairs and of mixed ones. The
    values of ``tables``: the changes before the first promotion."""
    connection = Connection(port)
    ready.wait()
    rng = random.Random(os.getpid())
    paths = list(tables)
    pairs = 0
    mixed = 0
    while not stop.is_set():
        first, second = rng.sample(paths, 2)
        seen = changes(connection, first) - tables[first]
        pairs += 1
        mixed += changes(connection, second) - tables[second] < seen
    queue.put((pairs, mixed))


def commit(connection: Connection, table_id: str, version: int) -> float:
    """Returns how long a commit of a table takes (ms)."""
    content = append(uuid.uuid4().hex, int(time.time() * 1000) + version, version - 1, row_tracking=False)
    body = {"version": version, "base": version - 1, "inline": {"content": content}}
    began = time.perf_counter()
    ask(connection, "POST", f"/v1/tables/{table_id}/commits", body)
    return (time.perf_counter() - began) * 1000


def promotion(server: Server, deltas: list[str], iceberg: int, engines: Engines | None) -> tuple[float, float]:
    """Returns how long the creation of a branch and its promotion take (ms)."""
    connection = Connection(server.port)
    began = time.perf_counter()
    ask(connection, "POST", ROUTE, {"name": "dev"})
    created = time.perf_counter()
    for name in deltas:
        table = ask(connection, "GET", NAMESPACE + name)
        commit(connection, table["table_id"], table["latest"] + 1)
    if iceberg:
        catalog = RestCatalog("c", uri=f"{server.url}/iceberg", warehouse="main@dev")
        for number in range(iceberg):
            catalog.load_table(f"default.i{number}").append(pa.table({"id": [1]}))
    if engines is not None:
        engines.write()
    connection = Connection(server.port)  # the other was idle
    start = time.perf_counter()
    ask(connection, "POST", f"{ROUTE}/dev/promote", {})
    return (created - began) * 1000, (time.perf_counter() - start) * 1000


def heat(server: Server, ids: dict[str, str], options: argparse.Namespace, engines: Engines | None) -> dict[str, Any]:
    """Promotes branches with changes of these Delta tables, by name with their uuids, and of the
    Iceberg tables."""
    connection = Connection(server.port)
    own = () if engines is None else TABLES
    paths = [f"/v1/tables/{id}/head" for id in ids.values()]
    paths += [f"{DELTA}{name}" for name in own]
    paths += [f"{ICEBERG}i{number}" for number in range(options.iceberg)]
    tables = {path: changes(connection, path) for path in paths}
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    ready = context.Barrier(options.readers + 1)
    queue = context.Queue()
    processes = [
        context.Process(target=read, args=(server.port, tables, stop, ready, queue)) for _ in range(options.readers)
    ]
    for process in processes:
        process.start()
    ready.wait()
    took = [promotion(server, list(ids), options.iceberg, engines) for _ in range(options.rounds)]
    alone = create(server.url, server.token, f"c{uuid.uuid4().hex[:10]}").table_id
    connection = Connection(server.port)  # the other was idle
    commits = [commit(connection, alone, version) for version in range(1, 41)]
    stop.set()
    seen = [queue.get() for _ in processes]
    for process in processes:
        process.join()
    result = {
        "tables": len(ids),
        "iceberg": options.iceberg,
        "engines": [*own],
        "rounds": options.rounds,
        "create_ms": [round(created, 2) for created, _ in took],
        "promote_ms": [round(promoted, 2) for _, promoted in took],
        "commit_ms_p50": round(statistics.median(commits[20:]), 2),
        "pairs": sum(pairs for pairs, _ in seen),
        "mixed": sum(mixed for _, mixed in seen),
    }
    for path, number in tables.items():
        if (shown := changes(connection, path) - number) != options.rounds:
            raise RuntimeError(f"{path} shows {shown} of {options.rounds} promotions")
    print(json.dumps(result), flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, nargs="+", default=[10, 100, 1000], help="changed Delta tables of a heat")
    parser.add_argument("--iceberg", type=int, default=0, help="changed Iceberg tables of each heat")
    parser.add_argument("--engines", action="store_true", help="Spark, DuckDB and turnstile_client write, too")
    parser.add_argument("--rounds", type=int, default=5, help="promotions of a heat")
    parser.add_argument("--readers", type=int, default=8, help="processes that read pairs of tables meanwhile")
    parser.add_argument("--out", type=Path, help="file that the figures are appended to, a JSON line each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as folder:
        home = f"{folder}/home"
        with Server.start(home, 0, settings=ServerSettings(home)) as server:
            if options.iceberg:
                catalog = RestCatalog("c", uri=f"{server.url}/iceberg", warehouse="main")
                for number in range(options.iceberg):
                    catalog.create_table(f"default.i{number}", pa.schema([("id", pa.int64())]))
            engines = Engines(server) if options.engines else None
            results = []
            for count in options.tables:
                ids = {name: create(server.url, server.token, name).table_id for name in names(count)}
                results.append(heat(server, ids, options, engines))
            if engines is not None:
                engines.close()
    if options.out:
        with options.out.open("a") as out:
            out.writelines(json.dumps(result) + "\n" for result in results)


def names(count: int) -> list[str]:
    """Names of new tables."""
    mark = uuid.uuid4().hex[:6]
    return [f"t{mark}_{number}" for number in range(count)]


if __name__ == "__main__":
    main()
