"""Real worker processes publish and maintain the tables of servers that leave this to them, and are
taken over when they are killed or frozen (I4, I11, I15, I19)."""

from __future__ import annotations

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from tests.histories.killing import needs_proc
from tests.support.cli import TURNSTILE
from tests.support.clients.inbox import Inbox
from tests.support.server import children
from tests.support.stack import Table, commit_info, until
from turnstile.coordination.tasks import Tasks
from turnstile.delta.log.files import list_log
from turnstile.fleet.core.roles import ALL, EVENTS, MAINTAIN, PUBLISH, SWEEP
from turnstile.fleet.read import FleetReader, FleetReport, MemberReport
from turnstile.maintenance.work import Maintainer
from turnstile_server import Server
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

pytestmark = [needs_proc, pytest.mark.timeout(300)]

WITHIN_S = 120.0
"""Longer than a frozen process holds a catalog's events (``HELD_MS``)."""
BEAT_MS = 500
SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()
INTERVAL = 10
"""Versions between two checkpoints."""


class Site:
    """Servers and workers of one SQLite file, and its rows."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self.store = f"sqlite:{folder / 'shared.db'}"

    def open(self) -> None:
        """Opens the store, which is there."""
        opened = open_store(ServerSettings(str(self._folder / "reader"), store=self.store))
        self._stack.callback(opened.close)
        self.world = opened.world
        self.report: Callable[[], FleetReport] = FleetReader(opened.world).report

    def server(self, *roles: str) -> Server:
        """A server of the fleet with these roles."""
        settings = ServerSettings(
            str(self._folder / "home"), store=self.store, fleet=True, fleet_beat_ms=BEAT_MS, roles=roles, workers=1
        )
        return self._stack.enter_context(
            Server.start(settings.home, 0, lake=(self._folder / "lake").as_uri(), settings=settings)
        )

    def worker(self, *roles: str, **variables: str) -> subprocess.Popen[bytes]:
        """A worker with these roles, which beats as the server does, and further variables."""
        settings = ServerSettings(
            str(self._folder / "worker"), store=self.store, fleet=True, fleet_beat_ms=BEAT_MS, roles=roles
        )
        return self._run([sys.executable, "-m", "turnstile_server.worker"], {**settings.to_environment(), **variables})

    def command(self, *roles: str) -> subprocess.Popen[bytes]:
        """The same by the command line."""
        return self._run([str(TURNSTILE), "work", "--store", self.store, "--roles", ",".join(roles)], {})

    def _run(self, command: Sequence[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self._folder / "workers.log").open("ab") as log:
            process = subprocess.Popen(
                command, env={**os.environ, **variables}, stdout=log, stderr=log, cwd=self._folder
            )
        self._stack.callback(end, process)
        return process

    def until(self, holds: Callable[[FleetReport], bool]) -> FleetReport:
        """The first report of which ``holds`` is true."""
        deadline = time.monotonic() + WITHIN_S
        while not holds(report := self.report()):
            assert time.monotonic() < deadline, (report, self.log())
            time.sleep(0.1)
        return report

    def log(self) -> str:
        return (self._folder / "workers.log").read_text()[-4_000:]

    def events(self, server: Server) -> list[dict[str, Any]]:
        """The fleet's events, as an administrator reads them."""
        with server.client() as api:
            answer = api.get("/v1/fleet/events", params={"limit": 1000})
            assert answer.status_code == 200, answer.text
            events: list[dict[str, Any]] = answer.json()["events"]
            return events

    def maintained(self, table: Table, *versions: int) -> None:
        """Waits for the checkpoints of these versions: one attempt wrote each. It is over then, and
        a frozen process holds up no other."""
        deadline = time.monotonic() + WITHIN_S
        storage = self.world.storages.open(f"file://{table.storage.root}")
        maintainer = Maintainer(self.world)
        while maintainer.upkept(table.id).next <= max(versions):
            assert time.monotonic() < deadline, (table.get("head"), self.log())
            time.sleep(0.2)
        task = Tasks(self.world).last(f"maintain.{table.id}")
        assert task is not None and task.attempt == len(versions)
        assert list_log(storage).checkpoints.keys() == set(versions)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills a worker that a test has left."""
    process.kill()
    process.wait()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox() as served:
        yield served


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with ExitStack() as stack:
        yield Site(tmp_path, stack)


def append(table: Table, first: int, last: int) -> None:
    for version in range(first, last + 1):
        table.append(version, f"{table.id}/{version}")


def check(table: Table, latest: int) -> None:
    """Everything that was acknowledged is published: every version once, in its place."""
    head = table.settled(WITHIN_S)
    assert (head["latest"], head["floor"], head["state"]) == (latest, latest, "active")
    log = [commit_info(table.published(version))["txnId"] for version in range(1, latest + 1)]
    assert log == [f"{table.id}/{version}" for version in range(1, latest + 1)]


def working(report: FleetReport, role: str) -> list[MemberReport]:
    """The members that own granules of a role."""
    return [member for member in report.members if member.granules.get(role)]


def test_i4_i11_i15_i19_a_worker_does_what_a_server_leaves_to_it_and_another_goes_on_when_it_is_killed(
    site: Site, inbox: Inbox
) -> None:
    server = site.server()
    site.open()
    site.until(lambda report: len(report.members) == 1 and report.without_members == ALL)
    table = Table(server)
    with closing(table.api):
        append(table, 1, INTERVAL)
        assert table.get("head")["floor"] == 0, "nobody publishes"
        worker = site.worker(*ALL, TURNSTILE_EVENT_TARGETS=f"inbox={inbox.url}", TURNSTILE_EVENT_SECRET=SECRET)
        check(table, INTERVAL)
        site.maintained(table, INTERVAL)
        report = site.until(lambda report: report.without_members == () and len(working(report, MAINTAIN)) == 1)
        assert all(working(report, role) == working(report, MAINTAIN) for role in ALL)
        until(
            lambda: (
                {"turnstile.fleet.claimed", "turnstile.table.published"} <= {event["type"] for event in inbox.events}
            )
        )
        worker.kill()
        site.until(lambda report: report.without_members == ALL and len(report.members) == 1)
        append(table, INTERVAL + 1, 2 * INTERVAL)
        site.worker(PUBLISH, EVENTS, MAINTAIN)
        check(table, 2 * INTERVAL)
        site.maintained(table, INTERVAL, 2 * INTERVAL)
        site.until(lambda report: report.without_members == (SWEEP,))
        kinds = {event["type"].rpartition(".")[2] for event in site.events(server)}
    assert {"joined", "claimed", "removed", "released"} <= kinds


def test_i4_i11_i15_i19_a_frozen_worker_is_taken_over_and_comes_back_and_one_that_stops_hands_over(site: Site) -> None:
    server = site.server(*ALL)
    site.open()
    table = Table(server)
    worker = site.worker(PUBLISH, MAINTAIN)
    report = site.until(
        lambda report: (
            all(len(working(report, role)) == 2 for role in (PUBLISH, MAINTAIN)) and not report.without_members
        )
    )
    (frozen,) = [member.id for member in report.members if SWEEP not in member.loads]
    assert [len(working(report, role)) for role in (SWEEP, EVENTS)] == [1, 1], "the worker owns nothing of other roles"
    append(table, 1, INTERVAL)
    check(table, INTERVAL)
    site.maintained(table, INTERVAL)
    with stopped(worker, server):
        append(table, INTERVAL + 1, 2 * INTERVAL)
        check(table, 2 * INTERVAL)
        site.until(
            lambda report: [len(working(report, role)) for role in ALL] == [1, 1, 1, 1] and len(report.members) == 1
        )
        site.maintained(table, INTERVAL, 2 * INTERVAL)
    site.until(lambda report: all(len(working(report, role)) == 2 for role in (PUBLISH, MAINTAIN)))
    append(table, 2 * INTERVAL + 1, 3 * INTERVAL)
    check(table, 3 * INTERVAL)
    site.maintained(table, INTERVAL, 2 * INTERVAL, 3 * INTERVAL)
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(WITHIN_S) == 0, site.log()
    site.until(lambda report: len(report.members) == 1 and sum(report.roles.values()) == report.members[0].owned)
    happened = [
        (event["type"].rpartition(".")[2], event["subject"], event["data"].get("role")) for event in site.events(server)
    ]
    own = [kind for kind, subject, _ in happened if subject == frozen]
    assert own[0] == "joined" and {"handed-over", "removed", "refused"} <= set(own)
    assert {role for kind, _, role in happened if kind == "taken-over"} == {PUBLISH, MAINTAIN}
    assert [kind for kind, *_ in happened].count("left") == 1


def test_the_command_works_until_it_is_stopped(site: Site) -> None:
    server = site.server()
    site.open()
    table = Table(server)
    worker = site.command(PUBLISH, SWEEP)
    append(table, 1, 3)
    check(table, 3)
    site.until(lambda report: report.without_members == (EVENTS, MAINTAIN))
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(WITHIN_S) == 0, site.log()
    site.until(lambda report: report.without_members == ALL and len(report.members) == 1)
    assert "Turnstile works for publish, sweep" in site.log()


class stopped:
    """A worker's processes are frozen while the block runs."""

    def __init__(self, worker: subprocess.Popen[bytes], server: Server) -> None:
        self._pids = [worker.pid, *children(worker.pid)]
        self._server = server

    def __enter__(self) -> None:
        while True:
            self._send(signal.SIGSTOP)
            with self._server.client(timeout=10.0) as api:
                if api.post("/v1/catalogs/main/namespaces", json={"name": "frozen"}).status_code in (201, 409):
                    return
            self._send(signal.SIGCONT)  # one was stopped with the store's lock in its hands

    def __exit__(self, *_: object) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        for pid in self._pids:
            os.kill(pid, number)
