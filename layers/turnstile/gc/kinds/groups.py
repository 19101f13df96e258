"""Rows of large groups of commits that were decided long ago (ADR 24)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from turnstile.delta.core.head import TableHead
from turnstile.delta.core.undecided import ABORTED, OPEN, OPEN_MS, GroupRow, decision_writes, forget_group, undecided_of
from turnstile.delta.undecided import settle
from turnstile.gc.core import due
from turnstile.gc.scanner import Batch, NotNow, Problem, Scanner
from turnstile.store.core.terms import latest_ms
from turnstile.store.core.writes import Row
from turnstile.store.ports import BATCH_GET_MAX, Rejected, in_batches


class GroupScanner(Scanner):
    """Kind ``groups``.

    - Collects: rows that decided large groups.
    - Unreachable since: the decision; of an undecided group, its deadline. Until the grace is over
      a row answers repetitions of the group (I3); afterwards the entries in its tables do, for as
      long as identities live.
    - Announced by: nothing. Entries that HEADs still have of the group are folded or removed first,
      and while one has any, the row stays (I8, I10): a missing row means that the group was
      aborted.
    - A crash leaves: the row or none.
    """

    row_kind = "group"

    def scan(self, row: Row, now: int) -> Iterator[Batch | Problem]:
        group = GroupRow.from_row(row)
        grace = self._context.grace.refs_ms
        since = group.changed_at
        if group.state == OPEN:  # its deadline, where a right clock can have written it
            since = now - grace if group.deadline > latest_ms(now, OPEN_MS) else group.deadline
        ref = row["key"].removeprefix(self._world.space.group(""))
        item = due("groups", ref, len(group.tables), since=since, now=now, grace=grace)
        if item is not None:
            yield Batch((item,), partial(self._remove, ref))

    def _remove(self, ref: str) -> None:
        world = self._world
        key = world.space.group(ref)
        row = world.refs.read(key)
        if row is None:
            return
        group = GroupRow.from_row(row)
        if group.state == OPEN:
            world.refs.write(decision_writes(key, group.token, ABORTED, world.clock.now_ms()))
            raise NotNow("it was open until now")
        self._context.faults("collect.marked")
        for ids in in_batches(group.table_ids(), BATCH_GET_MAX):
            self._settle(ref, [world.space.table(id) for id in ids])
        self._context.faults("collect.emptied")
        if isinstance(world.refs.write(forget_group(group)), Rejected):
            raise NotNow("it was begun anew")

    def _settle(self, ref: str, keys: list[str]) -> None:
        """Resolves the entries of the group in these HEADs. Raises NotNow if one is left."""
        rows = self._world.refs.read_many(keys)
        heads = {key: TableHead.from_row(row) for key, row in rows.items()}
        own = {key: head for key, head in heads.items() if _is_of(head, ref)}
        if any(_is_of(head, ref) for head in settle(self._world, own).values()):
            raise NotNow("a table has an entry of it")


def _is_of(head: TableHead, ref: str) -> bool:
    entry = undecided_of(head)
    return entry is not None and entry.ref == ref
