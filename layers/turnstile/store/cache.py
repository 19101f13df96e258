"""Memory for immutable values: least recently used ones go first. Safe for threads."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Generic, TypeVar

from turnstile.store.core.rows import Caching, of_id
from turnstile.store.ports import Clock, Obj

K = TypeVar("K")
V = TypeVar("V")


class Lru(Generic[K, V]):
    """Keeps the values used last, and always the newest one, while their sizes together reach at
    most ``limit``: bytes, or values where each has the size 1."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._values = OrderedDict[K, tuple[V, int]]()
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """Returns the value, which counts as used now."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: K, value: V, size: int = 1) -> None:
        """Keeps ``value``, which takes about ``size``."""
        size = min(size, self.limit)
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = value, size
            self._size += size - (0 if before is None else before[1])
            while self._size > self.limit:
                self._size -= self._values.popitem(last=False)[1][1]

    def drop(self, key: K) -> None:
        with self._lock:
            before = self._values.pop(key, None)
            self._size -= 0 if before is None else before[1]


_OVERHEAD: Final = 300
"""Bytes of a small Obj and its keys in Python."""

_APART: Final = 8
"""Types that are cached apart have this part of the memory."""


class ObjCache:
    """Objs in memory, by the rules of their types (``core.rows``): up to ``limit`` bytes of
    payloads and overhead. They never change, so nothing is invalidated. Types that are cached apart
    push out their own kind only.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        self._clock = clock
        self._shared = Lru[tuple[str, str], Obj | int](limit - limit // _APART)  # int: missing until then, in ms
        self._apart = Lru[tuple[str, str], Obj | int](limit // _APART)

    def get(self, space: str, id: str) -> Obj | None:
        entry = self._memory(id).get((space, id))
        return entry if isinstance(entry, Obj) else None

    def missing(self, space: str, id: str) -> bool:
        """Whether it was looked for lately, was not there, and cannot have come since."""
        entry = self._memory(id).get((space, id))
        return isinstance(entry, int) and entry > self._clock.now_ms()

    def keep(self, obj: Obj) -> None:
        """Remembers an obj that is certainly stored."""
        if _caching(obj.id) is not Caching.NEVER:
            self._put(obj.space, obj.id, obj, len(obj.payload))

    def miss(self, space: str, id: str) -> None:
        """Remembers that the obj is missing, where that is sound."""
        rules = of_id(id)
        if rules is not None and rules.absence_ms:
            self._put(space, id, self._clock.now_ms() + rules.absence_ms, 0)

    def forget(self, space: str, id: str) -> None:
        self._memory(id).drop((space, id))

    def _put(self, space: str, id: str, entry: Obj | int, payload_bytes: int) -> None:
        memory = self._memory(id)
        size = payload_bytes + len(space) + len(id) + _OVERHEAD
        if size <= memory.limit:
            memory.put((space, id), entry, size)
        else:
            memory.drop((space, id))

    def _memory(self, id: str) -> Lru[tuple[str, str], Obj | int]:
        return self._apart if _caching(id) is Caching.APART else self._shared


def _caching(id: str) -> Caching:
    rules = of_id(id)
    return rules.caching if rules is not None else Caching.SHARED
