"""What the writers of ``benchmarks.streaming`` do: ``python -m benchmarks.streaming.writers``, with
a plan as JSON in the first line of its input. Runs in the interpreter that has the client of the
system, and imports no other.

A commit is one call of ``append``: when it returns, the rows are durable and visible to every
reader that looks from then on.
"""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import threading
import time
import uuid
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

MEASURED = [f"value_{number}" for number in range(20)]
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("sensor", pa.int64()),
        ("measured_at", pa.timestamp("us", tz="UTC")),
        *((name, pa.float64()) for name in MEASURED),
    ]
)
"""23 columns, as in DuckLake's benchmark."""

BATCHES_OF_A_WRITER = 10_000_000
"""Batch ``writer * this + n`` is a writer's n-th; its rows have the ids from ``batch * rows``
on."""

PUBLISHED_WITHIN_S = 120


class UnknownOutcome(Exception):
    """The commit may have happened."""


class Writer(Protocol):
    """One writer with a connection of its own.

    Attributes:
        attempts: what was refused inside of ``append`` and tried again there, by kind.
    """

    attempts: Counter[str]

    def append(self, rows: pa.Table) -> None:
        """Commits the rows. Raises UnknownOutcome, or what else the client raises when they were
        not committed."""


def batch_rows(batch: int, rows: int) -> pa.Table:
    ids = range(batch * rows, (batch + 1) * rows)
    columns = [ids, [id % 97 for id in ids], [datetime.now(UTC)] * rows]
    columns += [[id / (3 + number) for id in ids] for number in range(len(MEASURED))]
    return pa.table(columns, schema=SCHEMA)


# -- Turnstile --------------------------------------------------------------------------------------------------------


class TurnstileWriter:
    """Writes a synced Parquet file into the table's folder and commits it inline over HTTP."""

    def __init__(self, target: dict[str, Any]) -> None:
        from benchmarks.server_commits import Connection

        self._connect = functools.partial(Connection, target["port"])
        self._connection = self._connect()
        self._path = f"/v1/tables/{target['table_id']}/commits"
        self._folder = Path(target["folder"])
        self._tickets = target["tickets"]
        self._latest = 0
        self._timestamp = 0
        self.attempts: Counter[str] = Counter()

    def append(self, rows: pa.Table) -> None:
        transaction = uuid.uuid4().hex
        add = self._write(f"{transaction}.parquet", rows)
        request = self._proposal(transaction, add)
        while True:
            status, answer = self._send(request)
            if status == 200:
                commit = answer["commit"]
                self._latest = commit["version"]
                self._timestamp = commit["timestamp"]
                return
            error = answer["error"]
            self.attempts[error["type"]] += 1
            if error["type"] == "CommitVersionConflict":
                self._latest = error["latest"]
                self._timestamp = max((winner["timestamp"] for winner in error["winners"]), default=self._timestamp)
                request = self._proposal(transaction, add)
            elif status in {429, 503}:
                time.sleep(error.get("retry_after_ms", 100) / 1000)
            elif status < 500:
                raise RuntimeError(error)

    def _send(self, request: bytes) -> tuple[int, dict[str, Any]]:
        """The answer; where none came, to the same proposal again, which gets the first one's."""
        for _ in range(20):
            try:
                status, body = self._connection.post(self._path, request)
                return status, json.loads(body)
            except OSError as error:
                self.attempts[type(error).__name__] += 1
                time.sleep(0.1)
                self._connection = self._connect()
        raise UnknownOutcome

    def _write(self, name: str, rows: pa.Table) -> dict[str, Any]:
        with (self._folder / name).open("wb") as file:
            pq.write_table(rows, file)
            file.flush()
            os.fsync(file.fileno())
            size = file.tell()
        folder = os.open(self._folder, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        ids = rows["id"]
        limits = {"minValues": {"id": ids[0].as_py()}, "maxValues": {"id": ids[-1].as_py()}, "nullCount": {"id": 0}}
        statistics = json.dumps({"numRecords": rows.num_rows, **limits})
        now = int(time.time() * 1000)
        return {"path": name, "partitionValues": {}, "size": size, "modificationTime": now, "dataChange": True,
                "stats": statistics}  # fmt: skip

    def _proposal(self, transaction: str, add: dict[str, Any]) -> bytes:
        timestamp = max(int(time.time() * 1000), self._timestamp + 1)
        info = {"inCommitTimestamp": timestamp, "timestamp": timestamp, "operation": "STREAMING UPDATE",
                "txnId": transaction, "readVersion": self._latest}  # fmt: skip
        content = "".join(json.dumps(action) + "\n" for action in ({"commitInfo": info}, {"add": add}))
        version = None if self._tickets else self._latest + 1
        return json.dumps({"version": version, "base": self._latest, "inline": {"content": content}}).encode()


def read_turnstile(target: dict[str, Any]) -> pa.ChunkedArray:
    """Ids in the table by its published log, after the server has said what the latest version
    is."""
    import httpx

    log = Path(target["folder"]) / "_delta_log"
    latest = httpx.get(f"{target['url']}/v1/tables/{target['table_id']}/head").raise_for_status().json()["latest"]
    end = time.monotonic() + PUBLISHED_WITHIN_S
    while not (log / f"{latest:020d}.json").exists():
        if time.monotonic() > end:
            raise TimeoutError(f"version {latest} was not published within {PUBLISHED_WITHIN_S} s")
        time.sleep(0.05)
    ids: list[pa.Array] = []
    for version in range(1, latest + 1):
        for line in (log / f"{version:020d}.json").read_text().splitlines():
            if add := json.loads(line).get("add"):
                ids += pq.read_table(Path(target["folder"]) / add["path"], columns=["id"])["id"].chunks
    return pa.chunked_array(ids, pa.int64())


# -- PyIceberg, on any of its catalogs --------------------------------------------------------------------------------


class CountedRetries(logging.Handler):
    """Counts PyIceberg's own retries, which it logs and does not tell otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "retrying" in record.getMessage()


class IcebergWriter:
    """Unmodified PyIceberg with its own retries."""

    def __init__(self, target: dict[str, Any]) -> None:
        self._table = _iceberg_table(target)
        self.attempts: Counter[str] = Counter()

    def append(self, rows: pa.Table) -> None:
        from pyiceberg.exceptions import CommitStateUnknownException

        try:
            self._table.append(rows)
        except CommitStateUnknownException as error:
            raise UnknownOutcome from error


def _iceberg_table(target: dict[str, Any]) -> Any:
    from pyiceberg.catalog import load_catalog

    return load_catalog("streaming", **target["catalog"]).load_table("streaming.readings")


def create_iceberg(target: dict[str, Any]) -> None:
    from pyiceberg.catalog import load_catalog

    catalog = load_catalog("streaming", **target["catalog"])
    catalog.create_namespace("streaming")
    catalog.create_table("streaming.readings", SCHEMA)


def read_iceberg(target: dict[str, Any]) -> pa.ChunkedArray:
    return _iceberg_table(target).scan(selected_fields=("id",)).to_arrow()["id"]


# -- DuckLake ---------------------------------------------------------------------------------------------------------


class DuckLakeWriter:
    """A connection of the process' one DuckDB, as DuckLake's people do it, with DuckLake's own
    retries."""

    def __init__(self, target: dict[str, Any]) -> None:
        self._connection = _duckdb(json.dumps(target)).cursor()
        self.attempts: Counter[str] = Counter()

    def append(self, rows: pa.Table) -> None:
        self._connection.register("new_rows", rows)
        self._connection.execute("INSERT INTO lake.readings SELECT * FROM new_rows")


_opening = threading.Lock()


def _duckdb(target: str) -> Any:
    with _opening:
        return _opened_duckdb(target)


@functools.cache
def _opened_duckdb(text: str) -> Any:
    import importlib.util

    import duckdb

    target = json.loads(text)
    connection = duckdb.connect(config={"autoinstall_known_extensions": "false"})
    for name in ("ducklake", "sqlite_scanner", "postgres_scanner"):
        spec = importlib.util.find_spec(f"duckdb_extension_{name}")
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent / "extensions" / f"v{duckdb.__version__}"
        connection.execute(f"LOAD '{folder / name}.duckdb_extension'")
    options = f"DATA_PATH '{target['data']}', DATA_INLINING_ROW_LIMIT {target['inlined_rows']}"
    if target["catalog"].startswith("sqlite:"):  # its maintainers' advice for several writers (ducklake issue 128)
        options += ", META_JOURNAL_MODE 'WAL', META_BUSY_TIMEOUT 500"
    connection.execute(f"ATTACH 'ducklake:{target['catalog']}' AS lake ({options})")
    return connection


def create_ducklake(target: dict[str, Any]) -> None:
    columns = "id BIGINT, sensor BIGINT, measured_at TIMESTAMPTZ, " + ", ".join(f"{name} DOUBLE" for name in MEASURED)
    _duckdb(json.dumps(target)).execute(f"CREATE TABLE lake.readings ({columns})")


def read_ducklake(target: dict[str, Any]) -> pa.ChunkedArray:
    return _duckdb(json.dumps(target)).sql("SELECT id FROM lake.readings").to_arrow_table()["id"]


# -- any of them ------------------------------------------------------------------------------------------------------

WRITERS: dict[str, Any] = {"turnstile": TurnstileWriter, "iceberg": IcebergWriter, "ducklake": DuckLakeWriter}
CREATORS: dict[str, Any] = {"iceberg": create_iceberg, "ducklake": create_ducklake}
READERS: dict[str, Any] = {"turnstile": read_turnstile, "iceberg": read_iceberg, "ducklake": read_ducklake}


class Stream:
    """What one writer commits, and what became of it.

    Attributes:
        ms: from the first attempt to the acknowledgement, with the second at which it came.
        errors: what surfaced, and attempts that the writer repeated itself, by kind; the same rows
            were sent again.
        unknown: batches whose outcome is unknown.
        pending: the batch that was not acknowledged when time was up.
    """

    def __init__(self, client: str, target: dict[str, Any], number: int, rows: int) -> None:
        self._connect = functools.partial(WRITERS[client], target)
        self._writer: Writer = self._connect()
        self._next = number * BATCHES_OF_A_WRITER
        self._rows = rows
        self.ms: list[tuple[float, float]] = []
        self.done: list[int] = []
        self.errors: Counter[str] = Counter()
        self.unknown: list[int] = []
        self.pending: list[int] = []

    def run(self, commits: int, seconds: float) -> None:
        start = time.monotonic()
        for _ in range(commits):
            if time.monotonic() - start > seconds:
                break
            batch = self._next
            rows = batch_rows(self._next, self._rows)
            self._next += 1
            began = time.perf_counter()
            if not self._commit(batch, rows, start + seconds):
                break
            if batch not in self.unknown[-1:]:
                self.done.append(batch)
                self.ms.append((round(time.monotonic() - start, 3), round((time.perf_counter() - began) * 1000, 3)))
        self._collect()

    def _collect(self) -> None:
        self.errors += self._writer.attempts
        self._writer.attempts = Counter()

    def _commit(self, batch: int, rows: pa.Table, end: float) -> bool:
        """Whether it has an outcome before ``end``, which may be that it is unknown."""
        while True:
            try:
                self._writer.append(rows)
                return True
            except UnknownOutcome:
                self.errors["UnknownOutcome"] += 1
                self.unknown.append(batch)
                return True
            except Exception as error:  # every class is counted, and the same rows are sent again
                self.errors[_kind(error)] += 1
                if time.monotonic() > end:
                    self.pending.append(batch)
                    return False
                self._again()

    def _again(self) -> None:
        self._collect()
        try:
            self._writer = self._connect()
        except Exception as error:  # the server is out of breath: the next attempt is made on the old connection
            self.errors[_kind(error)] += 1
            time.sleep(0.1)


def _kind(error: Exception) -> str:
    name = type(error).__name__
    text = str(error)
    kinds = ("database is locked", "maximum retry count", "conflict", "duplicate key")
    return next((f"{name}: {part}" for part in kinds if part in text), name)


def write(plan: dict[str, Any]) -> dict[str, Any]:
    """Runs the plan's writers as threads of this process; the first commit of each is not timed."""
    retries = CountedRetries()
    logging.getLogger("pyiceberg").addHandler(retries)
    numbers = range(plan["first"], plan["first"] + plan["threads"])
    streams = [Stream(plan["client"], plan["target"], number, plan["rows"]) for number in numbers]
    for stream in streams:
        stream.run(1, plan["seconds"])
        stream.ms.clear()
        stream.errors.clear()
    retries.count = 0
    print("ready", flush=True)
    sys.stdin.readline()
    run = functools.partial(Stream.run, commits=plan["commits"], seconds=plan["seconds"])
    threads = [threading.Thread(target=run, args=(stream,)) for stream in streams]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - start
    errors = sum((stream.errors for stream in streams), Counter({"retries by PyIceberg": retries.count}))
    return {
        "seconds": seconds,
        "ms": [pair for stream in streams for pair in stream.ms],
        "done": [batch for stream in streams for batch in stream.done],
        "unknown": [batch for stream in streams for batch in stream.unknown],
        "pending": [batch for stream in streams for batch in stream.pending],
        "errors": dict(+errors),
    }


def batches_of(ids: pa.ChunkedArray, rows: int) -> dict[str, Any]:
    """Which batches are in the table with exactly their rows, and how many have fewer, or a row
    twice."""
    counted = Counter(id // rows for id in ids.to_pylist())
    distinct = Counter(id // rows for id in ids.unique().to_pylist())
    whole = [batch for batch, count in counted.items() if count == distinct[batch] == rows]
    return {"batches": whole, "broken": len(counted) - len(whole)}


def read(plan: dict[str, Any]) -> dict[str, Any]:
    return batches_of(READERS[plan["client"]](plan["target"]), plan["rows"])


def create(plan: dict[str, Any]) -> None:
    CREATORS[plan["client"]](plan["target"])


if __name__ == "__main__":
    plan = json.loads(sys.stdin.readline())
    print(json.dumps({"create": create, "write": write, "read": read}[sys.argv[1]](plan)))
