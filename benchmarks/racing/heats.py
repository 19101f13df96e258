"""Starts racers, waits for the publisher, and compares the log with what was acknowledged to
them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

from benchmarks.racing.racers import Report, digest
from benchmarks.racing.table import RaceTable


@dataclass
class Heat:
    """One race: times in seconds and ms, and every violated property as a sentence."""

    commits: int
    seconds: float
    published_seconds: float
    results: Counter[str]
    ms: list[float]
    violations: list[str] = field(default_factory=list)

    @property
    def conflicts(self) -> int:
        return self.results["CommitVersionConflict"]


def run(table: RaceTable, racer: Callable[..., Report], processes: int, commits: int, **options: Any) -> Heat:
    """Race ``processes`` x ``commits`` (x ``options``) and check the outcome."""
    report = Report()
    began = time.perf_counter()
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for future in [pool.submit(racer, table, commits, **options) for _ in range(processes)]:
            report.add(future.result())
    seconds = time.perf_counter() - began
    violations = _acknowledged(report)
    violations += _published(table, report)
    return Heat(len(report.acknowledged), seconds, time.perf_counter() - began, report.results, report.ms, violations)


def _acknowledged(report: Report) -> list[str]:
    """I1, I2: each version once, none left out."""
    times = Counter(version for version, _ in report.acknowledged)
    twice = [version for version, count in times.items() if count > 1]
    holes = set(range(1, len(report.acknowledged) + 1)) - set(times)
    return [f"version {version} was acknowledged {times[version]} times" for version in twice] + [
        f"version {version} was acknowledged to nobody" for version in sorted(holes)
    ]


def _published(table: RaceTable, report: Report, patience: float = 120) -> list[str]:
    """I4, I11: everything is published, with the bytes that were acknowledged."""
    until = time.monotonic() + patience
    with table.http() as http:
        while True:
            head = http.get(f"/v1/tables/{table.table_id}/head").json()
            if head["floor"] == head["latest"]:
                break
            if time.monotonic() > until:
                return [f"published up to {head['floor']} of {head['latest']} after {patience:.0f} s"]
            time.sleep(0.1)
    violations = [] if head["latest"] == len(report.acknowledged) else [f"latest is {head['latest']}"]
    for version, expected in report.acknowledged:
        if digest(table.published(version)) != expected:
            violations.append(f"version {version} differs from what was acknowledged")
    return violations
