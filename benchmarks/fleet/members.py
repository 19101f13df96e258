"""A process with one member or several (threads): ``python -m benchmarks.fleet.members OPTIONS``,
started by ``driver``.

It says ``ready`` when everything is imported, and joins when it reads ``join``. Each line that it
writes is an event, with the time by the machine's monotonic clock, which is the same for all
processes. ``churn <seconds>`` has each member leave and join again so often; the end of its input
ends it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.fleet.coordinated import ROLE, Churn, CoordinatedMember, Service
from turnstile.fleet import exchange
from turnstile.fleet.core.decisions import SILENT_BEATS
from turnstile.fleet.member import Member
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.rows import Space
from turnstile.store.ports import BATCH_GET_MAX, Refs, World

STATISTICS_S: Final = 0.5
Report = Callable[..., None]


class Counted:
    """Refs whose requests are counted, and the rows that are read and written."""

    def __init__(self, refs: Refs) -> None:
        self._refs = refs
        self._mutex = threading.Lock()
        self.counts = {"requests": 0, "rows_read": 0, "rows_written": 0, "transactions": 0, "transactions_s": 0.0}

    def _count(self, requests: int, read: int, written: int) -> None:
        with self._mutex:
            self.counts["requests"] += requests
            self.counts["rows_read"] += read
            self.counts["rows_written"] += written

    def read(self, key: str) -> Any:
        self._count(1, 1, 0)
        return self._refs.read(key)

    def read_many(self, keys: Any) -> Any:
        self._count(-(-len(keys) // BATCH_GET_MAX), len(keys), 0)
        return self._refs.read_many(keys)

    def write(self, write: Any) -> Any:
        self._count(1, 0, 1)
        return self._refs.write(write)

    def transact(self, writes: Any, token: str) -> Any:
        self._count(1, 0, len(writes))
        began_s = time.monotonic()
        try:
            return self._refs.transact(writes, token)
        finally:
            with self._mutex:
                self.counts["transactions"] += 1
                self.counts["transactions_s"] += time.monotonic() - began_s

    def __getattr__(self, name: str) -> Any:
        return getattr(self._refs, name)


def world_of(options: Mapping[str, Any]) -> World:
    """The world on the store that the options name."""
    from turnstile.adapters.machine import RandomIds, SystemClock
    from turnstile.adapters.opening import FileStorages, open_world

    if options["system"] == "dynamodb":
        return open_world(
            refs_table=options["refs"], objs_table=options["objs"], realm="fleet", endpoint_url=options["url"]
        )
    from turnstile.adapters.sqlite.database import Database
    from turnstile.adapters.sqlite.objs import SqliteObjs
    from turnstile.adapters.sqlite.refs import SqliteRefs

    database = Database(Path(options["path"]))
    clock = SystemClock()
    refs = SqliteRefs(database, realm="fleet", clock=clock)
    objs = SqliteObjs(database, clock=clock)
    return World(refs, objs, FileStorages(), clock, RandomIds(), Space("fleet"))


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


@dataclass
class FleetMember:
    """A member of Turnstile's fleet, with heartbeats as of ``turnstile_server.fleet.member``."""

    member: Member
    beat_s: float
    report: Report
    churn: Churn

    def run(self, stop: threading.Event) -> None:
        """Joins, and beats until ``stop``."""
        owned = -1
        members = -1
        while not stop.is_set():
            if self.churn.is_due():
                self.churn.timed(self.member.leave)
            began_s = time.monotonic()
            least_s = 0.0
            is_new = not self.member.id
            try:
                beat = self.member.beat()
            except TurnstileError as error:
                self.report("failed", error=repr(error)[:200])
                least_s = self.beat_s
            else:
                took_ms = (time.monotonic() - began_s) * 1000
                self.report("joined" if is_new else "beat", took_ms=took_ms)
                if beat.removed:
                    self.report("removed")
                if beat.unsure:
                    self.report("doubts")
                if self.member.members() != members:
                    members = self.member.members()
                    self.report("members", count=members, gone=[])
                now_owned = len(self.member.owned_granules())
                if now_owned != owned:
                    owned = now_owned
                    self.report("owned", owned=owned, gained=len(beat.gained))
            stop.wait(max(least_s, self.member.next_beat_ms() / 1000))


class Process:
    """All members of this process."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self._output = sys.stdout
        self._mutex = threading.Lock()
        self._stop = threading.Event()
        self._beats = list[float]()
        self._counted = list[Counted]()
        self._churns = list[Churn]()

    def main(self) -> None:
        """Until the input ends."""
        members = [self._member(name) for name in self._options["names"]]
        self._write("", "ready")
        threads = [threading.Thread(target=self._run, args=(member,), daemon=True) for member in members]
        threads.append(threading.Thread(target=self._statistics, daemon=True))
        for line in sys.stdin:
            if line.strip() == "join":
                for thread in threads:
                    thread.start()
            elif line.startswith("churn"):
                for churn in self._churns:
                    churn.begin(float(line.split()[1]))
        self._stop.set()
        os._exit(0)

    def _run(self, member: Any) -> None:
        try:
            member.run(self._stop)
        except Exception as error:
            self._write("", "died", error=repr(error)[:300])

    def _member(self, name: str) -> Any:
        options = self._options
        beat_ms = options["beat_ms"]
        batch = options["batch"]

        def report(event: str, **more: Any) -> None:
            if event == "beat":
                with self._mutex:
                    self._beats.append(more["took_ms"])
            else:
                self._write(name, event, **more)

        churn = Churn(report)
        self._churns.append(churn)
        if options["system"] in ("sqlite", "dynamodb"):
            exchange.GRANULES_PER_WRITE = batch  # type: ignore[misc]
            if not self._counted:
                self._world = world_of(options)
                self._counted.append(Counted(self._world.refs))
                self._world = replace(self._world, refs=self._counted[0])
            member = Member(
                self._world, _monotonic_ms, name=name, granules={ROLE: options["granules"]}, beat_ms=beat_ms,
                alone_beat_ms=options["alone_beats"] * beat_ms,
            )  # fmt: skip
            return FleetMember(member, beat_ms / 1000, report, churn)
        ttl_s = SILENT_BEATS * beat_ms / 1000
        service: Service
        if options["system"] == "zookeeper":
            from benchmarks.fleet.zookeeper import ZooKeeper

            service = ZooKeeper(options["hosts"], name, ttl_s)
        else:
            from benchmarks.fleet.etcd import Etcd

            service = Etcd(options["port"], name, ttl_s)
        return CoordinatedMember(
            service, name, options["granules"], batch, options["in_flight"], beat_ms / 1000, report, churn,
            name == options["first"],
        )  # fmt: skip

    def _statistics(self) -> None:
        while True:
            time.sleep(STATISTICS_S)
            with self._mutex:
                beats = self._beats
                self._beats = []
            counts = self._counted[0].counts if self._counted else {}
            self._write("", "statistics", beats_ms=[round(ms, 2) for ms in beats], cpu_s=time.process_time(), **counts)

    def _write(self, member: str, event: str, **more: Any) -> None:
        line = json.dumps({"at_s": time.monotonic(), "member": member, "event": event, **more})
        with self._mutex:
            self._output.write(line + "\n")
            self._output.flush()


if __name__ == "__main__":
    random.seed()
    Process(json.loads(sys.argv[1])).main()
