"""Two real servers on one store share their work, and each goes on when the other is frozen or
killed (I4, I11, I19)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from tests.histories.killing import needs_proc
from tests.support.server import processes, resting_background
from tests.support.stack import Table, commit_info
from turnstile.fleet.read import FleetReader, FleetReport
from turnstile_server import Server
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

pytestmark = [needs_proc, pytest.mark.timeout(240)]

WITHIN_S = 60.0
BEAT_MS = 500
TABLES = 4


class Pair:
    """Two servers of one SQLite file, and its rows."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self.servers = [stack.enter_context(self.start(number)) for number in range(2)]
        store = open_store(self._settings(9))
        stack.callback(store.close)
        self.report: Callable[[], FleetReport] = FleetReader(store.world).report

    def start(self, number: int) -> Server:
        settings = self._settings(number)
        return Server.start(settings.home, 0, lake=(self._folder / "lake").as_uri(), settings=settings)

    def _settings(self, number: int) -> ServerSettings:
        store = f"sqlite:{self._folder / 'shared.db'}"
        return ServerSettings(str(self._folder / f"home{number}"), store=store, fleet=True, fleet_beat_ms=BEAT_MS)

    def until(self, holds: Callable[[FleetReport], bool]) -> FleetReport:
        """The first report of which ``holds`` is true."""
        deadline = time.monotonic() + WITHIN_S
        while not holds(report := self.report()):
            assert time.monotonic() < deadline, report
            time.sleep(0.1)
        return report

    def shared(self) -> FleetReport:
        """As soon as both own their part."""
        return self.until(lambda report: len(report.members) == 2 and min(one.owned for one in report.members) > 20)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Two servers that share their work."""
    with ExitStack() as stack:
        made = Pair(tmp_path, stack)
        made.shared()
        yield made


def append(tables: list[Table], server: Server, version: int) -> None:
    """The next version of each table, by way of one server."""
    with server.client() as api:
        for table in tables:
            table.api = api
            table.append(version, f"{table.id}/{version}")


def check(tables: list[Table], server: Server, latest: int) -> None:
    """Everything that was acknowledged is published: every version once, in its place."""
    for table in tables:
        with closing(server.client()) as table.api:
            head = table.settled(WITHIN_S)
            assert (head["latest"], head["floor"], head["state"]) == (latest, latest, "active")
            log = [commit_info(table.published(version))["txnId"] for version in range(1, latest + 1)]
            assert log == [f"{table.id}/{version}" for version in range(1, latest + 1)]


def test_i4_i11_i19_a_frozen_server_is_taken_over_and_comes_back(pair: Pair) -> None:
    one, other = pair.servers
    tables = [Table(one) for _ in range(TABLES)]
    for version in (1, 2, 3):
        append(tables, pair.servers[version % 2], version)
    check(tables, one, 3)
    before = {member.id for member in pair.shared().members}
    with resting_background(one):
        append(tables, one, 4)
        check(tables, other, 4)
        pair.until(lambda report: [one.owned for one in report.members] == [sum(report.roles.values())])
        append(tables, other, 5)
        check(tables, other, 5)
    after = {member.id for member in pair.shared().members}
    assert not before <= after, "the frozen one is another member now"
    append(tables, one, 6)
    check(tables, other, 6)


def test_i4_i11_i19_a_killed_server_is_taken_over_and_one_that_stops_hands_over(pair: Pair) -> None:
    one, other = pair.servers
    tables = [Table(other) for _ in range(TABLES)]
    append(tables, one, 1)
    for pid in processes(one):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    append(tables, other, 2)
    check(tables, other, 2)
    pair.until(lambda report: [one.owned for one in report.members] == [sum(report.roles.values())])
    with pair.start(0) as again:
        pair.shared()
        append(tables, again, 3)
        check(tables, other, 3)
    pair.until(lambda report: [one.owned for one in report.members] == [sum(report.roles.values())])
