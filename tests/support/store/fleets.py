"""A fleet of real servers on one store. Its processes are killed, frozen, stopped and started
again."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Final, Self
from uuid import uuid4

from tests.support.stack import eventually
from tests.support.store.backends import OBJS_TABLE, REFS_TABLE
from turnstile.adapters.sqlite.lock import GroupLock
from turnstile.fleet.core.decisions import granule_of
from turnstile.fleet.read import FleetReader, FleetReport
from turnstile.store.ports import World
from turnstile_server import Server
from turnstile_server.settings import ServerSettings
from turnstile_server.supervisor import children_of
from turnstile_server.world import open_store

BEAT_MS: Final = 500
LOCK_S: Final = 2.0
"""A process that waits longer for the lock of a SQLite file waits for a frozen process."""
RESTS_S: Final = 120.0


def is_writable(file: Path) -> bool:
    """Whether a process that is not frozen gets the locks of a SQLite file."""
    with closing(GroupLock(f"{file}-group")) as lock:
        if not lock.acquire(LOCK_S):
            return False
        try:
            with closing(sqlite3.connect(file, timeout=LOCK_S, isolation_level=None)) as database:
                database.execute("BEGIN IMMEDIATE")
                database.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
        finally:
            lock.release()
    return True


class Fleet:
    """Servers of one store, by number; each has a home and a port of its own, and keeps them when
    it starts again.

    Args:
        folder: of the homes, the lake and, without ``endpoint``, the SQLite file.
        endpoint: where dynoxide listens, with the tables of ``backends``; each fleet is a realm of
            its own there.
        endpoints: by which other addresses some servers reach it.
    """

    def __init__(
        self, folder: Path, count: int, *, endpoint: str = "", endpoints: Mapping[int, str] | None = None,
        beat_ms: int = BEAT_MS,
    ) -> None:  # fmt: skip
        self._folder = folder
        self._endpoint = endpoint
        self._beat_ms = beat_ms
        self._endpoints = endpoints or {}
        self._realm = f"r{uuid4().hex[:8]}" if endpoint else "default"
        self._stack = ExitStack()
        self._ports = dict[int, int]()
        self.servers: dict[int, Server] = {}
        with ExitStack() as stack:
            stack.push(self._close)
            for number in range(count):
                self.start(number)
            store = open_store(self._settings(count))
            stack.pop_all()
        self._stack.callback(store.close)
        self.world: World = store.world
        self.report: Callable[[], FleetReport] = FleetReader(store.world).report

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self, *_: object) -> None:
        for number in list(self.servers):
            self.thaw(number)
            self.stop(number)
        self._stack.close()

    def _settings(self, number: int) -> ServerSettings:
        store = f"dynamodb:{REFS_TABLE},{OBJS_TABLE}" if self._endpoint else f"sqlite:{self._folder / 'shared.db'}"
        return ServerSettings(
            str(self._folder / f"home{number}"), lake_root=(self._folder / "lake").as_uri(), store=store,
            store_endpoint=self._endpoints.get(number, self._endpoint), realm=self._realm, fleet=True,
            fleet_beat_ms=self._beat_ms, workers=1,
        )  # fmt: skip

    # -- servers ------------------------------------------------------------------------------------------------------

    def start(self, number: int) -> Server:
        """Starts a server, or one that was stopped or killed, and waits until it answers."""
        settings = self._settings(number)
        server = Server.start(settings.home, self._ports.get(number, 0), settings=settings)
        self._ports[number] = server.port
        self.servers[number] = server
        return server

    def stop(self, number: int) -> None:
        """Stops a server in order."""
        self.servers.pop(number).stop()

    def urls(self) -> list[str]:
        """The addresses of the servers, also of servers that do not run now."""
        return [f"http://127.0.0.1:{port}" for port in self._ports.values()]

    def pids(self, number: int, process: str = "") -> list[int]:
        """The processes of a server by name: ``main``, ``http``, ``owner``, ``background``,
        ``light-work``; all of them for no name."""
        pids = self.servers[number].pids
        children = list(children_of(self._settings(number)))
        names = ["main", *["http"] * (len(pids) - 1 - len(children)), *children]
        return [pid for pid, name in zip(pids, names, strict=True) if process in ("", name)]

    def kill(self, number: int, process: str = "") -> None:
        """SIGKILL for processes of a server. A server without its main process does not run any
        more: ``start`` it."""
        pids = self.pids(number, process)
        _send(pids, signal.SIGKILL)
        if process == "":
            del self.servers[number]

    def freeze(self, number: int, process: str = "") -> list[int]:
        """SIGSTOP for processes of a server; returns them. None has the lock of a SQLite file,
        which no other process could write then."""
        while True:
            pids = self.pids(number, process)
            _send(pids, signal.SIGSTOP)
            if self._endpoint or is_writable(self._folder / "shared.db"):
                return pids
            _send(pids, signal.SIGCONT)
            time.sleep(0.01)

    def thaw(self, number: int) -> None:
        """SIGCONT for all processes of a server."""
        _send(self.pids(number), signal.SIGCONT)

    @contextmanager
    def frozen(self, number: int, process: str = "") -> Iterator[None]:
        """Processes of a server stand still while the block runs."""
        pids = self.freeze(number, process)
        try:
            yield
        finally:
            _send(pids, signal.SIGCONT)

    # -- ownership ----------------------------------------------------------------------------------------------------

    def until(self, holds: Callable[[FleetReport], bool], what: str) -> FleetReport:
        """The first report of which ``holds`` is true."""
        return eventually(lambda: report if holds(report := self.report()) else None, RESTS_S, what)

    def rests(self, members: int | None = None) -> FleetReport:
        """The report as soon as each of ``members`` (by default all servers that run) owns a part,
        and together they own everything."""
        count = len(self.servers) if members is None else members
        return self.until(lambda report: rests(report, count), f"{count} members own everything")

    def table_owner(self, table_id: str) -> str:
        """The member that owns the granule which a table is in, by the rows; empty: nobody."""
        report = self.report()
        name = granule_of("publish", self.world.space.table(table_id), report.roles["publish"])
        return next((granule.owner for granule in report.granules if granule.name == name), "")

    def member_of(self, number: int) -> str:
        """The id of the member that is the background of a server; empty while there is none."""
        pids = {str(pid) for pid in self.pids(number, "background")}
        return next((one.id for one in self.report().members if one.name.rpartition(":")[2] in pids), "")


def rests(report: FleetReport, members: int) -> bool:
    """Whether a fleet has so many members, each of which owns a part, and every granule is owned by
    one of them."""
    ids = {member.id for member in report.members}
    owned = [granule for granule in report.granules if granule.owner in ids]
    return (
        len(ids) == members
        and len(owned) == sum(report.roles.values())
        and all(member.owned > 0 for member in report.members)
        and sum(member.owned for member in report.members) == len(owned)
    )


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
