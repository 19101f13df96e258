"""Going round all rows of a kind, so that runs which are cut off reach every row between them."""

from __future__ import annotations

from collections.abc import Iterator

from turnstile.store.core.writes import Row
from turnstile.store.ports import Refs


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
