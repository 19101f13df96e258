"""Published commits that are read once although several passes over a log need them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turnstile.store.cache import Lru
from turnstile.store.core.names import LOG, published_path
from turnstile.store.ports import ForwardingStorage, LogStorage, Stat

LARGEST: Final = 1024 * 1024
"""A larger commit is read each time."""

CommitCache = Lru[tuple[str, str, int, int], bytes]
"""Commits by location, path, size and time."""


class CachedCommits(ForwardingStorage):
    """The storage of the table at ``location`` for a single operation. A commit in ``cache`` is not
    read again where the operation's own listing of the log shows the same size and time: a commit
    never changes, and damage to its file changes the time. Other files are read each time: the
    pointer to the newest checkpoint changes.
    """

    def __init__(self, inner: LogStorage, location: str, cache: CommitCache) -> None:
        super().__init__(inner)
        self._location = location
        self._cache = cache
        self._listed: dict[str, Stat] = {}

    def list(self, prefix: str, after: str = "") -> Iterator[Stat]:
        for stat in super().list(prefix, after):
            if stat.size <= LARGEST and _is_commit(stat.path):
                self._listed[stat.path] = stat
            yield stat

    def read(self, path: str, limit: int | None = None, offset: int = 0) -> tuple[bytes, Stat] | None:
        listed = self._listed.get(path)
        if listed is None or offset or (limit is not None and limit < listed.size):
            return super().read(path, limit, offset)
        key = (self._location, path, listed.size, listed.modified_ms)
        content = self._cache.get(key)
        if content is not None:
            return content, listed
        file = super().read(path, limit)
        if file is not None and len(file[0]) == listed.size:
            self._cache.put(key, file[0], listed.size)
        return file


def _is_commit(path: str) -> bool:
    version = path.removeprefix(LOG).removesuffix(".json")
    return version.isdecimal() and path == published_path(int(version))
