"""Kills a whole server again and again under Spark writers, and holds what their statements
returned against the table.

    python -m tests.histories.kill_server_spark --rounds 20

Each writer is a process with a Spark session of its own that inserts one row a statement. A
statement that returned is in the table exactly once; one that failed at most once: its outcome may
be unknown (I2, I3).
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.histories.kill_server import Report, kill_and_start
from turnstile_server import Server

TABLE = "lake.default.killed"
READY_S = 300.0
SETTLE_S = 60.0


def writer(url: str, number: int, log: Path, stop: Path) -> None:
    """Inserts rows until ``stop`` exists; ``log`` gets a line for each statement, before it and
    after it."""
    from turnstile_spark import attach, session

    spark = session(small=True)
    attach(spark, name="lake", uri=url, catalog="main")
    with log.open("a") as out:
        for count in range(1_000_000):
            if stop.exists():
                break
            try:
                spark.sql(f"INSERT INTO {TABLE} VALUES ({number}, {count})")
                out.write(f"ok {count}\n")
            except Exception as error:  # the server is down: which statements failed is what is asked for
                out.write(f"failed {count} {type(error).__name__}: {str(error).splitlines()[0][:160]}\n")
                time.sleep(0.2)
            out.flush()
    spark.stop()


def campaign(folder: Path, rounds: int, writers: int, seed: int) -> Report:
    """Plays ``rounds`` kills, a few seconds apart, while ``writers`` insert."""
    from turnstile_spark import attach, session

    report = Report()
    rng = random.Random(seed)
    server = Server.start(folder / "home", 0)
    spark = session(small=True)
    lake = attach(spark, name="lake", uri=server.url, catalog="main")
    spark.sql(f"CREATE TABLE {TABLE} (writer INT, n INT)")
    logs = [folder / f"writer-{number}" for number in range(writers)]
    stop = folder / "stop"
    processes = [
        subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.histories.kill_server_spark",
                "--write",
                server.url,
                str(number),
                str(log),
                str(stop),
            ]
        )
        for number, log in enumerate(logs)
    ]
    try:
        _wait(lambda: all(log.exists() and "ok" in log.read_text() for log in logs), READY_S)
        for _ in range(rounds):
            time.sleep(1 + 4 * rng.random())
            server = kill_and_start(server, report)
        before = [log.read_text().count("ok") for log in logs]
        _wait(lambda: all(log.read_text().count("ok") > seen for log, seen in zip(logs, before, strict=True)), READY_S)
    finally:
        stop.touch()
        for process in processes:
            process.wait(READY_S)
    head = lake.table("default.killed").head()
    _wait(lambda: (head := lake.table("default.killed").head()).floor == head.latest, SETTLE_S)
    rows = Counter((row.writer, row.n) for row in spark.table(TABLE).collect())
    spark.stop()
    server.stop()
    report.versions = head.latest
    report.problems += [f"{key} is in the table {count} times" for key, count in rows.items() if count > 1]
    for number, log in enumerate(logs):
        for line in log.read_text().splitlines():
            outcome, count = line.split()[:2]
            if outcome == "ok":
                report.acknowledged += 1
                if (number, int(count)) not in rows:
                    report.problems.append(f"{(number, int(count))} was acknowledged and is not in the table")
            else:
                report.unknown += 1
    return report


def _wait(holds: object, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.2)


def main() -> None:
    """Plays a campaign and says how it went; the exit code is 1 if anything was wrong."""
    if sys.argv[1:2] == ["--write"]:
        url, number, log, stop = sys.argv[2:]
        writer(url, int(number), Path(log), Path(stop))
        return
    parser = argparse.ArgumentParser(description="Kill a server again and again under Spark writers.")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        report = campaign(Path(folder), options.rounds, options.writers, options.seed)
    sys.stdout.write("\n".join([str(report), *report.problems[:50]]) + "\n")
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
