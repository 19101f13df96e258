"""What one writer does: change number 0, 1, 2, ... of a catalog, each sent until its outcome is
final."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from benchmarks.catalog_racing.metering import Meter
from benchmarks.catalog_racing.worlds import CATALOG
from turnstile.catalog.changes.commit import Committer, View
from turnstile.catalog.changes.waiting import Edit
from turnstile.catalog.core.entities import Entity, Namespace
from turnstile.catalog.core.paths import Path
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, StorageFault, Throttled

Kind = Literal["grow", "update", "large"]
"""``grow``: a new namespace each; ``update``: a property of the writer's own; ``large``: one of
each of its hundred."""

_LARGE = 100


class WriterReport(msgspec.Struct):
    """What a writer saw.

    Attributes:
        name: the writer's, which its commits' messages begin with.
        acknowledged: numbers of its changes that are in, in its order.
        unknown: numbers of which an answer was lost for good at least once.
        put_off: how often nothing was applied and it had to try again.
        ms: what each acknowledged change took, from the first attempt on.
        ended: when each was acknowledged, seconds since the start.
    """

    name: str
    acknowledged: list[int] = []
    unknown: set[int] = set()
    put_off: int = 0
    ms: list[float] = []
    ended: list[float] = []


class Writer:
    """One of those who race.

    Args:
        name: like no other writer's.
        kind: what its changes are.
        meter: counts its attempts.
        seconds: the time it measures by.
    """

    def __init__(
        self,
        name: str,
        committer: Committer,
        kind: Kind,
        meter: Meter,
        seconds: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._committer = committer
        self._kind = kind
        self._meter = meter
        self._seconds = seconds
        self.report = WriterReport(name)

    def commits(self, count: int) -> WriterReport:
        """Make ``count`` changes, one after the other."""
        for _ in range(count):
            self._next(self._seconds())
        return self.report

    def commits_for(self, seconds: float) -> WriterReport:
        """Make changes until ``seconds`` are over; the last one may end later."""
        began = self._seconds()
        while self._seconds() - began < seconds:
            self._next(began)
        return self.report

    def _next(self, began: float) -> None:
        number = len(self.report.acknowledged)
        report = self.report
        change = self._change(number)
        started = self._seconds()
        while True:
            try:
                self._committer.commit(CATALOG, change)
            except OutcomeUnknown:
                report.unknown.add(number)
            except (Throttled, StorageFault, StateConflict):
                report.put_off += 1
            else:
                break
        report.acknowledged.append(number)
        report.ms.append((self._seconds() - started) * 1000)
        report.ended.append(self._seconds() - began)

    def _change(self, number: int) -> Callable[[View], Edit | None]:
        """As clients send it; None if it is there already, from an attempt whose answer was
        lost."""
        paths = self._paths(number)
        ids = [f"{self.report.name}-{number}" for _ in paths]

        def change(view: View) -> Edit | None:
            self._meter.add(attempts=1)
            entries = [view.tree.find(path) for path in paths]
            entities = view.entities([entry.obj for entry in entries if entry])
            put: dict[Path, Entity] = {}
            for path, id, entry in zip(paths, ids, entries, strict=True):
                old = entities[entry.obj] if entry else Namespace(path[-1], id, 1)
                assert isinstance(old, Namespace)
                if entry and old.properties.get("number", str(number)) == str(number):
                    return None
                put[path] = msgspec.structs.replace(old, properties={"number": str(number)})
            return Edit(f"{self.report.name} {number}", put=put)

        return change

    def _paths(self, number: int) -> list[Path]:
        name = self.report.name
        match self._kind:
            case "grow":
                return [(f"{name}_{number:03d}",)]
            case "update":
                return [(name,)]
            case "large":
                return [(f"{name}_{part:03d}",) for part in range(_LARGE)]
