"""Conditional writes on the SQLite store, beside what the disk alone takes:
``python -m benchmarks.sqlite_store --folder .``

Each thread raises its own row of a realistic HEAD by conditional writes. Before each round the bare
disk is measured: the bytes of one such write into a file that has its size, and ``fdatasync``.
``overhead`` is the median of a write less that.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.refs import SqliteRefs, encode
from turnstile.store.core.writes import Append, Change, Clause, Drop, Equals, Insert, Row, Set, Write, new_row
from turnstile.store.ports import Accepted

ENTRY_BYTES = 400
PAGE_BYTES = 4096


@dataclass(frozen=True)
class Times:
    """Durations of one kind of call, in ms, ascending."""

    ms: Sequence[float]

    def percentile(self, share: float) -> float:
        return self.ms[min(len(self.ms) - 1, int(len(self.ms) * share))]

    def __str__(self) -> str:
        return f"p50 {self.percentile(0.5):7.3f}  p99 {self.percentile(0.99):7.3f}  max {self.ms[-1]:7.1f} ms"


def head(key: str, row_bytes: int) -> Row:
    """A row with a tail of entries that do not compress."""
    tail = [os.urandom(ENTRY_BYTES) for _ in range(row_bytes // ENTRY_BYTES)]
    return {"key": key, "kind": "table", "latest": 0, "tail": tail, "ids": {os.urandom(8).hex() for _ in tail}}


def step(key: str, latest: int) -> Write:
    """What a commit does to its row: the oldest entry goes, a new one of another size comes."""
    clause = Clause("next", "I1", "", Equals(("latest",), latest))
    entry = os.urandom(ENTRY_BYTES - 50 + latest % 100)
    return Change(key, (clause,), (Set(("latest",), latest + 1), Drop(("tail", 0)), Append(("tail",), (entry,))))


def bare_disk(folder: Path, write_bytes: int, writes: int = 300) -> Times:
    """What a write of so many bytes and its sync take, into a file that has its size already."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        file.write(bytes(write_bytes * writes))
        os.fsync(file.fileno())
        data = os.urandom(write_bytes)
        times = []
        for number in range(writes):
            begun = time.perf_counter()
            os.pwrite(file.fileno(), data, number * write_bytes)
            os.fdatasync(file.fileno())
            times.append(1000 * (time.perf_counter() - begun))
    return Times(sorted(times))


def raised(refs: SqliteRefs, keys: Sequence[str], seconds: float) -> Times:
    """Durations of conditional writes, one thread a key."""
    times: list[float] = []
    stop = time.perf_counter() + seconds

    def work(key: str) -> None:
        latest = 0
        while (begun := time.perf_counter()) < stop:
            answer = refs.write(step(key, latest))
            times.append(1000 * (time.perf_counter() - begun))
            if not isinstance(answer, Accepted):
                raise TypeError(f"{key} was not at {latest}")
            latest += 1

    threads = [threading.Thread(target=work, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Times(sorted(times))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sqlite_store", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path(), help="on the disk that is measured")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--seconds", type=float, default=10, help="of each round")
    parser.add_argument("--row-bytes", type=int, default=12_000, help="of the rows that are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        groups = list[int]()
        database = Database(folder / "turnstile.db", on_commit=groups.append)
        refs = SqliteRefs(database, realm="bench", clock=SystemClock())
        pages = 2 + len(encode(head("bench/table/0", options.row_bytes))) // PAGE_BYTES
        for threads in options.threads:
            bare = bare_disk(folder, pages * (PAGE_BYTES + 24))
            keys = [f"bench/table/{threads}-{number}" for number in range(threads)]
            for key in keys:
                refs.write(Insert(head(key, options.row_bytes), (new_row("I1"),)))
            groups.clear()
            cpu = time.process_time()
            times = raised(refs, keys, options.seconds)
            cpu = time.process_time() - cpu
            count = len(times.ms)
            print(f"load {os.getloadavg()[0]:.1f}   bare fdatasync      {bare}")
            print(f"{threads:>3} threads {count / options.seconds:>6.0f} writes/s  {times}")
            print(
                f"            overhead {times.percentile(0.5) - bare.percentile(0.5):.3f} ms, p99/p50 "
                f"{times.percentile(0.99) / times.percentile(0.5):.1f}, {sum(groups) / len(groups):.1f} writes a "
                f"group, {1000 * cpu / count:.3f} ms of CPU a write",
                flush=True,
            )
        database.close()


if __name__ == "__main__":
    main()
