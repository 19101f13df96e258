"""YCSB's workloads A, B, C, D and F in Spark SQL, beside plain Delta:
``python -m benchmarks.spark.ycsb``.

A: half reads, half updates. B: 95 % reads. C: reads. D: 95 % reads of what is newest, the rest
inserts. F: half reads, half reads followed by an update of the same record. Records are chosen by
YCSB's Zipf distribution. Every operation is one statement, or for F two, by threads of one Spark
application; both systems have equal tables of the same records, partitioned alike, without deletion
vectors (their files are small), and take turns.

On Turnstile an operation runs in ``lake.retry`` under snapshot isolation. On plain Delta, a table
by its path, a statement that loses is an exception for the client, which sends it again, up to as
often as ``lake.retry`` does. ``reruns`` are the runs after the first of an operation on either
system, ``exceptions`` what the client's own code had to handle. F on plain Delta cannot know that
what it read has changed: its two statements are not one transaction. So the end is checked: the sum
of what was added is what was acknowledged, and what is lost of it is printed.

LakeVilla's paper has no aborts where Delta aborts.
"""

from __future__ import annotations

import argparse
import bisect
import itertools
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import turnstile_spark
from turnstile_server import Server

WORKLOADS: Final = {
    "A": {"read": 50, "update": 50},
    "B": {"read": 95, "update": 5},
    "C": {"read": 100},
    "D": {"newest": 95, "insert": 5},
    "F": {"read": 50, "modify": 50},
}
PARTITIONS: Final = 16
ATTEMPTS: Final = 20
_CONFLICTS: Final = (
    "DELTA_CONCURRENT",
    "ConcurrentAppend",
    "ConcurrentDelete",
    "ConcurrentModification",
    "ConcurrentWrite",
)


class Zipf:
    """YCSB's choice of records: the n-th most popular one with a probability of 1 / n to the power
    of 0.99."""

    def __init__(self, count: int) -> None:
        self._sums = list(itertools.accumulate(1 / rank**0.99 for rank in range(1, count + 1)))

    def rank(self, chance: random.Random) -> int:
        return bisect.bisect_left(self._sums, chance.random() * self._sums[-1])


@dataclass
class Client:
    """One thread: what it did, and what it was acknowledged."""

    spark: Any
    lake: Any
    table: str
    records: int
    random: random.Random
    zipf: Zipf
    inserted: itertools.count
    ms: list[float] = field(default_factory=list)
    exceptions: int = 0
    reruns: int = 0
    failed: int = 0
    added: int = 0

    def work(self, workload: str, operations: int) -> None:
        names, weights = zip(*WORKLOADS[workload].items(), strict=True)
        for _ in range(operations):
            name = self.random.choices(names, weights)[0]
            began_s = time.monotonic()
            done = getattr(self, name)()
            self.ms.append((time.monotonic() - began_s) * 1000)
            self.failed += not done

    def _key(self) -> int:
        """Popular records lie scattered, as YCSB's do."""
        return self.zipf.rank(self.random) * 7919 % self.records

    def _where(self, key: int) -> str:
        return f"part = {key % PARTITIONS} AND key = {key}"

    def _run(self, statements: list[str]) -> bool:
        """Whether the statements were done, together or, on plain Delta, one after the other."""
        if self.lake is not None:
            return self._in_transaction(statements)
        for statement in statements:
            for attempt in range(ATTEMPTS):
                self.reruns += attempt > 0
                try:
                    self.spark.sql(statement).collect()
                    break
                except Exception as error:  # Delta's own exceptions are Java's
                    if not any(word in str(error) for word in _CONFLICTS):
                        raise
                    self.exceptions += 1
            else:
                return False
        return True

    def _in_transaction(self, statements: list[str]) -> bool:
        def run(_: Any) -> None:
            for statement in statements:
                self.spark.sql(statement).collect()

        return self._retried(run)

    def _retried(self, run: Callable[[Any], None]) -> bool:
        runs = itertools.count()

        def counted(txn: Any) -> None:
            self.reruns += next(runs) > 0
            run(txn)

        try:
            self.lake.retry(counted, attempts=ATTEMPTS)
        except turnstile_spark.TransactionConflict:
            self.exceptions += 1
            return False
        return True

    def read(self) -> bool:
        return self._run([f"SELECT * FROM {self.table} WHERE {self._where(self._key())}"])

    def newest(self) -> bool:
        """A read of one of the records that were inserted last."""
        key = max(0, next(self.inserted) - 1 - self.zipf.rank(self.random))
        return self._run([f"SELECT * FROM {self.table} WHERE {self._where(key)}"])

    def insert(self) -> bool:
        key = next(self.inserted)
        return self._run([f"INSERT INTO {self.table} SELECT {key % PARTITIONS}, {key}, 0, 'x'"])

    def update(self) -> bool:
        done = self._run([f"UPDATE {self.table} SET value = value + 1 WHERE {self._where(self._key())}"])
        self.added += done
        return done

    def modify(self) -> bool:
        """Reads a record, and writes what it read and one more."""
        where = self._where(self._key())
        if self.lake is None:
            value = self.spark.sql(f"SELECT value FROM {self.table} WHERE {where}").first().value
            done = self._run([f"UPDATE {self.table} SET value = {value + 1} WHERE {where}"])
        else:
            done = self._modified(where)
        self.added += done
        return done

    def _modified(self, where: str) -> bool:
        def run(_: Any) -> None:
            value = self.spark.sql(f"SELECT value FROM {self.table} WHERE {where}").first().value
            self.spark.sql(f"UPDATE {self.table} SET value = {value + 1} WHERE {where}").collect()

        return self._retried(run)


def load(spark: Any, table: str, records: int, clause: str) -> None:
    """A table of so many records, a file for each partition."""
    spark.sql(
        f"CREATE TABLE {table} (part INT, key INT, value BIGINT, field STRING) USING delta PARTITIONED BY (part) "
        f"{clause} "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
    )
    spark.sql(
        f"INSERT INTO {table} SELECT INT(id % {PARTITIONS}), INT(id), 0, repeat('x', 100) FROM range({records}) "
        "DISTRIBUTE BY id % 16"
    )


def heat(clients: list[Client], workload: str, operations: int) -> dict[str, Any]:
    """Runs a workload by all clients at once; returns figures."""
    before = [(client.exceptions, client.failed, client.reruns, client.added) for client in clients]
    for client in clients:
        client.ms.clear()
    began_s = time.monotonic()
    threads = [threading.Thread(target=client.work, args=(workload, operations)) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began_s
    ms = sorted(value for client in clients for value in client.ms)
    after = [(client.exceptions, client.failed, client.reruns, client.added) for client in clients]
    exceptions, failed, reruns, added = (sum(b[n] - a[n] for a, b in zip(before, after, strict=True)) for n in range(4))
    return {
        "workload": workload, "clients": len(clients), "operations": len(ms), "a_second": round(len(ms) / seconds, 2),
        "reruns": reruns, "exceptions": exceptions, "failed": failed, "added": added,
        "p50_ms": round(ms[len(ms) // 2]), "p99_ms": round(ms[int(len(ms) * 0.99)]),
        "load": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="ABCDF")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--operations", type=int, default=24, help="of each client in each workload")
    parser.add_argument("--records", type=int, default=1600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="file that the figures are appended to, a JSON line each")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, Server.start(Path(folder) / "home", 0) as server:
        # Delta's log store for several writers of one process on a local disk; its default one
        # tears commits there.
        options_of_spark = {
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
        }
        spark = turnstile_spark.session("ycsb", small=True, options=options_of_spark)
        spark.sparkContext.setLogLevel("OFF")
        lake = turnstile_spark.attach(spark, "lake", server.url)
        print("loading", flush=True)
        load(spark, "lake.default.usertable", options.records, "")
        load(spark, "spark_catalog.default.usertable", options.records, f"LOCATION '{folder}/plain'")
        zipf = Zipf(options.records)
        expected = {"turnstile": 0, "delta": 0}
        systems = {"turnstile": (lake, "lake.default.usertable"), "delta": (None, "spark_catalog.default.usertable")}
        for workload in options.workloads:
            for name, (its_lake, table) in systems.items():
                inserted = itertools.count(options.records * 10)
                clients = [
                    Client(
                        spark,
                        its_lake,
                        table,
                        options.records,
                        random.Random(f"{options.seed} {workload} {n}"),
                        zipf,
                        inserted,
                    )
                    for n in range(options.clients)
                ]
                figures = {"system": name, **heat(clients, workload, options.operations)}
                expected[name] += figures["added"]
                total = spark.sql(f"SELECT sum(value) AS v FROM {table}").first().v
                figures["lost_updates"] = expected[name] - total
                expected[name] = total
                print(json.dumps(figures), flush=True)
                if options.out:
                    with options.out.open("a") as out:
                        out.write(json.dumps(figures) + "\n")
                assert name == "delta" or not figures["lost_updates"], "an acknowledged update is lost"
        spark.stop()


if __name__ == "__main__":
    main()
