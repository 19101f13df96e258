"""Small commits, one after the other, as in the streaming benchmark of DuckLake's people:
``python -m benchmarks.streaming``.

A commit is the same in every system: some rows (10) of 23 columns, durable and visible when the
client's call returns. Every heat has a system and a table of its own, started for it and stopped
after it, and 1 or more writers on that one table: threads of one process, or with ``--processes`` a
process each. Rows that were refused are sent again until they are acknowledged or time is up; the
time of a commit is from its first attempt to its acknowledgement. In the end the table is read: it
must have exactly the rows that were acknowledged, once.

    turnstile, turnstile-named       a Parquet file, synced, and an inline commit of it over HTTP,
                                     for the next version or a named one
    ducklake-postgres, -sqlite       DuckDB's extension; up to 10 rows lie in the catalog's database
    ducklake-postgres-files, ...     the same without inlining: a Parquet file for each commit, as the others have
    turnstile-iceberg, pyiceberg-sql, iceberg-reference
                                     PyIceberg on Turnstile, on SqlCatalog with SQLite, on
                                     Iceberg's reference server (Java)

What cannot be had on this machine is left out, and said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

from benchmarks.streaming.systems import SYSTEMS, System
from tests.support.downloads import Missing

ROOT = Path(__file__).parents[2]
READY_WITHIN_S = 120
CHECKED_WITHIN_S = 600


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Clients:
    """Processes of ``writers``. When it is closed, none of them runs any more."""

    def __init__(self, system: System, target: dict[str, Any]) -> None:
        self._system = system
        self._target = target
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()

    def start(self, what: str, **plan: Any) -> subprocess.Popen[str]:
        command = [self._system.python, "-m", "benchmarks.streaming.writers", what]
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._processes.append(process)
        assert process.stdin is not None
        process.stdin.write(json.dumps({"client": self._system.client, "target": self._target, **plan}) + "\n")
        process.stdin.flush()
        return process

    def await_ready(self, process: subprocess.Popen[str]) -> None:
        """Raises RuntimeError if it ends, or has to be ended, before it is ready."""
        watchdog = threading.Timer(READY_WITHIN_S, process.kill)
        watchdog.start()
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise RuntimeError("a writer did not start")
        finally:
            watchdog.cancel()

    def answer(self, process: subprocess.Popen[str], within_s: float, heard: str = "") -> Any:
        """What it prints last. Raises RuntimeError if it failed, TimeoutExpired if it still runs
        after that time."""
        out, _ = process.communicate(heard, timeout=within_s)
        if process.returncode != 0:
            raise RuntimeError(f"a client ended with {process.returncode}")
        return json.loads(out.splitlines()[-1])


def heat(
    system: System, target: dict[str, Any], options: argparse.Namespace, rows: int, writers: int
) -> dict[str, Any]:
    """Plays one heat and checks the table. Raises RuntimeError or TimeoutExpired if a client
    fails."""
    processes, threads = (writers, 1) if options.processes else (1, writers)
    plan = {"rows": rows, "threads": threads, "commits": options.commits // writers, "seconds": options.seconds}
    with Clients(system, target) as clients:
        if system.client != "turnstile":
            clients.answer(clients.start("create"), READY_WITHIN_S)
        writing = [clients.start("write", first=number * threads, **plan) for number in range(processes)]
        for process in writing:
            clients.await_ready(process)
        load = os.getloadavg()[0]
        for process in writing:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        patience = options.seconds + READY_WITHIN_S
        results = [clients.answer(process, patience) for process in writing]
        say("    reading the table")
        stored = clients.answer(clients.start("read", rows=rows), CHECKED_WITHIN_S)
    return figures(results, stored) | {
        "system": system.name, "title": system.title, "rows": rows, "writers": writers,
        "as": "processes" if options.processes else "threads", "load": round(load, 1),
    }  # fmt: skip


def figures(results: list[dict[str, Any]], stored: dict[str, Any]) -> dict[str, Any]:
    """One heat in figures. ``right``: the table has what was acknowledged, nothing twice, and
    nothing that was not sent."""
    done = [batch for result in results for batch in result["done"]]
    open_ = {batch for result in results for batch in result["unknown"] + result["pending"]}
    held = {*stored["batches"]}
    in_order = [ms for _, ms in sorted(pair for result in results for pair in result["ms"])]
    ms = sorted(in_order)
    seconds = max(result["seconds"] for result in results)
    errors: dict[str, int] = {}
    for kind, count in (item for result in results for item in result["errors"].items()):
        errors[kind] = errors.get(kind, 0) + count
    tenth = max(1, len(in_order) // 10)
    parts = [in_order[start : start + tenth] for start in range(0, len(in_order), tenth)][:10]
    return {
        "commits": len(ms),
        "seconds": round(seconds, 2),
        "per_s": round(len(ms) / seconds, 2),
        "p50_ms": round(ms[len(ms) // 2], 2) if ms else None,
        "p99_ms": round(ms[int(len(ms) * 0.99)], 2) if ms else None,
        "p50_ms_of_tenths": [round(statistics.median(part), 2) for part in parts],
        "errors": errors,
        "unknown": sum(len(result["unknown"]) for result in results),
        "right": not stored["broken"] and {*done} <= held <= {*done} | open_,
    }


def markdown(results: list[dict[str, Any]]) -> str:
    """The results as a table in Markdown."""
    lines = ["| system | rows | writers | commits | a second | p50 ms | p99 ms | p50 of the last tenth | errors |"]
    lines += ["| --- " * 9 + "|"]
    for one in results:
        errors = ", ".join(f"{count} {kind}" for kind, count in one["errors"].items()) or "0"
        last = one["p50_ms_of_tenths"][-1:] or ["-"]
        lines.append(
            f"| {one['title']} | {one['rows']} | {one['writers']} | {one['commits']:,} | {one['per_s']:,.1f} |"
            f" {one['p50_ms']} | {one['p99_ms']} | {last[0]} | {errors}{'' if one['right'] else ' **ROWS ARE WRONG**'} "
            f"|"
        )
    return "\n".join(lines)


def play(system: System, options: argparse.Namespace, rows: int, writers: int) -> dict[str, Any] | None:
    """One heat in a folder of its own, or None, with the reason on stderr, where the system cannot
    be had or fails."""
    say(f"{system.name}: {rows} rows a commit, {writers} writers")
    result = None
    try:
        with tempfile.TemporaryDirectory(dir=os.environ.get("BENCHMARK_DIR")) as name:
            folder = Path(name)
            folder.chmod(0o711)  # a server that is not root's reaches its own folder in it
            with system.open(folder) as target:
                result = heat(system, target, options, rows, writers)
    except Missing as missing:
        say(f"    left out: {missing}")
    except Exception as error:  # the other heats are played all the same
        say(f"    {'stopped badly' if result else 'no result'}: {type(error).__name__}: {error}")
    if result is None:
        return None
    say(
        f"    {result['commits']} commits in {result['seconds']} s = {result['per_s']}/s, p50 {result['p50_ms']} ms,"
        f" p99 {result['p99_ms']} ms, errors {result['errors'] or 0}{'' if result['right'] else ', ROWS ARE WRONG'}"
    )
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commits", type=int, default=1000, help="of each heat, all writers together")
    parser.add_argument(
        "--seconds", type=float, default=30, help="limit of each heat: what was done by then is reported"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8], metavar="N", help="writers of a heat")
    parser.add_argument("--rows", type=int, nargs="+", default=[10], metavar="N", help="rows of a commit")
    parser.add_argument("--processes", action="store_true", help="a process for each writer instead of a thread")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="NAME")
    parser.add_argument("--out", type=Path, help="file that the figures are appended to, a JSON line each")
    options = parser.parse_args()
    begun = time.monotonic()
    results = []
    for rows in options.rows:
        for writers in options.threads:
            for name in options.systems:
                if result := play(SYSTEMS[name], options, rows, writers):
                    results.append(result)
                    if options.out:
                        with options.out.open("a") as out:
                            out.write(json.dumps(result) + "\n")
    print(markdown(results))
    say(
        f"{len(results)} heats in {time.monotonic() - begun:.0f} s on {os.cpu_count()} cores, load "
        f"{os.getloadavg()[0]:.1f}"
    )
    return 0 if results and all(result["right"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
