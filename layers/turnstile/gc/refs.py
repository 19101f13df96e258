"""Tombstones of deleted references, when nobody repeats a request to them any more.

Until then a tombstone answers repetitions (I3). Afterwards a late swap or delete is told that there is no such reference,
as is anybody else, and the name can be created anew. No token of before is valid then (``core/named_ref.py``): that does
not depend on the grace period.
"""

from __future__ import annotations

from collections.abc import Iterator

from turnstile.coordination.core.named_ref import DELETED, NamedRef, forget
from turnstile.gc.core import due
from turnstile.gc.kinds import Batch, Means, NotNow, Trouble
from turnstile.store.core.writes import Row
from turnstile.store.ports import Rejected


class DeletedRefs:
    """Looks at one reference at a time."""

    rows = "ref"

    def __init__(self, means: Means) -> None:
        self._means = means

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        ref = NamedRef.from_row(row)
        if ref.state != DELETED:
            return
        size = sum(len(entry) for entry in row["recent"])
        item = due("refs", ref.name, size, since=ref.current.at, now=now, grace=self._means.grace.refs)
        if item is not None:
            yield Batch((item,), lambda: self._remove(row["key"], ref))

    def _remove(self, key: str, ref: NamedRef) -> None:
        if isinstance(self._means.world.refs.write(forget(key, ref)), Rejected):
            raise NotNow("it was created again")
        self._means.faults("collect.forgotten")
