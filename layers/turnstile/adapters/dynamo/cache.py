"""Immutable objs in memory. They never change, so there is nothing to invalidate; absence is not kept."""

from __future__ import annotations

import threading
from collections import OrderedDict

from turnstile.ports import Obj

_OVERHEAD = 300  # of a small Obj and its keys in Python


class ObjCache:
    """Least recently used objs go first.

    Args:
        limit: bytes of payloads and overhead it may hold.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._held = limit, 0
        self._objs: OrderedDict[tuple[str, str], Obj] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, space: str, id: str) -> Obj | None:
        """The obj if it is here."""
        with self._lock:
            found = self._objs.get((space, id))
            if found is not None:
                self._objs.move_to_end((space, id))
            return found

    def keep(self, obj: Obj) -> None:
        """Remember an obj that is certainly stored."""
        with self._lock:
            self._forget((obj.space, obj.id))
            self._objs[(obj.space, obj.id)] = obj
            self._held += _size(obj)
            while self._held > self._limit:
                self._forget(next(iter(self._objs)))

    def forget(self, space: str, id: str) -> None:
        """Drop an obj that was deleted."""
        with self._lock:
            self._forget((space, id))

    def _forget(self, key: tuple[str, str]) -> None:
        gone = self._objs.pop(key, None)
        if gone is not None:
            self._held -= _size(gone)


def _size(obj: Obj) -> int:
    return len(obj.payload) + len(obj.space) + len(obj.id) + _OVERHEAD
