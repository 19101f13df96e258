"""Actors that own something for a while, and that share values: runners of a task, users of
updateable objects and of references. Their processes live long, and freeze wherever they look at a
clock."""

from __future__ import annotations

import random
from typing import Final

from tests.simulation.auditors.owners import LEDGER, SUM, OwnerAuditor
from tests.simulation.engine.plans import MINUTE, SECOND
from tests.simulation.engine.ports import Process
from tests.simulation.engine.processes import world_of
from tests.simulation.engine.scheduler import Crashed
from tests.simulation.engine.state import State
from turnstile.coordination.core.rows import Updateable
from turnstile.coordination.refs import NamedRefs, WriteResult
from turnstile.coordination.tasks import Attempt, Tasks, Updateables
from turnstile.store.core.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    StateConflict,
    Throttled,
    TurnstileError,
)
from turnstile.store.ports import World

TERM: Final = 60 * SECOND
_SKEWS: Final = (0, 0, -2, 1, -3 * SECOND, 70 * SECOND, -130 * SECOND)
_FROZEN: Final = (5, 20 * SECOND, 61 * SECOND, 3 * MINUTE)
_NAPS: Final = (1, 1, 50, SECOND, 20 * SECOND)


class Living(Process):
    """A process whose clocks are wrong, and that may freeze after any reading of one: its monotonic
    clock stands still meanwhile, or does not."""

    def __init__(self, state: State, name: str, rng: random.Random) -> None:
        super().__init__(state, name)
        self._rng = rng
        self._stops = rng.random() < 0.5
        self._frozen = 0
        self._skews = _SKEWS if "jump" in state.faults.kinds else (0,)
        self.skew = rng.choice(self._skews)

    def now_ms(self) -> int:
        now = self.state.scheduler.now + self.skew
        self._look()
        return now

    def monotonic(self) -> int:
        """ms that never step."""
        now = self.state.scheduler.now - (self._frozen if self._stops else 0)
        self._look()
        return now

    def _look(self) -> None:
        if self.dead:
            raise Crashed
        fault = self.state.faults.draw(frozenset({"stall", "jump"}))
        if fault == "jump":
            self.skew = self._rng.choice(self._skews)
        elif fault == "stall":
            began = self.state.scheduler.now
            self.state.scheduler.sleep(self._rng.choice(_FROZEN))
            self._frozen += self.state.scheduler.now - began
            self.state.deliver()


class Owner:
    """Does one thing after the other in a process, and in another one when that has died."""

    times = 15

    def __init__(self, state: State, name: str, rng: random.Random, auditor: OwnerAuditor) -> None:
        self.state = state
        self.name = name
        self.rng = rng
        self.auditor = auditor
        self._count = 0

    def __call__(self) -> None:
        self._begin()
        for _ in range(self.times):
            try:
                self.act()
            except Crashed:
                self._begin()
            except TurnstileError as error:
                self.state.auditor.refused(error)
            self.state.scheduler.sleep(self.rng.choice(_NAPS))

    def start(self, world: World) -> None:
        """A fresh process, which knows nothing."""
        raise NotImplementedError

    def act(self) -> None:
        """One thing."""
        raise NotImplementedError

    def met(self, what: str) -> None:
        """Count it, so that a test can tell that it happens."""
        self.state.auditor.seen[what] += 1

    def _begin(self) -> None:
        self._count += 1
        self.process = Living(self.state, f"{self.name}/{self._count}", self.rng)
        self.start(world_of(self.process))


class TaskRunner(Owner):
    """Runs the task whenever no other process does; its writes are fenced, so a run that was taken
    over writes no more."""

    def start(self, world: World) -> None:
        self._tasks = Tasks(world)
        self._objects = Updateables(world)

    def act(self) -> None:
        running = self._tasks.begin("job", TERM)
        if not isinstance(running, Attempt):
            self.met("task busy")
            return
        seen = self._objects.read(LEDGER, "job")
        for _ in range(self.rng.randrange(1, 4)):
            if seen is not None and int(seen.payload) > running.task.attempt:
                self.met("task fenced off")
                return
            payload = str(running.task.attempt).encode()
            found = (
                self._objects.create(LEDGER, "job", payload) if seen is None else self._objects.update(seen, payload)
            )
            if not isinstance(found, Updateable):
                self.met("task fenced off")
                return
            seen = found
            self.state.scheduler.sleep(self.rng.choice((1, SECOND, 20 * SECOND)))
            if self.rng.random() < 0.5:
                renewed = self._tasks.renew(running, TERM)
                if renewed is None:
                    self.met("task lost")
                    return
                running = renewed
        done = self._tasks.finish(running, b"done") if self.rng.random() < 0.7 else self._tasks.fail(running, "why not")
        self.met("task finished" if done else "task lost")


class Adder(Owner):
    """Increments a number that others increment, too."""

    def start(self, world: World) -> None:
        self._objects = Updateables(world)

    def act(self) -> None:
        seen = self._objects.read(SUM, "all")
        payload = str(1 if seen is None else int(seen.payload) + 1).encode()
        self.auditor.unsure += 1  # until there is an answer, and if there never is one
        try:
            written = self._objects.create(SUM, "all", payload) if seen is None else self._objects.update(seen, payload)
        except Throttled:
            self.auditor.unsure -= 1
            raise
        self.met("added" if isinstance(written, Updateable) else "moved")
        if isinstance(written, Updateable):
            self.auditor.added += 1
        elif "duplicate" in self.state.faults.kinds:
            return  # the first of the two may have been applied, and replaced by another's before the second came
        self.auditor.unsure -= 1


class RefUser(Owner):
    """Creates, swaps and deletes references, and sends every request again until it has an
    answer."""

    def start(self, world: World) -> None:
        self._refs = NamedRefs(world)
        self._requests = 0

    def act(self) -> None:
        name = self.rng.choice(("one", "other"))
        try:
            token = self._refs.read(name).current.token
        except NotFound:
            token = ""
        self._requests += 1
        request = f"{self.process.name}.{self._requests}"
        value = None if token and self.rng.random() < 0.2 else request
        self.auditor.sends(name, request, token, deletes=value is None)
        if self.rng.random() < 0.3:
            self.state.scheduler.sleep(self.rng.choice((SECOND, 20 * SECOND)))
        for _ in range(5):
            try:
                written = self._send(name, token, value, request)
            except (OutcomeUnknown, Throttled):
                self.state.scheduler.sleep(self.rng.choice((1, SECOND, MINUTE)))
                continue
            except (StateConflict, NotFound) as error:
                if error.type in ("RefMoved", "NoSuchRef"):
                    self.auditor.told_never(name, request, error.type)
                raise
            except AlreadyExists:
                return
            self.met(f"ref {written.outcome}")
            self.auditor.told_written(name, request, token, written.entry.version)
            return

    def _send(self, name: str, token: str, value: str | None, request: str) -> WriteResult:
        if not token:
            return self._refs.create(name, value or "", request)
        if value is None:
            return self._refs.delete(name, token, request)
        return self._refs.swap(name, token, value, request)
