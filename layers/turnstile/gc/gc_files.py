"""Counting and deleting files for gc."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from turnstile.store.batches import batched
from turnstile.store.core.paths import published_path
from turnstile.store.faults import Faults
from turnstile.store.ports import LogStorage

_BATCH: Final = 200
_PASSES: Final = 3


class NotNow(Exception):
    """The removal stopped in the middle, at a safe point; the next run goes on. The message says why."""


def size_of(storage: LogStorage) -> int:
    """Bytes of every file of a table."""
    return sum(stat.size for stat in storage.list_all())


def delete_all(storage: LogStorage, paths: Iterable[str], *, workers: int, faults: Faults) -> None:
    """Delete files, ``workers`` at a time."""

    def one(path: str) -> None:
        storage.delete(path)
        faults("collect.deleted")

    if workers <= 1:
        for path in paths:
            one(path)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, paths))


def empty(storage: LogStorage, may_go_on: Callable[[], str | None], *, workers: int, faults: Faults) -> None:
    """Delete every file of a table; what is written meanwhile, too. A file system's folders go with the last one.

    Args:
        may_go_on: asked before every few hundred files; a text is the reason to stop.

    Raises:
        NotNow: told to stop, or files keep appearing.
    """
    for _ in range(_PASSES):
        found = False
        for batch in batched((stat.path for stat in storage.list_all()), _BATCH):
            found = True
            reason = may_go_on()
            if reason is not None:
                raise NotNow(reason)
            delete_all(storage, batch, workers=workers, faults=faults)
        if not found:
            storage.delete(published_path(0))  # folders that never had a file go with the one that is not there
            return
    raise NotNow("files keep appearing")
