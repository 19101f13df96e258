"""Data, delete and statistics files, manifests and manifest lists of Iceberg tables that no
metadata file names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Final

from turnstile.catalog.core.entities import ICEBERG_TABLE, IcebergTable
from turnstile.catalog.core.location_rows import Location
from turnstile.catalog.core.rows import CatalogHead
from turnstile.gc.core import SETTLED_MS, Item, due
from turnstile.gc.iceberg_marks import Marks, NotKnown
from turnstile.gc.iceberg_scan import IcebergScan, entities_of
from turnstile.gc.scanner import FILES_MAX, Batch, NotNow, Problem, Scanner, batches, ids_in, left_overs
from turnstile.gc.trees import Fence, KeptTrees
from turnstile.iceberg.core.expiry import removes
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.writes import Row
from turnstile.store.ports import Stat

_METADATA: Final = (".metadata.json", ".metadata.json.gz")
_KNOWN: Final = (".parquet", ".orc", ".avro", ".puffin", ".stats")
"""Names of files that Iceberg's writers make, beside metadata files. Others are left alone."""


class IcebergDataScanner(Scanner):
    """Kind ``iceberg-files``.

    - Collects: files below the locations of managed tables of the present tree, of the formats that
      Iceberg's writers make, that are older than their grace period and that no metadata file
      names: of expired snapshots, of writers that died before they committed. Only of tables that
      ask for it (``iceberg.core.expiry.removes``). Of all tables: remains of this service's
      interrupted writes on a file system (``left_overs``).
    - Reachable: every file that is named by any metadata file in the table's location, current or
      not, or in the location of a clone that the present or a kept HEAD has. Every HEAD that is
      kept leads to such a file; kind ``iceberg`` removes one only after the kept history. So no
      file is removed that the catalog's past or a named snapshot of it shows (I10).
    - Unreachable since: they were written, or the edge of the kept history, which the last metadata
      file that named them did not outlive.
    - Announced by: the ``Fence`` in the catalog's row. Before each batch the metadata files are
      listed again, and files that new ones name stay.
    - A crash leaves: fewer files.

    An unknown state is a ``Problem``, and nothing of that table is removed. A writer may put files
    in place and commit them within the grace period; one that was frozen for longer has to write
    them again, as with Iceberg's own ``remove_orphan_files``.
    """

    row_kind = "catalog"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        kept = KeptTrees.of(self._context, CatalogHead.from_row(row), now)
        if kept is None:
            return
        scan = _CatalogScan(self._context, kept, now, Fence(self._world, kept))
        for table, owner in scan.managed_entities((ICEBERG_TABLE,)):
            assert isinstance(table, IcebergTable), "a table, by its kind"
            if self._context.time_is_up():
                return
            try:
                yield from scan.of_table(table, owner)
            except (NotKnown, TurnstileError) as error:
                message = error.message if isinstance(error, TurnstileError) else str(error)
                yield Problem("iceberg-files", table.table_id, f"{message}, so nothing is removed")


@dataclass
class _Reached:
    """The files that the metadata files below ``folders`` name, as far as they were ``read``."""

    folders: tuple[str, ...]
    marks: Marks
    read: set[str] = field(default_factory=set)


@dataclass
class _CatalogScan(IcebergScan):
    kept_clones: dict[str, dict[str, IcebergTable]] | None = None

    def __post_init__(self) -> None:
        self._files = MetadataFiles(self.context.world.storages, self.context.world.ids)

    def of_table(self, table: IcebergTable, row: Row | None) -> Iterator[Batch | Problem]:
        """The items of one table. Raises NotKnown or TurnstileError if they are unknown."""
        if row is None or not self.owns(table, row) or row["created"] > self.kept.began - SETTLED_MS:
            return
        storage = self.context.world.storages.open(table.location)
        yield from left_overs(self.context, "iceberg-files", table.location, storage, self.now)
        if not removes(self._files.table(table).properties):
            return
        oldest = list(islice((file for file in storage.list_all() if self._old(file)), 1))
        if not oldest:
            return
        reached = self._reach(table, Location.from_row(row).clones)
        edge_ms = self.kept.edge.commit.at // 1000
        grace = self.context.grace.history_ms
        unnamed = (file for file in storage.list_all() if self._old(file) and file.path not in reached.marks)
        items = (
            due(
                "iceberg-files",
                f"{table.location}/{file.path}",
                file.size,
                since=max(file.modified_ms, edge_ms),
                now=self.now,
                grace=grace,
            )
            for file in islice(unnamed, FILES_MAX)
        )
        yield from batches(items, partial(self._remove, table, row, reached))

    def _old(self, file: Stat) -> bool:
        """Whether a file may go at all: by its age, and its name. Hidden ones belong to other
        programs, as in Iceberg."""
        if file.modified_ms > self.now - self.context.grace.unnamed_ms - SETTLED_MS:
            return False
        hidden = any(part.startswith(("_", ".")) for part in file.path.split("/"))
        return file.path.endswith(_KNOWN) and not hidden

    def _reach(self, table: IcebergTable, clones: frozenset[str]) -> _Reached:
        """Everything that metadata files of the table and of its clones name. Raises NotKnown or
        TurnstileError."""
        clones_here = self._clones.get(table.location, {})
        if missing := clones - clones_here.keys():
            raise NotKnown(f"clone {min(missing)} of {table.location} is not in the catalog")
        shown = (table, *clones_here.values())
        roots = {held.location for one in shown for held in one.needs} | {one.location for one in shown}
        marks = Marks(self.context.world.storages, frozenset(roots), self.now)
        reached = _Reached(tuple(dict.fromkeys(one.location for one in shown)), marks)
        for one in shown:
            if one is table or one.table_id in clones:
                if not one.metadata.startswith(f"{one.location}/"):
                    raise NotKnown(f"{one.metadata} is outside the table's location")
                marks.add(self._files.table(one), present=True)
                reached.read.add(one.metadata)
        self._read_new(reached)
        return reached

    def _read_new(self, reached: _Reached) -> None:
        """Marks the files that unread metadata files name. A metadata file that is gone by now
        names nothing."""
        for folder in reached.folders:
            storage = self.context.world.storages.open(folder)
            for file in storage.list_all():
                path = f"{folder}/{file.path}"
                if file.path.endswith(_METADATA) and path not in reached.read:
                    if self.context.time_is_up():
                        raise NotKnown("the time was up before all metadata files were read")
                    metadata = self._parse_metadata(path)
                    if metadata is not None:
                        reached.marks.add(metadata, present=False)
                    reached.read.add(path)

    def _parse_metadata(self, path: str) -> TableMetadata | None:
        try:
            return self._files.any_table(path)
        except TurnstileError as error:
            raise NotKnown(f"{path} cannot be read ({error.message})") from error

    @property
    def _clones(self) -> dict[str, dict[str, IcebergTable]]:
        """By location, the clones by uuid that need files there, of the present and of every kept
        tree; one of several HEADs comes as the present has it."""
        if self.kept_clones is None:
            clones: dict[str, dict[str, IcebergTable]] = {}
            trees = chain((self.kept.current, self.kept.edge), self.kept.others())
            for tree in trees:
                unlike = None if tree is self.kept.current else self.kept.current
                for table in entities_of(self.kept.reader, tree, (ICEBERG_TABLE,), unlike=unlike):
                    assert isinstance(table, IcebergTable), "a table, by its kind"
                    for held in table.needs:
                        clones.setdefault(held.location, {}).setdefault(table.table_id, table)
            self.kept_clones = clones
        return self.kept_clones

    def _remove(self, table: IcebergTable, owner: Row, reached: _Reached, items: tuple[Item, ...]) -> None:
        present = self.require_same_life(table, owner)
        if Location.from_row(present).clones != Location.from_row(owner).clones:
            raise NotNow(f"{table.location} has other clones by now")
        try:
            self._read_new(reached)
        except NotKnown as reason:
            raise NotNow(str(reason)) from reason
        paths = tuple(ids_in(items, table.location))
        if named := next((path for path in paths if path in reached.marks), None):
            raise NotNow(f"{named} is named again")
        self.context.delete_files(self.context.world.storages.open(table.location), paths)
