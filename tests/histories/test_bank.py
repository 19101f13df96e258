"""Transfers between accounts of several tables, over HTTP, while clients add everything up and
processes are killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.histories.bank.campaign import Plan, Report, judge, play
from tests.histories.bank.clients import Habits
from tests.histories.bank.doubles import FAULTS, faulty_client
from tests.histories.bank.kills import FUNCTIONS, KINDS, FunctionKiller, Killer
from tests.histories.bank.ledger import Entry, content_of
from tests.histories.bank.record import RATIFIED, REFUSED, Cut, Group
from tests.histories.isolation import SERIALIZABLE, SNAPSHOT, violations
from tests.histories.killing import needs_proc
from turnstile_local import Stack
from turnstile_server import Server

pytestmark = pytest.mark.timeout(600)
SECONDS = float(os.environ.get("TURNSTILE_BANK_SECONDS", "30"))
ROUNDS = 20
"""Campaigns until a fault must have shown itself."""


def killed(home: Path, plan: Plan, workers: int) -> Report:
    killer = Killer(Server.start(home, 0, workers=workers), workers, plan.seed)
    try:
        return play(killer.server, plan, killer)
    finally:
        killer.server.stop()


@needs_proc
def test_i1_to_i8_i11_a_bank_over_four_tables_survives_the_death_of_its_whole_server(tmp_path: Path) -> None:
    plan = Plan(writers=6, auditors=2, kills=["everything"], between=10, habits=Habits(deaths=0.005, hang_ups=0.02))
    report = killed(tmp_path / "home", plan, workers=2)
    assert report.problems == [], report
    assert report.kills["everything"] == 1
    assert report.acknowledged > 2 * plan.between, "the groups before and after the kill, and the first"
    assert report.record.counts["refused"], "nobody met: nothing was tested"
    assert report.record.counts["audits"] > 2


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_i1_to_i8_i11_a_bank_of_sixteen_writers_survives_kills_of_every_kind(tmp_path: Path, seed: int) -> None:
    kinds = [*dict.fromkeys(KINDS), "http", "everything"]
    habits = Habits(deaths=0.005, hang_ups=0.02)
    report = killed(tmp_path / "home", Plan(seconds=SECONDS, kills=kinds, habits=habits, seed=seed), workers=3)
    assert report.problems == [], report
    assert sum(report.kills.values()) == len(kinds)
    assert report.record.counts["deaths"], "clients died, too"
    assert report.record.counts["repeats"] > 10


@needs_proc
@pytest.mark.slow
@pytest.mark.stack
def test_i1_to_i8_i11_a_bank_on_the_emulated_deployment_survives_kills_of_its_functions(tmp_path: Path) -> None:
    stack = Stack.start(tmp_path / "home", port=0)
    try:
        kinds = [*dict.fromkeys(FUNCTIONS), "Commit", "Publish"]
        plan = Plan(seconds=SECONDS, kills=kinds, between=5, habits=Habits(deaths=0.005, hang_ups=0.02))
        report = play(stack, plan, FunctionKiller(stack, plan.seed))
    finally:
        stack.stop()
    print(report)
    assert report.problems == [], report
    assert {"Commit", "Publish", "frozen"} <= report.kills.keys()
    assert report.record.counts["deaths"], "clients died, too"
    assert report.record.counts["audits"] > 2


def test_i8_snapshot_isolation_allows_write_skew_and_nothing_else(server: Server) -> None:
    """The same transfers without their reads: sums are right in every cut, and the checker tells
    the levels apart."""
    plan = Plan(writers=6, auditors=2, tables=8, between=20, habits=Habits(sends_reads=False))
    for seed in range(ROUNDS):
        report = play(server, Plan(**{**vars(plan), "seed": seed}))
        assert report.problems == [], report
        assert violations(report.anomalies, SNAPSHOT) == []
        if violations(report.anomalies, SERIALIZABLE):
            return
    pytest.fail(f"no write skew in {ROUNDS} campaigns")


def test_i2_i3_i4_i8_what_is_lost_torn_or_changed_afterwards_is_a_violation(server: Server) -> None:
    """The checks of the end, each by a record or a log that is no longer what it was."""
    report = play(server, Plan(writers=3, auditors=1, between=10))
    assert report.problems == [], report
    ratified = [group for group in report.record.groups if group.outcome == RATIFIED][-1]
    table_id, version = next(iter(ratified.writes.items()))
    content = report.log[table_id][version]

    def said() -> str:
        judge(report)
        problems = "\n".join(report.problems)
        report.problems.clear()
        return problems

    ratified.outcome = REFUSED
    assert f"group {ratified.id} was refused and is" in said()
    ratified.outcome = RATIFIED
    report.log[table_id][version] = content.replace(b".parquet", b".PARQUET")
    assert f"was acknowledged as version {version}" in said()
    report.log[table_id][version] = content_of(Entry("other", {}, {}, {}), table_id, 1)
    problems = said()
    assert f"group {ratified.id} names {ratified.writes} and is" in problems, "in one table only"
    assert "groups that nobody sent: {'other'}" in problems
    assert "from _delta_log: all accounts have" in problems
    report.log[table_id][version] = content
    report.record.cuts.append(Cut({table_id: version - 1}, time.monotonic_ns(), time.monotonic_ns()))
    assert f"cut {len(report.record.cuts) - 1} -rw({table_id})-> {ratified.id}" in said(), "a cut that goes back"
    report.record.cuts.pop()
    report.record.groups.append(Group("lost", {table_id: version}, {table_id: b""}, 0, 1, RATIFIED))
    assert "group lost was acknowledged and is in no table" in said()
    report.record.groups.pop()
    assert said() == ""


@pytest.mark.parametrize("fault", FAULTS)
def test_i8_a_server_that_has_a_fault_is_noticed(server: Server, fault: str) -> None:
    """One that loses what makes a group a group, or a cut a cut: the checker names the anomaly, and
    auditors see wrong sums."""
    kinds: set[str] = set()
    sums = 0
    for seed in range(ROUNDS):
        plan = Plan(writers=6, auditors=2, tables=8, between=20, most_problems=30, seed=seed)
        report = play(server, plan, connect=lambda: faulty_client(server, fault))
        kinds |= {anomaly.kind for anomaly in report.anomalies}
        sums += sum("in the cut" in problem and "all accounts" in problem for problem in report.problems)
        if FAULTS[fault].anomaly in kinds and (sums or not FAULTS[fault].sums):
            return
    pytest.fail(f"after {ROUNDS} campaigns the checker has named {kinds}, and {sums} sums were wrong")
