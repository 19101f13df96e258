"""Plays the bank on a server, and compares the actions and answers of every client with
``_delta_log``.

Meanwhile clients check their answers (``clients``). At the end, when everything is published:

    nothing stuck       every table is active and published to its latest version (I11)
    bytes               what is published is what was sent, and what anybody read before (I2, I4)
    sums                both rules hold, from ``_delta_log`` alone
    whole groups        every group is in all its tables or in none (I8); in all if it was
                        acknowledged (I2), in none if it was refused (I3), and no transaction is
                        there twice
    isolation           the graph of all groups and cuts has no cycle, also in real time (``tests.histories.isolation``)
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import httpx

from tests.histories.bank.clients import Auditor, Client, Died, Habits, Shared, Writer, body_of
from tests.histories.bank.kills import FunctionKiller, Killer, Progress, Stalled, play_kills
from tests.histories.bank.ledger import Bank, Book, Entry, Wrong, apply, content_of, entry_of
from tests.histories.bank.record import RATIFIED, REFUSED, Group, Record
from tests.histories.isolation import SERIALIZABLE, SNAPSHOT, Anomaly, Transaction, check, violations
from tests.support.stack import Table
from turnstile_local import Stack
from turnstile_server import Server

SETTLE_S: Final = 60.0
JOIN_S: Final = 180.0
"""A client that has not ended so long after the campaign is taken not to end."""


Log = dict[str, dict[int, bytes]]
"""Published commits by table and version."""


@dataclass(frozen=True)
class Plan:
    """A campaign: for ``seconds``, with a kill for each of ``kills`` (None: of any kind) and at
    least ``between`` acknowledged groups before, between and after them. It ends early at
    ``most_problems``, or when nothing is acknowledged any more."""

    writers: int = 16
    auditors: int = 4
    customers: int = 8
    tables: int = 4
    seconds: float = 0.0
    kills: Sequence[str | None] = ()
    between: int = 20
    habits: Habits = field(default_factory=Habits)
    seed: int = 1
    most_problems: int = 1


@dataclass
class Report:
    """The observations. ``anomalies`` are all that the checker named, ``problems`` the broken
    promises."""

    shared: Shared
    log: Log = field(default_factory=dict)
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    back_s: list[float] = field(default_factory=list)
    anomalies: list[Anomaly] = field(default_factory=list)

    @property
    def versions(self) -> int:
        return sum(map(len, self.log.values()))

    @property
    def record(self) -> Record:
        return self.shared.record

    @property
    def problems(self) -> list[str]:
        return self.record.problems

    @property
    def acknowledged(self) -> int:
        return self.record.counts[RATIFIED]

    def __str__(self) -> str:
        counts = self.record.counts
        groups = len(self.record.groups)
        back = f" (back after {median(self.back_s):.2f} s, median)" if self.back_s else ""
        kills = ", ".join(f"{count} {kind}" for kind, count in sorted(self.kills.items())) or "none"
        return (
            f"{self.seconds:.0f} s: {groups} groups sent, {counts[RATIFIED]} acknowledged, "
            f"{counts['outcome replayed']} of them as replays, {counts[REFUSED]} conflicts, "
            f"{groups - counts[RATIFIED] - counts[REFUSED]} that nobody heard of again, {counts['repeats']} sent once "
            f"more and answered the same; {self.versions} versions; {len(self.record.cuts)} cuts, {counts['audits']} "
            f"of them added up; {counts['unanswered']} requests without an answer, {counts['deaths']} clients that "
            f"died; kills: {kills}{back}; {len(self.anomalies)} anomalies, {len(self.problems)} violations"
        )


def play(
    server: Server | Stack,
    plan: Plan,
    killer: Killer | FunctionKiller | None = None,
    connect: Callable[[], httpx.Client] | None = None,
) -> Report:
    """Plays a campaign with new tables on ``server``; with kills, the server that runs afterwards
    is that of the killer. ``connect`` makes the clients, which may be the clients of a faulty
    server."""
    connect = connect or server.client
    bank = Bank([Table(server) for _ in range(plan.tables)], plan.customers)
    book = Book()
    record = Record()
    shared = Shared(bank, book, record, plan.habits)
    report = Report(shared)
    stop = threading.Event()
    began = time.monotonic()
    _open_accounts(bank, record)
    threads = []
    for number in range(plan.writers + plan.auditors):
        kind = Writer if number < plan.writers else Auditor
        work = _Work(kind, connect, shared, stop, f"{plan.seed} {number}", plan.most_problems)
        threads.append(threading.Thread(target=work.run, daemon=True))
    for thread in threads:
        thread.start()
    progress = Progress(lambda: record.counts[RATIFIED], stop)
    try:
        play_kills(killer, plan.kills, progress, seconds=plan.seconds, between=plan.between, seed=plan.seed)
    except Stalled as problem:
        record.wrong(str(problem))
    finally:
        stop.set()
    for thread in threads:
        thread.join(JOIN_S)
        if thread.is_alive():
            record.wrong("a client has not ended")
    report.seconds = time.monotonic() - began
    if killer is not None:
        report.kills = killer.counts
        report.back_s = killer.back_s
    report.log = _read_log(bank, record)
    judge(report)
    for table in bank.tables:
        table.api.close()
    return report


@dataclass
class _Work:
    """A thread: one client after the other, each after the death of the one before it."""

    kind: type[Writer | Auditor]
    connect: Callable[[], httpx.Client]
    shared: Shared
    stop: threading.Event
    seed: str
    most_problems: int

    def run(self) -> None:
        life = 0
        while not self.stop.is_set():
            life += 1
            client = self.kind(self.connect(), self.shared, f"{self.seed} {life}")
            try:
                while not self.stop.is_set():
                    self._step(client)
            except Died:
                self.shared.record.count("deaths")
            except Wrong as problem:
                self._fail(str(problem))
            except BaseException as fault:
                self.stop.set()
                self.shared.record.wrong(f"a client failed: {fault!r}")
                raise
            finally:
                client.close()

    def _step(self, client: Client) -> None:
        if isinstance(client, Writer):
            client.transfer(self.stop)
        elif isinstance(client, Auditor):
            client.audit()

    def _fail(self, problem: str) -> None:
        self.shared.record.wrong(problem)
        if len(self.shared.record.problems) >= self.most_problems:
            self.stop.set()


def _open_accounts(bank: Bank, record: Record) -> None:
    """The first group: the balance of every account at the start."""
    id = str(uuid.uuid4())
    cut = dict.fromkeys(bank.ids, 0)
    writes = dict.fromkeys(bank.ids, 1)
    stamp_ms = time.time_ns() // 1_000_000
    changes: dict[str, dict[str, int]] = defaultdict(dict)
    for customer in range(bank.customers):
        for table_id, account in bank.accounts(customer).items():
            changes[table_id][account] = bank.opening
    contents = {
        table_id: content_of(Entry(id, cut, writes, changes[table_id]), table_id, stamp_ms) for table_id in bank.ids
    }
    group = Group(id, cut, contents, time.monotonic_ns())
    record.add_group(group)
    bank.tables[0].ask("POST", "/v1/transactions", body_of(group))
    record.told(group, RATIFIED)


# -- afterwards -------------------------------------------------------------------------------------------------------


def _read_log(bank: Bank, record: Record) -> Log:
    """The content of ``_delta_log`` when everything is published; a problem where it is not in
    time."""
    log = Log()
    for table in bank.tables:
        head = table.settled(SETTLE_S)
        if head["state"] != "active" or head["floor"] != head["latest"]:
            record.wrong(f"{table.id} is {head['state']}, published to {head['floor']} of {head['latest']}")
        log[table.id] = _published(table, head["latest"], record)
    return log


def judge(report: Report) -> None:
    """Holds the record against ``report.log``; adds problems to the record, and replaces
    ``anomalies``."""
    bank = report.shared.bank
    record = report.record
    log = report.log
    level = SERIALIZABLE if report.shared.habits.sends_reads else SNAPSHOT
    places = _places(log)
    _check_bytes(log, report.shared.book, record)
    _check_sums(bank, log, record, of_customers=level == SERIALIZABLE)
    _check_groups(places, log, record)
    report.anomalies = check(_history(places, log, record), real_time=True)
    for anomaly in violations(report.anomalies, level):
        record.wrong(str(anomaly))


def _published(table: Table, latest: object, record: Record) -> dict[int, bytes]:
    contents = {}
    version = 1
    while (content := table.storage.version(version)) is not None:
        contents[version] = content
        version += 1
    if len(contents) != latest:
        record.wrong(f"{table.id} has {latest} versions, and the first {len(contents)} are in _delta_log")
    return contents


def _places(log: Log) -> dict[str, dict[str, int]]:
    """The versions by table of each group; a transaction that is there twice has the later one."""
    places: dict[str, dict[str, int]] = defaultdict(dict)
    for table_id, contents in log.items():
        for version, content in contents.items():
            if entry := entry_of(content):
                places[entry.group][table_id] = version
    return places


def _check_bytes(log: Log, book: Book, record: Record) -> None:
    for (table_id, version), content in book.contents.items():
        if version and log[table_id].get(version) != content:
            record.wrong(f"version {version} of {table_id} was read as {content!r}, and other bytes are published")
    for group in record.groups:
        for table_id, version in group.writes.items() if group.outcome == RATIFIED else ():
            if log[table_id].get(version) != group.contents[table_id]:
                record.wrong(f"group {group.id} was acknowledged as version {version} of {table_id}, which differs")


def _check_sums(bank: Bank, log: Log, record: Record, *, of_customers: bool) -> None:
    balances: dict[str, int] = {}
    for contents in log.values():
        for content in contents.values():
            apply(balances, entry_of(content))
    for problem in bank.problems(balances, of_customers=of_customers):
        record.wrong(f"at the end, from _delta_log: {problem}")


def _check_groups(places: dict[str, dict[str, int]], log: Log, record: Record) -> None:
    if sum(map(len, places.values())) != sum(map(len, log.values())):
        record.wrong("a commit is in _delta_log twice, or is of no group")
    for group in record.groups:
        place = places.get(group.id, {})
        if place not in ({}, group.writes):
            record.wrong(f"group {group.id} names {group.writes} and is {place} in _delta_log")
        if group.outcome == RATIFIED and not place:
            record.wrong(f"group {group.id} was acknowledged and is in no table")
        if group.outcome == REFUSED and place:
            record.wrong(f"group {group.id} was refused and is {place} in _delta_log")
    if strangers := set(places) - {group.id for group in record.groups}:
        record.wrong(f"groups that nobody sent: {strangers}")


def _history(places: dict[str, dict[str, int]], log: Log, record: Record) -> list[Transaction]:
    """The transactions in ``_delta_log``, each with the reads that its entry names, and every cut
    as a transaction that only read."""
    times = {group.id: group for group in record.groups}
    history = []
    for id, writes in places.items():
        table_id, version = next(iter(writes.items()))
        entry = entry_of(log[table_id][version])
        group = times.get(id)
        assert entry is not None
        began, ended = (group.began, group.ended) if group and group.outcome == RATIFIED else (None, None)
        history.append(Transaction(id, tuple(entry.reads.items()), tuple(writes.items()), began, ended))
    for number, cut in enumerate(record.cuts):
        history.append(Transaction(f"cut {number}", tuple(cut.versions.items()), (), cut.began, cut.ended))
    return history
