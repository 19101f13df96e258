"""Several processes that write to one table at once."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from turnstile_cli.demo.meter import Attempt


class WriterFailed(Exception):
    """A writer process ended without a report."""


@dataclass(frozen=True)
class Race:
    """What the writers report: ``seconds`` of the slowest, and every proposal."""

    seconds: float
    attempts: list[Attempt]


class Writers:
    """Processes that get ready, wait for the word, and race."""

    def __init__(self, url: str, token: str | None, table: str, folder: Path, batches: list[list[str]]) -> None:
        """Start one process for each list of batches (addresses of CSV files)."""
        self._folder = folder
        self._processes = []
        for number, mine in enumerate(batches, start=1):
            name = f"writer-{number}"
            order = {"url": url, "token": token, "table": table, "folder": str(folder), "name": name, "batches": mine}
            with (folder / f"{name}.log").open("ab") as log:
                process = subprocess.Popen(
                    [sys.executable, "-m", "turnstile_cli.demo.writer"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            self._processes.append(process)
            _say(process, json.dumps(order))

    def ready(self) -> None:
        """Wait until all are."""
        for process in self._processes:
            self._line(process, "ready")

    def go(self) -> Race:
        """Let them run, all at once, to the end."""
        for process in self._processes:
            _say(process, "go")
        reports = [json.loads(self._line(process, "{")) for process in self._processes]
        for process in self._processes:
            process.wait(timeout=60)
        attempts = [Attempt(*attempt) for report in reports for attempt in report["attempts"]]
        return Race(max(report["seconds"] for report in reports), attempts)

    def stop(self) -> None:
        """End whatever still runs."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()

    def _line(self, process: subprocess.Popen[str], start: str) -> str:
        for line in process.stdout or ():
            if line.startswith(start):
                return line
        raise WriterFailed(f"a writer ended with code {process.wait()}; see {self._folder}/writer-*.log")


def _say(process: subprocess.Popen[str], line: str) -> None:
    if process.stdin is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
