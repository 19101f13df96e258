"""Ports that count what goes through them, and may answer late.

Write units follow DynamoDB's rules ("Capacity unit consumption": 1 kB of the item each, twice that
in a transaction, and for a refused write as much as for one that is applied). They are computed
here, because a refusal does not say what it cost. Reads are counted as requests only.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from tests.support.meter import size_of
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import Accepted, AllAccepted, Obj, Objs, Refs, Rejected, SomeRejected

_KEY_BYTES: Final = 40  # names and numbers of an obj's attributes
_BATCH: Final = 25  # objs a request writes

Delay = Callable[[float], None]
"""Waits as long as a request takes whose median is so many seconds."""


class Counts(msgspec.Struct):
    """Sums over a heat. ``requests`` by operation; ``attempts`` runs of a change; ``written`` and
    ``deleted`` objs, ``bytes`` of those that were written."""

    requests: Counter[str] = msgspec.field(default_factory=Counter)
    attempts: int = 0
    write_units: int = 0
    written: int = 0
    bytes: int = 0
    deleted: int = 0

    def add(self, other: Counts) -> None:
        self.requests.update(other.requests)
        self.attempts += other.attempts
        self.write_units += other.write_units
        self.written += other.written
        self.bytes += other.bytes
        self.deleted += other.deleted


class Meter:
    """Counts, safe for threads. Called by DynamoDB's adapters for every request that they send."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._lock = threading.Lock()

    def __call__(self, operation: str, capacity: float | None) -> None:
        with self._lock:
            self.counts.requests[operation] += 1

    def add(self, **more: int) -> None:
        """Raise sums by their names."""
        with self._lock:
            for name, value in more.items():
                setattr(self.counts, name, getattr(self.counts, name) + value)

    def start(self) -> None:
        """Forget what came before the heat."""
        with self._lock:
            self.counts = Counts()


def units(row: Row | None) -> int:
    """Write units of a row, one at least."""
    return max(1, -(-size_of(row) // 1024)) if row else 1


class Network:
    """How long requests take that have nowhere to go: a log-normal distribution around a median a
    kind of request.

    The medians are an assumption, of the order that clients in the same region see; no ratio of two
    heats depends on them by much.
    """

    READ: Final = 0.003
    WRITE: Final = 0.005
    TRANSACTION: Final = 0.010
    _SPREAD: Final = 0.35  # the slowest of a hundred takes 2.3 times the median

    def __init__(self, factor: float = 1.0, sleep: Delay = time.sleep) -> None:
        self._factor = factor
        self._sleep = sleep
        self._random = random.Random(1)

    def __call__(self, median: float) -> None:
        self._sleep(median * self._factor * self._random.lognormvariate(0, self._SPREAD))


def at_once(median: float) -> None:
    """No delay but the store's own."""


class MeteredRefs:
    """``turnstile.store.ports.Refs``, metered. ``named``: count calls as requests, for stores that
    send none."""

    def __init__(self, refs: Refs, meter: Meter, *, delay: Delay = at_once, named: bool = False) -> None:
        self._refs = refs
        self._meter = meter
        self._delay = delay
        self._named = named
        self.transact_max = refs.transact_max

    def read(self, key: str) -> Row | None:
        self._before("get_item", Network.READ)
        return self._refs.read(key)

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        self._before("batch_get_item", Network.READ)
        return self._refs.read_many(keys)

    def read_cut(self, keys: Sequence[str]) -> dict[str, Row]:
        self._before("transact_get_items", Network.TRANSACTION)
        return self._refs.read_cut(keys)

    def write(self, write: Write) -> Accepted | Rejected:
        self._before("update_item", Network.WRITE)
        answer = self._refs.write(write)
        self._meter.add(write_units=units(answer.row))
        return answer

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        self._before("transact_write_items", Network.TRANSACTION)
        self._meter.add(write_units=2 * len(writes))
        return self._refs.transact(writes, token)

    def scan(self, kind: str) -> Iterator[Row]:
        self._before("scan", Network.READ)
        return self._refs.scan(kind)

    def _before(self, operation: str, median: float) -> None:
        if self._named:
            self._meter(operation, None)
        self._delay(median)


class MeteredObjs:
    """``turnstile.store.ports.Objs``, metered as ``MeteredRefs`` is."""

    def __init__(self, objs: Objs, meter: Meter, *, delay: Delay = at_once, named: bool = False) -> None:
        self._objs = objs
        self._meter = meter
        self._delay = delay
        self._named = named

    def put(self, obj: Obj) -> None:
        self._before("put_item", Network.WRITE)
        self._objs.put(obj)
        self._wrote([obj])

    def put_many(self, objs: Iterable[Obj]) -> None:
        batch = list(objs)
        for _ in range(0, len(batch), _BATCH):
            self._before("batch_write_item", Network.WRITE)
        self._objs.put_many(batch)
        self._wrote(batch)

    def get(self, space: str, id: str) -> Obj | None:
        self._before("get_item", Network.READ)
        return self._objs.get(space, id)

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        self._before("batch_get_item", Network.READ)
        return self._objs.get_many(space, ids)

    def newest(self, space: str, prefix: str) -> Obj | None:
        self._before("query", Network.READ)
        return self._objs.newest(space, prefix)

    def list(self, space: str, prefix: str) -> Iterator[Obj]:
        self._before("query", Network.READ)
        return self._objs.list(space, prefix)

    def delete(self, space: str, id: str) -> None:
        self._before("delete_item", Network.WRITE)
        self._objs.delete(space, id)
        self._meter.add(deleted=1, write_units=1)

    def lost_parts(self, space: str, before: int) -> Iterator[Obj]:
        self._before("query", Network.READ)
        return self._objs.lost_parts(space, before)

    def _wrote(self, objs: Sequence[Obj]) -> None:
        sizes = [len(obj.payload) + len(obj.space) + len(obj.id) + len(obj.type) + _KEY_BYTES for obj in objs]
        total = sum(-(-size // 1024) for size in sizes)
        self._meter.add(written=len(objs), bytes=sum(sizes), write_units=total)

    def _before(self, operation: str, median: float) -> None:
        if self._named:
            self._meter(operation, None)
        self._delay(median)
