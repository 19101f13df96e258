"""The embedded stack as fixtures, started once per pytest session (and xdist worker) and only if a test asks.

A test that uses ``stack`` or ``s3_stack`` is marked ``stack`` by that alone. And what holds for every run of tests: files
with slow tests go first, a session that is told to end prints its summary, and a failure tells the end of a long log.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.examples import scale_defaults

if TYPE_CHECKING:
    from turnstile_local import Stack

STACKS = ("stack", "s3_stack")
LONGEST = 10_000
"""Characters of captured output that a failure tells: a property that fails logs megabytes before it does."""


def pytest_configure() -> None:
    """Properties try as many examples as were asked for. SIGTERM ends a session as Ctrl-C does, with a summary."""
    scale_defaults()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(name in getattr(item, "fixturenames", ()) for name in STACKS):
            item.add_marker(pytest.mark.stack)


@pytest.hookimpl(specname="pytest_collection_modifyitems", trylast=True)
def slow_files_first(items: list[pytest.Item]) -> None:
    """So that of two workers neither is left alone with a long file in the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Captured output is cut to its end."""
    report = yield
    report.sections = [(name, _end(text)) for name, text in report.sections]
    return report


def _end(text: str) -> str:
    return text if len(text) <= LONGEST else f"[{len(text) - LONGEST} characters left out]\n{text[-LONGEST:]}"


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack with its tables in files below its home: ``url``, ``client()``, ``env``, ``aws(service)``, ..."""
    from turnstile_local import Stack

    with Stack.start(tmp_path_factory.mktemp("stack"), port=0) as running:
        yield running


@pytest.fixture(scope="session")
def s3_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The same with its tables in the emulated S3, below ``s3://lake/warehouse``, and functions held to their roles."""
    from turnstile_local import Stack

    home = tmp_path_factory.mktemp("s3-stack")
    parameters = {"ImportRoot": "s3://lake/legacy"}
    with Stack.start(home, port=0, lake="s3://lake/warehouse", parameters=parameters, roles=True) as running:
        yield running
