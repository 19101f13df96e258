"""The embedded stack as fixtures, started once per pytest session (and xdist worker) and only if a test asks.

A test that uses ``stack`` or ``s3_stack`` is marked ``stack`` by that alone. And what holds for every run of tests: files
with slow tests go first, a session that is told to end prints its summary, and a failure tells the end of a long log.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.store.servers import Servers
    from turnstile_local import Stack

STACKS = ("stack", "s3_stack")
LONGEST = 10_000
"""Characters of captured output that a failure tells: a property that fails logs megabytes before it does."""


def pytest_configure() -> None:
    """Properties have the profile of ``tests.support.examples``. SIGTERM ends a session as Ctrl-C does, with a summary."""
    from tests.support.examples import load_profile

    load_profile()
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


@pytest.fixture(scope="session")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Servers with tables, each started once and only if a test asks for it."""
    from tests.support.store.servers import Servers

    with ExitStack() as stack:
        yield Servers(stack, tmp_path_factory.mktemp("servers"))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Says what was skipped for want of a server."""
    if servers := sys.modules.get("tests.support.store.servers"):
        for reason in sorted(servers.NOT_CHECKED):
            terminalreporter.write_line(f"NOT CHECKED: {reason}", red=True, bold=True)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one Spark session."""
    import turnstile_spark

    work = tmp_path_factory.mktemp("spark")
    options = {
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        # The first compiler only: the session lives for minutes, and its queries are small.
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={work} -XX:TieredStopAtLevel=1",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        # Endpoints are per bucket: the stacks of this run come and go on ports of their own.
        "spark.hadoop.fs.s3a.attempts.maximum": "3",
    }
    s3 = {"access_key": "test", "secret_key": "test", "region": "us-east-1"}
    session = turnstile_spark.session("turnstile tests", s3=s3, small=True, master="local[2]", options=options)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
