"""The catalog function with all of its services in a simulated process, and actors that ask it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, TypeVar

from tests.simulation.auditors.pasts import PastAuditor
from tests.simulation.engine.faults import HOUR, MINUTE, SECOND
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import LAKE, LIFE, TIGHT, Client, world_of
from tests.simulation.engine.state import State
from turnstile.access.core.grants import OPERATOR
from turnstile.catalog.clone.cloner import Cloner
from turnstile.catalog.clone.delta import DeltaCopier
from turnstile.catalog.core.entities import TABLE
from turnstile.catalog.query.find import Finder
from turnstile.catalog.services import build
from turnstile.iceberg.clones import copiers
from turnstile.iceberg.commits import Commits
from turnstile.iceberg.context import Context
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.tables import Tables
from turnstile.store.core.errors import OutcomeUnknown, StateConflict, StorageFault, Throttled, TurnstileError
from turnstile.store.core.limits import Limits

T = TypeVar("T")
BUSY: Final = (1, 50, SECOND, MINUTE, 10 * MINUTE)
QUIET: Final = (1, 10 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR)
"""How long actors pause: they meet all the time, or a day goes by and gc has work."""
Unanswered: Final = (OutcomeUnknown, StorageFault)


class PastSandbox:
    """A server process that serves catalogs with their past, and Iceberg tables."""

    def __init__(self, process: Process) -> None:
        self.process, self.world = process, world_of(process)
        limits = Limits(spill=TIGHT, history_ms=process.state.grace.history_ms)
        self.services = build(self.world, lake_root=LAKE, limits=limits, pause=process.pause)
        self.finder = Finder(self.world, self.services.reader, self.services.as_of_reader, self.services.snapshots)
        self._files = MetadataFiles(self.world.storages, self.world.ids)
        self._context = Context(self.services, self.services.committer, self._files, OPERATOR, lambda: None)

    @property
    def cloner(self) -> Cloner:
        """What makes the clones of one request."""
        delta = DeltaCopier(self.world, self.services.snapshots, self.services.publisher)
        return Cloner(self.services, {TABLE: delta, **copiers(self.services, self._files)}, _anything)

    @property
    def iceberg(self) -> Commits:
        """Commits to Iceberg tables."""
        return Commits(self._context)

    @property
    def iceberg_tables(self) -> Tables:
        """Other operations on Iceberg tables."""
        return Tables(self._context)


def _anything(*_: object, past: bool) -> None:
    """Rights are not simulated."""


class PastActor:
    """Does one thing after the other: ``times``, or for ever.

    Attributes:
        grid: long pauses end at multiples of it (ms), so that actors meet; 0 for anywhere.
    """

    times: int | None = None
    grid = 0

    def __init__(
        self, state: State, name: str, rng: random.Random, auditor: PastAuditor, naps: tuple[int, ...] = BUSY
    ) -> None:
        self.state, self.name, self.rng, self.auditor, self._naps = state, name, rng, auditor, naps
        self.client = Client(state, name, PastSandbox, LIFE)

    def __call__(self) -> None:
        done = 0
        while self.times is None or done < self.times:
            done += 1
            try:
                self.act()
            except TurnstileError as error:
                self.state.auditor.refused(error)
            nap = self.rng.choice(self._naps)
            if self.grid and nap > MINUTE:
                nap += -(self.state.scheduler.now + nap) % self.grid
            self.state.scheduler.sleep(nap)

    def act(self) -> None:
        """One thing; errors are looked at by the auditor."""
        raise NotImplementedError

    def ask(self, question: Callable[[PastSandbox], T], tries: int = 3) -> T:
        """The answer; the question is sent again when none came, as it may be where that is harmless."""
        for _ in range(tries):
            try:
                return self.send(question)
            except (*Unanswered, Throttled):
                self.state.scheduler.sleep(self.rng.choice((100, SECOND, 40 * SECOND)))
        raise StateConflict("ConcurrentChange", "no answer")

    def send(self, question: Callable[[PastSandbox], T]) -> T:
        """The answer, if one comes."""
        began = self.state.scheduler.now
        try:
            return self.client.ask(question)
        except StateConflict as error:
            if error.type == "ConcurrentChange":
                self.auditor.told_overtaken(began)
            raise

    def met(self, what: str) -> None:
        """Count it, so that a test can tell that it happens."""
        self.state.auditor.seen[what] += 1

    @property
    def ago(self) -> int:
        """A time (ms), mostly of the kept history, often near its beginning, sometimes before it, where gc is at work."""
        now, history = self.state.scheduler.now, self.state.grace.history_ms
        back = self.rng.choice((HOUR, history // 2, history - MINUTE, history - MINUTE, history + 80 * MINUTE))
        return now - int(back * (0.9 + 0.1 * self.rng.random()))
