"""Keeps the file index of a table: light work, done after the checkpoint
(``turnstile.maintenance.work.Following``).

    1  the newest root      that is of the table's own history; if there is none, or it is too far
                            behind, the index is built anew
    2  the leaves           that its successor needs and that are not there yet (``planning.index``)
    3  the guard            the HEAD once more: a worker that was frozen must not write for a table
                            that is gone (I10)
    4  the root             an obj whose id follows from version and content; from then on planners
                            see it

Any process may do it at any time, also two at once: leaves have names of their own, a root is a
statement about a published version that stays true, and of two roots of one version either is
right. A crash leaves leaves that no root names; gc removes them. No decision depends on an index
(I16).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnstile.delta.core.head import TableHead
from turnstile.planning.changes import TooMany, stamp_of
from turnstile.planning.core.roots import MAX_BEHIND, Sizes, StoredRoot, pack_root, root_id, unpack_root
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.rows import FILE_INDEX
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import LogStorage, Obj, World

Guard = Callable[[], None]
MAX_STALE: Final = 100
"""Roots of another history that one call removes."""


def newest_root(world: World, head: TableHead) -> StoredRoot | None:
    """Returns the newest root of a table; one request. None if there is none that can be read."""
    obj = world.objs.newest(world.space.objs(head.catalog), FILE_INDEX.id(f"{head.source or head.table_id}/"))
    return None if obj is None else opened_root(obj)


def opened_root(obj: Obj) -> StoredRoot | None:
    """Returns the root in an obj; None if it cannot be read, or is of another format."""
    root = unpack_root(obj.payload)
    return None if root is None else StoredRoot(obj.id, root)


class IndexUpkeep:
    """Keeps indexes of tables. No state between calls."""

    def __init__(self, world: World, *, sizes: Sizes | None = None, faults: Faults = no_faults) -> None:
        self._world = world
        self._sizes = sizes or Sizes()
        self._faults = faults

    def keep_up(self, head: TableHead, guard: Guard = lambda: None) -> int:
        """Brings the index of a table to its newest published version, if that is due; returns the
        floor from which on it is again.

        Raises:
            UnsupportedTable: the log cannot be read, or has a feature that is not known here.
            StorageFault: the storage does not answer.
        """
        storage = self._world.storages.open(head.location)
        floor = head.floor
        stored = self._own(head, storage)
        if stored is not None and floor - stored.root.version < self._sizes.every:
            return stored.root.version + self._sizes.every
        stamp = stamp_of(storage, floor)
        if stamp is None:
            return floor + self._sizes.every
        from turnstile.planning.index import Indexer  # needs pyarrow, which is large

        work = Indexer(self._world, head, storage, self._sizes, self._faults)
        root = None
        if stored is not None and floor - stored.root.version <= MAX_BEHIND:
            try:
                root = work.forward(stored, stamp)
            except (TooMany, StorageFault):  # a leaf is gone: the index is dropped, so it is built anew
                root = None
        root = root or work.build_root(stamp, stored)
        self._faults("index.leaves")
        guard()
        payload = pack_root(root)
        id = root_id(head.table_id, root.version, payload)
        now_us = self._world.clock.now_ms() * 1000
        self._world.objs.put(Obj(self._world.space.objs(head.catalog), id, FILE_INDEX.name, payload, now_us))
        self._faults("index.root")
        return floor + self._sizes.every

    def _own(self, head: TableHead, storage: LogStorage) -> StoredRoot | None:
        """The newest root, if it belongs to the history of the log. A root of another history,
        because an operator chose the HEAD over the log, is removed: it would hide later ones."""
        for _ in range(MAX_STALE):
            stored = newest_root(self._world, head)
            if stored is None or stamp_of(storage, stored.root.version) == stored.root.stamp:
                return stored
            self._world.objs.delete(self._world.space.objs(head.catalog), stored.id)
            self._faults("index.stale")
        return None
