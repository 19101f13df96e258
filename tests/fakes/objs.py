"""The objs table in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from turnstile.ports import Clock, Obj


class FakeObjs:
    """In-memory ``turnstile.ports.Objs``. Without a clock nothing expires."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock
        self.rows: dict[tuple[str, str], Obj] = {}
        self.requests: list[str] = []
        self._lock = threading.RLock()

    def put(self, obj: Obj) -> None:
        with self._lock:
            self.requests.append("put")
            known = self._living(obj.space, obj.id)
            if known is not None and known.payload != obj.payload:
                raise ValueError(f"obj {obj.id} exists with another payload")
            if known is None:
                self.rows[(obj.space, obj.id)] = obj

    def put_many(self, objs: Iterable[Obj]) -> None:
        with self._lock:
            self.requests.append("put_many")
            for obj in objs:
                self.rows[(obj.space, obj.id)] = obj

    def get(self, space: str, id: str) -> Obj | None:
        with self._lock:
            self.requests.append("get")
            return self._living(space, id)

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        with self._lock:
            self.requests.append("get_many")
            found = {id: self._living(space, id) for id in ids}
            return {id: obj for id, obj in found.items() if obj is not None}

    def newest(self, space: str, prefix: str) -> Obj | None:
        found = list(self.list(space, prefix))
        return found[-1] if found else None

    def list(self, space: str, prefix: str) -> Iterator[Obj]:
        with self._lock:
            self.requests.append("list")
            keys = sorted(key for key in self.rows if key[0] == space and key[1].startswith(prefix))
            found = [self._living(*key) for key in keys]
        yield from (obj for obj in found if obj is not None)

    def delete(self, space: str, id: str) -> None:
        with self._lock:
            self.requests.append("delete")
            self.rows.pop((space, id), None)

    def _living(self, space: str, id: str) -> Obj | None:
        """The obj, if its time has not come: the service removes expired items when it likes."""
        obj = self.rows.get((space, id))
        if obj is None or obj.expires is None or self.clock is None:
            return obj
        return obj if obj.expires > self.clock.now_ms() // 1000 else None
