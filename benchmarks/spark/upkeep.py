"""A stream of small commits with readers, with and without maintenance:
``python -m benchmarks.spark.upkeep``.

A writer for each of three tables appends ten rows at a time over HTTP, at a steady pace; four Spark
threads read. With maintenance, a thread rewrites small files (``optimize``) all the time, one table
after the other, and the server does its light work; without it neither is done. A reader knows what
it must see, whatever version it reads: a table has the ids from 0 on without a gap, in whole
batches of ten, and never fewer than a reader saw before. Half-way a clone and a named snapshot are
made. At the end versions of the whole run are read by time travel, the clone and the snapshot must
show what they did, and every version is checked from the published log: the data files that it
names are there, and their rows are whole batches without a gap, never fewer than in the version
before.

Said at every sample: files of a table, versions since its newest checkpoint, and how long a reader
takes to plan and to run a query, from a Delta log that nobody has cached.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow.compute as pc
import pyarrow.parquet as pq

import turnstile_spark
from benchmarks.streaming.writers import MEASURED, TurnstileWriter, batch_rows
from turnstile_server import Server

TABLES: Final = 3
READERS: Final = 4
ROWS: Final = 10
MEASURED_COLUMNS: Final = ", ".join(f"{name} DOUBLE" for name in MEASURED)
SAMPLES: Final = 20
TRAVELS: Final = 30
"""Versions of each table that are read at the end."""


class WrongRows(Exception):
    """A table showed what no commit had made."""


def check(row: Any, where: str) -> int:
    """Returns how many rows a query saw, which must be whole batches without a gap. Raises
    WrongRows."""
    count = int(row.rows)
    if count % ROWS or (count and (int(row.last), int(row.total)) != (count - 1, count * (count - 1) // 2)):
        raise WrongRows(f"{where}: {row}")
    return count


class Totals(NamedTuple):
    """What query() asks for, of one version or file."""

    rows: int
    last: int
    total: int


def file_totals(path: Path) -> Totals:
    ids = pq.read_table(path, columns=["id"], partitioning=None)["id"]
    return Totals(len(ids), pc.max(ids).as_py(), pc.sum(ids).as_py())


def check_versions(folder: Path) -> int:
    """Returns how many published versions a table has, each of which must show whole batches, and
    no fewer than the one before it, in files that are there. Raises WrongRows."""
    commits = sorted(path for path in (folder / "_delta_log").glob("*.json") if path.stem.isdigit())
    if [int(path.stem) for path in commits] != list(range(len(commits))):
        raise WrongRows(f"{folder}: commits are missing")
    live = dict[str, Totals]()
    rows = 0
    for commit in commits:
        for action in map(json.loads, commit.read_text().splitlines()):
            if "remove" in action:
                del live[action["remove"]["path"]]
            elif "add" in action:
                path = action["add"]["path"]
                live[path] = file_totals(folder / unquote(path))
        files = live.values()
        last = max((file.last for file in files), default=-1)
        version = Totals(sum(file.rows for file in files), last, sum(file.total for file in files))
        if check(version, f"{folder} {commit.stem}") < rows:
            raise WrongRows(f"{folder} {commit.stem}: {version.rows} rows after {rows}")
        rows = version.rows
    return len(commits)


def query(table: str) -> str:
    return f"SELECT count(*) AS rows, max(id) AS last, sum(id) AS total FROM {table}"


class Stream:
    """One run: its tables, the threads that write, read and maintain them, and what they saw."""

    def __init__(self, server: Server, spark: Any, *, commits: int, seconds: float, maintained: bool) -> None:
        self._server = server
        self._spark = spark
        self._maintained = maintained
        self._commits = commits // TABLES
        self._pause_s = seconds * TABLES / commits
        run = uuid.uuid4().hex[:6]
        self._names = [f"stream_{run}_{number}" for number in range(TABLES)]
        self._lake = turnstile_spark.attach(spark, f"lake_{run}", server.url)
        self._folders = [self._create(name) for name in self._names]
        self._over = threading.Event()
        self._faults = list[BaseException]()
        self._errors: list[str] = []
        self._reads_ms: list[float] = []
        self.samples: list[dict[str, Any]] = []

    def play(self) -> dict[str, Any]:
        """Runs until everything is written, and checks it."""
        writers = [self._thread(self._write, *each) for each in zip(self._names, self._folders, strict=True)]
        others = [self._thread(self._read, seed) for seed in range(READERS)]
        others += [self._thread(self._maintain)] if self._maintained else []
        begun_s = time.monotonic()
        marked = None
        next_s = 0.0
        while any(thread.is_alive() for thread in writers) and not self._faults:
            time.sleep(0.2)
            passed_s = time.monotonic() - begun_s
            if passed_s >= next_s:
                self.samples.append(self._sample(passed_s))
                next_s = passed_s + self._commits * self._pause_s / SAMPLES
                print(json.dumps(self.samples[-1]), flush=True)
            if marked is None and passed_s > self._commits * self._pause_s / 2:
                marked = self._mark()
        self._over.set()
        for thread in (*writers, *others):
            thread.join()
        if self._faults:
            raise self._faults[0]
        self.samples.append(self._sample(time.monotonic() - begun_s))
        return {
            "maintained": self._maintained,
            "commits": self._commits * TABLES,
            "seconds": round(time.monotonic() - begun_s, 1),
            "reads": len(self._reads_ms),
            "read_p50_ms": round(statistics.median(self._reads_ms)),
            "read_p95_ms": round(statistics.quantiles(self._reads_ms, n=20)[18]),
            "errors": self._errors,
            "versions_read": self._travel(),
            "clone_and_snapshot": self._check_marks(marked),
            "versions_checked": sum(map(check_versions, self._folders)),
            "samples": self.samples,
        }

    def _thread(self, work: Any, *arguments: Any) -> threading.Thread:
        def guarded() -> None:
            try:
                work(*arguments)
            except BaseException as fault:  # told by play()
                self._faults.append(fault)

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        return thread

    def _create(self, name: str) -> Path:
        """Makes a table; returns its folder."""
        table = f"{self._lake.name}.default.{name}"
        columns = f"id BIGINT, sensor BIGINT, measured_at TIMESTAMP, {MEASURED_COLUMNS}"
        interval = "10" if self._maintained else "1000000"  # nothing else switches the server's light work off
        self._spark.sql(f"CREATE TABLE {table} ({columns}) TBLPROPERTIES ('delta.checkpointInterval' = '{interval}')")
        location = self._spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].location
        return Path(unquote(urlparse(location).path))

    # -- what the threads do ------------------------------------------------------------------------------------------

    def _write(self, name: str, folder: Path) -> None:
        table_id = self._lake.table(f"default.{name}").head().table_id
        target = {"port": self._server.port, "table_id": table_id, "folder": str(folder), "tickets": True}
        writer = TurnstileWriter(target)
        begun_s = time.monotonic()
        for batch in range(self._commits):
            if self._faults:
                return
            writer.append(batch_rows(batch, ROWS))
            time.sleep(max(0.0, begun_s + (batch + 1) * self._pause_s - time.monotonic()))

    def _read(self, seed: int) -> None:
        spark = self._spark.newSession()
        rng = random.Random(seed)
        seen = dict.fromkeys(self._names, 0)
        while not self._over.is_set():
            name = rng.choice(self._names)
            begun_s = time.perf_counter()
            count = check(spark.sql(query(f"{self._lake.name}.default.{name}")).collect()[0], name)
            self._reads_ms.append((time.perf_counter() - begun_s) * 1000)
            if count < seen[name]:
                raise WrongRows(f"{name}: {count} rows after {seen[name]}")
            seen[name] = count
            self._over.wait(1.0)

    def _maintain(self) -> None:
        while not self._over.is_set():
            for name in self._names:
                try:
                    self._lake.table(f"default.{name}").optimize()
                except Exception as error:  # what a user of it would see
                    self._errors.append(f"optimize {name}: {error}"[:300])
            self._over.wait(5.0)

    # -- what is seen -------------------------------------------------------------------------------------------------

    def _sample(self, passed_s: float) -> dict[str, Any]:
        """The tables as a new reader finds them."""
        spark = self._spark.newSession()
        files = []
        behind = []
        plan_ms = []
        scan_ms = []
        for folder, name in zip(self._folders, self._names, strict=True):
            names = [file.name for file in (folder / "_delta_log").iterdir()]
            latest = max(int(entry[:20]) for entry in names if entry.endswith(".json") and entry[:20].isdigit())
            newest = max(
                (int(entry[:20]) for entry in names if ".checkpoint" in entry and entry[:20].isdigit()), default=0
            )
            behind.append(latest - newest)
            spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # noqa: SLF001
            begun_s = time.perf_counter()
            frame = spark.sql(query(f"{self._lake.name}.default.{name}"))
            frame._jdf.queryExecution().executedPlan()  # noqa: SLF001
            planned_s = time.perf_counter()
            check(frame.collect()[0], name)
            scan_ms.append((time.perf_counter() - planned_s) * 1000)
            plan_ms.append((planned_s - begun_s) * 1000)
            files.append(int(spark.sql(f"DESCRIBE DETAIL {self._lake.name}.default.{name}").collect()[0].numFiles))
        return {
            "s": round(passed_s),
            "files": max(files),
            "versions_since_checkpoint": max(behind),
            "plan_ms": round(statistics.median(plan_ms)),
            "scan_ms": round(statistics.median(scan_ms)),
        }

    def _mark(self) -> dict[str, Any]:
        """Makes a clone of each table and a named snapshot; returns how many rows they showed."""
        tag = uuid.uuid4().hex[:6]
        with self._server.client() as client:
            client.post("/v1/catalogs/main/snapshots", json={"name": f"half_{tag}"}).raise_for_status()
            clones = []
            for name in self._names:
                body = {"from": f"default.{name}", "to": f"default.{name}_clone"}
                client.post("/v1/catalogs/main/clones", json=body).raise_for_status()
                clones.append(f"{self._lake.name}.default.{name}_clone")
        rows = {clone: check(self._spark.sql(query(clone)).collect()[0], clone) for clone in clones}
        return {"rows": rows}

    def _check_marks(self, marked: dict[str, Any] | None) -> int:
        """How many clones show what they did when they were made."""
        for clone, rows in (marked or {"rows": {}})["rows"].items():
            if check(self._spark.sql(query(clone)).collect()[0], clone) != rows:
                raise WrongRows(f"{clone} had {rows} rows")
        return len((marked or {"rows": {}})["rows"])

    def _travel(self) -> int:
        """Reads versions of the whole run; returns how many."""
        read = 0
        for name in self._names:
            table = f"{self._lake.name}.default.{name}"
            latest = self._lake.table(f"default.{name}").head().latest
            counts = [
                check(self._spark.sql(query(f"{table} VERSION AS OF {version}")).collect()[0], f"{name} {version}")
                for version in sorted(random.sample(range(latest + 1), min(TRAVELS, latest + 1)))
            ]
            if counts != sorted(counts):
                raise WrongRows(f"{name}: rows by version {counts}")
            read += len(counts)
        return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=10_000, help="of all tables together")
    parser.add_argument("--seconds", type=float, default=1800, help="how long the stream takes")
    parser.add_argument("--only", choices=("with", "without"), help="one of the two runs")
    parser.add_argument("--out", type=Path, help="append the figures to this file, a JSON object a line")
    options = parser.parse_args()
    runs = [options.only == "with"] if options.only else [False, True]
    for maintained in runs:
        with tempfile.TemporaryDirectory() as folder, Server.start(Path(folder) / "home", 0) as server:
            settings = {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
            spark = turnstile_spark.session("upkeep", small=True, master="local[2]", options=settings)
            spark.sparkContext.setLogLevel("OFF")
            stream = Stream(server, spark, commits=options.commits, seconds=options.seconds, maintained=maintained)
            figures = {**stream.play(), "load": round(os.getloadavg()[0], 1)}
            spark.stop()
        print(json.dumps(figures), flush=True)
        if options.out:
            with options.out.open("a") as file:
                file.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
