"""Runs the suite and writes the number of the cases that passed into docs/compatibility.md; with
``--collect`` prints the line only."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

from tests.support.conformance.cases import FOLDER, PAGE, count, counted, filled


class Record:
    """Remembers the suite's tests and which of them passed."""

    def __init__(self) -> None:
        self.items: list[pytest.Item] = []
        self.passed: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.items = list(session.items)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self.passed.add(report.nodeid)


def main(arguments: list[str]) -> int:
    record = Record()
    options = [str(FOLDER), "-q", "-p", "no:cacheprovider", "-m", "not slow", f"--ignore={FOLDER / 'test_page.py'}"]
    if arguments == ["--collect"]:
        with contextlib.redirect_stdout(io.StringIO()) as said:
            failed = int(pytest.main([*options, "--collect-only"], plugins=[record]))
        sys.stdout.write(said.getvalue() if failed else counted(count(record.items)))
        return failed
    failed = int(pytest.main(options, plugins=[record]))
    if not failed:
        line = counted(count(item for item in record.items if item.nodeid in record.passed))
        PAGE.write_text(filled(PAGE.read_text(), line))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
