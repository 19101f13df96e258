"""The objs table in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from turnstile.ports import Obj


class FakeObjs:
    """In-memory ``turnstile.ports.Objs``."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Obj] = {}
        self.requests: list[str] = []
        self._lock = threading.RLock()

    def put(self, obj: Obj) -> None:
        with self._lock:
            self.requests.append("put")
            known = self.rows.get((obj.space, obj.id))
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
            return self.rows.get((space, id))

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        with self._lock:
            self.requests.append("get_many")
            return {id: self.rows[(space, id)] for id in ids if (space, id) in self.rows}

    def newest(self, space: str, prefix: str) -> Obj | None:
        found = list(self.list(space, prefix))
        return found[-1] if found else None

    def list(self, space: str, prefix: str) -> Iterator[Obj]:
        with self._lock:
            self.requests.append("list")
            keys = sorted(key for key in self.rows if key[0] == space and key[1].startswith(prefix))
            found = [self.rows[key] for key in keys]
        yield from found

    def delete(self, space: str, id: str) -> None:
        with self._lock:
            self.requests.append("delete")
            self.rows.pop((space, id), None)
