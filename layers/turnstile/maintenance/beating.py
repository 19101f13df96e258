"""A table's storage that renews a lease when it is used: long work on a table is reads and writes
of files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from turnstile.store.ports import ForwardingStorage, LogStorage, Stat


class BeatingStorage(ForwardingStorage):
    """Calls ``beat`` before each read, write and listing."""

    def __init__(self, inner: LogStorage, beat: Callable[[], object]) -> None:
        super().__init__(inner)
        self._beat = beat

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        self._beat()
        return super().read(path, limit, offset)

    def put_if_absent(self, path: str, content: bytes | Iterable[bytes]) -> bool:
        self._beat()
        return super().put_if_absent(path, content)

    def replace(self, path: str, content: bytes) -> None:
        self._beat()
        super().replace(path, content)

    def put_in_order(self, files: Sequence[tuple[str, bytes]]) -> int:
        self._beat()
        return super().put_in_order(files)

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        self._beat()
        return super().list(prefix, after)

    def list_all(self) -> Iterator[Stat]:
        self._beat()
        return super().list_all()
