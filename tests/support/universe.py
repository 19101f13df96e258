"""Processes with clocks of their own that freeze at any look at one, in a universe that a seed
decides."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.faults import Losing
from turnstile.store.core.errors import OutcomeUnknown, StateConflict
from turnstile.store.ports import Clock, Ids, World

START = 1_770_000_000_000
OFF = (0, 0, 0, 0, -2, 1, -3_000, 70_000, -130_000)
"""How far clocks are off: mostly not, so that processes often see the very same millisecond."""


class Numbers:
    """``Ids`` from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def uuid(self) -> str:
        digits = f"{self._random.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def obj_id(self) -> str:
        return self.uuid()


class Sandbox(Clock):
    """One process: its wall clock is off and jumps; ``look`` may freeze it after any look at a
    clock."""

    def __init__(self, universe: Universe, number: int) -> None:
        self.universe = universe
        self.busy = False
        chance = universe.random
        self.offset = chance.choice(universe.off) if universe.wrong else 0
        self.stops = chance.random() < 0.5  # its monotonic clock stands still while it is frozen
        self.asleep = 0
        self.ids: Ids = Numbers(number)
        self.made: list[int] = []

    def now_ms(self) -> int:
        now = self.universe.now + self.offset
        self.universe.maybe_freeze(self)
        return now

    def monotonic(self) -> int:
        now = self.universe.now - (self.asleep if self.stops else 0)
        self.universe.maybe_freeze(self)
        return now


class Universe:
    """Real time, the store, and the processes. ``wrong``: clocks may be wrong, by one of ``off``
    (ms)."""

    def __init__(self, seed: int, processes: int, *, wrong: bool = True, off: Sequence[int] = OFF) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.wrong = wrong
        self.off = off
        self.store = Losing()
        self.base: FakeWorld = fake_world()
        self.depth = 0
        self.sandboxes = [Sandbox(self, seed * 1_000 + number) for number in range(processes)]
        self.step: Callable[[Sandbox], int | None] = lambda sandbox: None
        self.starved = 0

    def world(self, sandbox: Sandbox) -> World:
        return replace(self.base, refs=self.store, clock=sandbox, ids=sandbox.ids)

    def maybe_freeze(self, sandbox: Sandbox) -> None:
        """Perhaps the process stops here for long, and others go on."""
        if self.depth >= 3 or self.random.random() > 0.01:
            return
        self.depth += 1
        began = self.now
        for _ in range(self.random.randrange(1, 6)):
            self.now += self.random.choice((5, 20_000, 61_000))
            self.turn()
        sandbox.asleep += self.now - began
        self.depth -= 1

    def turn(self) -> None:
        """One process does something."""
        idle = [sandbox for sandbox in self.sandboxes if not sandbox.busy]
        if not idle:
            return
        sandbox = self.random.choice(idle)
        if self.wrong and self.random.random() < 0.1:
            sandbox.offset = self.random.choice(self.off)
        if self.random.random() < 0.02:
            self.store.lose = [self.random.choice(("before", "after"))]
        sandbox.busy = True
        try:
            for _ in range(self.random.randrange(1, 8)):
                id = self.step(sandbox)
                if id is not None:
                    sandbox.made.append(id)
        except StateConflict:
            self.starved += 1
        except OutcomeUnknown:
            pass
        finally:
            sandbox.busy = False

    def run(self, turns: int) -> list[int]:
        """Every id that was made."""
        for _ in range(turns):
            self.now += self.random.choice((0, 0, 0, 0, 1, 1, 500, 7_000))
            self.turn()
        return [id for sandbox in self.sandboxes for id in sandbox.made]
