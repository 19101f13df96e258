"""Publishing several tables, so that one which cannot be published does not delay the others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec

from turnstile.delta.core.head import RECOVERING, TableHead
from turnstile.delta.publish import Published, Publisher, TableUnread
from turnstile.store.batches import rows_between
from turnstile.store.core.errors import TurnstileError
from turnstile.store.core.writes import Row
from turnstile.store.ports import World


class Failed(msgspec.Struct, frozen=True):
    """A table about which nothing more is known than the error that ended its turn; ``unread``: not even its HEAD."""

    table_id: str
    type: str
    message: str
    unread: bool


class Round(msgspec.Struct, frozen=True):
    """What became of each table, in the order they were given; ``left`` had no turn before the time was up."""

    published: tuple[Published, ...]
    failed: tuple[Failed, ...]
    left: tuple[str, ...]

    @property
    def count(self) -> int:
        """Versions published."""
        return sum(one.count for one in self.published)

    @property
    def lag_ms(self) -> int:
        """How long the oldest version of all had waited."""
        return max((one.lag_ms for one in self.published), default=0)

    @property
    def behind(self) -> int:
        """Versions that still wait, in the tables that had a turn."""
        return sum(one.behind for one in self.published)

    @property
    def problems(self) -> tuple[Published, ...]:
        """Tables that could not be published further."""
        return tuple(one for one in self.published if one.problem is not None)

    @property
    def nothing_readable(self) -> bool:
        """Not one HEAD could be read."""
        return bool(self.failed) and not self.published and all(one.unread for one in self.failed)

    def totals(self) -> dict[str, int]:
        """Figures for a log line and for metrics: tables and versions, ``lag_ms`` in ms."""
        return {
            "tables": len(self.published) + len(self.failed) + len(self.left),
            "published": self.count,
            "behind": self.behind,
            "lag_ms": self.lag_ms,
            "failures": len(self.failed) + len(self.problems),
            "stuck": sum(one.state == "stuck" for one in self.published),
            "left": len(self.left),
        }

    def complaints(self) -> list[dict[str, object]]:
        """One entry for every table that could not be published further, with what is known of the cause."""
        told: list[dict[str, object]] = [msgspec.to_builtins(one) for one in self.failed]
        for one in self.problems:
            told.append({"table_id": one.table_id, "floor": one.floor, **msgspec.to_builtins(one.problem)})
        return told


class StoreUnreachable(TurnstileError):
    """No HEAD of the batch could be read, nor anything else: the fault is not the tables'."""


def publish_hinted(
    world: World, publisher: Publisher, table_ids: Iterable[str], *, until_ms: int, each_ms: int, workers: int = 8
) -> Round:
    """As ``publish_tables``, for hints that can be sent again when the store is at fault.

    Raises:
        StoreUnreachable: every table met it; nothing was done.
    """
    done = publish_tables(world, publisher, table_ids, until_ms=until_ms, each_ms=each_ms, workers=workers)
    if done.nothing_readable:
        try:
            world.refs.read(world.space.table("-"))  # a hot row may be throttled alone: ask for another
        except Exception as error:  # whatever the store's client raises
            raise StoreUnreachable(f"the store does not answer: {error}") from error
    return done


def publish_tables(
    world: World,
    publisher: Publisher,
    table_ids: Iterable[str],
    *,
    until_ms: int,
    each_ms: int,
    workers: int = 8,
) -> Round:
    """Publish each table once, in the given order, ``workers`` at a time.

    Args:
        until_ms: no table begins after it, and none begins another version.
        each_ms: longest turn of one table; what it leaves is for the next call.
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
        answers = [turn(table_id) for table_id in order]
    else:
        with ThreadPoolExecutor(min(workers, len(order))) as pool:
            answers = list(pool.map(turn, order))
    return Round(
        published=tuple(answer for answer in answers if isinstance(answer, Published)),
        failed=tuple(answer for answer in answers if isinstance(answer, Failed)),
        left=tuple(answer for answer in answers if isinstance(answer, str)),
    )


# -- sweep ------------------------------------------------------------------------------------------------------------
# The sweeper: every HEAD with something unpublished gets a turn, whatever became of its stream record (I11).
#
# It also is what retries: missing content that was late, a stuck table whose cause has been mended, a publisher that
# died at any step.


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
