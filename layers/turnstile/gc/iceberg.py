"""Metadata files of Iceberg tables and views that nothing leads to: of writers that died between a file and the swap of
the HEAD, and of versions that every log has forgotten.

    1  tables    those in the present tree that lie where Turnstile put them
    2  list      files under ``metadata/`` with names as Turnstile gives them, older than the kept history
    3  keep      the current file, those in its metadata log, those that a kept HEAD names (``gc_trees``)
    4  remove    the others, after another look at who owns the location

A HEAD of the kept history can only lead to a file that was current at its edge or became so since. What became current
since was written since, or was brought in by a commit that says so; or it was registered, which begins another life of the
location. So files of an earlier life, and tables whose life is younger than the history, are left alone (I10): another
catalog's snapshots may name them. A file that is gone can come back by nothing but a registration of its very path.

A table whose creation was lost has a staging row, and ``staging`` empties its location. What its owner dropped without a
purge is nobody's, and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import msgspec

from turnstile.catalog.core.entities import KINDS, IcebergEntity, IcebergTable, IcebergView
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.core import SETTLED_MS, BloomFilter, Item, due
from turnstile.gc.kinds import LOOKUP, Batch, Means, NotNow, Trouble, delete_all
from turnstile.gc.trees import Fence, KeptTrees
from turnstile.store.batches import batched
from turnstile.store.core.writes import Row
from turnstile.store.ports import Stat

FOLDER: Final = "metadata/"
NAME: Final = re.compile(r"metadata/\d{5,9}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.metadata\.json")

_SKEW_MS: Final = 10 * 60_000
"""How far clocks of servers and storage are apart at most."""

_BATCH: Final = 100
_BITS: Final = 1 << 23  # 1 MB: among 300,000 paths one in a million more is taken for kept


class _Logged(msgspec.Struct, frozen=True, rename="kebab"):
    metadata_file: str


class _Metadata(msgspec.Struct, frozen=True, rename="kebab"):
    """What is needed of a metadata file; one of a view has no log."""

    metadata_log: tuple[_Logged, ...] = ()


_DECODER: Final = msgspec.json.Decoder(_Metadata)


class IcebergFiles:
    """Looks at one catalog at a time."""

    rows = "catalog"

    def __init__(self, means: Means) -> None:
        self._means = means
        self._reader = CatalogReader(means.world)

    def look(self, row: Row, now: int) -> Iterator[Batch | Trouble]:
        began = now - self._means.grace.history - SETTLED_MS
        kept = KeptTrees.of(self._reader, CatalogHead.from_row(row), began)
        if kept is None:
            return
        look = _Look(self._means, kept, now, Fence(self._means.world.refs, kept))
        for entities in batched(_entities(self._reader, kept.current), LOOKUP):
            managed = [one for one in entities if one.managed]
            owners = self._means.world.refs.read_many([look.owner_key(one) for one in managed])
            for entity in managed:
                yield from look.at(entity, owners.get(look.owner_key(entity)))


@dataclass
class _Look:
    """One look at one catalog."""

    means: Means
    kept: KeptTrees
    now: int
    fence: Fence
    kept_files: BloomFilter | None = None

    def owner_key(self, entity: IcebergEntity) -> str:
        """refs key of the location's owner."""
        return self.means.world.space.location(entity.location)

    def at(self, entity: IcebergEntity, owner: Row | None) -> Iterator[Batch | Trouble]:
        """What is to be removed of one table."""
        settled = self.kept.began - SETTLED_MS
        if owner is None or not self._owns(entity, owner) or owner["created"] > settled:
            return  # nothing of this life is old enough
        found = [
            file
            for file in self.means.world.storages.open(entity.location).list(FOLDER)
            if NAME.fullmatch(file.path)
            and owner["created"] + _SKEW_MS < file.modified <= settled
            and (path := f"{entity.location}/{file.path}") != entity.metadata
            and path not in self._named
        ]
        logged = self._logged(entity) if found else frozenset[str]()
        if isinstance(logged, Trouble):
            yield logged
            return
        items = [self._item(entity, file) for file in found if f"{entity.location}/{file.path}" not in logged]
        for batch in batched((item for item in items if item is not None), _BATCH):
            yield Batch(batch, partial(self._remove, entity, owner, batch))

    @property
    def _named(self) -> BloomFilter:
        """The files that kept HEADs name beside the present one. (A ``cached_property`` of Python 3.11 would make all looks
        of the process wait for the one that reads.)"""
        if self.kept_files is None:
            named = BloomFilter(_BITS, self.now)
            for tree in (self.kept.edge, *self.kept.others()):
                for entity in _entities(self.kept.reader, tree, unlike=self.kept.current):
                    named.add(entity.metadata)
            self.kept_files = named
        return self.kept_files

    def _logged(self, entity: IcebergEntity) -> frozenset[str] | Trouble:
        """The files that the current one names as its predecessors."""
        found = self.means.world.storages.open(entity.location).read(
            entity.metadata.removeprefix(f"{entity.location}/")
        )
        try:
            metadata = _DECODER.decode(found[0]) if found is not None else None
        except msgspec.DecodeError:
            metadata = None
        if metadata is None:
            return Trouble("iceberg", entity.table_id, f"{entity.metadata} cannot be read, so nothing is removed")
        return frozenset(one.metadata_file for one in metadata.metadata_log)

    def _item(self, entity: IcebergEntity, file: Stat) -> Item | None:
        """The file, unreachable since it was replaced, at the latest at the edge; or since it was written."""
        since = max(file.modified, self.kept.edge.commit.at // 1000)
        grace = self.means.grace.history
        return due("iceberg", f"{entity.location}/{file.path}", file.size, since=since, now=self.now, grace=grace)

    def _owns(self, entity: IcebergEntity, owner: Row) -> bool:
        head = self.kept.head
        return owner.get("table_id") == entity.table_id and owner.get("catalog", "").lower() == head.name.lower()

    def _remove(self, entity: IcebergEntity, owner: Row, items: tuple[Item, ...]) -> None:
        world = self.means.world
        self.fence.require()
        present = world.refs.read(self.owner_key(entity))
        if present is None or not self._owns(entity, present) or present["created"] != owner["created"]:
            raise NotNow(f"{entity.location} has another owner, or begun another life")
        paths = [item.id.removeprefix(f"{entity.location}/") for item in items]
        storage = world.storages.open(entity.location)
        delete_all(storage, paths, workers=self.means.workers, faults=self.means.faults)


def _entities(reader: CatalogReader, tree: Tree, *, unlike: Tree | None = None) -> Iterator[IcebergEntity]:
    """The Iceberg tables and views of ``tree``, but for those that are the same in ``unlike``."""
    entries = (
        entry.obj
        for key, entry in tree.subtree(())
        if entry.kind in KINDS and (unlike is None or unlike.index.get(key) != entry)
    )
    for objs in batched(entries, LOOKUP):
        found = reader.store.entities(tree.catalog, objs)
        yield from (entity for obj in objs if isinstance(entity := found[obj], IcebergTable | IcebergView))
