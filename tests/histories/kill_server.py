"""Kills a whole server again and again under writers, and holds what they were told against the
log.

    python -m tests.histories.kill_server --rounds 200

Each round kills every process of the server with SIGKILL at a random moment and starts it again.
Tables are new every few rounds, so that their histories stay short enough to be judged. Of each
table it checks, once everything is published:

    nothing lost          what was acknowledged is in ``_delta_log`` at the version that was told (I2, I5)
    nothing duplicated    no transaction is there twice (I3)
    nothing reordered     versions are gapless, and there is one order in which every answer is right (I1; porcupine)
    nothing stuck         the table is active and everything is published (I11)
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from tests.histories.check import History, judge
from tests.histories.clients import Load, run
from tests.support.stack import Table, commit_info, until
from turnstile_server import Server

SETTLE_S = 60.0


@dataclass
class Report:
    """What was seen. Times in seconds."""

    rounds: int = 0
    acknowledged: int = 0
    versions: int = 0
    unknown: int = 0
    back_s: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{self.rounds} kills, {self.acknowledged} acknowledged commits, {self.versions} versions, {self.unknown} "
            f"outcomes that nobody heard; back in service after {median(self.back_s):.2f} s (median), "
            f"{max(self.back_s):.2f} s (longest); {len(self.problems)} problems"
        )


def campaign(home: Path, rounds: int, *, each: int = 5, clients: int = 4, tables: int = 2, seed: int = 1) -> Report:
    """Plays ``rounds`` kills, with new tables after ``each`` of them; ends at the first problem."""
    report = Report()
    rng = random.Random(seed)
    server = Server.start(home, 0)
    try:
        while report.rounds < rounds and not report.problems:
            server = _segment(
                server, report, rng, kills=min(each, rounds - report.rounds), clients=clients, count=tables
            )
    finally:
        server.stop()
    return report


def _segment(server: Server, report: Report, rng: random.Random, *, kills: int, clients: int, count: int) -> Server:
    tables = [Table(server) for _ in range(count)]
    history = History()
    complete: list[History] = []
    load = Load(clients=clients, seconds=3600, impatient=0.02, seed=rng.randrange(1 << 30), patient=True)
    stop = threading.Event()
    writers = threading.Thread(
        target=lambda: complete.append(run(server.client, [table.id for table in tables], load, stop, history)),
        daemon=True,
    )
    writers.start()
    for _ in range(kills):
        _wait_for_answers(history, clients)
        time.sleep(rng.random())
        server = kill_and_start(server, report)
    _wait_for_answers(history, clients)
    stop.set()
    writers.join()
    report.problems += _check(tables, complete[0], report)
    for table in tables:
        table.api.close()
    return server


def _wait_for_answers(history: History, clients: int) -> None:
    """Waits until several more requests of each client are answered: a kill meets clients at
    work."""
    wanted = history.answers + 5 * clients
    until(lambda: history.answers >= wanted, "clients have answers")


def kill_and_start(server: Server, report: Report) -> Server:
    """Kills every process of the server at once and starts it again; returns the new one when it
    answers."""
    began = time.monotonic()
    for pid in server.pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    server = Server.start(server.home, server.port)
    report.back_s.append(time.monotonic() - began)
    report.rounds += 1
    return server


def _check(tables: list[Table], history: History, report: Report) -> list[str]:
    problems = []
    for table in tables:
        head = table.settled(SETTLE_S)
        if head["state"] != "active" or head["floor"] != head["latest"]:
            problems.append(
                f"{table.id} is {head['state']}, {head['floor']} of {head['latest']} versions are published"
            )
            continue
        log = {version: _txn(table, version) for version in range(1, head["latest"] + 1)}
        commits = [one for one in history.operations if one.table == table.id and one.op == "commit"]
        told = {one.txn: one.got for one in commits if one.result == "ok"}
        problems += [
            f"{table.id}: {txn} was acknowledged as version {version}, and that is {log.get(version)}"
            for txn, version in told.items()
            if log.get(version) != txn
        ]
        if len(set(log.values())) < len(log):
            problems.append(f"{table.id}: a transaction is in the log twice")
        report.acknowledged += len(told)
        report.versions += len(log)
        report.unknown += sum(one.result == "unknown" for one in commits)
    judgement = judge(history.operations)
    if not judgement.linearizable:
        problems.append(f"no order explains what the clients were told:\n{judgement.said}")
    return problems


def _txn(table: Table, version: int) -> str:
    content = table.storage.version(version)
    return str(commit_info(content)["txnId"]) if content else "missing"


def main() -> None:
    """Plays a campaign and says how it went; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="Kill a server again and again under writers.")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--tables", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        report = campaign(
            Path(folder) / "home", options.rounds, clients=options.clients, tables=options.tables, seed=options.seed
        )
    sys.stdout.write("\n".join([str(report), *report.problems]) + "\n")
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
