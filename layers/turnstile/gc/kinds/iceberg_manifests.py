"""Small manifests of Iceberg tables."""

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
from turnstile.iceberg.files import MetadataFiles
from turnstile.iceberg.manifest_rewrite import ManifestRewrite
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.writes import Row


class IcebergManifestScanner(Scanner):
    """Kind ``iceberg-manifests``.

    - Collects: small manifests of managed tables with
      ``turnstile.maintenance.rewrite-manifests=true``, if there are many of them
      (``iceberg/core/files/manifest_rewrite.py``): they are put together. An item stands for all
      small manifests of a table, and has their number, but no bytes: kind ``iceberg-files``
      removes the files after the snapshots that name them have expired.
    - Unreachable since: a new manifest stands for them.
    - Announced by: the swap of the HEAD, a change like every other (I9). It is decided from the
      list that it replaces.
    - A crash leaves: manifests, a manifest list and a metadata file that nothing names.
    """

    row_kind = "catalog"

    def __init__(self, context: GcContext) -> None:
        super().__init__(context)
        self._reader = CatalogReader(self._world)
        files = MetadataFiles(self._world.storages, self._world.ids)
        committer = Committer(self._world, self._reader, pause=context.pause)
        self._rewrite = ManifestRewrite(self._world, committer, files)

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        head = CatalogHead.from_row(row)
        for path, table in managed_tables(self._reader, head):
            try:
                manifests = self._rewrite.due(table)
            except TurnstileError as error:
                problem = f"{dotted_name(*path)}: {error.message}, so its manifests are left as they are"
                yield Problem("iceberg-manifests", table.table_id, problem)
                continue
            if manifests:
                item = Item("iceberg-manifests", f"{table.table_id}/{len(manifests)} manifests", 0, now, 0)
                yield Batch((item,), partial(self._remove, head.name, path, table))

    def _remove(self, catalog: str, path: Path, table: IcebergTable) -> None:
        try:
            self._rewrite.rewrite(catalog, path, table.table_id)
        except TurnstileError as error:
            raise NotNow(f"{dotted_name(*path)}: {error.message}") from error
