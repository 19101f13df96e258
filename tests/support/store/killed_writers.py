"""Processes that write to one SQLite file, some of which are killed in the middle of it.

``python -m tests.support.store.killed_writers <file> <name>`` is one of them: four threads raise
counters of rows by conditional writes, two rows in a transaction now and then, and each prints what
it was told before it goes on.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

from tests.support.store.workload import KEYS, PAIRS, Record, step
from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.store.ports import Accepted, AllAccepted

THREADS: Final = 4
PATIENCE_S: Final = 60.0


class Writers:
    """Some processes on one file, and what they were told. A context: they are gone at its end."""

    def __init__(self, path: Path, processes: int, record: Record) -> None:
        self._path = path
        self.record = record
        self._count = 0
        self._told: SimpleQueue[tuple[subprocess.Popen[str], str]] = SimpleQueue()
        self._readers: dict[subprocess.Popen[str], threading.Thread] = {}
        for _ in range(processes):
            self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in list(self._readers):
            self._end(process)

    def kill_some(self, rng: random.Random) -> None:
        """Kill a process, or now and then all of them, and start as many."""
        for process in rng.sample(list(self._readers), rng.choice((1, 1, 1, len(self._readers)))):
            self._end(process)
            self._start()

    def wait_until_all_write(self, answers: int) -> None:
        """Return when each process was told of so many further writes. Raises TimeoutError if one
        is stuck."""
        left = dict.fromkeys(self._readers, answers)
        end = time.monotonic() + PATIENCE_S
        while any(count > 0 for count in left.values()):
            try:
                process, line = self._told.get(timeout=max(0.0, end - time.monotonic()))
            except Empty:
                raise TimeoutError(f"{sum(c > 0 for c in left.values())} of {len(left)} processes are stuck") from None
            self._keep(line)
            if process in left:
                left[process] -= 1

    def _start(self) -> None:
        self._count += 1
        command = [sys.executable, "-m", __name__, str(self._path), f"p{self._count}"]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        reader = self._readers[process] = threading.Thread(target=self._read, args=(process,))
        reader.start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):
                self._told.put((process, line))

    def _end(self, process: subprocess.Popen[str]) -> None:
        process.kill()
        process.wait()
        self._readers.pop(process).join()
        if process.stdout is not None:
            process.stdout.close()
        while not self._told.empty():
            self._keep(self._told.get()[1])

    def _keep(self, line: str) -> None:
        txn, version, *keys = line.split()
        for key in keys:
            self.record.accepted[key][int(version)] = txn


def _work(refs: SqliteRefs, name: str) -> None:
    rng = random.Random(name)
    count = 0
    while True:
        count += 1
        keys = rng.choice(PAIRS) if rng.random() < 0.3 else (rng.choice(KEYS),)
        txn = f"{name}.{count}"
        latest = refs.read_many(keys)[keys[0]]["latest"]
        writes = [step(key, latest, txn, rng.randbytes(rng.choice((10, 8_000)))) for key in keys]
        answer = refs.write(writes[0]) if len(writes) == 1 else refs.transact(writes, txn)
        if isinstance(answer, Accepted | AllAccepted):
            os.write(1, f"{txn} {latest + 1} {' '.join(keys)}\n".encode())


def main(path: str, name: str) -> None:
    database = Database(Path(path), checkpoint_pages=200)
    refs = SqliteRefs(database, realm="r", clock=SystemClock())
    threads = [threading.Thread(target=_work, args=(refs, f"{name}.{number}")) for number in range(THREADS)]
    for thread in threads:
        thread.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
