"""Concurrent clients of a running stack. Each keeps to the rules: after an unknown outcome, only
the same again."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

import httpx

from tests.histories.check import History, Operation, told
from tests.support.fakes import delta
from turnstile.adapters import FileStorages


@dataclass(frozen=True)
class Load:
    """How the clients behave. They go on for ``seconds``, and on a busy machine until ``answers``
    were told. ``impatient`` is the share of requests after which the client hangs up at once;
    ``patient`` ones wait for an answer. ``staged`` is the share of commits that name a version with
    a file as its content, at a ``file:`` location. A client rests for ``rest_s`` between
    operations, and waits for ``timeout_s`` for an answer.
    """

    clients: int
    seconds: float
    tickets: float = 0.3
    reads: float = 0.4
    impatient: float = 0.0
    replays: float = 0.1
    seed: int = 1
    patient: bool = False
    answers: int = 0
    staged: float = 0.0
    rest_s: float = 0.0
    timeout_s: float = 35.0


class Connection(Protocol):
    """The connection of a client."""

    def get(self, url: str) -> httpx.Response: ...

    def post(self, url: str, *, json: Any, timeout: float) -> httpx.Response: ...


def run(
    connect: Callable[[], AbstractContextManager[Connection]],
    tables: Sequence[str],
    load: Load,
    ended: threading.Event | None = None,
    history: History | None = None,
) -> History:
    """Let clients work for a while, or until ``ended``; the answers to them. ``history`` has them
    as they come."""
    history = history or History()
    stop = time.monotonic() + load.seconds
    ended = ended or threading.Event()
    faults: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with connect() as http:
                client = _Client(http, history, number, load)
                while not faults and not ended.is_set() and (time.monotonic() < stop or history.answers < load.answers):
                    client.one(client.rng.choice(tables))
                    ended.wait(load.rest_s)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(load.clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return history


class _Client:
    def __init__(self, http: Connection, history: History, number: int, load: Load) -> None:
        self._http = http
        self._history = history
        self._number = number
        self._load = load
        self.rng = random.Random(f"{load.seed}/{number}")
        self._count = 0
        self._past: list[tuple[str, dict[str, Any], str]] = []

    def one(self, table: str) -> None:
        if self._past and self.rng.random() < self._load.replays:
            self._commit(*self.rng.choice(self._past))
        elif self.rng.random() < self._load.reads:
            self._read(table)
        else:
            self._write(table)

    def _read(self, table: str) -> dict[str, Any]:
        operation = self._history.begin(self._number, table, "load")
        try:
            answer = self._http.get(f"/v1/tables/{table}/head")
        except httpx.TransportError:
            if not self._load.patient:
                raise
            time.sleep(0.02)
            return {}
        if answer.status_code != 200:
            return {}
        head: dict[str, Any] = answer.json()
        tail = {commit["version"]: commit["txn_id"] for commit in head["tail"]}
        told(operation, "ok", head["latest"], tail.get(head["latest"], ""))
        return head

    def _write(self, table: str) -> None:
        head = self._read(table)
        if not head:
            return
        self._count += 1
        txn = f"{self._number}.{self._count}"
        stamp = max(int(time.time() * 1000), head["timestamp"] + 1)
        ticket = self.rng.random() < self._load.tickets
        version = None if ticket else head["latest"] + 1
        raw = delta.append(txn, stamp, base=head["latest"])
        body: dict[str, Any] = {"version": version, "base": head["latest"]}
        if version is not None and self.rng.random() < self._load.staged:
            body["staged"] = _stage(head["location"], version, raw)
        else:
            body["inline"] = {"content": raw.decode()}
        if version is not None:
            self._history.contents[txn] = raw
        self._past.append((table, body, txn))
        for _ in range(20):
            if self._commit(table, body, txn):
                return
            time.sleep(self.rng.random() * 0.05)

    def _commit(self, table: str, body: dict[str, Any], txn: str) -> bool:
        """Send a proposal; whether its answer is final."""
        operation = self._history.begin(self._number, table, "commit", version=body["version"] or 0, txn=txn)
        hurry = 0.004 if self.rng.random() < self._load.impatient else self._load.timeout_s
        try:
            answer = self._http.post(f"/v1/tables/{table}/commits", json=body, timeout=hurry)
        except httpx.TransportError:
            return False
        if answer.status_code == 200 and "content" in (commit := answer.json()["commit"]):
            self._history.contents[txn] = commit["content"].encode()
        return _heard(operation, answer)


def _stage(location: str, version: int, content: bytes) -> dict[str, Any]:
    """Writes a staged commit; its facts in a proposal."""
    name = f"{version:020d}.{uuid4()}.json"
    assert FileStorages().open(location).put_if_absent(f"_delta_log/_staged_commits/{name}", content)
    return {"name": name, "size": len(content), "modified": int(time.time() * 1000)}


def _heard(operation: Operation, answer: httpx.Response) -> bool:
    if answer.status_code == 200:
        told(operation, "ok", answer.json()["commit"]["version"])
        return True
    error = (
        answer.json().get("error", {}) if answer.headers.get("content-type", "").startswith("application/json") else {}
    )
    if error.get("type") == "CommitVersionConflict":
        told(operation, "conflict", error["latest"])
        return True
    if error.get("type") == "TimestampNotIncreasing":  # final as well, and says nothing that the model keeps
        told(operation, "unknown", 0)
        return True
    return False
