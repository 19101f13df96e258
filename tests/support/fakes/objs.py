"""The objs table in memory: the adapter's own splitting and expiry over rows in a dictionary.

Like the service it refuses ids that cannot be keys, in reads too: code that passes on a client's
text fails here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from turnstile.store.ports import Clock, Obj
from turnstile.store.stored_objs import LargeObj, Seconds, StoredObjs, join_parts, part_ids

MOST_OF_A_KEY: Final = 1024
"""Bytes of a sort key of DynamoDB, which cannot be empty either."""


class FakeObjs(StoredObjs):
    """In-memory ``turnstile.store.ports.Objs``. Without a clock nothing expires; nothing is cached.

    ``rows`` are the stored rows, parts and the rows of large objs included; ``requests`` are the
    requests, in order; ``on_request`` is called after each, and may raise as a crash would.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock
        self.rows: dict[tuple[str, str], Obj] = {}
        self.requests: list[str] = []
        self.on_request: Callable[[str], None] | None = None
        super().__init__(_Rows(self), self._now)

    def stored(self, space: str, id: str) -> Obj:
        """The obj as the rows have it, without a request; KeyError when a row of it is missing."""
        row = self.rows[space, id]
        if not isinstance(row, LargeObj):
            return row
        obj = join_parts(row, {part: self.rows[space, part] for part in part_ids(row)})
        assert obj is not None
        return obj

    def asked(self, request: str) -> None:
        self.requests.append(request)
        if self.on_request is not None:
            self.on_request(request)

    def _now(self) -> int:
        return 0 if self.clock is None else self.clock.now_ms() // 1000


def _checked(id: str) -> None:
    """Raises ValueError for an invalid sort key, as the adapter does for a request that the service
    refuses."""
    size = len(id.encode())
    if not 0 < size <= MOST_OF_A_KEY:
        raise ValueError(f"ValidationException: a sort key has 1 to {MOST_OF_A_KEY} bytes, not {size}")


class _Rows:
    """``ObjRows`` in the fake's dictionary; each call is one request."""

    def __init__(self, fake: FakeObjs) -> None:
        self._fake = fake
        self._lock = threading.RLock()

    def insert(self, row: Obj, now: Seconds) -> Obj | None:
        _checked(row.id)
        with self._lock:
            known = self._fake.rows.get((row.space, row.id))
            if known is not None and known.expires_s is not None and known.expires_s <= now():
                known = None
            if known is None:
                self._fake.rows[row.space, row.id] = row
        self._fake.asked("put")
        return known

    def put_many(self, rows: Sequence[Obj]) -> None:
        for row in rows:
            _checked(row.id)
        with self._lock:
            self._fake.rows.update({(row.space, row.id): row for row in rows})
        self._fake.asked("put_many")

    def get(self, space: str, id: str) -> Obj | None:
        _checked(id)
        found = self._fake.rows.get((space, id))
        self._fake.asked("get")
        return found

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        for id in ids:
            _checked(id)
        with self._lock:
            found = {id: self._fake.rows[space, id] for id in ids if (space, id) in self._fake.rows}
        for _ in range(0, len(ids), 100):
            self._fake.asked("get_many")
        return found

    def query(self, space: str, prefix: str, *, newest_first: bool = False) -> Iterator[Obj]:
        with self._lock:
            keys = [key for key in self._fake.rows if key[0] == space and key[1].startswith(prefix)]
            found = [self._fake.rows[key] for key in sorted(keys, reverse=newest_first)]
        self._fake.asked("list")
        yield from found

    def delete(self, space: str, id: str) -> Obj | None:
        _checked(id)
        with self._lock:
            known = self._fake.rows.pop((space, id), None)
        self._fake.asked("delete")
        return known
