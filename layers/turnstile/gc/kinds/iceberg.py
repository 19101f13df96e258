"""Metadata files of Iceberg tables and views that nothing leads to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

import msgspec

from turnstile.catalog.core.entities import ICEBERG_KINDS, IcebergEntity
from turnstile.catalog.core.rows import CatalogHead
from turnstile.gc.core import SETTLED_MS, BloomFilter, Item, due
from turnstile.gc.iceberg_scan import IcebergScan, entities_of
from turnstile.gc.scanner import FILES_MAX, Batch, Problem, Scanner, batches, ids_in
from turnstile.gc.trees import Fence, KeptTrees
from turnstile.store.core.writes import Row

_FOLDER: Final = "metadata/"
_NAME: Final = re.compile(r"metadata/\d{5,9}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.metadata\.json")

_SKEW_MS: Final = 10 * 60_000  # how far clocks of servers and storage are apart at most
_BATCH: Final = 100
_METADATA_BYTES: Final = 64 * 1024 * 1024  # what is read of a metadata file: a longer one is not understood
_BITS: Final = 1 << 23  # 1 MB: among 300,000 paths one in a million more is taken for kept


class _Logged(msgspec.Struct, frozen=True, rename="kebab"):
    metadata_file: str


class _Metadata(msgspec.Struct, frozen=True, rename="kebab"):
    """One of a view has no log."""

    metadata_log: tuple[_Logged, ...] = ()


_DECODER: Final = msgspec.json.Decoder(_Metadata)


class IcebergFileScanner(Scanner):
    """Kind ``iceberg``.

    - Collects: files of writers that died between the file and the swap of the HEAD, and of
      versions that every metadata log has dropped: of managed tables in the present tree. They have
      Turnstile's names, are older than the kept history, and are neither current nor in the
      metadata log nor named by a kept HEAD (``KeptTrees``).
    - Unreachable since: they were replaced, at the latest at the edge of the kept history; or since
      they were written.
    - Announced by: the ``Fence`` in the catalog's row.
    - A crash leaves: fewer files.

    A HEAD of the kept history can only lead to a file that was current at its edge, was written
    since, was brought in by a commit that says so, or was registered, which begins another life of
    the location. So files of an earlier life, and tables with a life younger than the history, are
    left alone (I10): another catalog's snapshots may name them. A location that the catalog chose
    for its table has had no earlier life: there, files of the first minutes go like all others. A
    file that is gone can come back only by a registration of its very path. A table has a staging
    row after its creation was lost, and kind ``staging`` empties its location. Files of a table
    that was dropped without a purge have no owner, and stay.
    """

    row_kind = "catalog"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        kept = KeptTrees.of(self._context, CatalogHead.from_row(row), now)
        if kept is None:
            return
        scan = _CatalogScan(self._context, kept, now, Fence(self._world, kept))
        for entity, owner in scan.managed_entities(ICEBERG_KINDS):
            yield from scan.at(entity, owner)


@dataclass
class _CatalogScan(IcebergScan):
    kept_files: BloomFilter | None = None

    def at(self, entity: IcebergEntity, owner: Row | None) -> Iterator[Batch | Problem]:
        settled = self.kept.began - SETTLED_MS
        if owner is None or not self.owns(entity, owner) or owner["created"] > settled:
            return  # nothing of this life is old enough
        life_began = -1 if owner.get("first_life") else owner["created"] + _SKEW_MS
        unnamed = (
            file
            for file in self.context.world.storages.open(entity.location).list(_FOLDER)
            if _NAME.fullmatch(file.path)
            and life_began < file.modified_ms <= settled
            and (path := f"{entity.location}/{file.path}") != entity.metadata
            and path not in self._named_files
        )
        old = list(islice(unnamed, FILES_MAX))
        logged = self._logged_files(entity) if old else frozenset[str]()
        if isinstance(logged, Problem):
            yield logged
            return
        edge_ms = self.kept.edge.commit.at // 1000
        grace = self.context.grace.history_ms
        items = (
            due("iceberg", path, file.size, since=max(file.modified_ms, edge_ms), now=self.now, grace=grace)
            for file in old
            if (path := f"{entity.location}/{file.path}") not in logged
        )
        yield from batches(items, partial(self._remove, entity, owner), _BATCH)

    @property
    def _named_files(self) -> BloomFilter:
        """The files that kept HEADs name, beside the present one. (No ``cached_property``: that of
        Python 3.11 makes all scans of the process wait for the one that reads.)"""
        if self.kept_files is None:
            named = BloomFilter(_BITS, self.now)
            for tree in (self.kept.edge, *self.kept.others()):
                for entity in entities_of(self.kept.reader, tree, ICEBERG_KINDS, unlike=self.kept.current):
                    named.add(entity.metadata)
            self.kept_files = named
        return self.kept_files

    def _logged_files(self, entity: IcebergEntity) -> frozenset[str] | Problem:
        """The files that the current one names as its predecessors."""
        path = entity.metadata.removeprefix(f"{entity.location}/")
        file = self.context.world.storages.open(entity.location).read(path, _METADATA_BYTES)
        if file is not None and entity.digest and hashlib.sha256(file[0]).digest() != entity.digest:
            return Problem("iceberg", entity.table_id, f"{entity.metadata} was altered, so nothing is removed")
        try:
            metadata = _DECODER.decode(file[0]) if file is not None else None
        except msgspec.DecodeError:
            metadata = None
        if metadata is None:
            return Problem("iceberg", entity.table_id, f"{entity.metadata} cannot be read, so nothing is removed")
        return frozenset(entry.metadata_file for entry in metadata.metadata_log)

    def _remove(self, entity: IcebergEntity, owner: Row, items: tuple[Item, ...]) -> None:
        self.require_same_life(entity, owner)
        self.context.delete_files(self.context.world.storages.open(entity.location), ids_in(items, entity.location))
