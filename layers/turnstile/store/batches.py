"""Long work in batches: bounded memory, progress, and little to repeat after a crash. Used by every subject."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from turnstile.store.core.writes import Row
from turnstile.store.ports import Refs

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """Yields ``items`` in order, ``size`` at a time; takes no more of them than are yielded. (Python 3.11, which is
    supported, lacks ``itertools.batched``.)"""
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch


def rows_between(refs: Refs, kind: str, after: str = "", upto: str = "", *, stale: bool = False) -> Iterator[Row]:
    """Yields the rows of a kind in the store's order, after the key ``after`` up to the key ``upto`` (empty: to the end), so
    that runs which are cut off reach every row between them.

    If the row of ``upto`` is gone, they go to the end as well: some rows come twice then, but none is left out.

    Args:
        after, stale: as for ``Refs.scan``.
    """
    for row in refs.scan(kind, after=after, stale=stale):
        yield row
        if upto and row["key"] == upto:
            return
