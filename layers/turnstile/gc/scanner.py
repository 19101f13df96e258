"""Common parts of all kinds of garbage: the ``Scanner`` that each implements, and the removal of
files and objs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import ClassVar, Final

import msgspec

from turnstile.gc.core import SETTLED_MS, Grace, Item, due
from turnstile.store.core.names import published_path
from turnstile.store.core.rows import Kind, identity_objs
from turnstile.store.core.writes import Row
from turnstile.store.faults import Faults
from turnstile.store.ports import BATCH_GET_MAX, LogStorage, Stat, World, in_batches
from turnstile.store.retry import Pause, no_pause

_BATCH: Final = 200
_PASSES: Final = 3

FILES_MAX: Final = 20_000
"""Files of one table that a run checks: a writer of the table can make any number, and the other
tables have to be checked in the same run. The next run takes the rest."""


class Problem(msgspec.Struct, frozen=True):
    """Something that should be removed, or looks as if it should, and was not."""

    kind: Kind
    id: str
    message: str


class NotNow(Exception):
    """The removal stopped in the middle, at a safe point; the next run continues. The message says
    why."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Items that are removed together. ``remove`` checks again before it removes anything, may
    raise ``NotNow``, and may be called again after a crash at any point."""

    items: tuple[Item, ...]
    remove: Callable[[], None]


@dataclass(frozen=True, slots=True)
class GcContext:
    """The settings and ports of scanners. ``time_is_up`` ends a run; ``imported`` holds ids of
    imported tables that are purged with their files, like managed ones; changes of a catalog
    ``pause`` between attempts.
    """

    world: World
    grace: Grace
    faults: Faults
    workers: int
    time_is_up: Callable[[], bool]
    imported: frozenset[str] = frozenset()
    pause: Pause = no_pause

    def delete_objs(self, catalog: str, ids: Iterable[str]) -> None:
        """Delete objs, one request each."""
        space = self.world.space.objs(catalog)
        for id in ids:
            self.world.objs.delete(space, id)
            self.faults("collect.deleted")

    def delete_files(self, storage: LogStorage, paths: Iterable[str]) -> None:
        def delete(path: str) -> None:
            storage.delete(path)
            self.faults("collect.deleted")

        if self.workers <= 1:
            for path in paths:
                delete(path)
            return
        with ThreadPoolExecutor(self.workers) as pool:
            list(pool.map(delete, paths))

    def delete_all_files(self, storage: LogStorage, check: Callable[[], None]) -> None:
        """Deletes every file of a table, also files that are written meanwhile. A file system's
        folders go with the last file. ``check`` is called before every few hundred files, and may
        raise NotNow.

        Raises:
            NotNow: as ``check``; the time is up, or files keep appearing.
        """
        for _ in range(_PASSES):
            empty = True
            for paths in in_batches((stat.path for stat in storage.list_all()), _BATCH):
                empty = False
                if self.time_is_up():
                    raise NotNow("the time is up")
                check()
                self.delete_files(storage, paths)
            if empty:
                storage.delete(published_path(0))  # removes folders that never held a file, too
                return
        raise NotNow("files keep appearing")


class Scanner(ABC):
    """Finds garbage of one kind behind refs rows of kind ``row_kind``. One is built for each
    run."""

    row_kind: ClassVar[str]

    def __init__(self, context: GcContext) -> None:
        self._context = context
        self._world = context.world

    @abstractmethod
    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        """The items to remove at ``now`` (ms). Changes nothing."""


def batches(
    items: Iterable[Item | None], remove: Callable[[tuple[Item, ...]], None], size: int = _BATCH
) -> Iterator[Batch]:
    """``items``, without the ones that are not due (None), in batches of ``size``, each to be
    removed by ``remove``."""
    for some in in_batches((item for item in items if item is not None), size):
        yield Batch(some, partial(remove, some))


def left_overs(context: GcContext, kind: Kind, owner: str, storage: LogStorage, now: int) -> Iterator[Batch]:
    """Temporary files that writes which were cut off have left below a table's location, named
    behind ``owner``. Unreachable since they were changed last: each has a random name that its own
    writer alone knows, and one that was frozen for longer than the grace fails when it comes to
    link its file, with nothing acknowledged. A crash leaves fewer files.
    """
    grace = context.grace.staged_ms

    def remove(items: tuple[Item, ...]) -> None:
        paths = [path for path in ids_in(items, owner) if _is_older(storage.stat(path), now - grace)]
        context.delete_files(storage, paths)

    found = islice(storage.left_overs(now - grace), FILES_MAX)
    old = (due(kind, f"{owner}/{file.path}", file.size, since=file.modified_ms, now=now, grace=grace) for file in found)
    yield from batches(old, remove)


def _is_older(stat: Stat | None, before_ms: int) -> bool:
    return stat is not None and stat.modified_ms < before_ms


def bytes_of(storage: LogStorage) -> int:
    """The size of all files of a table."""
    return sum(stat.size for stat in storage.list_all())


def left_tail(world: World, catalog: str, table_id: str, identities: list[str]) -> dict[str, int]:
    """When each of ``identities`` was about to leave its table's tail (ms); expired identities are
    left out. The publisher writes the index just before it evicts, so readers were given an entry
    at that time for the last time.
    """
    space = world.space.objs(catalog)
    times: dict[str, int] = {}
    for some in in_batches(identities, BATCH_GET_MAX // 2):
        keys = {id: identity for identity in some for id in identity_objs(table_id, identity)}
        for id, obj in world.objs.get_many(space, list(keys)).items():
            times[keys[id]] = obj.created_us // 1000
    return times


def lost_parts(context: GcContext, kind: Kind, catalog: str, now: int) -> Iterator[Item | None]:
    """Parts of large objs of ``catalog`` that no obj names, as items of ``kind``: of a write that
    died before the obj's own row, of a removal that died after it, of a writer that was refused
    (``store/stored_objs.py``). They count as unreachable since they were written, as nothing more
    exact is stored, and are kept for as long as a HEAD of the past. Parts of an obj that exists are
    never among them, however old it is (I10).
    """
    world = context.world
    grace = context.grace.history_ms + SETTLED_MS
    for part in world.objs.lost_parts(world.space.objs(catalog), (now - grace) * 1000):
        since = part.created_us // 1000
        yield due(kind, f"{catalog}/{part.id}", len(part.payload), since=since, now=now, grace=grace)


def ids_in(items: Iterable[Item], owner: str) -> Iterator[str]:
    """The ids of ``items`` without the name of their ``owner`` in front."""
    return (item.id.removeprefix(f"{owner}/") for item in items)
