"""The sweeper: every HEAD with something unpublished gets a turn, whatever became of its stream record (I11).

It also is what retries: missing content that was late, a stuck table whose cause has been mended, a publisher that
died at any step.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from turnstile.delta.core.head import TableHead
from turnstile.delta.core.recover import RECOVERING
from turnstile.delta.publish import Publisher
from turnstile.delta.publish_many import Failed, Round, publish_tables
from turnstile.store.core.writes import Row
from turnstile.store.rounds import rows_between
from turnstile.store.world import World


class Swept(msgspec.Struct, frozen=True):
    """``tables`` HEADs looked at, ``unreadable`` rows that could not be parsed, ``round`` what became of the rest;
    ``complete`` False when time ended the look: the next one begins there."""

    tables: int
    unreadable: tuple[Failed, ...]
    round: Round
    complete: bool = True


class Sweeper:
    """Finds tables with ``floor < latest`` or ``pending``, or in a recovery that was begun, by a scan and publishes them,
    longest waiting first."""

    def __init__(self, world: World, publisher: Publisher) -> None:
        self._world, self._publisher = world, publisher
        self._after = ""  # the key behind which the next look begins: a hint, which a cold start forgets

    def sweep(self, *, until_ms: int, each_ms: int, workers: int = 8) -> Swept:
        """One pass. Stuck tables come last: they have had their turn before.

        Looking takes half of the time at most, the rest is for publishing what was found. The look may see rows as they
        were some seconds ago: it only chooses tables, whose HEADs are read again, and what it misses waits a minute.

        Args:
            until_ms, each_ms, workers: as for ``publish_tables``.
        """
        now = self._world.clock.now_ms()
        looking_until = now + (until_ms - now) // 2
        tables, last, complete = 0, "", True
        due: list[tuple[bool, int, str]] = []
        unreadable = []
        for row in self._rows():
            if tables and self._world.clock.now_ms() >= looking_until:
                complete = False
                break
            tables += 1
            last = row["key"]
            try:
                head = TableHead.from_row(row)
            except Exception as error:  # one damaged row must not hide the others
                unreadable.append(Failed(str(row.get("table_id")), "UnreadableHead", repr(error), unread=True))
                continue
            waits = head.floor < head.latest or head.pending is not None or head.state == RECOVERING
            if head.state != "dropped" and waits:
                due.append((head.state == "stuck", _waiting_since(head), head.table_id))
        self._after = "" if complete else last
        order = [table_id for _, _, table_id in sorted(due)]
        done = publish_tables(self._world, self._publisher, order, until_ms=until_ms, each_ms=each_ms, workers=workers)
        return Swept(tables, tuple(unreadable), done, complete)

    def _rows(self) -> Iterator[Row]:
        after, refs = self._after, self._world.refs
        yield from rows_between(refs, "table", after, stale=True)
        if after:
            yield from rows_between(refs, "table", upto=after, stale=True)


def _waiting_since(head: TableHead) -> int:
    """When the oldest unpublished commit was ratified (ms)."""
    waiting = head.tail[max(0, head.floor + 1 - head.tail_from) :]
    return waiting[0].ratified if waiting else head.changed_at
