"""Clones of Delta tables: one version of another table's log, under a name and a uuid of its own.

A Delta log names its files relative to the table's folder, so a version can be shown only where it
lies. A clone therefore has the location of its source, and a HEAD that stays at its version; it
never writes the log.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from turnstile.catalog.core.entities import CloneOf, Entity, IcebergTable, Table
from turnstile.catalog.core.location_rows import HeldLocation, let_go
from turnstile.catalog.core.paths import Path, dotted_name, is_below, key_of
from turnstile.delta.core.head import PINNED, new_head_row
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict
from turnstile.store.core.rows import Space
from turnstile.store.core.writes import Insert, Row, Write, new_row


class Pin(msgspec.Struct, frozen=True):
    """The version that a clone shows.

    Attributes:
        source: uuid of the table that the log belongs to; the first one, if clones are cloned.
        location: that table's.
        ict: the version's in-commit timestamp (ms).
        row_hwm: its row-id high-water mark; None where row tracking is off.
        metadata: id of the table metadata, written for the clone.
    """

    source: str
    location: str
    version: int
    ict: int
    row_hwm: int | None
    metadata: str


def new_pinned(space: Space, pin: Pin, *, table_id: str, catalog: str, name: str, now: int) -> Insert:
    """Returns the insert of a clone's HEAD. Everything up to its version is published: that is the
    clone's content."""
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


def needs_of(source: Entity) -> tuple[HeldLocation, ...]:
    """Returns the locations of the files of a clone of ``source``, with their owners; none for an
    entity without files."""
    match source:
        case Table(external=None):
            return (HeldLocation(source.location, source.clone.source if source.clone else source.table_id),)
        case IcebergTable():
            return (HeldLocation(source.location, source.table_id), *source.needs)
        case _:
            return ()


def let_go_of(space: Space, dropped: Iterable[Entity]) -> list[Write]:
    """Returns the writes that release the locations that clones among these dropped entities
    needed: one per location."""
    clones: dict[HeldLocation, list[str]] = {}
    for entity in dropped:
        match entity:
            case Table(clone=CloneOf()):
                needs = needs_of(entity)
            case IcebergTable():
                needs = entity.needs
            case _:
                continue
        for held in needs:
            clones.setdefault(held, []).append(entity.table_id)
    return [let_go(space, held, table_ids) for held, table_ids in clones.items()]


def cannot_clone(problem: str, remedy: str, field: str = "of", **details: int) -> StateConflict:
    """Returns the refusal for versions or files that are gone."""
    return StateConflict(ErrorType.CANNOT_CLONE, problem, field=field, remedy=remedy, **details)


def check_apart(catalog: str, source: Path, to: Path, outermost: Iterable[str]) -> None:
    """Raises InvalidRequest when ``to`` is part of the cloned namespace, then or now: a clone would
    contain itself. A clone of the whole catalog must not be in ``outermost``, the keys of its
    outermost names then and now.
    """
    inside = key_of(to) == key_of(source) or is_below(key_of(to), key_of(source))
    if inside and (source or key_of(to[:1]) in outermost):
        problem = f"'{dotted_name(catalog, *to)}' lies in what is cloned, '{dotted_name(catalog, *source)}'"
        remedy = "clone to a name outside of it" + ("" if source else ", one that the catalog never had at the top")
        raise InvalidRequest(problem, field="to", remedy=remedy)
