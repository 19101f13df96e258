"""Looks at many rows that go on past damaged ones, of every kind.

A damaged row stops no look at the other rows, and never counts as one that is not there: its reader
is told its key, and decides which of its work waits (docs/operations.md, A row that cannot be
read).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from turnstile.store.core.errors import UnreadableRow
from turnstile.store.core.rows import StoredRow
from turnstile.store.core.writes import Row

R = TypeVar("R", bound=StoredRow)


class DamagedRow(msgspec.Struct, frozen=True):
    """A row that cannot be read: its key, and the reason, which names the key too."""

    key: str
    message: str


def parse_row(of: type[R], row: Row, damaged: list[DamagedRow]) -> R | None:
    """Returns the parsed row; None for a damaged one, which it adds to ``damaged``. Raises
    NewerFormat."""
    try:
        return of.from_row(row)
    except UnreadableRow as error:
        damaged.append(DamagedRow(str(row["key"]), error.message))
        return None


def parse_rows(of: type[R], rows: Iterable[Row], damaged: list[DamagedRow]) -> Iterator[R]:
    """Yields the parsed rows, in their order; adds the damaged ones to ``damaged``. Raises
    NewerFormat."""
    for row in rows:
        parsed = parse_row(of, row, damaged)
        if parsed is not None:
            yield parsed


def text_of(damaged: list[DamagedRow]) -> str:
    """Returns a text for operators about one row or more: the first three, and how many more there
    are."""
    more = f", and {len(damaged) - 3} more" if len(damaged) > 3 else ""
    return "; ".join(row.message for row in damaged[:3]) + more
