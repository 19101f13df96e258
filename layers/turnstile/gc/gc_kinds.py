"""What every kind of garbage has in common: a look at one row, and batches of items with a way to remove them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from turnstile.gc.core_gc_plan import Grace, Item, Kind
from turnstile.store.batches import batched
from turnstile.store.core.keys import identity_obj
from turnstile.store.core.writes import Row
from turnstile.store.faults import Faults
from turnstile.store.world import World

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
