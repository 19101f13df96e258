"""A table's storage that renews a lease when it is used: long work on a table is reads and writes
of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from turnstile.store.ports import LogStorage, Stat


class BeatingStorage:
    """``turnstile.store.ports.LogStorage`` that calls ``beat`` before each read, write and listing,
    and passes the call to another one."""

    def __init__(self, inner: LogStorage, beat: Callable[[], object]) -> None:
        self._inner = inner
        self._beat = beat

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        self._beat()
        return self._inner.read(path, limit, offset)

    def stat(self, path: str) -> Stat | None:
        return self._inner.stat(path)

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        self._beat()
        return self._inner.put_if_absent(path, content)

    def replace(self, path: str, content: bytes) -> None:
        self._beat()
        self._inner.replace(path, content)

    def put_in_order(self, files: Sequence[tuple[str, bytes]]) -> int:
        self._beat()
        return self._inner.put_in_order(files)

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        self._beat()
        return self._inner.list(prefix, after)

    def list_all(self) -> Iterator[Stat]:
        self._beat()
        return self._inner.list_all()

    def left_overs(self, before_ms: int) -> Iterator[Stat]:
        return self._inner.left_overs(before_ms)

    def delete(self, path: str) -> None:
        self._inner.delete(path)
