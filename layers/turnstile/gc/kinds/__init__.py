"""The kinds of garbage, and the scanner of each. Its docstring says which items it collects, since
when they are unreachable, how the removal is announced to others, and the state after a crash. A
new kind is a scanner in this folder, an entry in ``SCANNERS``, a member of ``Kind``
(``store/core/rows.py``), and a grace period in ``gc/core.py`` if none fits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from turnstile.gc.kinds.dropped import DeletedRefScanner, DroppedCatalogScanner, DroppedTableScanner
from turnstile.gc.kinds.file_index import FileIndexScanner
from turnstile.gc.kinds.groups import GroupScanner
from turnstile.gc.kinds.history import HistoryScanner
from turnstile.gc.kinds.iceberg import IcebergFileScanner
from turnstile.gc.kinds.iceberg_files import IcebergDataScanner
from turnstile.gc.kinds.iceberg_manifests import IcebergManifestScanner
from turnstile.gc.kinds.iceberg_snapshots import IcebergSnapshotScanner
from turnstile.gc.kinds.log import ExpiredLogScanner
from turnstile.gc.kinds.objs import InlineObjScanner, OldMetadataScanner
from turnstile.gc.kinds.staged import StagedFileScanner, StagingTableScanner
from turnstile.gc.kinds.transactions import TransactionScanner
from turnstile.gc.scanner import GcContext, Scanner
from turnstile.store.core.rows import Kind

SCANNERS: Final[dict[Kind, Callable[[GcContext], Scanner]]] = {
    "staged": StagedFileScanner,
    "log": ExpiredLogScanner,
    "staging": StagingTableScanner,
    "dropped": DroppedTableScanner,
    "objs": InlineObjScanner,
    "metadata": OldMetadataScanner,
    "iceberg-manifests": IcebergManifestScanner,
    "iceberg-snapshots": IcebergSnapshotScanner,
    "iceberg": IcebergFileScanner,
    "iceberg-files": IcebergDataScanner,
    "history": HistoryScanner,
    "catalogs": DroppedCatalogScanner,
    "refs": DeletedRefScanner,
    "groups": GroupScanner,
    "transactions": TransactionScanner,
    "file-index": FileIndexScanner,
}
"""In the order in which a run looks at them."""
