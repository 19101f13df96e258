"""Where each tail entry stands: version, in-commit timestamp, staged name and row ids.

For a named commit they were proposed; for a ticket they follow from its position in the row (design 2.2), so the
write that ratified it fixed them, and whoever needs them computes the same.
"""

from __future__ import annotations

import msgspec

from turnstile.delta.core.head import ROWS_KEPT, ROWS_OFF, Entry, TableHead
from turnstile.store.core.names import inline_unique, staged_file


class Positioned(msgspec.Struct, frozen=True):
    """A ratified commit with everything that follows from its place.

    ``first_row`` is the base row id of a ticket's first file (None without row tracking); ``modified`` the one
    stable modification time of the version (ms)."""

    version: int
    ict: int
    name: str
    modified: int
    first_row: int | None
    published: bool
    entry: Entry


def mark_after(mark: int | None, entry: Entry) -> int | None:
    """Row-id high-water mark after ``entry`` (None without row tracking)."""
    if entry.hwm == ROWS_OFF:
        return None
    if entry.hwm != ROWS_KEPT:
        return entry.hwm
    return mark + entry.rows if entry.ticket and mark is not None else mark


def positioned(head: TableHead) -> tuple[Positioned, ...]:
    """The tail of ``head`` in ascending version order (I1, I7 hold by construction)."""
    placed = []
    ict = head.tail_ict
    hwm = head.tail_hwm
    for version, entry in enumerate(head.tail, start=head.tail_from):
        ict = max(entry.ict, ict + 1) if entry.ticket else entry.ict
        first_row = hwm + 1 if entry.ticket and hwm is not None else None
        hwm = mark_after(hwm, entry)
        name = entry.name or staged_file(version, entry.unique or inline_unique(entry.txn))
        placed.append(
            Positioned(
                version=version,
                ict=ict,
                name=name,
                modified=entry.modified or ict,
                first_row=first_row,
                published=version <= head.floor,
                entry=entry,
            )
        )
    return tuple(placed)
