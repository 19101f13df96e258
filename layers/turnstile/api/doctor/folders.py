"""Looks whether the logs of Delta tables, and the metadata files of Iceberg's tables and views, are
where the store says: after a lake or a home was moved, none is. And whether there are later ones:
after an older store was restored.

A look at a Delta table is two requests where the commit of its ``floor`` is there, and one listing
more where it is not (``delta.soundness.judge.folder_fault``); a look at an Iceberg table or view is
two requests, its entity and its file, and one listing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

import msgspec

from turnstile.catalog.core.entities import ICEBERG_KINDS, IcebergEntity, IcebergTable, IcebergView
from turnstile.catalog.core.paths import Path, dotted_name, path_of
from turnstile.catalog.core.rows import CatalogHead
from turnstile.catalog.core.tree import Tree
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import ACTIVE, TableHead, gone_for_good
from turnstile.delta.soundness.judge import folder_fault
from turnstile.iceberg.first_look import UNKNOWN_BASE, later_file, was_reset_since
from turnstile.store.core.errors import NotFound, TurnstileError
from turnstile.store.core.locations import ancestors
from turnstile.store.core.names import published_path
from turnstile.store.ports import World, in_batches, parse_row, parse_rows

ATTEMPT_MS: Final = 600_000
"""The age from which an Iceberg metadata file is of no attempt any more that may still succeed."""

TABLES: Final = 1_000
"""How many tables of each format are looked at, the first ones in the store's order."""

LONGEST_MS: Final = 5_000
"""The time after which no further look at tables of a format begins."""

COUNT_MS: Final = 1_000
"""How much longer the tables behind a bound are counted."""

_THREADS: Final = 8
_BATCH: Final = 4 * _THREADS

T = TypeVar("T")


class Gone(msgspec.Struct, frozen=True):
    """A table without a published commit in its folder, or without its Iceberg metadata file."""

    name: str
    location: str
    is_iceberg: bool = False


class Behind(msgspec.Struct, frozen=True):
    """A table or view with a commit in the lake after the last one that the store knows.
    ``certain``: a writer that died before its swap cannot have left the ``file``."""

    name: str
    file: str
    is_iceberg: bool = False
    certain: bool = True


Finding = Gone | Behind | str
"""A fault of a table; a text for a table that could not be looked at."""


class FolderReport(msgspec.Struct, frozen=True):
    """The findings of a look at many tables.

    Attributes:
        looked: the number of tables.
        left: the number of tables that were not looked at, since a bound was reached.
        all_counted: whether ``left`` has all of them; counting ends at a bound of its own.
        gone: tables without their files.
        unknown: the errors for tables, or catalogs, that could not be looked at.
        behind: tables that the store is behind with.
    """

    looked: int
    left: int
    all_counted: bool
    gone: tuple[Gone, ...]
    unknown: tuple[str, ...]
    behind: tuple[Behind, ...]


def look(world: World) -> FolderReport:
    """Looks at up to ``TABLES`` Delta tables, for ``LONGEST_MS`` at most, and at as many of
    Iceberg's tables and views, several at once. Tables that were dropped and cannot come back have
    no files. Rows that cannot be read are left out.
    """
    of_delta = _look(world, _delta_tables(world), lambda head: _find_delta(world, head), [])
    unknown = list[str]()
    reader = CatalogReader(world)
    entries = _iceberg_entries(world, reader, unknown)
    of_iceberg = _look(world, entries, lambda entry: _find_iceberg(world, reader, entry), unknown)
    return FolderReport(
        of_delta.looked + of_iceberg.looked,
        of_delta.left + of_iceberg.left,
        of_delta.all_counted and of_iceberg.all_counted,
        of_delta.gone + of_iceberg.gone,
        of_delta.unknown + of_iceberg.unknown,
        of_delta.behind + of_iceberg.behind,
    )


def _look(world: World, items: Iterable[T], find: Callable[[T], Finding | None], unknown: list[str]) -> FolderReport:
    """Looks at the items of one format, and counts the others; adds errors to ``unknown``."""
    ends_ms = world.clock.now_ms() + LONGEST_MS
    looked = 0
    left = 0
    all_counted = True
    gone = list[Gone]()
    behind = list[Behind]()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="folders") as threads:
        for batch in in_batches(items, _BATCH):
            over = left or world.clock.now_ms() >= ends_ms
            some = () if over else batch[: TABLES - looked]
            looked += len(some)
            left += len(batch) - len(some)
            if over and world.clock.now_ms() >= ends_ms + COUNT_MS:
                all_counted = False
                break
            for found in threads.map(find, some):
                if isinstance(found, str):
                    unknown.append(found)
                elif isinstance(found, Behind):
                    behind.append(found)
                elif found is not None:
                    gone.append(found)
    return FolderReport(looked, left, all_counted, tuple(gone), tuple(unknown), tuple(behind))


# -- Delta -------------------------------------------------------------------------------------------------------------


def _delta_tables(world: World) -> Iterator[TableHead]:
    heads = parse_rows(TableHead, world.refs.scan(TableHead.kind), [])
    return (head for head in heads if not gone_for_good(head))


def _find_delta(world: World, head: TableHead) -> Finding | None:
    """Returns the table if its log is not there, or goes on after the latest version; else None,
    and the error's text where that is not known."""
    try:
        storage = world.storages.open(head.location)
        if storage.stat(published_path(head.floor)) is None and folder_fault(storage, head.floor) is not None:
            now = _table_now(world, head)
            return None if now is None else Gone(head.name, head.location)
        following = published_path(head.latest + 1)
        if head.state != ACTIVE or storage.stat(following) is None:
            return None
        now = _table_now(world, head)  # a commit may have been ratified and published meanwhile
        return None if now is None or now.latest != head.latest else Behind(head.name, following)
    except TurnstileError as error:
        return f"{head.name}: {error.message}"


def _table_now(world: World, head: TableHead) -> TableHead | None:
    """The HEAD as it is now; None if the table is not where it was: its files may have been removed
    with it meanwhile."""
    row = world.refs.read(head.key)
    now = None if row is None else TableHead.from_row(row)
    return None if now is None or now.location != head.location or gone_for_good(now) else now


# -- Iceberg -----------------------------------------------------------------------------------------------------------


class _Entry(msgspec.Struct, frozen=True):
    """A table or view in the tree of a catalog, by the id of its obj."""

    tree: Tree
    path: Path
    obj: str

    @property
    def name(self) -> str:
        return dotted_name(self.tree.catalog, *self.path)


def _iceberg_entries(world: World, reader: CatalogReader, unknown: list[str]) -> Iterator[_Entry]:
    """Yields Iceberg's tables and views of all catalogs; adds the errors of trees that cannot be
    read to ``unknown``."""
    for row in world.refs.scan(CatalogHead.kind):
        try:
            head = parse_row(CatalogHead, row, [])
            if head is None:
                continue
            tree = reader.unauthorized_at(head.name, row)
            for key, entry in tree.subtree(()):
                if entry.kind in ICEBERG_KINDS:
                    yield _Entry(tree, path_of(key), entry.obj)
        except TurnstileError as error:
            unknown.append(f"catalog {str(row['key']).rpartition('/')[2]}: {error.message}")


def _find_iceberg(world: World, reader: CatalogReader, entry: _Entry) -> Finding | None:
    """Returns the table or view if its metadata file is not there, or later ones are; else None,
    and the error's text where that is not known."""
    try:
        entity = reader.store.entity(entry.tree.catalog, entry.obj)
        assert isinstance(entity, IcebergTable | IcebergView)
        folder, _, name = entity.metadata.rpartition("/")
        if world.storages.open(folder).stat(name) is None:
            return Gone(entry.name, entity.metadata, is_iceberg=True) if _is_present(reader, entry) else None
        return _find_later(world, reader, entry, entity)
    except TurnstileError as error:
        return f"{entry.name}: {error.message}"


def _find_later(world: World, reader: CatalogReader, entry: _Entry, entity: IcebergEntity) -> Behind | None:
    """Returns the table or view if it has a later metadata file that no attempt of now has
    written."""
    following = later_file(world.storages, entity, 1)
    if following is None or world.clock.now_ms() - following.modified_ms < ATTEMPT_MS:
        return None
    if not _is_present(reader, entry) or was_reset_since(reader, entry.tree.catalog, following.modified_ms):
        return None
    certain = later_file(world.storages, entity, UNKNOWN_BASE) is not None
    return Behind(entry.name, following.path, is_iceberg=True, certain=certain)


def _is_present(reader: CatalogReader, entry: _Entry) -> bool:
    """Whether the entry is still in its catalog: a commit may have replaced its file meanwhile."""
    try:
        now = reader.current(entry.tree.catalog).find(entry.path)
    except NotFound:
        return False
    return now is not None and now.obj == entry.obj


def common_root(locations: Iterable[str]) -> str:
    """The deepest folder above all locations; empty where there is none."""
    above = [ancestors(location) for location in locations]
    common = ""
    for level in zip(*above, strict=False):
        if len(set(level)) > 1:
            break
        common = level[0]
    return common
