"""The holders of a table's versions: clones, readers that registered, named snapshots. Without a
read of its log, for requests that only need to know whether there is one (``pins`` has the
versions).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from turnstile.catalog.core.location_rows import Location, Reader
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.history.core import ALL as SNAPSHOTS
from turnstile.catalog.history.core import NamedSnapshot
from turnstile.catalog.store import CatalogStore
from turnstile.delta.core.head import DROPPED, TableHead
from turnstile.maintenance.core.pins import PinKind, is_live
from turnstile.store.core.locations import normalise
from turnstile.store.core.names import is_branch
from turnstile.store.core.writes import Row
from turnstile.store.ports import World

SKEW_MS: Final = 60_000
"""How far apart the clocks of servers may be."""

MARGIN_MS: Final = 3_600_000
"""Longer than a change of a catalog may be under way plus the difference between clocks, as gc's
(``gc.core.SETTLED_MS``)."""


class Holder(msgspec.Struct, frozen=True):
    """The holder of a version that is not the latest: ``until_ms`` as of ``Pin``."""

    kind: PinKind
    name: str
    until_ms: int | None = None


def live(owner: Location, now: int) -> Iterator[Reader]:
    """The readers in the row of a location's owner that have not expired, by any server's clock."""
    return (reader for reader in owner.readers if is_live(reader, now, SKEW_MS))


def is_held(world: World, store: CatalogStore, head: TableHead, tree: Tree, owner: Row | None = None) -> bool:
    """Whether a version of a table, by its name in ``tree``, has a holder (``holders_of``). One
    read if the row of its location's owner is not given."""
    row = owner or world.refs.read(world.space.location(normalise(head.location)))
    if row is None:
        return True
    return any(True for _ in holders_of(head, tree, store, Location.from_row(row), world.clock.now_ms()))


def holders_of(head: TableHead, tree: Tree | None, store: CatalogStore, owner: Location, now: int) -> Iterator[Holder]:
    """Yields the holders of a table's versions, by its present name, without a read of logs or of
    the journal: clones, readers, named snapshots of its catalog (``tree`` None: there is no catalog
    any more). ``owner``: of its location.
    """
    yield from (Holder("clone", clone) for clone in sorted(owner.clones))
    yield from (Holder("reader", reader.holder, reader.until) for reader in live(owner, now))
    if tree is not None:
        yield from (Holder("snapshot", snapshot.name) for snapshot in snapshots_with(head, tree, store))


def snapshots_with(head: TableHead, tree: Tree, store: CatalogStore) -> Iterator[NamedSnapshot]:
    """The named snapshots that show the table: it is among the versions that were recorded, or none
    were and it was there then. None on a branch, which has no snapshots of its own."""
    if is_branch(tree.catalog):
        return
    dropped_us = (head.changed_at + MARGIN_MS) * 1000 if head.state == DROPPED else None
    for _, entry in tree.index.iterate(*SNAPSHOTS):
        snapshot = store.entity(tree.catalog, entry.obj)
        assert isinstance(snapshot, NamedSnapshot)
        there = head.created * 1000 <= snapshot.at and (dropped_us is None or snapshot.at <= dropped_us)
        if head.table_id in snapshot.versions or (there and not snapshot.versions):
            yield snapshot
