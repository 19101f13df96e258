"""Imports that were cut off between their upgrade commit and their table: which locations, and how
to go on (I2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from turnstile.catalog.core.location_rows import Location
from turnstile.store.ports import World, parse_rows

UNDER_WAY_MS: Final = 15 * 60_000
"""For so long an import may be under way: it takes seconds, and no process of it lives longer."""

_PAGE: Final = 512


class HalfImported(msgspec.Struct, frozen=True):
    """A location that an import of a table into ``catalog`` claims since ``claimed_ms``."""

    location: str
    catalog: str
    claimed_ms: int


def half_imported(world: World) -> Iterator[HalfImported]:
    """Yields the locations with an import that neither runs any more nor has made its table. One
    pass over the rows of locations."""
    after = ""
    prefix = world.space.location("")
    now_ms = world.clock.now_ms()
    while True:
        rows, after = world.refs.scan_part((Location.kind,), after=after, limit=_PAGE)
        for owner in parse_rows(Location, rows, []):
            if owner.importing and now_ms - owner.created >= UNDER_WAY_MS:
                yield HalfImported(owner.key.removeprefix(prefix), owner.catalog, owner.created)
        if not after:
            return


def description_of(found: HalfImported, now_ms: int) -> str:
    """Returns a text for operators."""
    hours = (now_ms - found.claimed_ms) / 3_600_000
    return f"the import of {found.location} into catalog {found.catalog} began {hours:.1f} h ago and was not finished"


def remedy(found: HalfImported) -> str:
    """Returns how to go on."""
    return (
        f"run it again: 'turnstile import {found.catalog}.NAMESPACE.NAME {found.location}' goes on where it was. Until "
        f"then no "
        "catalog serves the table, and writers by path may be refused, since its log may name Turnstile as its "
        "coordinator"
    )
