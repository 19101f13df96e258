"""Files of commits and of creates that came to nothing, and of commits that were published (design 2.6)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

from turnstile.catalog.core.rows import COLLECTING, erase_collected, mark_collecting
from turnstile.delta.core.head import TableHead, positioned
from turnstile.gc.core import Item, StagedFile, due, staged_candidates, staged_since, version_of
from turnstile.gc.scanner import Batch, NotNow, Problem, Scanner, batches, bytes_of, left_tail
from turnstile.store.core.locations import LOG, STAGED, published_path, staged_path
from turnstile.store.core.rows import METADATA
from turnstile.store.core.writes import Row
from turnstile.store.ports import LogStorage, Rejected

_PUBLISHED: Final = re.compile(r"(\d{20})\.json")
_OTHERS_FILES: Final = ("dropped", "recovering", "pinned")
"""States in which a table's staged files are not collected here: a dropped table's go with the table, a restored table's
floor may be older than its log, and those at a clone's location are its source's."""


class StagedFileScanner(Scanner):
    """Kind ``staged``.

    - Collects: staged files at or below the floor, losers and published winners alike.
    - Unreachable since: the version was decided; a winner since it left the tail.
    - Announced by: the floor, which was raised before and never falls.
    - A crash leaves: fewer files.
    """

    row_kind = "table"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        head = TableHead.from_row(row)
        if head.state in _OTHERS_FILES:
            return
        storage = self._context.world.storages.open(head.location)
        files = (
            StagedFile(stat.path.removeprefix(STAGED), stat.size, stat.modified_ms) for stat in storage.list(STAGED)
        )
        carried = frozenset(entry.name for entry in positioned(head))
        candidates = staged_candidates(files, head.floor, carried)
        if not candidates:
            return
        published = _published(storage, min(version_of(file) or 0 for file in candidates))
        items, undecided = self._due(head, candidates, published, now)
        if undecided:
            names = ", ".join(undecided[:3])
            yield Problem("staged", head.table_id, f"kept, because it is not known when they were decided: {names}")
        yield from batches(items, partial(self._remove, head, storage))

    def _due(
        self, head: TableHead, candidates: list[StagedFile], published: dict[int, int], now: int
    ) -> tuple[list[Item], list[str]]:
        """The candidates that are due, and names of those of which nothing is known."""
        grace = self._context.grace.staged_ms
        old, undecided = [], []
        for file in candidates:
            since = staged_since(file, published, None)
            if since is None:
                undecided.append(file.name)
            elif now - since >= grace:
                old.append(file)
        left = left_tail(self._context.world, head.catalog, head.table_id, [file.name for file in old])
        items = []
        for file in old:
            since = staged_since(file, published, left.get(file.name)) or now
            item = due("staged", f"{head.table_id}/{file.name}", file.size_bytes, since=since, now=now, grace=grace)
            if item is not None:
                items.append(item)
        return items, undecided

    def _remove(self, head: TableHead, storage: LogStorage, items: tuple[Item, ...]) -> None:
        row = self._context.world.refs.read(head.key)
        present = TableHead.from_row(row) if row is not None else None
        if present is None or present.state in _OTHERS_FILES or present.floor < head.floor:
            raise NotNow("the table is dropped, being recovered, or behind where it was")
        names = [item.id.removeprefix(f"{head.table_id}/") for item in items]
        self._context.delete_files(storage, map(staged_path, names))


def _published(storage: LogStorage, first: int) -> dict[int, int]:
    """version -> modification time (ms) of the log's files from ``first`` on."""
    times = {}
    for stat in storage.list(LOG, after=published_path(first - 1) if first > 0 else ""):
        match = _PUBLISHED.fullmatch(stat.path.removeprefix(LOG))
        if match:
            times[int(match[1])] = stat.modified_ms
    return times


class StagingTableScanner(Scanner):
    """Kind ``staging``.

    - Collects: staging tables that were never registered: their files, the metadata objs of a registration that failed
      half-way, the row.
    - Unreachable since: the row was created.
    - Announced by: the row's state. A registration needs the row to be open and consumes it in its own transaction, so
      whichever comes first wins: a registration before the announcement leaves no row, one after it is refused.
    - A crash leaves: the announced row, which the next run takes up without waiting.
    """

    row_kind = "staging"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        if now - row["created"] < self._context.grace.staging_ms and row["state"] != COLLECTING:
            return
        size = bytes_of(self._context.world.storages.open(row["location"]))
        item = due("staging", row["table_id"], size, since=row["created"], now=now, grace=0)
        if item is not None:
            yield Batch((item,), partial(self._remove, row))

    def _remove(self, row: Row) -> None:
        context, world = self._context, self._context.world
        if isinstance(world.refs.write(mark_collecting(row)), Rejected):
            raise NotNow("it was registered meanwhile")
        context.faults("collect.marked")
        context.delete_all_files(world.storages.open(row["location"]), partial(self._reason_to_stop, row))
        context.faults("collect.emptied")
        space = world.space.objs(row["catalog"])
        context.delete_objs(space, (obj.id for obj in world.objs.list(space, METADATA.id(f"{row['table_id']}/"))))
        world.refs.write(erase_collected(row))

    def _reason_to_stop(self, row: Row) -> str | None:
        """A table exists under this uuid, its location has an owner, or the time is up."""
        if self._context.time_is_up():
            return "the time is up"
        space = self._context.world.space
        others = self._context.world.refs.read_many([space.location(row["location"]), space.table(row["table_id"])])
        return f"{', '.join(others)} exists" if others else None
