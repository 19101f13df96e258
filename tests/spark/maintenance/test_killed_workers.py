"""A worker process that is killed in the middle of an OPTIMIZE is replaced when its lease ends:
rows stay whole, and its committed work is not done again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.support.flaky import Flaky

PARTITIONS = 4
TERM_S = 30.0
LINE = re.compile(r"^(\S+): (done|busy|nothing due)(?:, (\d+) files)?", re.MULTILINE)

pytestmark = pytest.mark.slow


class Worker:
    """A process that does the due work of one table once."""

    def __init__(self, url: str, table: str, token: str | None) -> None:
        environment = {**os.environ, "TURNSTILE_TOKEN": token or ""}
        arguments = ["run", table, "--once", "--small", "--uri", url, "--term-s", str(TERM_S)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "turnstile_spark.maintenance", *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True,
        )  # fmt: skip

    def kill(self) -> None:
        """Python and its JVM die at once, without a message."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def outcome(self) -> tuple[str, int]:
        """Its result for the table, and how many files it rewrote."""
        said, _ = self._process.communicate(timeout=500)
        match = LINE.search(said)
        assert match is not None, said
        return match[2], int(match[3] or 0)

    def close(self) -> None:
        if self._process.poll() is None:
            self.kill()


@pytest.fixture
def proxy(file_server: Any) -> Iterator[Flaky]:
    made = Flaky(file_server.url)
    yield made
    made.close()


@pytest.mark.timeout(1200)
def test_a_worker_that_is_killed_between_two_bins_is_replaced_and_no_row_is_lost_or_doubled(
    lake: Any, sql: Any, name: str, proxy: Flaky, file_server: Any
) -> None:
    table = f"lake.{name}"
    handle = lake.table(name)
    sql(f"CREATE TABLE {table} (id BIGINT, day INT) PARTITIONED BY (day)")
    for number in range(2):
        sql(f"INSERT INTO {table} SELECT id + {number * 100}, id % {PARTITIONS} FROM range(0, 40, 1, 1)")
    handle.publish()
    rows = sql.values(f"SELECT id, day FROM {table} ORDER BY ALL")
    before = handle.head().latest
    switch_on(lake, name)
    held = threading.Event()
    let_go = threading.Event()
    commit = f"POST /v1/tables/{handle.id}/commits"

    def hold() -> None:
        held.set()
        let_go.wait(300)

    def second() -> None:
        """The first commit of the rewrite passes; at the second one the worker is killed."""
        proxy.first(commit, hold)

    first = Worker(proxy.url, name, file_server.token)
    try:
        proxy.first(commit, second)
        assert held.wait(500), proxy.seen[-10:]
        first.kill()
        proxy.target = "http://127.0.0.1:9"  # what it was about to send never arrives
        let_go.set()
        assert handle.head().latest == before + 1
        assert sql.values(f"SELECT id, day FROM {table} ORDER BY ALL") == rows
        outcome, files = take_over(file_server, name)
    finally:
        let_go.set()
        first.close()
    assert (outcome, files) == ("done", 2 * (PARTITIONS - 1))
    assert sql.values(f"SELECT id, day FROM {table} ORDER BY ALL") == rows
    assert int(sql(f"DESCRIBE DETAIL {table}")[0].numFiles) == PARTITIONS
    assert handle.head().latest == before + PARTITIONS, "one commit for each bin, by whichever worker"


def take_over(server: Any, name: str) -> tuple[str, int]:
    """A second worker asks until the lease of the first one is over."""
    end_s = time.monotonic() + 600
    while time.monotonic() < end_s:
        worker = Worker(server.url, name, server.token)
        try:
            found = worker.outcome()
        finally:
            worker.close()
        if found[0] != "busy":
            return found
        time.sleep(TERM_S / 3)
    raise AssertionError("the lease of a dead worker does not end")


def switch_on(lake: Any, name: str) -> None:
    """The table is to be rewritten as soon as two files of a partition are small."""
    namespace, _, table = name.rpartition(".")
    path = f"/v1/catalogs/{lake.api.catalog}/namespaces/{namespace}/tables/{table}/maintenance-policy"
    headers = dict(lake.api.http._client.headers)
    policy = {"set": {"enabled": "true", "min-commits": "1", "min-small-files": "2"}}
    answer = httpx.patch(lake.api.http.url + path, json=policy, headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
