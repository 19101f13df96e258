"""Parts of large objs that nothing names: of a write that died before the obj's own row, of a removal that died after it,
of a writer that was refused (``adapters/parts.py``).

Since when they are unreachable is not stored; it is at least since they were written, or since before a removal that was
due already. Parts of an obj that is there are never among them, however old it is (I10).
"""

from __future__ import annotations

from collections.abc import Iterator

from turnstile.gc.core_gc_plan import SETTLED_MS, Item, Kind, due
from turnstile.gc.gc_kinds import Means


def lost_parts(means: Means, kind: Kind, catalog: str, now: int) -> Iterator[Item]:
    """Lost parts among the objs of ``catalog`` that are as old as a HEAD of its past may be, as items of ``kind``."""
    world, grace = means.world, means.grace.history + SETTLED_MS
    for part in world.objs.lost_parts(world.space.objs(catalog), (now - grace) * 1000):
        since = part.created // 1000
        item = due(kind, f"{catalog}/{part.id}", len(part.payload), since=since, now=now, grace=grace)
        if item is not None:
            yield item
