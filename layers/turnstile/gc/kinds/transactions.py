"""The journal of transactions: entries whose end is over, entries that are settled, and the files
of aborted ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from turnstile.delta.core.head import TableHead
from turnstile.delta.core.journal_rows import (
    ABORTED,
    MOST_TTL_MS,
    OPEN,
    JournalRow,
    expire_entry,
    forget_entry,
    staged_name,
)
from turnstile.gc.core import Item, StagedFile, due, version_of
from turnstile.gc.kinds.staged import OTHERS_FILES
from turnstile.gc.scanner import Batch, NotNow, Problem, Scanner
from turnstile.store.core.names import staged_path
from turnstile.store.core.terms import is_over
from turnstile.store.core.writes import Row
from turnstile.store.ports import LogStorage, Rejected


class TransactionScanner(Scanner):
    """Kind ``transactions``.

    - Collects: entries of the journal; and of aborted transactions the staged files that were
      freed, at once.
    - Unreachable since: an open entry since its end, which aborts it; a settled one since it was
      settled: until the grace is over it answers late repetitions of the transaction (I3). A freed
      file since the abort, while its version is still to come: only the transaction proposes it.
      Later it is a file of kind ``staged``.
    - Announced by: the entry's state, a clause of the write that would ratify the transaction. A
      removed entry refuses too.
    - A crash leaves: an aborted entry, which the next run takes up; or fewer files.
    """

    row_kind = "transaction"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        entry = JournalRow.from_row(row)
        if entry.state == OPEN:
            since = min(entry.until, now) if is_over(entry.until, now, MOST_TTL_MS) else entry.until
            item = due("transactions", entry.id, 0, since=since, now=now, grace=0)
            if item is not None:
                yield Batch((item,), partial(self._expire, entry.key, now))
            return
        if entry.state == ABORTED:
            for freed in entry.freed:
                yield from self._files(*staged_name(freed), entry=entry, now=now)
        grace = self._context.grace.refs_ms
        item = due("transactions", entry.id, 0, since=entry.settled, now=now, grace=grace)
        if item is not None:
            yield Batch((item,), partial(self._forget, entry))

    def _expire(self, key: str, now: int) -> None:
        if isinstance(self._world.refs.write(expire_entry(key, now)), Rejected):
            raise NotNow("it was settled, or announced again")
        self._context.faults("collect.marked")

    def _forget(self, entry: JournalRow) -> None:
        if isinstance(self._world.refs.write(forget_entry(entry)), Rejected):
            raise NotNow("it is not what it was")
        self._context.faults("collect.forgotten")

    def _files(self, table_id: str, name: str, *, entry: JournalRow, now: int) -> Iterator[Batch]:
        storage = self._storage(table_id, name)
        stat = storage.stat(staged_path(name)) if storage is not None else None
        if stat is not None:
            item = Item("transactions", f"{table_id}/{name}", stat.size, entry.settled, now - entry.settled)
            yield Batch((item,), partial(self._remove, table_id, name))

    def _remove(self, table_id: str, name: str) -> None:
        storage = self._storage(table_id, name)
        if storage is None:
            raise NotNow("its version is decided")
        self._context.delete_files(storage, [staged_path(name)])

    def _storage(self, table_id: str, name: str) -> LogStorage | None:
        """Where a freed file is; None unless its version is still to come, in which nothing can
        have been ratified."""
        row = self._world.refs.read(self._world.space.table(table_id))
        head = TableHead.from_row(row) if row is not None else None
        version = version_of(StagedFile(name, 0, 0))
        if head is None or version is None or head.state in OTHERS_FILES or version <= head.latest:
            return None
        if head.undecided:  # a group that is not decided yet may have taken the file: the next run sees
            return None
        return self._world.storages.open(head.location)
