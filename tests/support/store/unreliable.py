"""A world whose stores lose answers and put requests off, at random and repeatably."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from turnstile.store.core.errors import OutcomeUnknown, StorageFault, Throttled
from turnstile.store.ports import World

_WRITES: Final = {"write", "transact", "put", "put_many", "delete"}
_READS: Final = {"read", "read_many", "get", "get_many"}


class Faults:
    """How often what goes wrong, and how often it did.

    Args:
        seed: of the random numbers.
        lost: the part of the writes whose answers are lost: of half of these the write is not
            applied.
        throttled: the part of all requests that are put off until the adapter gives up, so without
            effect.
    """

    def __init__(self, seed: int, *, lost: float = 0.0, throttled: float = 0.0) -> None:
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._lost = lost
        self._throttled = throttled
        self.made: Counter[str] = Counter()

    def world(self, world: World) -> World:
        """``world`` with these faults; storage, clock and ids are reliable."""
        return World(
            _Port(world.refs, self), _Port(world.objs, self), world.storages, world.clock, world.ids, world.space
        )

    def call(self, name: str, effect: Callable[[], Any]) -> Any:
        """One request of a port, perhaps with a fault."""
        with self._lock:
            drawn = self._random.random()
            landed = self._random.random() < 0.5
        if drawn < self._throttled:
            self._count("throttled")
            raise Throttled if name in _WRITES else StorageFault(f"no answer to {name}")
        if drawn < self._throttled + self._lost and name in _WRITES:
            self._count("lost and applied" if landed else "lost on its way")
            if landed:
                effect()
            raise OutcomeUnknown(f"no answer to {name}")
        return effect()

    def _count(self, fault: str) -> None:
        with self._lock:
            self.made[fault] += 1


class _Port:
    def __init__(self, port: Any, faults: Faults) -> None:
        self._port = port
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if name not in _WRITES | _READS:
            return method
        return lambda *args, **named: self._faults.call(name, lambda: method(*args, **named))
