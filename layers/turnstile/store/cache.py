"""A cache for immutable values, bounded by bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final, Generic, TypeVar

from turnstile.store.core.obj_types import Caching, of_id
from turnstile.store.ports import Clock, Obj

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


# -- obj cache --------------------------------------------------------------------------------------------------------
# Immutable objs in memory. They never change, so there is nothing to invalidate; what is kept of which type, and whose
# absence may be believed, says ``core.obj_types``.


_OVERHEAD: Final = 300  # bytes of a small Obj and its keys in Python
_APART: Final = 8  # what lives apart has this part of the room

_Key = tuple[str, str]


class ObjCache:
    """Least recently used objs go first; what is kept apart pushes out its own kind only.

    Args:
        limit: bytes of payloads and overhead it may hold.
        clock: when to stop believing that something is not there.
    """

    def __init__(self, limit: int, clock: Clock) -> None:
        self._clock = clock
        self._shared, self._apart = _Room(limit - limit // _APART), _Room(limit // _APART)
        self._lock = threading.Lock()

    def get(self, space: str, id: str) -> Obj | None:
        """The obj if it is here."""
        with self._lock:
            found = self._room(id).get((space, id))
            return found if isinstance(found, Obj) else None

    def missing(self, space: str, id: str) -> bool:
        """Whether it was looked for lately, was not there, and cannot have come since."""
        with self._lock:
            found = self._room(id).get((space, id))
        return isinstance(found, int) and found > self._clock.now_ms()

    def keep(self, obj: Obj) -> None:
        """Remember an obj that is certainly stored."""
        if _caching(obj.id) is not Caching.NEVER:
            with self._lock:
                self._room(obj.id).put((obj.space, obj.id), obj, len(obj.payload))

    def miss(self, space: str, id: str) -> None:
        """Remember that the obj is not there, where that is sound."""
        rules = of_id(id)
        if rules is not None and rules.absence_ms:
            until = self._clock.now_ms() + rules.absence_ms
            with self._lock:
                self._room(id).put((space, id), until, 0)

    def forget(self, space: str, id: str) -> None:
        """Drop an obj that was deleted."""
        with self._lock:
            self._room(id).drop((space, id))

    def _room(self, id: str) -> _Room:
        return self._apart if _caching(id) is Caching.APART else self._shared


class _Room:
    """Objs, or until when they are missing (ms), bounded by bytes."""

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._found: OrderedDict[_Key, tuple[Obj | int, int]] = OrderedDict()

    def get(self, key: _Key) -> Obj | int | None:
        found = self._found.get(key)
        if found is None:
            return None
        self._found.move_to_end(key)
        return found[0]

    def put(self, key: _Key, value: Obj | int, payload: int) -> None:
        self.drop(key)
        size = payload + len(key[0]) + len(key[1]) + _OVERHEAD
        self._found[key] = (value, size)
        self._held += size
        while self._held > self._limit:
            self.drop(next(iter(self._found)))

    def drop(self, key: _Key) -> None:
        gone = self._found.pop(key, None)
        if gone is not None:
            self._held -= gone[1]


def _caching(id: str) -> Caching:
    rules = of_id(id)
    return rules.caching if rules is not None else Caching.SHARED
