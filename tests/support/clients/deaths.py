"""Writers of a server whose processes are killed, and the conditions on acknowledged commits."""

from __future__ import annotations

import os
import signal
import threading
import uuid
from pathlib import Path

import httpx

from tests.support.fakes import delta
from tests.support.server import processes
from tests.support.stack import Table, eventually, now_ms, until
from turnstile_server import Server
from turnstile_server.children import BACKGROUND, LIGHT_WORK

WORKERS = 2
ENOUGH = 5
"""Commits that are acknowledged before a kill, and after it."""


class Writer:
    """Appends one version after another to a table of its own, and sends each again until it is
    acknowledged."""

    def __init__(self, server: Server) -> None:
        self.table = Table(server)
        self.acknowledged: dict[int, bytes] = {}
        self.unanswered = 0
        self._over = threading.Event()
        self._faults = list[BaseException]()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()

    def _write(self) -> None:
        timestamp_ms = 0
        try:
            while not self._over.is_set():
                version = len(self.acknowledged) + 1
                timestamp_ms = max(now_ms(), timestamp_ms + 1)  # two commits may take less than a millisecond
                content = delta.append(str(uuid.uuid4()), timestamp_ms)
                if self._commit(version, content):
                    self.acknowledged[version] = content
        except BaseException as fault:  # told by stop()
            self._faults.append(fault)

    def _commit(self, version: int, content: bytes) -> bool:
        body = {"version": version, "inline": {"content": content.decode()}}
        while not self._over.is_set():
            try:
                answer = self.table.api.post(f"/v1/tables/{self.table.id}/commits", json=body)
            except httpx.TransportError:
                self.unanswered += 1
                self._over.wait(0.05)
                continue
            if answer.status_code == 200:
                assert answer.json()["commit"]["version"] == version
                return True
            assert answer.status_code == 429, answer.text  # nothing was published for a while
            self._over.wait(0.05)
        return False

    def more(self, count: int = ENOUGH) -> None:
        """Waits for so many more acknowledged commits."""
        goal = len(self.acknowledged) + count
        until(lambda: bool(self._faults) or len(self.acknowledged) >= goal, f"{count} more commits are acknowledged")
        assert not self._faults, self._faults

    def stop(self) -> None:
        self._over.set()
        self._thread.join(timeout=60)
        assert not self._faults, self._faults

    def check(self) -> None:
        """I1, I2, I4, I11: everything acknowledged is there, in order, and published with its
        bytes."""
        latest = self.table.get("head")["latest"]
        assert len(self.acknowledged) <= latest <= len(self.acknowledged) + 1, "one may have been ratified unanswered"
        for version, content in self.acknowledged.items():
            assert self.table.published(version) == content
        head = eventually(lambda: (head := self.table.get("head"))["floor"] == latest and head)
        assert head["state"] == "active"


def pids_of(server: Server, name: str) -> set[int]:
    return {pid for pid, process in processes(server).items() if process == name}


def kill(server: Server, name: str) -> None:
    """Kills every process of that name, and waits until there are as many others, and they are
    ready."""
    killed = pids_of(server, name)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)

    def is_replaced() -> bool:
        pids = server.pids
        ready = {file.name for file in Path(server.state.runtime).glob("ready-*")}
        return (
            len(pids) == 1 + WORKERS + len(BACKGROUND) + len(LIGHT_WORK)
            and not killed & set(pids)
            and (name != "http" or {f"ready-{pid}" for pid in pids_of(server, name)} <= ready)
        )

    until(is_replaced, f"there are other {name} processes")
