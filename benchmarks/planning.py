"""Planning of scans by the file index, at several sizes: time and sequential reads, warm and cold, and what upkeep costs.

    python -m benchmarks.planning                                  # 10,000, 100,000 and 500,000 files
    python -m benchmarks.planning --files 10000 --latency-ms 20

A table of 2,191 days with ids that ascend is written into a folder, as a checkpoint; the store is in memory. Every request to storage or objs waits
``--latency-ms``, as one to S3 does (a read of more than 1 MiB longer, at 80 MB/s). ``depth`` counts requests that waited one after the other: those
at the same time count once. ``replay`` reads checkpoint and log, as a planner does that has no index; it is run with the same latency.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.support.delta_table import Table
from tests.support.fakes import delta
from tests.support.fakes.world import copied, fake_world
from turnstile.delta.publish import Publisher
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep, newest_root
from turnstile.store.ports import LogStorage, World

DAYS = 2_191
START = date(2020, 11, 1)
BYTES_PER_MS = 80_000


@dataclass
class Meter:
    """Requests, their bytes, and how many of them had to wait for another one."""

    latency_ms: float = 0
    requests: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    depth: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last_end: float = 0

    def reset(self) -> None:
        self.requests = self.read_bytes = self.written_bytes = self.depth = 0
        self._last_end = 0

    def wait(self, size: int = 0, written: int = 0) -> None:
        start = time.perf_counter()
        with self._lock:
            self.requests += 1
            self.read_bytes += size
            self.written_bytes += written
            if start >= self._last_end:
                self.depth += 1
                self._last_end = start + self.latency_ms / 1000
        if self.latency_ms:
            time.sleep((self.latency_ms + max(0, size + written - 2**20) / BYTES_PER_MS) / 1000)


class SlowStorage:
    """Table storage whose requests are counted and wait."""

    def __init__(self, inner: LogStorage, meter: Meter) -> None:
        self._inner, self._meter = inner, meter

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> Any:
        file = self._inner.read(path, limit, offset)
        self._meter.wait(len(file[0]) if file else 0)
        return file

    def put_if_absent(self, path: str, content: Any) -> bool:
        content = content if isinstance(content, bytes) else b"".join(content)
        self._meter.wait(written=len(content))
        return self._inner.put_if_absent(path, content)

    def list(self, prefix: str, after: str = "") -> Iterator[Any]:
        self._meter.wait()
        return self._inner.list(prefix, after)

    def stat(self, path: str) -> Any:
        self._meter.wait()
        return self._inner.stat(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class SlowStorages:
    def __init__(self, inner: Any, meter: Meter) -> None:
        self.inner, self._meter = inner, meter

    def open(self, location: str) -> Any:
        return SlowStorage(self.inner.open(location), self._meter)


class SlowObjs:
    def __init__(self, inner: Any, meter: Meter) -> None:
        self._inner, self._meter = inner, meter

    def newest(self, space: str, prefix: str) -> Any:
        obj = self._inner.newest(space, prefix)
        self._meter.wait(len(obj.payload) if obj else 0)
        return obj

    def put(self, obj: Any) -> None:
        self._meter.wait(written=len(obj.payload))
        self._inner.put(obj)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def metadata() -> dict[str, Any]:
    columns = [("day", "date"), ("id", "long"), ("amount", "double"), ("city", "string"), ("at", "timestamp")]
    schema = {
        "type": "struct",
        "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in columns],
    }
    action = delta.metadata()["metaData"]
    return {"metaData": {**action, "schemaString": json.dumps(schema), "partitionColumns": ["day"]}}


def add(number: int, files: int) -> dict[str, Any]:
    day = START + timedelta(days=number * DAYS // files)
    low = number * 1000
    stats = {
        "numRecords": 1000,
        "minValues": {"id": low, "amount": 0.5, "city": "Aachen", "at": f"{day}T00:00:00.000Z"},
        "maxValues": {"id": low + 999, "amount": 999.5, "city": "Zwolle", "at": f"{day}T23:59:59.999Z"},
        "nullCount": {"id": 0, "amount": 3, "city": 0, "at": 0},
    }
    path = f"day={day}/part-{number:08d}-9c1b6e2a-{number * 2654435761 % 2**32:08x}-c000.snappy.parquet"
    return delta.add(path, stats=json.dumps(stats), partitionValues={"day": str(day)}, size=16_000_000 + number)["add"]


def table_of(files: int) -> Table:
    """A table whose version 2 is a checkpoint with so many files."""
    table = Table(fake_world())
    version = table.head.latest + 1
    content = delta.lines(delta.info(f"c-{version}", table.head.last_ict + 1), metadata())
    from turnstile.delta.proposals import CommitRequest

    table.ratifier.commit(CommitRequest(table.id, version, content=content))
    Publisher(table.world).publish(table.id)
    sink = pa.BufferOutputStream()
    struct = pa.struct([
        ("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())), ("size", pa.int64()),
        ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("stats", pa.string()),
    ])  # fmt: skip
    zero = [json.loads(line) for line in table.ratified[0].splitlines()]
    protocol = next(action["protocol"] for action in zero if "protocol" in action)
    from turnstile.maintenance.columns import METADATA, PROTOCOL, other_array

    schema = pa.schema([("protocol", PROTOCOL), ("metaData", METADATA), ("add", struct)])
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for name, body, kind in (("protocol", protocol, PROTOCOL), ("metaData", metadata()["metaData"], METADATA)):
            arrays = [other_array(name, [body]) if f.name == name else pa.nulls(1, f.type) for f in schema]
            assert kind is not None
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        order = range(files)
        for start in range(0, files, 20_000):
            rows = [add(number, files) for number in order[start : start + 20_000]]
            rows = [{**row, "partitionValues": list(row["partitionValues"].items())} for row in rows]
            arrays = [pa.array(rows, f.type) if f.name == "add" else pa.nulls(len(rows), f.type) for f in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
    table.put(f"_delta_log/{version:020d}.checkpoint.parquet", sink.getvalue().to_pybytes())
    return table


def commit(table: Table, files: int, count: int = 5) -> None:
    """Adds ``count`` files and removes one."""
    from turnstile.delta.proposals import CommitRequest

    version = table.head.latest + 1
    gone = delta.remove(add(version * 977 % files, files)["path"])
    actions = [
        gone,
        *({"add": {**add(version * 131 % files, files), "path": f"day=x/new-{version}-{n}"}} for n in range(count)),
    ]
    content = delta.lines(delta.info(f"c-{version}", table.head.last_ict + 1), *actions)
    table.ratifier.commit(CommitRequest(table.id, version, content=content))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return (time.perf_counter() - start) * 1000, result


def run(files: int, latency_ms: float) -> Iterator[dict[str, Any]]:
    table, meter = table_of(files), Meter()
    world = table.world
    slow = World(
        world.refs,
        SlowObjs(world.objs, meter),
        SlowStorages(world.storages, meter),
        world.clock,
        world.ids,
        world.space,
    )
    rebuild_ms, _ = timed(lambda: IndexUpkeep(slow).keep_up(table.head))
    root = newest_root(world, table.head)
    assert root is not None
    index_bytes = sum(ref.size for ref in root.root.leaves)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    yield {"files": files, "work": "build", "ms": round(rebuild_ms), "leaves": len(root.root.leaves), "index_bytes": index_bytes,
           "root_bytes": meter.written_bytes - index_bytes, "peak_mb": peak}  # fmt: skip
    for _ in range(4):
        commit(table, files)
    Publisher(world).publish(table.id)
    day = str(START + timedelta(days=1_000))
    low = files * 1000 // 3
    filters: dict[str, tuple[Any, int | None]] = {
        "one day": (lambda c: c.named("day").compare("=", day), None),
        "ids, not the partition": (lambda c: c.named("id").between(low, low + 5_000), None),
        "first page of all": (None, None),
    }
    for name, (predicate, _) in filters.items():
        meter.latency_ms = latency_ms
        cold, planner = [], Planner(slow)
        for _ in range(3):
            planner = Planner(slow)
            meter.reset()
            ms, plan = timed(lambda p=planner, q=predicate: p.plan(table.head, q))
            cold.append(ms)
        seen = (meter.requests, meter.depth, meter.read_bytes)
        warm = [timed(lambda p=planner, q=predicate: p.plan(table.head, q))[0] for _ in range(20)]
        meter.latency_ms = 0
        inner = [timed(lambda p=planner, q=predicate: p.plan(table.head, q))[0] for _ in range(20)]
        yield {"files": files, "work": name, "planned": len(plan.files), "cold_ms": round(statistics.median(cold), 1),
               "warm_ms": round(statistics.median(warm), 1), "warm_without_latency_ms": round(statistics.median(inner), 1),
               "cold_requests": seen[0], "cold_depth": seen[1] + 1, "cold_bytes": seen[2]}  # fmt: skip
    meter.latency_ms = 0
    planner = Planner(slow)

    def everything() -> int:
        count, page = 0, None
        while True:
            plan = planner.plan(table.head, page=page)
            count, page = count + len(plan.files), plan.next_page
            if page is None:
                return count

    ms, count = timed(everything)
    yield {"files": files, "work": "all pages", "planned": count, "cold_ms": round(ms)}
    without = copied(world)
    for obj in list(without.objs.list(without.space.objs("main"), "file-index/")):
        without.objs.delete(obj.space, obj.id)
    bare = World(without.refs, without.objs, SlowStorages(without.storages, meter), world.clock, world.ids, world.space)
    meter.latency_ms = latency_ms
    meter.reset()
    ms, plan = timed(lambda: Planner(bare).plan(table.head, filters["one day"][0]))
    yield {"files": files, "work": "one day, by replay of the log", "planned": len(plan.files), "cold_ms": round(ms),
           "cold_requests": meter.requests, "cold_depth": meter.depth + 1}  # fmt: skip
    meter.latency_ms = 0
    yield from upkeep(table, slow, meter, files)


def upkeep(table: Table, slow: Any, meter: Meter, files: int) -> Iterator[dict[str, Any]]:
    """Commits of five files, and an index that is brought forward after each ten."""
    meter.reset()
    spent, most, rounds = 0.0, 0.0, 100
    for _ in range(rounds):
        for _ in range(10):
            commit(table, files)
        Publisher(table.world).publish(table.id)
        before = meter.latency_ms
        ms, _ = timed(lambda: IndexUpkeep(slow).keep_up(table.head))
        meter.latency_ms = before
        spent, most = spent + ms, max(most, ms)
    commits = rounds * 10
    yield {"files": files, "work": "upkeep, per commit", "commits": commits, "ms": round(spent / commits, 2), "longest_ms": round(most),
           "requests": round(meter.requests / commits, 2), "read_bytes": meter.read_bytes // commits,
           "written_bytes": meter.written_bytes // commits}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="*", default=[10_000, 100_000, 500_000])
    parser.add_argument("--latency-ms", type=float, default=20)
    options = parser.parse_args()
    for files in options.files:
        for line in run(files, options.latency_ms):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
