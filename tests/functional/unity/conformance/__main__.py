"""Runs the suite and writes docs/conformance.md from the cases that passed; with ``--collect`` prints the page only."""

from __future__ import annotations

import contextlib
import io
import sys

import pytest

from tests.support.conformance.cases import FOLDER, PAGE, count, page


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
        sys.stdout.write(said.getvalue() if failed else page(count(record.items)))
        return failed
    failed = int(pytest.main(options, plugins=[record]))
    if not failed:
        PAGE.write_text(page(count(item for item in record.items if item.nodeid in record.passed)))
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
