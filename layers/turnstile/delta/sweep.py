"""Publishing many tables: the tables of a stream record, and in a sweep all tables with unpublished
commits (I11).

A table that cannot be published does not delay the others. The sweep covers lost stream records,
and it retries: missing content that was late, a stuck table after its cause is gone, a publisher
that died at any step. It looks at all HEADs, where that costs little, or at the noted ones and a
bounded number of others (``delta.core.attention``, decision 53).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Final

import msgspec

from turnstile.delta.attention import AttentionRow
from turnstile.delta.commits import is_large
from turnstile.delta.core.attention import Attention, Seen, next_part, note_of
from turnstile.delta.core.head import DROPPED, RECOVERING, STUCK, TableHead, tail_by_version
from turnstile.delta.publish import Published, Publisher, TableUnread
from turnstile.store.core.errors import TurnstileError, UnreadableRow
from turnstile.store.core.writes import Row
from turnstile.store.ports import World, rows_between

KEEP_EVERY: Final = 10
"""Parts after which their place is written down: a cold start repeats as many at most."""


class Failed(msgspec.Struct, frozen=True):
    """A table that failed in its turn; ``unread``: its HEAD could not even be read."""

    table_id: str
    type: str
    message: str
    unread: bool


class Round(msgspec.Struct, frozen=True):
    """The result for each table, in the given order; ``left`` had no turn before the time was
    up."""

    published: tuple[Published, ...]
    failed: tuple[Failed, ...]
    left: tuple[str, ...]

    @property
    def count(self) -> int:
        return sum(table.count for table in self.published)

    @property
    def lag_ms(self) -> int:
        """How long the oldest version of all had waited."""
        return max((table.lag_ms for table in self.published), default=0)

    @property
    def behind(self) -> int:
        """Versions that still wait, in the tables that had a turn."""
        return sum(table.behind for table in self.published)

    @property
    def problems(self) -> tuple[Published, ...]:
        """Tables that could not be published further."""
        return tuple(table for table in self.published if table.problem is not None)

    @property
    def nothing_readable(self) -> bool:
        return bool(self.failed) and not self.published and all(table.unread for table in self.failed)

    def totals(self) -> dict[str, int]:
        """Figures for a log line and for metrics: tables and versions, ``lag_ms`` in ms."""
        return {
            "tables": len(self.published) + len(self.failed) + len(self.left),
            "published": self.count,
            "behind": self.behind,
            "lag_ms": self.lag_ms,
            "failures": len(self.failed) + len(self.problems),
            "stuck": sum(table.state == STUCK for table in self.published),
            "left": len(self.left),
        }

    def tables_to_revisit(self, mark: str) -> frozenset[str]:
        """The tables that have to be looked at again without a stream record that says so, as
        notes; ``mark`` is one that no other note has (``attention.note_of``)."""
        tried = {
            note_of(table.table_id, str(table.latest))
            for table in self.published
            if table.problem is not None or table.behind or table.state == RECOVERING
        }
        return frozenset(
            tried | {note_of(table_id, mark) for table_id in (*self.left, *(f.table_id for f in self.failed))}
        )

    def complaints(self) -> list[dict[str, object]]:
        """One entry for every table that could not be published further, with the known facts about
        the cause."""
        failed: list[dict[str, object]] = [msgspec.to_builtins(table) for table in self.failed]
        return failed + [
            {"table_id": table.table_id, "floor": table.floor, **msgspec.to_builtins(table.problem)}
            for table in self.problems
        ]


class StoreUnreachable(TurnstileError):
    """No HEAD of the batch could be read, nor any other row: the fault is the store's."""


def publish_hinted(
    world: World, publisher: Publisher, table_ids: Iterable[str], *, until_ms: int, each_ms: int, workers: int = 8
) -> Round:
    """As ``publish_tables``, for hints that can be sent again: raises StoreUnreachable when no HEAD
    could be read."""
    round = publish_tables(world, publisher, table_ids, until_ms=until_ms, each_ms=each_ms, workers=workers)
    if round.nothing_readable:
        try:
            world.refs.read(world.space.table("-"))  # a hot row may be throttled alone: ask for another
        except Exception as error:  # whatever the store's client raises
            raise StoreUnreachable(f"the store does not answer: {error}") from error
    return round


def publish_tables(
    world: World, publisher: Publisher, table_ids: Iterable[str], *, until_ms: int, each_ms: int, workers: int = 8
) -> Round:
    """Publishes each table once, in the given order, ``workers`` at a time.

    Args:
        until_ms: no table begins after it, and none begins another version.
        each_ms: longest turn of one table; the rest is for the next call.
    """

    def turn(table_id: str) -> Published | Failed | str:
        now = world.clock.now_ms()
        if now >= until_ms:
            return table_id
        try:
            return publisher.publish(table_id, until_ms=min(until_ms, now + each_ms))
        except Exception as error:  # a table's own failure, whatever it is, must not end the others' turn
            kind = getattr(error, "type", type(error).__name__)
            return Failed(table_id, kind, str(error), unread=isinstance(error, TableUnread))

    order = list(dict.fromkeys(table_ids))
    if len(order) <= 1 or workers <= 1:
        results = [turn(table_id) for table_id in order]
    else:
        with ThreadPoolExecutor(min(workers, len(order))) as pool:
            results = list(pool.map(turn, order))
    return Round(
        published=tuple(result for result in results if isinstance(result, Published)),
        failed=tuple(result for result in results if isinstance(result, Failed)),
        left=tuple(result for result in results if isinstance(result, str)),
    )


class Swept(msgspec.Struct, frozen=True):
    """``tables`` HEADs looked at; ``unreadable`` rows that could not be parsed, that of the work
    list (without a table) among them; ``round`` the results of the others; ``complete`` False when
    time ended the scan: the next one begins there.
    """

    tables: int
    unreadable: tuple[Failed, ...]
    round: Round
    complete: bool = True


class _Look:
    """The HEADs of a sweep, and which of them wait for something: with ``floor < latest`` or
    ``pending``, in a recovery that was begun, or with an undecided entry."""

    def __init__(self, failed: frozenset[str]) -> None:
        self._failed = failed
        self.tables = set[str]()
        self.unreadable = list[Failed]()
        self.due: dict[bool, list[tuple[bool, int, str]]] = {False: [], True: []}  # by whether large commits wait

    def at(self, row: Row) -> None:
        if row["key"] in self.tables:
            return
        self.tables.add(row["key"])
        try:
            head = TableHead.from_row(row)
        except Exception as error:  # one damaged row must not hide the others
            table_id = str(row["key"]).rpartition("/")[2]
            self.unreadable.append(Failed(table_id, "UnreadableHead", str(error), unread=True))
            return
        waits = head.floor < head.latest or head.pending is not None or head.state == RECOVERING
        if head.state != DROPPED and (waits or head.undecided):
            last_turn = head.state == STUCK or head.table_id in self._failed
            self.due[any(map(is_large, tail_by_version(head)))].append((last_turn, _waiting_since(head), head.table_id))

    def report_list(self, error: UnreadableRow) -> None:
        """Reports that the row of the work list is damaged, once."""
        failed = Failed("", "UnreadableRow", error.message, unread=True)
        if failed not in self.unreadable:
            self.unreadable.append(failed)


class Sweeper:
    """Finds tables with unpublished commits, and publishes them, longest waiting first. Its memory
    of the last pass holds hints, which a cold start forgets.

    Args:
        release: the version of this code, which the first sweep records in the store.
    """

    def __init__(self, world: World, publisher: Publisher, release: str = "") -> None:
        self._world = world
        self._publisher = publisher
        self._attention = AttentionRow(world)
        self._release = release  # not yet recorded; empty: it is, or is not to be
        self._after = ""  # the key after which the next scan begins
        self._failed = frozenset[str]()  # the tables that the last pass could not publish
        self._part_after: str | None = None  # the same of parts; None: the row says it
        self._parts = 0

    def sweep(self, *, until_ms: int, each_ms: int, workers: int = 8) -> Swept:
        """Looks at all HEADs. Stuck tables come last, and tables that failed in the pass before:
        they have had their turn. Tables with large commits have a quarter of the workers of their
        own, and the others the rest: neither waits for the other, and few large commits are copied
        at once.

        The scan takes half of the time at most, the rest is for publishing. It may see rows as they
        were some seconds ago: it only chooses tables, and reads their HEADs again; tables that it
        misses wait a minute.
        """
        look = _Look(self._failed)
        if self._release:
            self._record_release(self._read_attention(look))
        return self._sweep_all(look, until_ms=until_ms, each_ms=each_ms, workers=workers)

    def sweep_part(self, *, until_ms: int, each_ms: int, rows_max: int, workers: int = 8) -> Swept:
        """As ``sweep``, of the noted tables, and besides of the next ``rows_max`` rows of refs; or
        of all HEADs, after a request for a full pass. So its reads do not grow with the number of
        tables. Where the row of the list is damaged, it looks at all HEADs, as ``sweep`` does.
        """
        look = _Look(self._failed)
        before = self._read_attention(look)
        self._record_release(before)
        if before is None:
            return self._sweep_all(look, until_ms=until_ms, each_ms=each_ms, workers=workers)
        part = next_part(before, self._part_after)
        noted = self._world.refs.read_many([self._world.space.table(table_id) for table_id in before.tables()])
        for row in noted.values():
            look.at(row)
        if part.is_full:
            rows = rows_between(self._world.refs, "table", part.after, stale=True)
            last, complete = self._scan(look, rows, until_ms)
            last = "" if complete else last
        else:
            found, last = self._world.refs.scan_part(("table",), after=part.after, limit=rows_max)
            for row in found:
                look.at(row)
            complete = True
            self._part_after = last
        swept = self._swept(look, complete=complete, until_ms=until_ms, each_ms=each_ms, workers=workers)
        mark = self._world.ids.uuid()[:8]
        unread = {note_of(row.table_id, mark) for row in look.unreadable}
        seen = Seen(last, swept.round.tables_to_revisit(mark) | unread)
        self._parts += 1
        self._attention.settle(before, part, seen, keep_place=self._parts % KEEP_EVERY == 0)
        return swept

    def looked_to(self, key: str) -> None:
        """Has the next ``sweep_part`` look behind ``key``, unless a full pass is due."""
        self._part_after = key

    def want_full_pass(self) -> None:
        """Has the following ``sweep_part`` look at all HEADs once."""
        self._attention.want_full_pass()

    def _record_release(self, before: Attention | None) -> None:
        """The first sweep of a process records which version of the code works on this store."""
        if self._release and before is not None:
            day = datetime.fromtimestamp(self._world.clock.now_ms() / 1000, UTC).date().isoformat()
            self._attention.add_release(before, self._release, day)
            self._release = ""

    def _read_attention(self, look: _Look) -> Attention | None:
        """The work list; None for a damaged row, which ``look`` reports."""
        try:
            return self._attention.read()
        except UnreadableRow as error:
            look.report_list(error)
            return None

    def _sweep_all(self, look: _Look, *, until_ms: int, each_ms: int, workers: int) -> Swept:
        last, complete = self._scan(look, self._rows(), until_ms)
        self._after = "" if complete else last
        return self._swept(look, complete=complete, until_ms=until_ms, each_ms=each_ms, workers=workers)

    def _scan(self, look: _Look, rows: Iterable[Row], until_ms: int) -> tuple[str, bool]:
        """Looks at ``rows`` for half of the time; returns the last key, and whether it was at all
        of them."""
        now = self._world.clock.now_ms()
        scan_until = now + (until_ms - now) // 2
        last = ""
        for row in rows:
            if last and self._world.clock.now_ms() >= scan_until:
                return last, False
            look.at(row)
            last = row["key"]
        return last, True

    def _swept(self, look: _Look, *, complete: bool, until_ms: int, each_ms: int, workers: int) -> Swept:
        round = self._publish(look.due[False], look.due[True], until_ms=until_ms, each_ms=each_ms, workers=workers)
        self._failed = frozenset(one.table_id for some in (round.problems, round.failed) for one in some)
        return Swept(len(look.tables), tuple(look.unreadable), round, complete)

    def _publish(
        self,
        usual: list[tuple[bool, int, str]],
        large: list[tuple[bool, int, str]],
        *,
        until_ms: int,
        each_ms: int,
        workers: int,
    ) -> Round:
        def lane(due: list[tuple[bool, int, str]], workers: int) -> Round:
            ids = [table_id for _, _, table_id in sorted(due)]
            return publish_tables(
                self._world, self._publisher, ids, until_ms=until_ms, each_ms=each_ms, workers=workers
            )

        if workers <= 1 or not large:
            return lane(usual + large, workers)
        few = max(1, workers // 4)
        with ThreadPoolExecutor(1) as pool:
            aside = pool.submit(lane, large, few)
            first = lane(usual, workers - few)
            second = aside.result()
        return Round(first.published + second.published, first.failed + second.failed, first.left + second.left)

    def _rows(self) -> Iterator[Row]:
        after = self._after
        refs = self._world.refs
        yield from rows_between(refs, "table", after, stale=True)
        if after:
            yield from rows_between(refs, "table", upto=after, stale=True)


def _waiting_since(head: TableHead) -> int:
    """When the oldest unpublished commit was ratified (ms)."""
    waiting = head.tail[max(0, head.floor + 1 - head.tail_from) :]
    return waiting[0].ratified_ms if waiting else head.changed_at
