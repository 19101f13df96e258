"""Files of commits and of creates that came to nothing, and of commits that were published (design
2.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Final

from turnstile.catalog.awaited import AwaitedDrops
from turnstile.catalog.changes.commit import Committer
from turnstile.catalog.core.rows import COLLECTING, erase_collected, mark_collecting
from turnstile.catalog.reader import CatalogReader
from turnstile.delta.core.head import TableHead, tail_by_version
from turnstile.gc.core import Item, StagedFile, due, staged_candidates, staged_since, version_of
from turnstile.gc.scanner import (
    FILES_MAX,
    Batch,
    GcContext,
    NotNow,
    Problem,
    Scanner,
    batches,
    bytes_of,
    ids_in,
    left_overs,
    left_tail,
)
from turnstile.store.core.names import LOG, STAGED, published_path, staged_path
from turnstile.store.core.rows import METADATA
from turnstile.store.core.writes import Row
from turnstile.store.ports import LogStorage, Rejected

_PUBLISHED: Final = re.compile(r"(\d{20})\.json")
OTHERS_FILES: Final = ("dropped", "recovering", "pinned")
"""States in which a table's staged files are not collected here: a dropped table's go with the
table, a restored table's floor may be older than its log, and files at a clone's location are its
source's.
"""


class StagedFileScanner(Scanner):
    """Kind ``staged``.

    - Collects: staged files at or below the floor, losers and published winners alike; and remains
      of interrupted writes on a file system (``left_overs``).
    - Unreachable since: the version was decided; a winner since it left the tail.
    - Announced by: the floor, which was raised before and never falls.
    - A crash leaves: fewer files.
    """

    row_kind = "table"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        head = TableHead.from_row(row)
        if head.state in OTHERS_FILES:
            return
        storage = self._world.storages.open(head.location)
        yield from left_overs(self._context, "staged", head.table_id, storage, now)
        stats = storage.list(STAGED)
        files = (StagedFile(stat.path.removeprefix(STAGED), stat.size, stat.modified_ms) for stat in stats)
        candidates = list(islice(staged_candidates(files, head.floor, _carried_names(head)), FILES_MAX))
        if not candidates:
            return
        published = _published_times(storage, min(version_of(file) or 0 for file in candidates))
        items, undecided = self._due(head, candidates, published, now)
        if undecided:
            names = ", ".join(undecided[:3])
            yield Problem("staged", head.table_id, f"kept, because it is not known when they were decided: {names}")
        yield from batches(items, partial(self._remove, head, storage))

    def _due(
        self, head: TableHead, candidates: list[StagedFile], published: dict[int, int], now: int
    ) -> tuple[list[Item | None], list[str]]:
        grace = self._context.grace.staged_ms
        decided = [(file, staged_since(file, published, None)) for file in candidates]
        undecided = [file.name for file, since in decided if since is None]
        old = [file for file, since in decided if since is not None and now - since >= grace]
        left = left_tail(self._world, head.catalog, head.table_id, [file.name for file in old])
        items = []
        for file in old:
            since = staged_since(file, published, left.get(file.name)) or now
            id = f"{head.table_id}/{file.name}"
            items.append(due("staged", id, file.size_bytes, since=since, now=now, grace=grace))
        return items, undecided

    def _remove(self, head: TableHead, storage: LogStorage, items: tuple[Item, ...]) -> None:
        """Removes the files that the present HEAD still lets go: a name at or below its floor that
        its tail does not carry cannot come back (``staged_candidates``)."""
        row = self._world.refs.read(head.key)
        present = TableHead.from_row(row) if row is not None else None
        if present is None or present.state in OTHERS_FILES:
            raise NotNow("the table is dropped, or being recovered")
        names = list(ids_in(items, head.table_id))
        files = [StagedFile(name, item.bytes, 0) for name, item in zip(names, items, strict=True)]
        if len(list(staged_candidates(files, present.floor, _carried_names(present)))) < len(files):
            raise NotNow("the table is behind where it was, or carries one of these commits now")
        self._context.delete_files(storage, map(staged_path, names))


def _carried_names(head: TableHead) -> frozenset[str]:
    """The staged names of the commits in the tail."""
    return frozenset(place.name for place in tail_by_version(head))


def _published_times(storage: LogStorage, first: int) -> dict[int, int]:
    """version -> modification time (ms) of the log's files from ``first`` on, in ascending
    order."""
    return {
        int(match[1]): stat.modified_ms
        for stat in storage.list(LOG, after=published_path(first - 1) if first > 0 else "")
        if (match := _PUBLISHED.fullmatch(stat.path.removeprefix(LOG)))
    }


class StagingTableScanner(Scanner):
    """Kind ``staging``.

    - Collects: files, metadata objs and row of a staging table that was never registered, or never
      got version 0; then its name too.
    - Unreachable since: the row was created.
    - Announced by: the row's state. A registration needs the row to be open and consumes it in its
      own transaction, so whichever comes first wins: a registration before the announcement leaves
      no row, one after it is refused.
    - A crash leaves: the announced row, which the next run takes up without waiting.
    """

    row_kind = "staging"

    def __init__(self, context: GcContext) -> None:
        super().__init__(context)
        self._committer = Committer(self._world, CatalogReader(self._world), pause=context.pause)

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        if now - row["created"] < self._context.grace.staging_ms and row["state"] != COLLECTING:
            return
        size = bytes_of(self._world.storages.open(row["location"]))
        item = due("staging", row["table_id"], size, since=row["created"], now=now, grace=0)
        if item is not None:
            yield Batch((item,), partial(self._remove, row))

    def _remove(self, row: Row) -> None:
        context = self._context
        world = self._world
        if isinstance(world.refs.write(mark_collecting(row)), Rejected):
            raise NotNow("it was registered meanwhile")
        context.faults("collect.marked")
        if world.refs.read(world.space.external(row["table_id"])) is not None:
            AwaitedDrops(world, self._committer).forget(row["catalog"], row["table_id"])
            context.faults("collect.forgotten")
        context.delete_all_files(world.storages.open(row["location"]), partial(self._require_unregistered, row))
        context.faults("collect.emptied")
        objs = world.objs.list(world.space.objs(row["catalog"]), METADATA.id(f"{row['table_id']}/"))
        context.delete_objs(row["catalog"], (obj.id for obj in objs))
        world.refs.write(erase_collected(row))

    def _require_unregistered(self, row: Row) -> None:
        """Raises NotNow if a table exists under this uuid, or its location has an owner."""
        space = self._world.space
        others = self._world.refs.read_many([space.location(row["location"]), space.table(row["table_id"])])
        if others:
            raise NotNow(f"{', '.join(others)} exists")
