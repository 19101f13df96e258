"""Clones of Delta tables: one version of another table's log, under a name and a uuid of its own.

A Delta log names its files relative to the table's folder, so that a version can be shown only where it lies. A clone
therefore has the location of its source, a HEAD that is at its version for ever, and no say about the log.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from turnstile.catalog.core.entities import CloneOf, Entity, IcebergTable, Table
from turnstile.catalog.core.location_rows import Held, let_go
from turnstile.catalog.core.paths import Path, dotted, is_below, key_of
from turnstile.delta.core.head import PINNED, new_head_row
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.keys import Space
from turnstile.store.core.writes import Insert, Row, Write, new_row

READ_ONLY: Final = (
    "a clone of a Delta table is read-only: write to its source, or copy it with CREATE TABLE ... AS SELECT"
)
"""What to do instead of a write."""


class Pin(msgspec.Struct, frozen=True):
    """A version to show.

    Attributes:
        source: uuid of the table whose log it is; of the first one, if clones are cloned.
        location: where that lies.
        version: number of the version.
        ict: its in-commit timestamp (ms).
        row_hwm: its row-id high-water mark; None where row tracking is off.
        metadata: id of the metadata snapshot, written for the clone.
    """

    source: str
    location: str
    version: int
    ict: int
    row_hwm: int | None
    metadata: str


def new_pinned(space: Space, pin: Pin, *, table_id: str, catalog: str, name: str, now: int) -> Insert:
    """The HEAD of a clone. Everything up to its version is published: that is what it shows."""
    row: Row = new_head_row(
        key=space.table(table_id),
        table_id=table_id,
        catalog=catalog,
        name=name,
        location=pin.location,
        metadata=pin.metadata,
        version=pin.version,
        ict=pin.ict,
        row_hwm=pin.row_hwm,
        created=now,
        managed=False,
    )
    return Insert({**row, "state": PINNED, "source": pin.source}, (new_row("I2"),))


def needs_of(source: Entity) -> tuple[Held, ...]:
    """Where a clone of ``source`` has its files, and whose they are: nowhere for what has none."""
    match source:
        case Table(external=None):
            return (Held(source.location, source.clone.source if source.clone else source.table_id),)
        case IcebergTable():
            return (Held(source.location, source.table_id), *source.needs)
        case _:
            return ()


def let_go_of(space: Space, dropped: Iterable[Entity]) -> list[Write]:
    """The writes that go with dropping these: locations that clones among them needed. One for each location."""
    clones: dict[Held, list[str]] = {}
    for entity in dropped:
        match entity:
            case Table(clone=CloneOf()):
                needed = needs_of(entity)
            case IcebergTable():
                needed = entity.needs
            case _:
                continue
        for held in needed:
            clones.setdefault(held, []).append(entity.table_id)
    return [let_go(space, held, names) for held, names in clones.items()]


def check_apart(catalog: str, source: Path, to: Path, held: Iterable[str]) -> None:
    """Whether ``to`` is no part of what is cloned, as of any moment that matters.

    Args:
        held: keys of the outermost names of the catalog then and now; what a clone of the whole catalog must not go into.

    Raises:
        InvalidRequest: a clone would be a clone of itself.
    """
    inside = key_of(to) == key_of(source) or is_below(key_of(to), key_of(source))
    if inside and (source or key_of(to[:1]) in held):
        raise InvalidRequest(
            f"'{dotted(catalog, *to)}' lies in what is cloned, '{dotted(catalog, *source)}'",
            field="to",
            remedy="clone to a name outside of it" + ("" if source else ", one that the catalog never had at the top"),
        )
