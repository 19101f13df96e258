"""Looks whether the folders of Delta tables are where the store says: after a lake or a home was
moved, none is.

A look at one table is one request where the commit of its ``floor`` is there, and one listing more
where it is not (``delta.soundness.judge.folder_fault``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from turnstile.delta.core.head import TableHead, gone_for_good
from turnstile.delta.soundness.judge import folder_fault
from turnstile.store.core.errors import StorageFault, UnreadableRow
from turnstile.store.core.locations import ancestors
from turnstile.store.core.names import published_path
from turnstile.store.ports import World, in_batches

TABLES: Final = 1_000
"""How many tables are looked at, the first ones in the store's order."""

LONGEST_MS: Final = 10_000
"""After which time no further look begins."""

_THREADS: Final = 8


class Looked(msgspec.Struct, frozen=True):
    """The findings of a look at many tables.

    Attributes:
        looked: the number of tables.
        complete: whether there are no more.
        gone: tables without a folder, or without a published commit in it.
        unknown: the storage's errors for tables that it could not check.
    """

    looked: int
    complete: bool
    gone: tuple[TableHead, ...]
    unknown: tuple[str, ...]


def look(world: World) -> Looked:
    """Looks at the folders of up to ``TABLES`` tables, for ``LONGEST_MS`` at most, several at once.
    Tables that were dropped and cannot come back have none. Rows that cannot be read are left out.
    """
    ends_ms = world.clock.now_ms() + LONGEST_MS
    looked = 0
    gone = list[TableHead]()
    unknown = list[str]()
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="folders") as threads:
        for batch in in_batches(_with_folders(world), 4 * _THREADS):
            if looked >= TABLES or world.clock.now_ms() >= ends_ms:
                return Looked(looked, complete=False, gone=tuple(gone), unknown=tuple(unknown))
            heads = batch[: TABLES - looked]
            looked += len(heads)
            for head, found in zip(heads, threads.map(lambda head: _find_log(world, head), heads), strict=True):
                if isinstance(found, str):
                    unknown.append(found)
                elif not found and _is_same(world, head):
                    gone.append(head)
    return Looked(looked, complete=True, gone=tuple(gone), unknown=tuple(unknown))


def _with_folders(world: World) -> Iterator[TableHead]:
    for row in world.refs.scan("table"):
        try:
            head = TableHead.from_row(row)
        except UnreadableRow:  # reported with the tables
            continue
        if not gone_for_good(head):
            yield head


def _find_log(world: World, head: TableHead) -> bool | str:
    """Whether the table has a log; the storage's error if it is unknown."""
    try:
        storage = world.storages.open(head.location)
        return storage.stat(published_path(head.floor)) is not None or folder_fault(storage, head.floor) is None
    except StorageFault as error:
        return f"{head.name}: {error.message}"


def _is_same(world: World, head: TableHead) -> bool:
    """Whether the table is still there as it was: its files may have been removed with it
    meanwhile."""
    row = world.refs.read(head.key)
    if row is None:
        return False
    now = TableHead.from_row(row)
    return now.location == head.location and not gone_for_good(now)


def common_root(locations: Iterable[str]) -> str:
    """The deepest folder above all locations; empty where there is none."""
    above = [ancestors(location) for location in locations]
    common = ""
    for level in zip(*above, strict=False):
        if len(set(level)) > 1:
            break
        common = level[0]
    return common
