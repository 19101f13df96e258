"""The other clients, on equal tables in a local folder: no request of theirs waits for a
network."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.planning.tables import delta_folder, iceberg_folder, questions
from tests.support.downloads import Missing, cache
from tests.support.iceberg import spark41

HERE: Final = Path(__file__).parent
SECONDS: Final = 3_000
DUCK: Final = cache("duckdb-iceberg-1.5.5") / "bin" / "python"
"""Made by tests/iceberg/test_duckdb.py."""


def pyiceberg(metadata: Path, rounds: int, asked: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """PyIceberg, whose scans read manifests with the number of threads that it chooses."""
    from pyiceberg.expressions import AlwaysTrue, And, EqualTo, GreaterThanOrEqual, LessThanOrEqual
    from pyiceberg.table import StaticTable

    for name, (day, low, high) in asked.items():
        wanted: Any = AlwaysTrue()
        if day or high:
            wanted = EqualTo("day", day) if day else And(GreaterThanOrEqual("id", low), LessThanOrEqual("id", high))
        cold = []
        warm = []
        count = 0
        for _ in range(rounds):
            start = time.perf_counter()
            table = StaticTable.from_metadata(str(metadata))
            count = sum(1 for _ in table.scan(row_filter=wanted).plan_files())
            cold.append((time.perf_counter() - start) * 1000)
            start = time.perf_counter()
            sum(1 for _ in table.scan(row_filter=wanted).plan_files())
            warm.append((time.perf_counter() - start) * 1000)
        yield {"question": name, "cold": cold, "warm": warm, "planned": count}


def script(*command: Any) -> Iterator[dict[str, Any]]:
    """Runs a script and yields what it prints."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=SECONDS)
    yield from (json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"question"'))
    if done.returncode:
        raise Missing(f"{command[1:3]}: {done.stderr[-2000:]}")


def measured(files: int, rounds: int, clients: list[str]) -> Iterator[dict[str, Any]]:
    """What each client takes for each question."""
    asked = questions(files)
    text = json.dumps(questions(files))
    with tempfile.TemporaryDirectory() as folder:
        delta = Path(folder, "delta")
        iceberg = Path(folder, "iceberg")
        delta_folder(files, delta)
        metadata = iceberg_folder(files, iceberg)
        ways = {
            "Delta Spark": lambda: script(sys.executable, "-m", "benchmarks.planning.spark_delta", delta, rounds, text),
            "Iceberg Java": lambda: script(spark41.python(), HERE / "spark_iceberg.py", iceberg, rounds, text),
            "PyIceberg": lambda: pyiceberg(metadata, 1 if files > 100_000 else rounds, asked),
            "DuckDB, Delta": lambda: script(sys.executable, HERE / "duck.py", "delta", delta, rounds, text),
            "DuckDB, Iceberg": lambda: script(DUCK, HERE / "duck.py", "iceberg", iceberg, rounds, text),
        }
        for client, way in ways.items():
            if client not in clients and clients:
                continue
            try:
                for result in way():
                    yield {"files": files, "client": client, **result}
            except (Missing, subprocess.TimeoutExpired, OSError) as error:
                yield {"files": files, "client": client, "failed": str(error)[-300:]}
