"""Snapshots of Iceberg tables that have expired."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.core.entities import IcebergTable
from turnstile.catalog.core.paths import Path, dotted_name
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.reader import CatalogReader
from turnstile.gc.core import Item
from turnstile.gc.iceberg_scan import managed_tables
from turnstile.gc.scanner import Batch, GcContext, NotNow, Problem, Scanner
from turnstile.iceberg.expiry import Expiry
from turnstile.iceberg.files import MetadataFiles
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.writes import Row


class IcebergSnapshotScanner(Scanner):
    """Kind ``iceberg-snapshots``.

    - Collects: snapshots, branches, tags, and schemas without a snapshot, of managed tables with
      ``turnstile.maintenance.expire-snapshots=true`` that have
      expired by Iceberg's own rules (``iceberg/core/expiry.py``). An item is a snapshot; it has no
      bytes: its files are
      for kind ``iceberg-files``, after the metadata files of the catalog's past that name them are
      gone.
    - Unreachable since: they were made. How long they stay, the table's properties and references
      say.
    - Announced by: the swap of the HEAD, a change like every other (I9). It is decided from the
      metadata that it replaces.
    - A crash leaves: a metadata file that nothing names.
    """

    row_kind = "catalog"

    def __init__(self, context: GcContext) -> None:
        super().__init__(context)
        self._reader = CatalogReader(self._world)
        files = MetadataFiles(self._world.storages, self._world.ids)
        self._expiry = Expiry(self._world, Committer(self._world, self._reader, pause=context.pause), files)

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        head = CatalogHead.from_row(row)
        for path, table in managed_tables(self._reader, head):
            yield from self._of_table(head.name, path, table, now)

    def _of_table(self, catalog: str, path: Path, table: IcebergTable, now: int) -> Iterator[Batch | Problem]:
        try:
            gone = self._expiry.due(table)
        except TurnstileError as error:
            problem = f"{dotted_name(*path)}: {error.message}, so no snapshot is expired"
            yield Problem("iceberg-snapshots", table.table_id, problem)
            return
        if not gone.updates:
            return
        ids = [f"{table.table_id}/snapshot/{id}" for id in gone.snapshot_ids]
        ids += [f"{table.table_id}/ref/{name}" for name in gone.refs]
        ids += [f"{table.table_id}/schema/{id}" for id in gone.schema_ids]
        items = tuple(Item("iceberg-snapshots", id, 0, now, 0) for id in ids)
        yield Batch(items, partial(self._remove, catalog, path, table.table_id))

    def _remove(self, catalog: str, path: Path, table_id: str) -> None:
        try:
            self._expiry.expire(catalog, path, table_id)
        except TurnstileError as error:
            raise NotNow(f"{dotted_name(*path)}: {error.message}") from error
