"""Real servers of a fleet have one of them apply a catalog's changes, and commits of a hot table,
and do so themselves when it does not answer (I3, I12, I21, I23)."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from tests.histories.killing import needs_proc
from tests.support.fakes import delta
from tests.support.server import is_frozen
from tests.support.stack import Table, commit_info, now_ms
from tests.support.store.fleets import is_writable
from turnstile.fleet.core.roles import GRANULES
from turnstile.fleet.read import FleetReader
from turnstile_server import Server
from turnstile_server.settings import ServerSettings
from turnstile_server.world import open_store

pytestmark = [needs_proc, pytest.mark.timeout(240)]

WITHIN_S = 60.0
BEAT_MS = 500
ADMIN = "admin-token"
READER = "reader-token"
NAMESPACES = "/v1/catalogs/main/namespaces"


def _sha256(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """Two servers of one SQLite file that share their work, and know an administrator and somebody
    without rights."""
    folder = tmp_path_factory.mktemp("fleet")
    tokens = {
        _sha256(ADMIN): {"name": "admin", "admin": True},
        _sha256(READER): {"name": "reader"},
    }
    environment = {"TURNSTILE_TOKENS": json.dumps(tokens), "TURNSTILE_TOKEN_KEYS": "k:" + "x" * 43}
    with ExitStack() as stack:
        servers = []
        for number in range(2):
            store = f"sqlite:{folder / 'shared.db'}"
            settings = ServerSettings(
                str(folder / f"home{number}"), store=store, fleet=True, fleet_beat_ms=BEAT_MS, workers=1
            )
            lake = (folder / "lake").as_uri()
            servers.append(
                stack.enter_context(
                    Server.start(settings.home, 0, lake=lake, settings=settings, environment=environment)
                )
            )
        opened = open_store(settings)
        stack.callback(opened.close)
        until_s = time.monotonic() + WITHIN_S
        while True:
            report = FleetReader(opened.world).report()
            if len(report.members) == 2 and min(member.owned for member in report.members) > 20:
                break
            assert time.monotonic() < until_s, report
            time.sleep(0.1)
        yield servers


def headers(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def client(server: Server, token: str = ADMIN) -> httpx.Client:
    return httpx.Client(base_url=server.url, headers=headers(token), timeout=60.0, trust_env=False)


def asked(server: Server, outcome: str) -> float:
    """For how many changes the server has asked an owner, with this outcome."""
    with client(server) as api:
        lines = api.get("/metrics").raise_for_status().text.splitlines()
    sample = f'turnstile_asked_owners_total{{outcome="{outcome}"}}'
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(sample))


def create_until(pair: list[Server], outcome: str) -> None:
    """Creates namespaces by way of both servers until each of them has asked an owner with this
    outcome."""
    until_s = time.monotonic() + WITHIN_S
    while not all(asked(server, outcome) for server in pair):
        assert time.monotonic() < until_s, f"no change was {outcome}"
        for server in pair:
            with client(server) as api:
                assert api.post(NAMESPACES, json={"name": f"n{uuid4().hex}"}).status_code == 201


def owner_pids(servers: list[Server]) -> list[int]:
    """The processes that apply catalogs' changes: before background and light work, which are the
    last."""
    return [server.pids[-3] for server in servers]


def commits(server: Server) -> list[str]:
    """The messages of the catalog's log."""
    messages = list[str]()
    start = ""
    with client(server) as api:
        while True:
            page = api.get(f"/v1/catalogs/main/log?max_results=500{start}").raise_for_status().json()
            messages += [entry["message"] for entry in page["commits"]]
            if "next" not in page:
                return messages
            start = f"&start={page['next']}"


def test_i12_i21_both_servers_have_the_owner_apply_changes_with_the_callers_rights(pair: list[Server]) -> None:
    create_until(pair, "answered")
    name = f"n{uuid4().hex}"
    key = str(uuid4())
    for server in pair:
        with client(server) as api, client(server, READER) as reader, client(server, "unknown") as stranger:
            made = api.post(NAMESPACES, json={"name": name}, headers={"idempotency-key": key})
            assert made.status_code == 201 and made.json()["name"] == name
            refused = api.post(NAMESPACES, json={"name": name})
            assert refused.status_code == 409 and refused.json()["error"]["type"] == "AlreadyExists"
            assert api.post(NAMESPACES, json={"nam": 1}).status_code == 400
            assert reader.post(NAMESPACES, json={"name": "no"}).status_code == 403
            assert stranger.post(NAMESPACES, json={"name": "no"}).status_code == 401
            large = api.post(NAMESPACES, json={"name": "large", "comment": "x" * 2_000_000})
            assert large.status_code == 413
    assert sum(name in message for message in commits(pair[0])) == 1, "the key was known to both servers"


def test_the_metrics_of_a_server_show_its_part_in_the_fleet(pair: list[Server]) -> None:

    def shown(server: Server) -> dict[str, float]:
        with client(server) as api:
            lines = api.get("/metrics").raise_for_status().text.splitlines()
        pairs = [line.rsplit(" ", 1) for line in lines if line.startswith("turnstile_fleet_")]
        return {name: float(value) for name, value in pairs}

    def holds() -> bool:
        both = [shown(server) for server in pair]
        members = [one["turnstile_fleet_members"] for one in both]
        owned = [one["turnstile_fleet_granules"] for one in both]
        gained = [one["turnstile_fleet_gained_total"] for one in both]
        return members == [2.0, 2.0] and min(gained) > 0 and sum(owned) == sum(GRANULES.values()) + 32

    _until(holds)  # a beat that began before the rows changed is still to be counted


class HotTable:
    """A table that both servers get many appends of, each by a writer that sends it again until its
    outcome is known."""

    def __init__(self, pair: list[Server]) -> None:
        self.table = Table(pair[0], headers=headers(ADMIN))
        self.versions = dict[int, str]()
        self._mutex = threading.Lock()
        self.problems = list[object]()

    def write(self, server: Server, stop: threading.Event) -> None:
        with client(server) as api:
            while not stop.is_set():
                self._append(api, uuid4().hex)

    def _append(self, api: httpx.Client, txn: str) -> None:
        content = delta.append(txn, now_ms()).decode()
        body = {"version": None, "base": 0, "inline": {"content": content}}
        until_s = time.monotonic() + WITHIN_S
        while True:
            response = api.post(f"/v1/tables/{self.table.id}/commits", json=body)
            if response.status_code == 200:
                with self._mutex:
                    self.versions[response.json()["commit"]["version"]] = txn
                return
            is_unknown = "CommitStateUnknown" in response.text
            if not (is_unknown or response.status_code in (409, 429, 503)) or time.monotonic() > until_s:
                self.problems.append((response.status_code, response.text))
                return
            time.sleep(0.05)

    def answer(self) -> object:
        """Problems so far, and the answer to one more append: why the table does not go on."""
        content = delta.append(uuid4().hex, now_ms()).decode()
        body = {"version": None, "base": 0, "inline": {"content": content}}
        response = self.table.api.post(f"/v1/tables/{self.table.id}/commits", json=body)
        return self.problems[:3], response.status_code, response.text

    def check(self) -> None:
        """Every version is published once, is the commit that was acknowledged as that version, and
        there is no other."""
        assert self.problems == []
        head = self.table.settled(WITHIN_S)
        assert head["floor"] == head["latest"] == len(self.versions)
        for version, txn in self.versions.items():
            assert commit_info(self.table.published(version))["txnId"] == txn


def test_i3_i23_commits_of_a_hot_table_meet_at_its_owner_and_go_on_without_it(pair: list[Server]) -> None:
    hot = HotTable(pair)
    stop = threading.Event()
    writers = [threading.Thread(target=hot.write, args=(server, stop)) for server in pair for _ in range(6)]
    before = {server.url: asked(server, "answered") for server in pair}
    for writer in writers:
        writer.start()
    try:
        _until(lambda: any(asked(server, "answered") > before[server.url] + 50 for server in pair))
        pids = owner_pids(pair)
        for number in (signal.SIGSTOP, signal.SIGKILL):
            count = len(hot.versions)
            _signal(pair, number)
            _until(lambda count=count: len(hot.versions) > count + 50, hot.answer)  # type: ignore[misc]
            if number == signal.SIGSTOP:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    hot.check()


def test_i3_i21_changes_go_on_when_the_owner_is_frozen_or_killed(pair: list[Server]) -> None:
    """Every change that was acknowledged is there once; one that was not is unknown, or was
    refused."""
    create_until(pair, "answered")
    stop = threading.Event()
    acknowledged = list[str]()
    unknown = list[str]()
    refused = list[str]()
    others = list[object]()

    def write(server: Server) -> None:
        with client(server) as api:
            while not stop.is_set():
                name = f"n{uuid4().hex}"
                answer = api.post(NAMESPACES, json={"name": name})
                if answer.status_code == 201:
                    acknowledged.append(name)
                elif answer.json()["error"]["type"] == "CommitStateUnknown":
                    unknown.append(name)
                elif answer.status_code in (409, 429, 503) and "retry_after_ms" in answer.text:
                    refused.append(name)  # a busy machine, and nothing was applied
                else:
                    others.append((answer.status_code, answer.text))

    writers = [threading.Thread(target=write, args=(server,)) for server in pair for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        for number in (signal.SIGSTOP, signal.SIGKILL):
            pids = owner_pids(pair)
            count = len(acknowledged)
            _signal(pair, number)
            _until(partial(_longer, acknowledged, count + 20))
            if number == signal.SIGSTOP:
                for pid in pids:
                    os.kill(pid, signal.SIGCONT)
            count = len(acknowledged)
            _until(partial(_longer, acknowledged, count + 20))
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert others == []
    created = [message.rpartition(" ")[2].rpartition(".")[2].strip("'") for message in commits(pair[0])]
    for name in acknowledged:
        assert created.count(name) == 1, name
    assert not set(created) & set(refused)
    for name in unknown:
        assert created.count(name) <= 1, name


def _signal(servers: list[Server], number: signal.Signals) -> None:
    """Freezes or kills the processes that apply catalogs' changes; not while one has the file's
    lock, which its end would free, and its freezing would not."""
    file = Path(servers[0].state.store.removeprefix("sqlite:"))
    while True:
        for pid in owner_pids(servers):
            os.kill(pid, number)
            if number == signal.SIGSTOP:
                _until(partial(is_frozen, pid))
        if is_writable(file):
            return
        assert number == signal.SIGSTOP
        for pid in owner_pids(servers):
            os.kill(pid, signal.SIGCONT)
        time.sleep(0.01)


def _until(holds: Callable[[], bool], reason: Callable[[], object] = lambda: "it does not come") -> None:
    until_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < until_s, reason()
        time.sleep(0.05)


def _longer(names: list[str], count: int) -> bool:
    return len(names) > count
