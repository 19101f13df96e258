"""Log storage in memory, with the semantics of a strongly consistent object store with conditional
puts."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from turnstile.adapters.files import check_path, check_prefix
from turnstile.store.core.errors import MissingBucket
from turnstile.store.ports import Stat, put_one_by_one


class FakeStorages:
    """In-memory ``turnstile.store.ports.Storages``: one dictionary of files over all locations."""

    def __init__(self, clock: FakeClock) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self.clock = clock
        self.lock = threading.RLock()
        self.requests: list[str] = []
        self.missing = frozenset[str]()
        """Buckets (``s3://name``) that do not exist."""

    def open(self, location: str) -> FakeStorage:
        return FakeStorage(self, location.rstrip("/") + "/")


class FakeStorage:
    """In-memory ``turnstile.store.ports.LogStorage`` of one table."""

    def __init__(self, owner: FakeStorages, root: str) -> None:
        self._owner = owner
        self._root = root

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        key = self._key(path)
        with self._owner.lock:
            self._owner.requests.append("read")
            found = self._owner.files.get(key)
        if found is None:
            return None
        content, modified = found
        end = None if limit is None else offset + limit
        return content[offset:end], Stat(path, len(content), modified)

    def stat(self, path: str) -> Stat | None:
        key = self._key(path)
        with self._owner.lock:
            self._owner.requests.append("stat")
            found = self._owner.files.get(key)
        return Stat(path, len(found[0]), found[1]) if found else None

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        key = self._key(path)
        content = content if isinstance(content, bytes) else b"".join(content)
        with self._owner.lock:
            self._owner.requests.append("put")
            if key in self._owner.files:
                return False
            self._owner.files[key] = (content, self._owner.clock.now_ms())
            return True

    def replace(self, path: str, content: bytes) -> None:
        key = self._key(path)
        with self._owner.lock:
            self._owner.requests.append("put")
            self._owner.files[key] = (content, self._owner.clock.now_ms())

    def put_in_order(self, files: Sequence[tuple[str, bytes]]) -> int:
        return put_one_by_one(self, files)

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        for stat in self._under(check_prefix(prefix)):
            if "/" not in stat.path[len(prefix) :] and stat.path > after:
                yield stat

    def list_all(self) -> Iterator[Stat]:
        yield from self._under("")

    def left_overs(self, before_ms: int) -> Iterator[Stat]:
        yield from ()

    def delete(self, path: str) -> None:
        key = self._key(path)
        with self._owner.lock:
            self._owner.requests.append("delete")
            self._owner.files.pop(key, None)

    def _key(self, path: str) -> str:
        if any(self._root.startswith(f"{bucket}/") for bucket in self._owner.missing):
            raise MissingBucket(f"{self._root} has no bucket")
        return self._root + check_path(path)

    def _under(self, prefix: str) -> list[Stat]:
        with self._owner.lock:
            self._owner.requests.append("list")
            start = self._root + prefix
            return [
                Stat(key[len(self._root) :], len(content), modified)
                for key, (content, modified) in sorted(self._owner.files.items())
                if key.startswith(start)
            ]


class FakeClock:
    """A clock that moves when told to (``step_ms`` at every look, so that time never stands still
    by accident)."""

    def __init__(self, now_ms: int = 1_770_000_000_000, step_ms: int = 1) -> None:
        self.now = now_ms
        self.step = step_ms

    def now_ms(self) -> int:
        self.now += self.step
        return self.now


class FakeIds:
    """Predictable identifiers."""

    def __init__(self) -> None:
        self._count = 0

    def uuid(self) -> str:
        self._count += 1
        return f"00000000-0000-4000-8000-{self._count:012d}"

    def obj_id(self) -> str:
        self._count += 1
        return f"{self._count:020d}"
