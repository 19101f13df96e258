"""Spark sessions of the demo, their proposals, and several processes that write to one table at
once.

Each process is ``python -m turnstile_cli.demo.writers``. Standard input: a JSON object with its
orders, then ``go``. Standard output: ``ready``, then a JSON object with its proposals.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from turnstile_cli.demo import data

QUICK = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For a JVM that lives a minute on few cores: the thorough compiler and a parallel collector cost
more than they give."""


class Attempt(NamedTuple):
    """One answered proposal: ``won`` or lost to another commit; ``ms`` is the time of the
    request."""

    table_id: str
    kind: str
    won: bool
    ms: float


@dataclass(frozen=True)
class Race:
    """The reports of the writers: ``seconds`` of the slowest one, and every proposal."""

    seconds: float
    attempts: list[Attempt]


class WriterFailed(Exception):
    """A writer process ended without a report."""


class Writers:
    """Processes that get ready, wait for the start, and race."""

    def __init__(self, url: str, token: str | None, table: str, folder: Path, batches: list[list[str]]) -> None:
        """Start one process for each list of batches (addresses of CSV files)."""
        self._folder = folder
        self._processes = []
        for number, addresses in enumerate(batches, start=1):
            name = f"writer-{number}"
            order = {
                "url": url,
                "token": token,
                "table": table,
                "folder": str(folder),
                "name": name,
                "batches": addresses,
            }
            with (folder / f"{name}.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "turnstile_cli.demo.writers"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            self._processes.append(process)
            _send_line(process, json.dumps(order))

    def ready(self) -> None:
        """Wait until all are."""
        for process in self._processes:
            self._line(process, "ready")

    def go(self) -> Race:
        """Let them run, all at once, to the end."""
        for process in self._processes:
            _send_line(process, "go")
        reports = [json.loads(self._line(process, "{")) for process in self._processes]
        for process in self._processes:
            process.wait(timeout=60)
        attempts = [Attempt(*attempt) for report in reports for attempt in report["attempts"]]
        return Race(max(report["seconds"] for report in reports), attempts)

    def stop(self) -> None:
        """End the processes that still run."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _line(self, process: subprocess.Popen[str], start: str) -> str:
        for line in process.stdout or ():
            if line.startswith(start):
                return line
        raise WriterFailed(f"a writer ended with code {process.wait()}; see {self._folder}/writer-*.log")


def _send_line(process: subprocess.Popen[str], line: str) -> None:
    if process.stdin is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()


def append_all(order: dict[str, Any]) -> dict[str, Any]:
    """Attach, wait, append; the report is ``{"seconds", "attempts"}``."""
    import turnstile_spark

    spark = start_session(Path(order["folder"]), order["name"], cores=1, memory="1g")
    lake = turnstile_spark.attach(spark, uri=order["url"], token=order["token"])
    batches = [data.read(spark, "flights", address) for address in order["batches"]]
    _ = spark.table(order["table"]).schema  # fails here, before the race, if the table cannot be loaded
    print("ready", flush=True)
    if sys.stdin.readline() != "go\n":
        raise SystemExit("the demo does not wait for this writer any more")
    attempts = watch(lake)
    began = time.perf_counter()
    for batch in batches:
        batch.writeTo(order["table"]).append()
    seconds = time.perf_counter() - began
    lake.detach()
    spark.stop()
    return {"seconds": seconds, "attempts": attempts}


def start_session(folder: Path, app: str, *, cores: int, memory: str) -> Any:
    """A session whose files stay under ``folder``; its log is ``folder/<app>.log``."""
    import turnstile_spark

    folder.mkdir(parents=True, exist_ok=True)
    options = {
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{QUICK} -Dderby.system.home={folder / app}",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
    }
    with stderr_to(folder / f"{app}.log"):
        spark = turnstile_spark.session(app, small=True, master=f"local[{cores}]", options=options)
        spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextmanager
def stderr_to(log: Path) -> Iterator[None]:
    """Sends the standard error of processes that are started inside to a file; a JVM keeps it for
    life."""
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def watch(lake: Any) -> list[Attempt]:
    """The proposals that an attached lake makes from now on; the list grows as they are
    answered."""
    from turnstile_http.errors import ApiError

    attempts: list[Attempt] = []
    propose = lake.api.propose

    def propose_watched(table_id: str, proposal: dict[str, Any]) -> Any:
        kind = "inline" if "inline" in proposal else "staged"
        started = time.perf_counter()
        try:
            answer = propose(table_id, proposal)
        except ApiError as refused:
            if refused.type == "CommitVersionConflict":
                attempts.append(Attempt(table_id, kind, won=False, ms=(time.perf_counter() - started) * 1000))
            raise
        attempts.append(Attempt(table_id, kind, won=True, ms=(time.perf_counter() - started) * 1000))
        return answer

    lake.api.propose = propose_watched
    return attempts


def quantile(values: list[float], share: float) -> float:
    """The smallest value that ``share`` of all are not above; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


if __name__ == "__main__":
    print(json.dumps(append_all(json.loads(sys.stdin.readline()))), flush=True)
