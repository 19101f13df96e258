"""Random concurrent work on a SQLite store, and the conditions on the file afterwards.

Threads write rows with conditions, rows in pairs, and objs of one and several rows; one consumes
the change feed. The record has the answer to each write. ``check`` compares a store with it:

* acknowledged writes are there, and writes refused with StorageFault are not (I2, I3);
* the rows of a transaction agree, and an obj is there whole or not at all (I8);
* a consumer that goes on from its cursor has seen the newest state of every row (I11).
"""

from __future__ import annotations

import random
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.objs import SqliteObjs
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.store.core.errors import OutcomeUnknown, StorageFault
from turnstile.store.core.writes import Append, Change, Clause, Equals, Insert, Set, Write, new_row
from turnstile.store.ports import Accepted, AllAccepted, Obj

KEYS: Final = tuple(f"r/table/{name}" for name in ("a", "b", "c"))
PAIRS: Final = tuple((f"r/pair/{name}1", f"r/pair/{name}2") for name in ("a", "b"))
CONSUMER: Final = "publish"
SPACE: Final = "r/objs"
LARGE_BYTES: Final = 800_000
"""Of an obj in three parts."""


def step(key: str, latest: int, txn: str, weight: bytes) -> Write:
    """Version ``latest + 1`` of a row, if it is at ``latest``; the row remembers the writer of each
    version."""
    clause = Clause("next", "I1", "", Equals(("latest",), latest))
    return Change(key, (clause,), (Set(("latest",), latest + 1), Append(("txns",), (txn,)), Set(("weight",), weight)))


def start(database: Database) -> None:
    """Write the rows that the work is on."""
    refs = SqliteRefs(database, realm="r", clock=SystemClock())
    for key in (*KEYS, *(key for pair in PAIRS for key in pair)):
        refs.write(Insert({"key": key, "kind": "table", "latest": 0, "txns": [], "weight": b""}, (new_row("I1"),)))


class Record:
    """The answers to callers, over any number of stores that hold the same data one after the
    other."""

    def __init__(self) -> None:
        self.accepted: dict[str, dict[int, str]] = defaultdict(dict)
        self.not_applied: set[str] = set()
        self.unknown: set[str] = set()
        self.objs: dict[str, bytes] = {}
        self.seen_by_consumer: dict[str, int] = {}
        self.mutex = threading.Lock()
        self.txns = 0

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self.accepted.values())) + len(self.objs)

    def txn(self) -> str:
        with self.mutex:
            self.txns += 1
            return f"t{self.txns}"


class Workload:
    """Work of some threads on one store until ``stop`` is set, or each has met ``patience`` faults.

    Args:
        objs: share of the work that writes objs.
    """

    def __init__(self, database: Database, record: Record, seed: int, *, objs: float = 0.15, patience: int = 3) -> None:
        self._database = database
        self._record = record
        self._refs = SqliteRefs(database, realm="r", clock=SystemClock())
        self._objs = SqliteObjs(database, clock=SystemClock(), cache_bytes=0)
        self._seed = seed
        self._share = objs
        self._patience = patience
        self.stop = threading.Event()
        self._errors: list[BaseException] = []

    def run(self, threads: int, seconds: float | None = None) -> None:
        """Work until every worker has met enough faults, or so long."""
        workers = [threading.Thread(target=self._work, args=(number,)) for number in range(threads)]
        consumer = threading.Thread(target=self._guarded, args=(self._consume,))
        for thread in (*workers, consumer):
            thread.start()
        if seconds is not None:
            self.stop.wait(seconds)
            self.stop.set()
        for worker in workers:
            worker.join()
        self.stop.set()
        consumer.join()
        if self._errors:
            raise self._errors[0]

    def _work(self, number: int) -> None:
        rng = random.Random(f"{self._seed}/{number}")
        actions = {self._write: 1 - self._share - 0.25, self._pair: 0.25, self._obj: self._share}

        def once() -> None:
            (action,) = rng.choices(list(actions), list(actions.values()))
            action(rng)

        self._guarded(once)

    def _guarded(self, once: Callable[..., None]) -> None:
        faults = 0
        while faults < self._patience and not self.stop.is_set():
            try:
                once()
            except (StorageFault, OutcomeUnknown):
                faults += 1
            except BaseException as error:
                self._errors.append(error)
                self.stop.set()

    def _write(self, rng: random.Random) -> None:
        key = rng.choice(KEYS)
        txn = self._record.txn()
        row = self._refs.read(key)
        assert row is not None
        write = step(key, row["latest"], txn, rng.randbytes(rng.choice((10, 3_000, 20_000))))
        answer = self._told(txn, lambda: self._refs.write(write))
        if isinstance(answer, Accepted):
            self._record.accepted[key][row["latest"] + 1] = txn

    def _pair(self, rng: random.Random) -> None:
        pair = rng.choice(PAIRS)
        txn = self._record.txn()
        rows = self._refs.read_many(pair)
        latest = rows[pair[0]]["latest"]
        writes = [step(key, latest, txn, rng.randbytes(3_000)) for key in pair]
        answer = self._told(txn, lambda: self._refs.transact(writes, txn))
        if isinstance(answer, AllAccepted):
            for key in pair:
                self._record.accepted[key][latest + 1] = txn

    def _obj(self, rng: random.Random) -> None:
        txn = self._record.txn()
        payload = txn.encode() + rng.randbytes(rng.choice((1_000, 1_000, LARGE_BYTES)))
        self._objs.put(Obj(SPACE, f"commit/{txn}", "commit", payload, 1))
        self._record.objs[f"commit/{txn}"] = payload

    def _told(self, txn: str, write: Callable[[], Any]) -> Any:
        try:
            return write()
        except StorageFault:
            self._record.not_applied.add(txn)
            raise
        except OutcomeUnknown:
            self._record.unknown.add(txn)
            raise

    def _consume(self) -> None:
        if not consume(self._database, self._record):
            self._database.wait_for_change(0.02)


def consume(database: Database, record: Record, most: int = 7) -> bool:
    """Take some changes from the feed, look at their rows, and keep the cursor; whether there were
    any."""
    keys, seq = database.changes(CONSUMER, most=most)
    if keys:
        rows = SqliteRefs(database, realm="r", clock=SystemClock()).read_many(list(keys))
        with record.mutex:  # two processes consume: one must not overwrite what the other has seen
            for key, row in rows.items():
                record.seen_by_consumer[key] = max(row["latest"], record.seen_by_consumer.get(key, 0))
        database.advance(CONSUMER, seq)
    return bool(keys)


def check(database: Database, record: Record) -> None:
    """Raises AssertionError if the store contradicts the answers to its callers."""
    assert database.rows("PRAGMA integrity_check") == [("ok",)]
    rows = SqliteRefs(database, realm="r", clock=SystemClock()).read_many(
        [*KEYS, *(key for pair in PAIRS for key in pair)]
    )
    for key, row in rows.items():
        assert row["latest"] == len(row["txns"]) == len(set(row["txns"])), f"{key} has a version twice or none (I1)"
        stored = dict(enumerate(row["txns"], start=1))
        lost = {version: txn for version, txn in record.accepted[key].items() if stored.get(version) != txn}
        assert not lost, f"acknowledged versions of {key} are lost, latest is {row['latest']}: {lost} (I2)"
        applied = record.not_applied & set(row["txns"])
        assert not applied, f"{key} has {applied}, whose writers were told that nothing was applied (I3)"
    for first, second in PAIRS:
        assert rows[first]["txns"] == rows[second]["txns"], f"half of a transaction on {first} (I8)"
    objs = SqliteObjs(database, clock=SystemClock(), cache_bytes=0)
    for id, payload in record.objs.items():
        obj = objs.get(SPACE, id)
        assert obj is not None and obj.payload == payload, f"{id} was acknowledged and is lost (I9)"
    assert all(obj.payload.startswith(obj.id.removeprefix("commit/").encode()) for obj in objs.list(SPACE, "commit/"))
    while consume(database, record):
        pass
    behind = {key: row["latest"] for key, row in rows.items() if record.seen_by_consumer.get(key) != row["latest"]}
    assert not behind, (
        f"the feed did not name the newest change of {behind}, the consumer saw {record.seen_by_consumer} (I11)"
    )
