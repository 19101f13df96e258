"""Appends to one Iceberg table by 1, 8 and 16 writers: ``python -m benchmarks.iceberg.appends``.

    ready        writers that speak HTTP/1.1 over one socket each, and send manifests and
                 lists that were written before the heat; all were computed from the table's first
                 snapshot, so that the catalog has to follow it up
    pyiceberg    unmodified PyIceberg, each writer in a process: ``table.append`` of one row
    floor        the same without a catalog: the same processes append to tables of their own, in SQLite in memory

Every heat has a fresh table. In the end its current manifest list is read by PyIceberg: it has
exactly the acknowledged appends, and their sequence numbers are new. CPU is that of the server's
processes, for each append; ``clients`` of the writers.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import os
import resource
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import msgspec

from benchmarks.iceberg.writers import answer, call, python
from benchmarks.processes import cpu_s
from benchmarks.server_commits import Connection
from tests.support.iceberg.client import SCHEMA
from tests.support.iceberg.manifests import Lake
from turnstile.iceberg.core.snapshots import Snapshot
from turnstile_server import Server
from turnstile_server.settings import ServerSettings, default_workers

NAMESPACE = "race"


class Api:
    """The catalog, as its client sees it."""

    def __init__(self, server: Server) -> None:
        self.root = f"{server.url}/iceberg/v1/main/namespaces"
        self._client = httpx.Client(headers={"Authorization": f"Bearer {server.token or 'none'}"}, timeout=60)
        self._client.post(self.root, json={"namespace": [NAMESPACE]})

    def create(self) -> tuple[str, dict[str, Any]]:
        """The name of a new table, and its metadata."""
        name = f"t{uuid.uuid4().hex[:10]}"
        made = self._client.post(f"{self.root}/{NAMESPACE}/tables", json={"name": name, "schema": SCHEMA})
        assert made.status_code == 200, made.text
        return name, made.json()["metadata"]

    def load(self, table: str) -> dict[str, Any]:
        return self._client.get(f"{self.root}/{NAMESPACE}/tables/{table}").json()["metadata"]

    def commit(self, table: str, body: bytes) -> None:
        done = self._client.post(
            f"{self.root}/{NAMESPACE}/tables/{table}", content=body, headers={"Content-Type": "application/json"}
        )
        assert done.status_code == 200, done.text


def request_of(snapshot: Snapshot, table_uuid: str) -> bytes:
    """The body of the commit that appends ``snapshot``."""
    return msgspec.json.encode(
        {
            "requirements": [
                {"type": "assert-table-uuid", "uuid": table_uuid},
                {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": snapshot.parent_snapshot_id},
            ],
            "updates": [
                {"action": "add-snapshot", "snapshot": snapshot},
                {
                    "action": "set-snapshot-ref",
                    "ref-name": "main",
                    "type": "branch",
                    "snapshot-id": snapshot.snapshot_id,
                },
            ],
        }
    )


def ready(port: int, path: str, bodies: Sequence[bytes]) -> list[float]:
    """Sends each of ``bodies``, and returns the times until their answers (ms)."""
    connection = Connection(port)
    ms = []
    for body in bodies:
        began = time.perf_counter()
        status, content = connection.post(path, body)
        assert status == 200, content
        ms.append((time.perf_counter() - began) * 1000)
    return ms


def _play(port: int, path: str, bodies: Sequence[bytes], barrier: Any, out: Any) -> None:
    barrier.wait()
    began = time.process_time()
    ms = ready(port, path, bodies)
    out.put((ms, time.process_time() - began))


def heat_ready(server: Server, writers: int, count: int) -> dict[str, Any]:
    """One heat of writers with ready manifests."""
    api = Api(server)
    name, metadata = api.create()
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder))
        lake.location = metadata["location"]
        first = msgspec.structs.replace(lake.append(1, None, 1), timestamp_ms=int(time.time() * 1000))
        api.commit(name, request_of(first, metadata["table-uuid"]))
        bodies = [
            request_of(
                msgspec.structs.replace(lake.append(2 + n, first, 2), timestamp_ms=int(time.time() * 1000)),
                metadata["table-uuid"],
            )
            for n in range(count)
        ]
        path = f"/iceberg/v1/main/namespaces/{NAMESPACE}/tables/{name}"
        out = multiprocessing.Queue()
        barrier = multiprocessing.Barrier(writers + 1)
        shares = [bodies[writer::writers] for writer in range(writers)]
        processes = [
            multiprocessing.Process(target=_play, args=(server.port, path, share, barrier, out)) for share in shares
        ]
        for process in processes:
            process.start()
        barrier.wait()
        began = time.perf_counter()
        cpu = cpu_s(server.pids)
        answers = [out.get() for _ in processes]
        seconds = time.perf_counter() - began
        cpu = cpu_s(server.pids) - cpu
        for process in processes:
            process.join()
        check(lake, api.load(name), count + 1)
    times = sorted(ms for each, _ in answers for ms in each)
    return figures("ready", writers, times, seconds, cpu, sum(used for _, used in answers))


def check(lake: Lake, metadata: dict[str, Any], count: int) -> None:
    """Raises AssertionError unless ``count`` appends are in the table, once each."""
    snapshots = metadata["snapshots"]
    assert len(snapshots) == count, len(snapshots)
    assert len({one["sequence-number"] for one in snapshots}) == count
    assert len(metadata["snapshot-log"]) == count
    current = next(one for one in snapshots if one["snapshot-id"] == metadata["current-snapshot-id"])
    entries = [entry for manifest in lake.read(current["manifest-list"]) for entry in lake.entries(manifest)]
    assert len({entry.data_file.file_path for entry in entries}) == len(entries) == count


def heat_pyiceberg(server: Server, writers: int, seconds: float) -> dict[str, Any]:
    """One heat of PyIceberg."""
    catalog = {
        "type": "rest",
        "uri": f"{server.url}/iceberg",
        "warehouse": "main",
        "token": server.token or "none",
    }
    answer(call("prepare", catalog, {}))
    return _race("pyiceberg", [catalog] * writers, seconds, server.pids)


def heat_floor(writers: int, seconds: float, folder: str) -> dict[str, Any]:
    """One heat of PyIceberg without a shared catalog."""
    catalogs = []
    for number in range(writers):
        home = Path(folder) / f"{uuid.uuid4().hex[:8]}-{number}"
        home.mkdir()
        catalog = {"type": "sql", "uri": f"sqlite:///{home}/catalog.db", "warehouse": f"file://{home}"}
        answer(call("prepare", catalog, {}))
        catalogs.append(catalog)
    return _race("floor", catalogs, seconds, ())


def _race(kind: str, catalogs: Sequence[dict[str, str]], seconds: float, pids: tuple[int, ...]) -> dict[str, Any]:
    processes = [call("write", catalog, writer, seconds) for writer, catalog in enumerate(catalogs)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    before_s = _children_s()
    began = time.perf_counter()
    cpu = cpu_s(pids)
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [answer(process) for process in processes]
    elapsed = time.perf_counter() - began
    cpu = cpu_s(pids) - cpu
    done = {id for result in results for id in result["done"]}
    failures = {name: count for result in results for name, count in result["failures"].items()}
    if kind == "pyiceberg":
        stored = answer(call("read", catalogs[0]))
        assert sorted(stored) == sorted(done), "rows are wrong"
    times = sorted(ms for result in results for ms in result["ms"])
    used = sum(result["cpu_s"] for result in results) if "cpu_s" in results[0] else _children_s() - before_s
    return figures(kind, len(catalogs), times, elapsed, cpu, used) | {"refused": failures}


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figures(  # noqa: PLR0917 - the parts of one line
    kind: str, writers: int, times: list[float], seconds: float, cpu: float, used: float
) -> dict[str, Any]:
    """The result of a heat, which is printed as well."""
    result = {
        "heat": f"{kind}, {writers}",
        "kind": kind,
        "writers": writers,
        "appends": len(times),
        "per_s": round(len(times) / seconds, 1),
        "p50_ms": round(statistics.median(times), 2),
        "p99_ms": round(times[int(len(times) * 0.99)], 2),
        "cpu_ms": round(cpu * 1000 / len(times), 2),
        "clients_cpu_ms": round(used * 1000 / len(times), 2),
        "load": round(os.getloadavg()[0], 1),
    }
    print(
        f"{kind:10} {writers:3} writers {len(times):6} appends {result['per_s']:7}/s   p50 {result['p50_ms']:8} p99 "
        f"{result['p99_ms']:8} ms"
        f"   CPU {result['cpu_ms']:6} ms, clients {result['clients_cpu_ms']:6} ms   load {result['load']}",
        flush=True,
    )
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 8, 16])
    parser.add_argument(
        "--appends", type=int, default=800, help="of each heat with ready manifests, all writers together"
    )
    parser.add_argument("--seconds", type=float, default=15, help="of each heat of PyIceberg")
    parser.add_argument("--kinds", nargs="+", default=["ready", "pyiceberg", "floor"])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--workers", type=int, default=default_workers(), help="HTTP processes of the server")
    parser.add_argument("--out", type=Path, help="file that the figures are appended to, a JSON line each")
    options = parser.parse_args()
    if {"pyiceberg", "floor"} & {*options.kinds}:
        python()
    results = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as folder:
        home = f"{folder}/home"
        with Server.start(home, 0, settings=ServerSettings(home, workers=options.workers)) as server:
            time.sleep(1)
            plays = {
                "ready": functools.partial(heat_ready, server, count=options.appends),
                "pyiceberg": functools.partial(heat_pyiceberg, server, seconds=options.seconds),
                "floor": functools.partial(heat_floor, seconds=options.seconds, folder=folder),
            }
            for _ in range(options.repeat):
                for kind in options.kinds:
                    results += [plays[kind](writers=writers) for writers in options.writers]
    if options.out:
        with options.out.open("a") as out:
            out.writelines(json.dumps(result) + "\n" for result in results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
