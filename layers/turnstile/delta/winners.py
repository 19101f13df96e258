"""Content of inline commits for answers: what a loser must see of the winners, and readers who want bytes, not files.

Nothing here reads a HEAD: a refusal already brought the row with it (design 2.1), and only content that was moved to
an obj costs one more request.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnstile.delta.core.positions import Positioned
from turnstile.delta.core.ticket import final_bytes
from turnstile.delta.packing import unpack
from turnstile.store.core.errors import TurnstileError
from turnstile.store.world import World

_BATCH = 100


def inline_contents(world: World, catalog: str, places: Sequence[Positioned], budget: int) -> dict[int, bytes]:
    """The ratified bytes of inline commits that are not published yet, by version.

    The newest come first, as many as fit; leaving one out is never wrong, since every commit has a file or can get
    one. So a fault while fetching objs leaves theirs out instead of hiding the answer they would have decorated.

    Args:
        catalog: whose objs hold the larger contents.
        places: in any order.
        budget: bytes in all.
    """
    chosen: list[Positioned] = []
    for place in sorted(places, key=lambda place: place.version, reverse=True):
        if place.published or not place.entry.inline or not (place.entry.data or place.entry.obj):
            continue
        budget -= place.entry.size
        if budget < 0:
            break
        chosen.append(place)
    packed = {place.version: place.entry.data for place in chosen if place.entry.data}
    packed |= _from_objs(world, catalog, [place for place in chosen if not place.entry.data][:_BATCH])
    return {
        place.version: final_bytes(place, unpack(packed[place.version])) for place in chosen if place.version in packed
    }


def _from_objs(world: World, catalog: str, places: Sequence[Positioned]) -> dict[int, bytes]:
    if not places:
        return {}
    try:
        found = world.objs.get_many(world.space.objs(catalog), [place.entry.obj for place in places])
    except TurnstileError:
        return {}
    return {place.version: found[place.entry.obj].payload for place in places if place.entry.obj in found}
