"""What a clone is made of: how each kind of table is copied, behind one interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from turnstile.access.core.access import Access
from turnstile.catalog.core.entities import Entity
from turnstile.catalog.core.paths import Path
from turnstile.store.core.writes import Write


class Past(msgspec.Struct, frozen=True):
    """The moment that is cloned: its time (ms), and versions of Delta tables that are known, by uuid."""

    time: int
    versions: Mapping[str, int] = {}


class Wanted(msgspec.Struct, frozen=True):
    """A table or a view to be copied.

    Attributes:
        source: what it is.
        was: its full name, for messages.
        catalog: as written.
        to: its new full name without the catalog, as it will be written.
        access: whose the copy is.
        now: when it is made (ms).
    """

    source: Entity
    was: str
    catalog: str
    to: Path
    access: Access
    now: int


class Copy(msgspec.Struct, frozen=True):
    """A copy: its entity, its uuid, rows that are written in the transaction of the swap, and the version it shows if it is
    a Delta table."""

    entity: Entity
    table_id: str
    writes: tuple[Write, ...]
    version: int | None = None


class Copier(Protocol):
    """Copies tables of one kind for one request. Asked again with every attempt; what an earlier attempt made of the same
    source is used again."""

    rows: int
    """Rows of the transaction that a copy takes, those that hold locations apart."""

    def look(self, sources: Sequence[Entity]) -> None:
        """Read together what the copies of ``sources`` will need of the store."""

    def copy(self, wanted: Wanted, past: Past | None) -> Copy:
        """The copy of a table: everything it needs is stored, nothing names it.

        Args:
            past: None for the table as it is now.

        Raises:
            StateConflict: ``CannotClone``, ``TableNotActive``.
        """

    def forget(self) -> None:
        """Remove what was stored for copies that were certainly not made. Never raises."""
