"""Ports whose requests wait as those to S3 and DynamoDB do, and are counted.

``depth`` counts requests that waited one after the other; those at the same time count once. A read
of table storage of more than 1 MiB takes longer, at 80 MB/s.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from turnstile.store.ports import LogStorage, World

BYTES_PER_MS: Final = 80_000


@dataclass
class Meter:
    """Requests, their bytes, and how many of them had to wait for another one."""

    storage_ms: float = 0
    store_ms: float = 0
    requests: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    depth: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _last_end: float = 0

    def reset(self) -> None:
        self.requests = self.read_bytes = self.written_bytes = self.depth = 0
        self._last_end = 0

    def wait(self, latency_ms: float, read: int = 0, written: int = 0) -> None:
        start = time.perf_counter()
        with self._lock:
            self.requests += 1
            self.read_bytes += read
            self.written_bytes += written
            if start >= self._last_end:
                self.depth += 1
                self._last_end = start + latency_ms / 1000
        if latency_ms:
            time.sleep((latency_ms + max(0, read + written - 2**20) / BYTES_PER_MS) / 1000)


class SlowStorage:
    """Table storage."""

    def __init__(self, inner: LogStorage, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> Any:
        file = self._inner.read(path, limit, offset)
        self._meter.wait(self._meter.storage_ms, len(file[0]) if file else 0)
        return file

    def put_if_absent(self, path: str, content: Any) -> bool:
        content = content if isinstance(content, bytes) else b"".join(content)
        self._meter.wait(self._meter.storage_ms, written=len(content))
        return self._inner.put_if_absent(path, content)

    def list(self, prefix: str, after: str = "") -> Iterator[Any]:
        self._meter.wait(self._meter.storage_ms)
        return self._inner.list(prefix, after)

    def stat(self, path: str) -> Any:
        self._meter.wait(self._meter.storage_ms)
        return self._inner.stat(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class SlowStorages:
    def __init__(self, inner: Any, meter: Meter) -> None:
        self.inner = inner
        self._meter = meter

    def open(self, location: str) -> Any:
        return SlowStorage(self.inner.open(location), self._meter)


class SlowObjs:
    """The store of objs."""

    def __init__(self, inner: Any, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    def newest(self, space: str, prefix: str) -> Any:
        return self._read(self._inner.newest(space, prefix))

    def get(self, space: str, id: str) -> Any:
        return self._read(self._inner.get(space, id))

    def put(self, obj: Any) -> None:
        self._meter.wait(self._meter.store_ms, written=len(obj.payload))
        self._inner.put(obj)

    def _read(self, obj: Any) -> Any:
        self._meter.wait(self._meter.store_ms, len(obj.payload) if obj else 0)
        return obj

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class SlowRefs:
    """The store of HEADs."""

    def __init__(self, inner: Any, meter: Meter) -> None:
        self._inner = inner
        self._meter = meter

    def read(self, key: str) -> Any:
        row = self._inner.read(key)
        self._meter.wait(self._meter.store_ms)
        return row

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def slow(world: World, meter: Meter) -> Any:
    """The same world behind a meter."""
    refs = SlowRefs(world.refs, meter)
    objs = SlowObjs(world.objs, meter)
    storages = SlowStorages(world.storages, meter)
    return World(refs, objs, storages, world.clock, world.ids, world.space)
