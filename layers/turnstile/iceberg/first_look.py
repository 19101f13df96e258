"""A check of the metadata files of a table or view before its first commit in this process. It
refuses the commit if the lake has later ones than the store names.

A store that is behind its lake (``delta.soundness.first_look``) names an older metadata file than
the last commit left. A commit on it would begin a second history. Each commit writes a file whose
name has the number after its base's, and then swaps the HEAD. So a file with the number after the
store's proves nothing: a writer may have died before its swap. A file with the number after that
has a base which the store does not know: the store is behind, the catalog was reset since, or
another program writes the table. One listing by that number shows it. A store that lacks only the
last commit is not noticed here; ``doctor`` warns of it.
"""

from __future__ import annotations

from typing import Final

from turnstile.catalog.core.entities import IcebergEntity, IcebergTable, IcebergView
from turnstile.catalog.core.paths import Path, dotted_name, key_of
from turnstile.catalog.history.log import History
from turnstile.catalog.history.reset import RESET_MESSAGE
from turnstile.catalog.reader import CatalogReader
from turnstile.iceberg.core.requirements import CommitFailed
from turnstile.iceberg.files import file_number, nothing_applied
from turnstile.store.cache import Lru
from turnstile.store.core.errors import NotFound
from turnstile.store.ports import Stat, Storages

UNKNOWN_BASE: Final = 2
"""The distance from the store's number to that of a file whose base the store does not know."""

_TABLES: Final = 10_000
_LOOKS: Final = 5
_PAGES: Final = 10


class IcebergFirstLook:
    """The check, and the tables and views that passed it in this process. Safe for threads: two
    that check one at once get the same result."""

    def __init__(self, storages: Storages, reader: CatalogReader) -> None:
        """``reader`` is not a request's: it authorizes nothing."""
        self._storages = storages
        self._reader = reader
        self._seen = Lru[tuple[str, str], bool](_TABLES)

    def require_current(self, catalog: str, path: Path) -> None:
        """Raises CommitFailed for a table or view whose lake is ahead of the store, and
        StorageFault if the storage does not say. One read and one listing at the first call for
        each, nothing at later ones. Returns for another entry: the commit refuses it.
        """
        key = (catalog.lower(), key_of(path))
        if self._seen.get(key):
            return
        entity = self._entity(catalog, path)
        for _ in range(_LOOKS):
            found = None if entity is None else self._later_file(entity)
            if entity is None or found is None or was_reset_since(self._reader, catalog, found.modified_ms):
                break
            again = self._entity(catalog, path)
            if again is not None and again.metadata == entity.metadata:
                raise _behind(catalog, path, entity, found)
            entity = again  # others have committed meanwhile
        if entity is not None:
            self._seen.put(key, True)

    def _later_file(self, entity: IcebergEntity) -> Stat | None:
        with nothing_applied():
            return later_file(self._storages, entity, UNKNOWN_BASE)

    def _entity(self, catalog: str, path: Path) -> IcebergEntity | None:
        try:
            entry = self._reader.current(catalog).find(path)
        except NotFound:
            return None
        entity = None if entry is None else self._reader.store.entity(catalog, entry.obj)
        return entity if isinstance(entity, IcebergTable | IcebergView) else None


def later_file(storages: Storages, entity: IcebergEntity, distance: int) -> Stat | None:
    """Returns a metadata file of the entity with a number that is greater by ``distance`` than the
    store's, if it was written after the store got its own: one listing. Older ones were left by
    another catalog."""
    number = file_number(entity.metadata) + distance
    since_ms = max(entity.created, entity.updated)
    for stat in storages.open(entity.root).list(f"metadata/{number:05d}-"):
        if stat.path.endswith(".metadata.json") and stat.modified_ms > since_ms:
            return stat
    return None


def was_reset_since(reader: CatalogReader, catalog: str, since_ms: int) -> bool:
    """Returns whether the catalog was reset after that time, so that later files of its tables are
    of commits that it has given up. A read for each commit of the catalog since."""
    start = None
    for _ in range(_PAGES):
        try:
            page = History(reader).log(catalog, start=start, max_results=100)
        except NotFound:
            return False
        for commit in page.commits:
            if commit.at // 1000 < since_ms:
                return False
            if commit.message.startswith(RESET_MESSAGE):
                return True
        start = page.next_seq
        if start is None:
            return False
    return False


def _behind(catalog: str, path: Path, entity: IcebergEntity, found: Stat) -> CommitFailed:
    name = dotted_name(catalog, *path)
    is_table = isinstance(entity, IcebergTable)
    kind = "table" if is_table else "view"
    way = f"for {name}, with overwrite" if is_table else f"under another name, drop {name} and rename the other one"
    error = CommitFailed(
        f"{kind} {name} has the metadata file {found.path}, and the store knows {entity.metadata} only: the store was "
        f"restored from a backup or lost its last writes, or another program writes the {kind}"
    )
    error.remedy = (
        f"register the latest metadata file below {entity.root} {way}; or move the later ones away "
        "(docs/operations.md, A store behind its lake), and commit again"
    )
    return error
