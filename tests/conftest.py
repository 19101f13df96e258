"""Servers and emulated deployments as fixtures, started once per pytest session (and xdist worker)
and only if a test asks.

A test that uses ``stack`` or ``s3_stack`` is marked ``stack`` by that alone. And what holds for
every run of tests: files with slow or long tests go first, a session that is told to end prints its
summary, and a failure tells the end of a long log.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.support.server import ServerOnS3
    from tests.support.store.servers import Servers
    from turnstile_local import Stack
    from turnstile_server import Server

STACKS = ("stack", "s3_stack")
LONGEST = 10_000
"""Characters of captured output that a failure tells: a property that fails logs megabytes before
it does."""


def pytest_configure(config: pytest.Config) -> None:
    """Properties have the profile of ``tests.support.examples``. SIGTERM ends a session as Ctrl-C
    does, with a summary. Where CI asks for it, failures are recorded
    (``tests.support.ci.second_chance``)."""
    from tests.support.ci.second_chance import VARIABLE, Recorder
    from tests.support.examples import load_profile

    load_profile()
    # Sessions that tests start, as those of mutants do, must not record their failures as this
    # session's.
    if (records := os.environ.pop(VARIABLE, None)) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recorder(Path(records)), "failures")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from tests.support.ci.long import is_long

    for item in items:
        if is_long(item):
            item.add_marker(pytest.mark.long)
        if any(name in getattr(item, "fixturenames", ()) for name in STACKS):
            item.add_marker(pytest.mark.stack)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Ten thousand items and their modules stay: looking for garbage among them took a third of a
    collection's time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(specname="pytest_collection_modifyitems", trylast=True)
def slow_files_first(items: list[pytest.Item]) -> None:
    """So that of two workers neither is left alone with a long file in the end."""
    first = {item.path for item in items if item.get_closest_marker("slow") or item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in first)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile`` in constant time for each test."""
    if config.getvalue("dist") != "loadfile":
        return None
    from tests.support.ci.spread import FileScheduling

    return FileScheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Captured output is cut to its end. A failed test that starts processes is marked; finding
    that out for every test would take seconds."""
    report = yield
    if report.failed:
        from tests.support.ci.second_chance import MARKER, starts_processes

        names = (getattr(item, "originalname", item.name), *getattr(item, "fixturenames", ()))
        if starts_processes(item.path, names, Path(__file__).parent):
            report.keywords = {**report.keywords, MARKER: 1}
    report.sections = [(name, _end(text)) for name, text in report.sections]
    return report


def _end(text: str) -> str:
    return text if len(text) <= LONGEST else f"[{len(text) - LONGEST} characters left out]\n{text[-LONGEST:]}"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server on SQLite with its tables in files below its home: ``url``, ``client()``, ``home``,
    ..."""
    from turnstile_server import Server

    with Server.start(tmp_path_factory.mktemp("server"), 0) as running:
        yield running


@pytest.fixture(scope="session")
def server_on_s3(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerOnS3]:
    """The same with its tables in an S3 emulator, below ``s3://lake/warehouse``."""
    from tests.support.server import server_on_s3
    from tests.support.store.backends import MINISTACK

    with server_on_s3(tmp_path_factory.mktemp("server-on-s3"), servers.get(MINISTACK).url) as running:
        yield running


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """An emulated deployment with its tables in files below its home: ``url``, ``client()``,
    ``env``, ``aws(service)``, ..."""
    from turnstile_local import Stack

    with Stack.start(tmp_path_factory.mktemp("stack"), port=0) as running:
        yield running


@pytest.fixture(scope="session")
def s3_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The same with its tables in the emulated S3, below ``s3://lake/warehouse``, and functions
    held to their roles."""
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
    """Lists the tests that were skipped for want of a server."""
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
        # Queries are small and each differs: compiling them, collecting garbage in parallel or
        # often, and planning again after each stage cost more than they gain. With one compiler the
        # JVM has 48 MB for compiled code, which is full after some minutes: it then removes code
        # and compiles it again.
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={work} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
        # Hadoop starts chmod and readlink for each file: without a helper process in between.
        f"-Xmn500m -XX:ReservedCodeCacheSize=256m -Djdk.lang.Process.launchMechanism=VFORK",
        "spark.driver.memory": "2g",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "1",
        # Delta's VACUUM lists folders with this many tasks, whatever there is to list.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        # Endpoints are per bucket: the stacks of this run come and go on ports of their own.
        "spark.hadoop.fs.s3a.attempts.maximum": "3",
    }
    s3 = {"access_key": "each stack has", "secret_key": "its own", "region": "us-east-1"}
    session = turnstile_spark.session("turnstile tests", s3=s3, small=True, master="local[2]", options=options)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture
def planned_in_stages(spark: Any) -> Iterator[None]:
    """Plans queries again after each stage, as Spark does by default. For tests that look at the
    plans of queries."""
    spark.conf.set("spark.sql.adaptive.enabled", "true")
    yield
    spark.conf.set("spark.sql.adaptive.enabled", "false")
