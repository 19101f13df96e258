"""What every kind of garbage has in common: a look at one row, and batches of items with a way to remove them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from turnstile.gc.core import Grace, Item, Kind
from turnstile.store.batches import batched
from turnstile.store.core.keys import identity_obj
from turnstile.store.core.locations import published_path
from turnstile.store.core.writes import Row
from turnstile.store.faults import Faults
from turnstile.store.ports import LogStorage, World

LOOKUP: Final = 100


class Trouble(msgspec.Struct, frozen=True):
    """Something that should be removed, or looks as if it should, and was not; ``message`` says why."""

    kind: Kind
    id: str
    message: str


@dataclass(frozen=True, slots=True)
class Batch:
    """Items that are removed together. ``remove`` looks again before it removes anything, may raise ``NotNow``, and
    may be called again after a crash at any point."""

    items: tuple[Item, ...]
    remove: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Means:
    """What looking and removing need. ``imported`` names imported tables whose files were asked to be purged, too."""

    world: World
    grace: Grace
    faults: Faults
    workers: int
    over: Callable[[], bool]
    imported: frozenset[str] = frozenset()


class Looker(Protocol):
    """Looks for one kind of garbage behind refs rows of one kind."""

    rows: str

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        """What is to be removed at ``now`` (ms). Changes nothing."""


def left_tail(world: World, catalog: str, table_id: str, identities: list[str]) -> dict[str, int]:
    """When each of ``identities`` was about to leave its table's tail (ms), for those that did and are remembered.

    The publisher writes the index just before it evicts, so this is when readers were told of them last.
    """
    space = world.space.objs(catalog)
    times: dict[str, int] = {}
    for some in batched(identities, LOOKUP):
        keys = {identity_obj(table_id, identity): identity for identity in some}
        for id, obj in world.objs.get_many(space, list(keys)).items():
            times[keys[id]] = obj.created // 1000
    return times


# -- gc files ---------------------------------------------------------------------------------------------------------
# Counting and deleting files for gc.


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
