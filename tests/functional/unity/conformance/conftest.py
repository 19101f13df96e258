"""Every test of the suite gives the answers that it is marked with."""

from __future__ import annotations

import sys
from collections.abc import Generator

import pytest

from tests.support.conformance.cases import promised
from tests.support.unity import SEEN


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "covers(answers): answers of Unity's APIs that the test is a case of")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    SEEN.clear()
    result = yield
    missing = promised(item) - set(SEEN)
    assert not missing, f"marked with answers that it did not get: {sorted(missing)}"
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many generated requests got which answer."""
    fuzz = sys.modules.get("tests.support.conformance.fuzz")
    if fuzz is not None and fuzz.TALLY:
        counts = ", ".join(f"{status}: {count}" for status, count in sorted(fuzz.TALLY.items()))
        terminalreporter.write_line(f"generated requests to Unity's APIs: {fuzz.TALLY.total()} ({counts})")
