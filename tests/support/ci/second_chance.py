"""Failed tests that start processes run once more, alone, at the end of CI; a test that passes then
is *flaky*.

A machine that is busy with other work can make such a test fail for reasons that are not the
code's. ``.ci/run`` does not fail by it, but names it: in its summary, and in a file that ``make
flaky`` shows, so that it is mended. Tests that start no process (unit, contract, simulation,
properties) get no second chance.

    python -m tests.support.ci.second_chance RECORDS FLAKY

``RECORDS`` is a file that pytest wrote while TURNSTILE_RECORDS named it: one line of JSON for each
failure and for each session that ended. The exit code is 0 if every failure was one of a flaky test
and every session came to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.ci.processes import starts_a_process

VARIABLE: Final = "TURNSTILE_RECORDS"
"""Names the file in which a session records failures."""

MARKER: Final = "processes"
KINDS: Final = frozenset(
    {"artefacts", "clients", "console", "deployment", "e2e", "histories", "iceberg", "journeys", "spark"}
)
"""Kinds of tests (folders of ``tests``) whose tests all start processes."""

ATTEMPT_S: Final = 600
"""How long the second run of one test may take."""


def starts_processes(path: Path, names: Sequence[str], root: Path) -> bool:
    """Returns whether a test in ``path`` (below ``root``, the folder of tests) gets a second
    chance. ``names`` are its function and its fixtures; of a functional test they tell."""
    kind = path.relative_to(root).parts[0]
    return kind in KINDS or (kind == "functional" and starts_a_process(path, names, root))


class Recorder:
    """A plugin of pytest that appends failures to ``path``, and the end of the session."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pid = os.getpid()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            again = MARKER in report.keywords
            self._append({"test": report.nodeid, "again": again, "why": report.longreprtext[-2_000:]})

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._append({"test": report.nodeid, "again": False, "why": report.longreprtext[-2_000:]})

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        self._append({"exit": int(exitstatus)})

    def _append(self, line: dict[str, Any]) -> None:
        if os.getpid() != self._pid:  # a fork that runs tests of its own, as those of mutants do
            return
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")


@dataclass
class Records:
    """The contents of a file of records."""

    failed: dict[str, str] = field(default_factory=dict)
    """Tests that get a second chance, with the ends of their messages."""
    final: list[str] = field(default_factory=list)
    """Tests that get none."""
    exits: list[int] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Records:
        """Returns the records in ``path``; empty ones if no session wrote it."""
        found = cls()
        for line in path.read_text().splitlines() if path.exists() else []:
            one = json.loads(line)
            if "exit" in one:
                found.exits.append(one["exit"])
            elif one["again"]:
                found.failed.setdefault(one["test"], one["why"])
            else:
                found.final.append(one["test"])
        return found

    @property
    def ended(self) -> bool:
        """Whether there was a session, and each ended by itself: with 0, or 1 for tests that
        failed."""
        return bool(self.exits) and set(self.exits) <= {0, 1}


def run_again(test: str) -> bool:
    """Runs one test in a process of its own and returns whether it passed."""
    environment = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "PYTEST_ADDOPTS")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", test]
    try:
        return subprocess.run(command, env=environment, check=False, timeout=ATTEMPT_S).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def main() -> int:
    """Runs the failed tests again; 0 if all of them pass and nothing else was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("records", type=Path)
    parser.add_argument("flaky", type=Path)
    options = parser.parse_args()
    records = Records.read(options.records)
    if not records.ended:
        print(f"sessions ended with {records.exits or 'no record'}: no second chance")
        return 1
    passed = [test for test in records.failed if run_again(test)]
    day = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    with options.flaky.open("a") as file:
        for test in passed:
            file.write(f"{day} {test}\n" + "".join(f"    {line}\n" for line in records.failed[test].splitlines()[-12:]))
    for test in passed:
        print(f"flaky: {test}")
    wrong = [*records.final, *(test for test in records.failed if test not in passed)]
    for test in wrong:
        print(f"failed: {test}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
