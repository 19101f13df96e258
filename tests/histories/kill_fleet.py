"""Kills, freezes and restarts servers of a fleet, and single processes of theirs, under writers,
and compares the answers to the writers with the logs.

    python -m tests.histories.kill_fleet --rounds 3

Clients commit to several Delta tables by way of all servers, with versions that they name, tickets
and staged files, and create namespaces. Each failure has its victim, which comes back after a
while; then the fleet has to come to rest: each server owns its part again. In the end it checks:

    nothing lost          what was acknowledged is in ``_delta_log`` at the version that was told (I2, I5)
    nothing duplicated    no transaction is there twice (I3), no version was published twice (I4)
    nothing changed       published bytes are those that were proposed, or that the answer to a ticket had (I4)
    nothing reordered     versions are gapless and published in order, and there is one order in
                          which every answer is right (I1; porcupine)
    nothing stuck         the tables are active and everything is published (I11); every granule is
                          owned by a member that lives (I19)
    one catalog           its log has each change once that was acknowledged, none that was refused (I21)
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from tests.histories.anywhere import Balancer
from tests.histories.changes import Answers, change, check_log
from tests.histories.check import History, judge
from tests.histories.clients import Load, run
from tests.histories.lags import Lag, LagWatch
from tests.support.stack import Table, commit_info, until
from tests.support.store.fleets import Fleet
from turnstile.delta.commits import read_head
from turnstile.store.core.names import published_path

SETTLE_S = 60.0
TIMEOUT_S = 3.0
"""How long a client waits for an answer before it asks another server: a frozen one gives none."""

FAILURES = (
    "kill background", "freeze background", "kill owner", "freeze owner", "kill http", "freeze http", "kill server",
    "freeze server",
    "restart server",
)  # fmt: skip


@dataclass(frozen=True)
class Phase:
    """A time, by the wall clock: from a failure on, or from when its victim came ``back``, to when
    the fleet had come to rest; or a calm one. ``tables``: which granules the victim owned when it
    failed."""

    name: str
    began_ms: float
    ended_ms: float
    tables: frozenset[str] = frozenset()


@dataclass
class Report:
    """The observations."""

    phases: list[Phase] = field(default_factory=list)
    lags: list[Lag] = field(default_factory=list)
    longest_look_s: float = 0.0
    acknowledged: int = 0
    unknown: int = 0
    changes: int = 0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        failures = sum(phase.name in FAILURES for phase in self.phases)
        return (
            f"{failures} failures, {self.acknowledged} acknowledged commits of {len(self.lags)} versions, "
            f"{self.unknown} proposals without an answer, "
            f"{self.changes} acknowledged changes of the catalog; {len(self.problems)} problems"
        )


@dataclass(frozen=True)
class Work:
    """The clients' work meanwhile, and how long a victim stays away."""

    tables: int = 4
    clients: int = 4
    changers: int = 2
    rest_s: float = 0.02
    away_s: float = 4.0
    calm_s: float = 1.0


def campaign(fleet: Fleet, failures: Sequence[str], work: Work) -> Report:
    """Plays failures of the servers in turn, on new tables."""
    report = Report()
    fleet.rests()
    with fleet.servers[0].client() as api:
        assert api.post("/v1/catalogs/main/namespaces", json={"name": "default"}).status_code in (201, 409)
    tables = [Table(fleet.servers[number % len(fleet.servers)]) for number in range(work.tables)]
    for table in tables:
        table.api.close()
    roots = {table.id: Path(unquote(urlsplit(read_head(fleet.world, table.id).location).path)) for table in tables}
    load = Load(
        clients=work.clients, seconds=3600, staged=0.4, rest_s=work.rest_s, timeout_s=TIMEOUT_S, patient=True,
        replays=0.05, seed=len(failures),
    )  # fmt: skip
    connect = Balancer(fleet.urls(), TIMEOUT_S).connect
    ended = threading.Event()
    with LagWatch(fleet.world, roots) as watch, ThreadPoolExecutor(2) as pool:
        history: Future[History] = pool.submit(run, connect, list(roots), load, ended)
        answers: Future[Answers] = pool.submit(change, connect, work.changers, work.rest_s, ended)
        try:
            for number, failure in enumerate(failures):
                report.phases.append(_phase("calm", partial(time.sleep, work.calm_s)))
                report.phases += _fail(fleet, failure, number % len(fleet.servers), work, list(roots))
        finally:
            ended.set()
        wait((history, answers))  # what is acknowledged is ratified by now
        _until_published(fleet, list(roots), report)
        report.problems += _check_tables(fleet, roots, history.result(), report)
    with Balancer(fleet.urls(), SETTLE_S).connect() as http:
        report.problems += check_log(http, answers.result())
    report.problems += watch.problems
    report.changes = len(answers.result().acknowledged)
    report.lags = list(watch.lags())
    report.longest_look_s = watch.longest_look_s
    return report


def _phase(name: str, passes: Callable[[], object], tables: frozenset[str] = frozenset()) -> Phase:
    began_ms = time.time() * 1000
    passes()
    return Phase(name, began_ms, time.time() * 1000, tables)


def _fail(fleet: Fleet, failure: str, number: int, work: Work, tables: Sequence[str]) -> list[Phase]:
    """Plays one failure of a server: at least until the others own everything, where its background
    is away, and something is committed; and then until it owns its part again."""
    action, _, process = failure.partition(" ")
    process = "" if process == "server" else process
    member = fleet.member_of(number)
    owned = frozenset(table for table in tables if fleet.table_owner(table) == member)
    count = len(fleet.servers)
    is_replaced = action == "kill" and process != ""
    others = count if is_replaced or process in ("owner", "http") else count - 1

    def latest() -> int:
        return sum(read_head(fleet.world, table).latest for table in tables)

    def fails() -> None:
        if action == "freeze":
            fleet.freeze(number, process)
        elif action == "kill":
            fleet.kill(number, process)
        else:
            fleet.stop(number)
        before = latest()
        time.sleep(work.away_s)
        fleet.rests(others)
        until(lambda: latest() > before, f"commits go on: {failure}")

    def comes_back() -> None:
        if action == "freeze":
            fleet.thaw(number)
        elif not is_replaced:
            fleet.start(number)
        fleet.rests(count)

    return [_phase(failure, fails, owned), _phase(f"back after {failure}", comes_back, owned)]


def _until_published(fleet: Fleet, tables: Sequence[str], report: Report) -> None:
    deadline = time.monotonic() + SETTLE_S
    for table in tables:
        while (head := read_head(fleet.world, table)).floor != head.latest:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        if head.state != "active" or head.floor != head.latest:
            report.problems.append(f"{table} is {head.state}, {head.floor} of {head.latest} versions are published")


def _check_tables(fleet: Fleet, roots: dict[str, Path], history: History, report: Report) -> list[str]:
    problems = list[str]()
    txns = set[str]()
    for table, root in roots.items():
        log = dict[int, str]()
        for version in range(1, read_head(fleet.world, table).floor + 1):
            file = root / published_path(version)
            content = file.read_bytes() if file.exists() else b""
            log[version] = str(commit_info(content)["txnId"]) if content else "missing"
            expected = history.contents.get(log[version])
            if content and expected is not None and expected != content:
                problems.append(f"{table}: version {version} was published with other bytes than were ratified")
        commits = [one for one in history.operations if one.table == table and one.op == "commit"]
        acknowledged = {one.txn: one.got for one in commits if one.result == "ok"}
        problems += [
            f"{table}: {txn} was acknowledged as version {version}, and that is {log.get(version)}"
            for txn, version in acknowledged.items()
            if log.get(version) != txn
        ]
        if len(set(log.values())) < len(log):
            problems.append(f"{table}: a transaction is in the log twice")
        report.acknowledged += len(acknowledged)
        report.unknown += sum(one.result == "unknown" for one in commits)
        txns |= set(log.values())
    # What is not in a log had no effect, and a load without an answer says nothing: the checker
    # need not try them.
    judged = [one for one in history.operations if one.result != "unknown" or one.txn in txns]
    judgement = judge(judged)
    if not judgement.linearizable:
        problems.append(f"no order explains what the clients were told:\n{judgement.said}")
    return problems


def main() -> None:
    """Plays campaigns and says how they went; the exit code is 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description="Kill, freeze and restart servers of a fleet under writers.")
    parser.add_argument("--rounds", type=int, default=1, help="campaigns of all failures")
    parser.add_argument("--servers", type=int, default=3)
    parser.add_argument("--away-s", type=float, default=6.0)
    parser.add_argument("--failures", nargs="*", default=FAILURES, choices=FAILURES)
    options = parser.parse_args()
    problems = list[str]()
    with TemporaryDirectory() as folder, Fleet(Path(folder), options.servers) as fleet:
        for _ in range(options.rounds):
            report = campaign(fleet, options.failures, Work(away_s=options.away_s))
            sys.stdout.write("\n".join([str(report), *report.problems]) + "\n")
            problems += report.problems
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
