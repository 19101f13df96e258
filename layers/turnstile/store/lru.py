"""A cache for immutable values, bounded by bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Keeps the values used last while they fit into ``limit`` bytes (and always the newest one)."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used = limit, 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep ``value``, which takes about ``size`` bytes."""
        with self._lock:
            old = self._values.pop(key, None)
            self._used += size - (old[1] if old else 0)
            self._values[key] = (value, size)
            while self._used > self._limit and len(self._values) > 1:
                _, (_, freed) = self._values.popitem(last=False)
                self._used -= freed
