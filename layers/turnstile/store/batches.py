"""Long work is done some hundred items at a time: bounded memory, progress, and little to repeat after a crash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from turnstile.store.core.writes import Row
from turnstile.store.ports import Refs

T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    """``items``, ``size`` at a time and in their order; no more of them is taken than was asked for. (Python 3.11, which
    is supported, lacks ``itertools.batched``.)"""
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch


# -- rounds -----------------------------------------------------------------------------------------------------------
# Going round all rows of a kind, so that runs which are cut off reach every row between them.


def rows_between(refs: Refs, kind: str, after: str = "", upto: str = "", *, stale: bool = False) -> Iterator[Row]:
    """Rows of a kind in the store's order, behind the key ``after`` up to the key ``upto`` (empty: to the end).

    If the row of ``upto`` is gone they go to the end as well: better that some come twice than that one never comes.

    Args:
        after, stale: as for ``Refs.scan``.
    """
    for row in refs.scan(kind, after=after, stale=stale):
        yield row
        if upto and row["key"] == upto:
            return
