"""How often transactions over tables are refused, by what is judged:
``python -m benchmarks.spark.warehouse``.

The mix of TreeCat's section on concurrency (derived from TPC-DS), over a fact table and a
dimension, by clients that are processes of their own and speak HTTP to one server. A transaction
reads and writes actions of Delta's logs with statistics, as engines write them; there are no data
files.

    144  fact insert        reads the customers of a range of business ids, adds a file of sales
     12  dimension insert   adds a file of customers, whose ids are a range
     12  fact delete        reads the sales of a range of days, removes the files in it
      1  optimize           puts small files of sales together, which changes no data

All are serializable. What a client does with a group that the server refuses, because a table has a
later version, is the difference:

    table     gives it up: a table that it touched has changed
    file      reads the commits that won; a read conflicts with every file that was added to its table
    precise   as the Spark client does: only a file whose statistics allow a row that the predicate accepts conflicts
    tickets   the same, and commits that only add files ask for the next version instead of naming one
    server    the same, and what was read of a table that is not written is sent as a predicate, which the server judges
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
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.racing.table import RaceTable, create
from benchmarks.server_commits import Connection
from turnstile_predicates.file_stats import TableSchema
from turnstile_predicates.predicates import And, Comparison, Or, Predicate, Value
from turnstile_predicates.sql import sql_of
from turnstile_server import Server
from turnstile_spark.transactions.conflicts.conflict_check import Read, Winner, assess
from turnstile_spark.transactions.conflicts.rebase import TableHead, rebase

KINDS = {"fact insert": 144, "dimension insert": 12, "fact delete": 12, "optimize": 1}
JUDGED = ("table", "file", "precise", "tickets", "server")
SALES = "sales"
CUSTOMERS = "customers"
COLUMN = {SALES: "day", CUSTOMERS: "customer"}
#: Values of each table's column, and how many a transaction's range has.
DOMAIN = 1_000_000
RANGE = 10_000
SCHEMAS = {
    name: {"type": "struct", "fields": [{"name": column, "type": "long", "nullable": True, "metadata": {}}]}
    for name, column in COLUMN.items()
}
OPTIMIZED = 10  # files that one optimize puts together
TRIES = 100  # times that one group is put on top of others

File = dict[str, Any]


def range_of(file: File) -> tuple[int, int]:
    """The least and the greatest value in a file, by its statistics."""
    stats = json.loads(file["stats"])
    (low,) = stats["minValues"].values()
    (high,) = stats["maxValues"].values()
    return low, high


@dataclass
class View:
    """A table as a client has read it: its files at ``version``, and the commits after that which
    it has read."""

    table: RaceTable
    version: int = 0
    files: dict[str, File] = field(default_factory=dict)
    _later: dict[int, Winner] = field(default_factory=dict)

    def content(self, connection: Connection, version: int) -> str:
        """A ratified commit: what is published, or what the server still has."""
        try:
            return self.table.published(version).decode()
        except FileNotFoundError:
            route = f"/v1/tables/{self.table.table_id}/commits?start={version}&end={version}&content=true"
            (commit,) = _answer(connection, "GET", route)["commits"] or [{}]
            return str(commit["content"]) if commit.get("content") else self.content(connection, version)

    def winners(self, connection: Connection, latest: int) -> list[Winner]:
        """The commits after the view's version."""
        for version in range(self.version + 1, latest + 1):
            if version not in self._later:
                self._later[version] = Winner.parse(version, self.content(connection, version))
        return [self._later[version] for version in range(self.version + 1, latest + 1)]

    def advance(self, connection: Connection, version: int) -> None:
        """Makes ``version`` the one that is seen."""
        for winner in self.winners(connection, version):
            for action in winner.actions:
                if "add" in action:
                    self.files[action["add"]["path"]] = action["add"]
                if "remove" in action:
                    self.files.pop(action["remove"]["path"], None)
            del self._later[winner.version]
            self.version = winner.version


class Client:
    """One client: a transaction after the other, each from a fresh cut. Counts what became of
    them."""

    def __init__(self, port: int, tables: dict[str, RaceTable], judged: str, seed: int) -> None:
        self._connection = Connection(port)
        self._judged = judged
        self._rng = random.Random(seed)
        self.views = {name: View(table) for name, table in tables.items()}
        self.schemas = {name: TableSchema(SCHEMAS[name]) for name in tables}
        self.counts: Counter[str] = Counter()
        self.ms: list[float] = []

    def run(self, until: float) -> tuple[Counter[str], list[float]]:
        while time.monotonic() < until:
            kind = self._rng.choices(list(KINDS), list(KINDS.values()))[0]
            began = time.perf_counter()
            self._cut()
            outcome = self._transact(kind)
            if outcome == "committed":
                self.ms.append((time.perf_counter() - began) * 1000)
            self.counts[outcome] += 1
            self.counts[f"{kind}: {outcome}"] += 1
        return self.counts, self.ms

    def _cut(self) -> None:
        ids = [view.table.table_id for view in self.views.values()]
        cut = _answer(self._connection, "POST", "/v1/snapshots", {"tables": ids})
        for view, entry in zip(self.views.values(), cut["tables"], strict=True):
            view.advance(self._connection, entry["version"])

    def _transact(self, kind: str) -> str:
        writes, reads = self._statements(kind)
        if not any(writes.values()):
            return "nothing to do"
        versions = {name: self.views[name].version for name in {*writes, *reads}}
        planned = {name: _commit(kind, actions, versions[name]) for name, actions in writes.items()}
        commits = dict(planned)
        group = str(uuid.uuid4())
        for _ in range(TRIES):
            error = self._send(group, commits, versions, reads)
            if error is None:
                return "committed"
            if self._judged == "table":
                return "refused"
            for member in error["members"]:
                if member["type"] != "CommitVersionConflict":
                    continue
                (name,) = (n for n, view in self.views.items() if view.table.table_id == member["table_id"])
                own = planned.get(name, [])
                view = self.views[name]
                winners = view.winners(self._connection, member["latest"])
                on_top = assess(
                    reads.get(name, []), own, winners, "serializable", schema=self.schemas[name], base=view.version
                )
                if not on_top.is_rebase:
                    return "refused"
                if own:
                    base = TableHead.before(own, view.version)
                    commits[name] = rebase(own, base, base.after(winners))
                versions[name] = member["latest"]
                self.counts["put on top"] += 1
        return "refused"

    def _is_ticket(self, actions: list[Any]) -> bool:
        return self._judged in ("tickets", "server") and all("add" in action for action in actions[1:])

    def _send(
        self, group: str, commits: dict[str, list[Any]], versions: dict[str, int], reads: dict[str, list[Read]]
    ) -> dict[str, Any] | None:
        """Sends until the group is ratified or lost to others: None, or the error."""
        members = [
            {
                "table_id": self.views[name].table.table_id,
                "version": None if self._is_ticket(actions) else versions[name] + 1,
                "base": versions[name],
                "inline": {"content": "".join(json.dumps(action) + "\n" for action in actions)},
            }
            for name, actions in commits.items()
        ]
        read = [
            {"table_id": self.views[name].table.table_id, "version": version, "predicate": self._predicate(reads[name])}
            for name, version in versions.items()
            if name not in commits
        ]
        body = {"id": group, "commits": members, "reads": read}
        while True:
            status, answer = self._connection.request("POST", "/v1/transactions", json.dumps(body).encode())
            if status == 200:
                return None
            error: dict[str, Any] = json.loads(answer)["error"]
            types = {member["type"] for member in error.get("members", ())}
            if "CommitVersionConflict" in types:
                return error
            if status in (429, 503) or types & {"BacklogFull", "ConcurrentChange"}:
                self.counts["sent again"] += 1
                time.sleep(self._rng.random() * 0.05)
                continue
            raise RuntimeError(error)

    def _predicate(self, reads: list[Read]) -> str:
        """What is told of the rows that were read; empty: nothing."""
        if self._judged != "server":
            return ""
        predicates = [read.predicate for read in reads if read.predicate is not None]
        return sql_of(Or(tuple(predicates))) or ""

    def _statements(self, kind: str) -> tuple[dict[str, list[Any]], dict[str, list[Read]]]:
        """Actions to write, and what was read, by table."""
        low = self._rng.randrange(DOMAIN - RANGE)
        high = low + RANGE - 1
        files = self.views[SALES].files
        if kind == "fact insert":
            return {SALES: [_add(SALES, low, high)]}, {CUSTOMERS: [self._read(CUSTOMERS, low, high)]}
        if kind == "dimension insert":
            return {CUSTOMERS: [_add(CUSTOMERS, low, high)]}, {}
        if kind == "optimize":
            chosen = sorted(files.values(), key=lambda file: (file["size"], file["path"]))[:OPTIMIZED]
            if len(chosen) < OPTIMIZED:
                return {}, {}
            least = min(range_of(file)[0] for file in chosen)
            most = max(range_of(file)[1] for file in chosen)
            size = sum(file["size"] for file in chosen)
            removes = [_remove(file, changes_data=False) for file in chosen]
            return {SALES: [*removes, _add(SALES, least, most, size, changes_data=False)]}, {}
        taken = [file for file in files.values() if low <= range_of(file)[0] and range_of(file)[1] <= high]
        return {SALES: [_remove(file) for file in taken]}, {SALES: [self._read(SALES, low, high)]}

    def _read(self, name: str, low: int, high: int) -> Read:
        column = (COLUMN[name],)
        view = self.views[name]
        predicate: Predicate = And(
            (Comparison(column, ">=", Value("integer", low)), Comparison(column, "<=", Value("integer", high)))
        )
        overlapping = [
            path for path, file in view.files.items() if range_of(file)[0] <= high and range_of(file)[1] >= low
        ]
        whole = self._judged == "file"
        return Read(name, view.version, None if whole else predicate, None, frozenset(overlapping))


def _answer(connection: Connection, method: str, route: str, body: Any = None) -> dict[str, Any]:
    while True:
        status, answer = connection.request(method, route, json.dumps(body).encode() if body else b"")
        if status == 200:
            return json.loads(answer)  # type: ignore[no-any-return]
        if status not in (429, 503):
            raise RuntimeError(answer)
        time.sleep(0.02)


def _commit(kind: str, actions: list[Any], base: int) -> list[Any]:
    now = int(time.time() * 1000)
    info = {"inCommitTimestamp": now, "timestamp": now, "operation": kind.upper(), "txnId": uuid.uuid4().hex}
    return [{"commitInfo": {**info, "readVersion": base}}, *actions]


def _add(name: str, low: int, high: int, size: int = 1000, *, changes_data: bool = True) -> dict[str, Any]:
    column = COLUMN[name]
    stats = {"numRecords": RANGE, "minValues": {column: low}, "maxValues": {column: high}, "nullCount": {column: 0}}
    file = {"path": f"{uuid.uuid4()}.parquet", "partitionValues": {}, "size": size, "modificationTime": 1}
    return {"add": {**file, "dataChange": changes_data, "stats": json.dumps(stats)}}


def _remove(file: File, *, changes_data: bool = True) -> dict[str, Any]:
    now = int(time.time() * 1000)
    return {
        "remove": {"path": file["path"], "deletionTimestamp": now, "dataChange": changes_data, "size": file["size"]}
    }


def heat(server: Server, judged: str, clients: int, seconds: float) -> dict[str, Any]:
    """Plays the mix on fresh tables. Returns the figures."""
    tables = {
        name: create(server.url, server.token, f"{name}_{uuid.uuid4().hex[:8]}", schema=SCHEMAS[name])
        for name in COLUMN
    }
    out: Any = multiprocessing.Queue()
    until = time.monotonic() + seconds

    def play(seed: int) -> None:
        out.put(Client(server.port, tables, judged, seed).run(until))

    processes = [multiprocessing.Process(target=play, args=(seed,)) for seed in range(clients)]
    for process in processes:
        process.start()
    answers = [out.get(timeout=seconds + 120) for _ in processes]
    for process in processes:
        process.join()
    counts = sum((counted for counted, _ in answers), Counter())
    ms = [value for _, times in answers for value in times]
    _check(tables, counts)
    ended = counts["committed"] + counts["refused"]
    return {
        "judged": judged,
        "clients": clients,
        "per_s": round(counts["committed"] / seconds, 1),
        "refused_percent": round(100 * counts["refused"] / ended, 2),
        "put_on_top_per_commit": round(counts["put on top"] / max(1, counts["committed"]), 2),
        "p50_ms": round(statistics.median(ms), 1),
        "p99_ms": round(statistics.quantiles(ms, n=100)[98], 1),
        "load": round(os.getloadavg()[0], 1),
        "counts": dict(counts),
    }


def _check(tables: dict[str, RaceTable], counts: Counter[str]) -> None:
    """What was acknowledged is in the logs, once, and nothing else."""
    committed = {
        SALES: sum(counts[f"{kind}: committed"] for kind in KINDS if kind != "dimension insert"),
        CUSTOMERS: counts["dimension insert: committed"],
    }
    deadline = time.monotonic() + 60
    for name, table in tables.items():
        last = Path(table.log, f"{committed[name]:020d}.json")
        while not last.exists():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{name}: version {committed[name]} was acknowledged and is not published")
            time.sleep(0.05)
        if Path(table.log, f"{committed[name] + 1:020d}.json").exists():
            raise RuntimeError(f"{name} has more versions than were acknowledged")


def main() -> None:
    """Prints a line for each way of judging and number of clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="seconds of each heat (20)")
    parser.add_argument("--clients", default="1,8,30", help="numbers of clients (1,8,30)")
    parser.add_argument("--out", type=Path, help="file that the figures are appended to, a JSON line each")
    options = parser.parse_args()
    print(
        f"{'judged':8s} {'clients':>7s} {'refused':>8s} {'per s':>7s} {'put on top':>11s} {'p50 ms':>7s} "
        f"{'p99 ms':>8s}  load"
    )
    with tempfile.TemporaryDirectory() as home, Server.start(Path(home), 0) as server:
        for clients in map(int, options.clients.split(",")):
            for judged in JUDGED:
                figures = heat(server, judged, clients, options.seconds)
                print(
                    f"{judged:8s} {clients:7d} {figures['refused_percent']:7.2f}% {figures['per_s']:7.1f} "
                    f"{figures['put_on_top_per_commit']:11.2f} {figures['p50_ms']:7.1f} {figures['p99_ms']:8.1f}  "
                    f"{figures['load']}",
                    flush=True,
                )
                if options.out:
                    with options.out.open("a") as out:
                        out.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
