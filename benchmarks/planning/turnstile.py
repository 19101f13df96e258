"""Turnstile's planner and the upkeep of its index at one size, as a process of its own: ``python -m
benchmarks.planning.turnstile FILES STORAGE_MS STORE_MS``.

The stores are in memory. Each request to table storage waits ``STORAGE_MS``, each to the store of
HEADs and objs ``STORE_MS``. A plan is timed with the read of the HEAD. ``cold`` remembers nothing,
as a process that has just begun, whose modules are loaded; ``warm`` has planned the same table
before. ``changing``: warm, and before each plan another commit was published. Upkeep is timed
without latency: its requests are counted.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from benchmarks.planning.meter import Meter, slow
from benchmarks.planning.tables import catalog_table, commit, questions
from tests.support.delta_table import Table
from tests.support.fakes.world import copied
from turnstile.delta.commits import read_head
from turnstile.delta.publish import Publisher
from turnstile.planning.planner import Planner
from turnstile.planning.upkeep import IndexUpkeep, newest_root
from turnstile.store.ports import World

COLD = 20
WARM = 200
ROUNDS = 100


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return (time.perf_counter() - start) * 1000, result


def peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def predicate_of(question: tuple[str, int, int]) -> Any:
    day, low, high = question
    if day:
        return lambda columns: columns.find_column("day").compare("=", day)
    return (lambda columns: columns.find_column("id").between(low, high)) if high else None


def plans(table: Table, world: World, meter: Meter, files: int) -> Iterator[dict[str, Any]]:
    """Each question, cold and warm; of all files each page is asked for, one after the other."""
    latencies = meter.storage_ms, meter.store_ms
    for name, question in questions(files).items():
        predicate = predicate_of(question)
        everything = not (question[0] or question[2])

        def ask(planner: Planner, predicate: Any = predicate, everything: bool = everything) -> int:
            head = read_head(world, table.id)
            plan = planner.plan(head, predicate)
            count = len(plan.files)
            while everything and plan.next_page is not None:
                plan = planner.plan(head, predicate, page=plan.next_page)
                count += len(plan.files)
            return count

        cold = []
        warm = []
        changing = []
        count = 0
        planner = Planner(world)
        ask(planner)
        for _ in range(2 if everything else COLD):
            planner = Planner(world)
            meter.reset()
            ms, count = timed(lambda p=planner: ask(p))
            cold.append(ms)
        seen = {"cold_requests": meter.requests, "cold_depth": meter.depth, "cold_bytes": meter.read_bytes}
        meter.reset()
        for _ in range(2 if everything else WARM):
            warm.append(timed(lambda p=planner: ask(p))[0])
        seen["warm_requests"] = round(meter.requests / len(warm), 2)
        if not everything:
            for _ in range(8):
                commit(table, files)
                Publisher(table.world).publish(table.id)
                changing.append(timed(lambda p=planner: ask(p))[0])
        meter.storage_ms = meter.store_ms = 0
        inner = [timed(lambda p=planner: ask(p))[0] for _ in range(2 if everything else 50)]
        meter.storage_ms, meter.store_ms = latencies
        yield {"files": files, "client": "Turnstile", "question": name, "planned": count, "cold": cold, "warm": warm,
               "changing": changing, "computing_ms": round(median(inner), 2), **seen}  # fmt: skip


def upkeep(table: Table, world: World, meter: Meter, files: int) -> dict[str, Any]:
    """Commits of five files, and an index that is brought forward after each ten."""
    meter.storage_ms = meter.store_ms = 0
    meter.reset()
    times = []
    for _ in range(ROUNDS):
        for _ in range(10):
            commit(table, files)
        Publisher(table.world).publish(table.id)
        times.append(timed(lambda: IndexUpkeep(world).keep_up(table.head))[0])
    commits = ROUNDS * 10
    return {"files": files, "work": "upkeep of a commit", "ms": round(sum(times) / commits, 2),
            "longest_ms": round(max(times)),
            "requests": round(meter.requests / commits, 2), "read_bytes": meter.read_bytes // commits,
            "written_bytes": meter.written_bytes // commits}  # fmt: skip


def main() -> None:
    files = int(sys.argv[1])
    storage_ms = float(sys.argv[2])
    store_ms = float(sys.argv[3])
    table = catalog_table(files)
    meter = Meter()
    before_mb = peak_mb()
    world = slow(table.world, meter)
    build_ms, _ = timed(lambda: IndexUpkeep(world).keep_up(table.head))
    stored = newest_root(table.world, table.head)
    assert stored is not None
    size = sum(ref.size for ref in stored.root.leaves)
    print(json.dumps({"files": files, "work": "build", "ms": round(build_ms), "leaves": len(stored.root.leaves),
                      "index_bytes": size,
                      "root_bytes": meter.written_bytes - size, "peak_mb": peak_mb(), "table_mb": before_mb}),
                      flush=True)  # fmt: skip
    for _ in range(4):
        commit(table, files)
    Publisher(table.world).publish(table.id)
    meter.storage_ms = storage_ms
    meter.store_ms = store_ms
    for result in plans(table, world, meter, files):
        print(json.dumps(result), flush=True)
    without = copied(table.world)
    for obj in list(without.objs.list(without.space.objs("main"), "file-index/")):
        without.objs.delete(obj.space, obj.id)
    meter.reset()
    bare = slow(without, meter)
    predicate = predicate_of(questions(files)["one day"])
    ms, plan = timed(lambda: Planner(bare).plan(read_head(bare, table.id), predicate))
    print(json.dumps({"files": files, "client": "Turnstile without an index", "question": "one day",
                      "planned": len(plan.files), "cold": [ms], "warm": [],
                      "cold_requests": meter.requests, "cold_depth": meter.depth}), flush=True)  # fmt: skip
    print(json.dumps(upkeep(table, world, meter, files) | {"peak_mb": peak_mb()}), flush=True)


if __name__ == "__main__":
    main()
