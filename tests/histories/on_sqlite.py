"""Clients of several processes on one SQLite file, without HTTP between: ratifier, publisher and
store as a server has them.

``python -m tests.histories.on_sqlite <folder> <seed> <table> ...`` is one process: client threads
that keep to the rules, and a publisher that follows the change feed. It prints each operation
before it begins and again when it was answered, so a parent that kills it knows what may have
happened.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from tests.histories.check import Operation, told
from tests.support.fakes import delta
from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.adapters.opening import FileStorages
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.objs import SqliteObjs
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.delta.commits import read_head
from turnstile.delta.core.decide import Conflict, Ratified
from turnstile.delta.core.head import new_head_row
from turnstile.delta.proposals import CommitRequest
from turnstile.delta.publish import Publisher
from turnstile.delta.ratify import Ratifier
from turnstile.store.core.errors import OutcomeUnknown, TurnstileError
from turnstile.store.core.names import published_path
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Insert, new_row
from turnstile.store.ports import World

CLIENTS: Final = 3
REALM: Final = "history"
CONSUMER: Final = "publish"


def open_world(folder: Path) -> tuple[World, Database]:
    """The ports on one file, as a process of a server opens them."""
    database = Database(folder / "turnstile.db", checkpoint_pages=200)
    clock = SystemClock()
    refs = SqliteRefs(database, realm=REALM, clock=clock)
    objs = SqliteObjs(database, clock=clock)
    return World(refs, objs, FileStorages(), clock, RandomIds(), Space(REALM)), database


def create(world: World, folder: Path, table_id: str) -> None:
    """A table with its published version 0."""
    now = world.clock.now_ms()
    location = f"file://{folder}/lake/{table_id}"
    world.storages.open(location).put_if_absent(published_path(0), delta.version_zero(f"zero-{table_id}", now))
    row = new_head_row(
        key=world.space.table(table_id), table_id=table_id, catalog="main", name=f"main.default.{table_id}",
        location=location, metadata="m", version=0, ict=now, row_hwm=None, created=now, managed=True,
    )  # fmt: skip
    world.refs.write(Insert(row, (new_row("I1"),)))


class Processes:
    """What the processes print, as one history."""

    def __init__(self, folder: Path, tables: Sequence[str]) -> None:
        self._folder = folder
        self._tables = tables
        self._count = 0
        self._running: list[tuple[subprocess.Popen[bytes], threading.Thread]] = []
        self._operations: dict[str, Operation] = {}
        self.killed = 0

    @property
    def operations(self) -> list[Operation]:
        return list(self._operations.values())

    def start(self) -> None:
        self._count += 1
        command = [sys.executable, "-m", __name__, str(self._folder), str(self._count), *self._tables]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
        reader = threading.Thread(target=self._read, args=(process,))
        reader.start()
        self._running.append((process, reader))

    def kill(self, rng: random.Random, count: int = 1) -> None:
        """SIGKILL for so many processes at once."""
        for process, reader in rng.sample(self._running, count):
            process.kill()
            self._running.remove((process, reader))
            reader.join()
            process.wait()
            self.killed += 1

    def kill_all(self) -> None:
        self.kill(random.Random(0), len(self._running))

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    name, _, operation = line.partition(b" ")
                    self._operations[name.decode()] = msgspec.json.decode(operation, type=Operation)


# -- one process -------------------------------------------------------------------------------------------------------


class _Client:
    def __init__(self, world: World, number: int, tables: Sequence[str]) -> None:
        self._world = world
        self._number = number
        self._tables = tables
        self._ratifier = Ratifier(world)
        self._rng = random.Random(number)
        self._operations = self._transactions = 0
        self._past: list[tuple[CommitRequest, str]] = []

    def run(self) -> None:
        while True:
            if self._past and self._rng.random() < 0.15:
                self._propose(*self._rng.choice(self._past))
                continue
            self._write(self._rng.choice(self._tables))

    def _write(self, table: str) -> None:
        name, operation = self._begin("load", table)
        head = read_head(self._world, table)
        told(operation, "ok", head.latest, head.tail[-1].txn if head.tail else "")
        self._print(name, operation)
        self._transactions += 1
        txn = f"{self._number}.{self._transactions}"
        content = delta.append(txn, max(self._world.clock.now_ms(), head.last_ict + 1), base=head.latest)
        version = None if self._rng.random() < 0.4 else head.latest + 1
        request = CommitRequest(table, version, base=head.latest, content=content)
        self._past = [*self._past[-20:], (request, txn)]
        for _ in range(20):
            if self._propose(request, txn):
                return
            time.sleep(0.01)

    def _propose(self, request: CommitRequest, txn: str) -> bool:
        """Send a proposal; whether its answer is final."""
        name, operation = self._begin("commit", request.table_id, request.version or 0, txn)
        try:
            decision = self._ratifier.commit(request)
        except OutcomeUnknown:
            return False
        except TurnstileError:
            return True
        if isinstance(decision, Ratified):
            told(operation, "ok", decision.version)
        elif isinstance(decision, Conflict):
            told(operation, "conflict", decision.latest)
        self._print(name, operation)
        return True

    def _begin(self, op: str, table: str, version: int = 0, txn: str = "") -> tuple[str, Operation]:
        self._operations += 1
        call = time.monotonic_ns()  # one clock for all processes of a machine
        operation = Operation(client=self._number, table=table, op=op, call=call, version=version, txn=txn)
        name = f"{self._number}.{self._operations}"
        self._print(name, operation)
        return name, operation

    @staticmethod
    def _print(name: str, operation: Operation) -> None:
        os.write(1, name.encode() + b" " + msgspec.json.encode(operation) + b"\n")


def publish_changes(world: World, database: Database) -> bool:
    """Publish what the feed names, and keep the cursor; whether there was anything."""
    keys, seq = database.changes(CONSUMER)
    for key in keys:
        with suppress(TurnstileError):
            Publisher(world).publish(key.rpartition("/")[2])
    if keys:
        database.advance(CONSUMER, seq)
    return bool(keys)


def main(folder: str, seed: str, *tables: str) -> None:
    world, database = open_world(Path(folder))
    clients = [_Client(world, int(seed) * CLIENTS + number, tables) for number in range(CLIENTS)]
    for client in clients:
        threading.Thread(target=client.run).start()
    while True:
        if not publish_changes(world, database):
            database.wait_for_change(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
