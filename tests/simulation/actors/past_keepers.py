"""Actors that keep a catalog's past, go back to it, and take away what nobody can want any more."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.actors.past_sandbox import PastActor, PastSandbox
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import CATALOG, LIFE, world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.catalog.history.core import AsOf
from turnstile.coordination.tasks import Busy
from turnstile.gc.collector import Collector, CollectTask
from turnstile.store.core.errors import TurnstileError

_NAMES: Final = ("spring", "summer")


class SnapshotUser(PastActor):
    """Gives HEADs names, the present one or one of the past, and takes them away."""

    def act(self) -> None:
        name = self.rng.choice(_NAMES)
        if self.rng.random() < 0.3:
            self.ask(lambda box: box.services.named_snapshots.drop(CATALOG, name))
            self.met("snapshot dropped")
            return
        to = AsOf(time=self.ago) if self.rng.random() < 0.7 else None
        self.ask(lambda box: self._create(box, name, to))
        self.met("snapshot of the past" if to else "snapshot")

    def _create(self, box: PastSandbox, name: str, to: AsOf | None) -> None:
        box.services.named_snapshots.create(CATALOG, name, of=to)


class Resets(PastActor):
    """Goes back to a time, to a snapshot, or to a HEAD not long ago."""

    def act(self) -> None:
        head = self.state.trees.now[CATALOG]
        recent = [one for one in self.state.trees.heads.values() if one.row["seq"] > head.row["seq"] - 12]
        to = self.rng.choice(
            (
                AsOf(time=self.ago),
                AsOf(time=self.ago),
                AsOf(snapshot=self.rng.choice(_NAMES)),
                AsOf(head=self.rng.choice(recent).id),
            )
        )
        self.ask(lambda box: box.services.resetter.reset(CATALOG, to))
        self.met("reset")


class Janitor:
    """The scheduled collector, as the coordinated task that it is. There are several."""

    def __init__(self, state: State, name: str, rng: random.Random, naps: tuple[int, ...]) -> None:
        self._state, self._name, self._rng, self._naps = state, name, rng, naps

    def __call__(self) -> None:
        scheduler, count = self._state.scheduler, 0
        while True:
            scheduler.sleep(self._rng.choice(self._naps))
            count += 1
            process = Process(self._state, f"{self._name}/{count}")
            process.ends = scheduler.now + LIFE
            world = world_of(process)
            task = CollectTask(world, Collector(world, self._state.grace, workers=1))
            try:
                done = task.run(LIFE, dry_run=self._rng.random() < 0.1, until_ms=process.now_ms() + LIFE)
            except (Crashed, TurnstileError):
                continue
            self._state.auditor.seen["gc waits" if isinstance(done, Busy) else "gc"] += 1
