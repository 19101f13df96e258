"""Publishing several tables, so that one which cannot be published does not delay the others."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from turnstile.ports import Clock
from turnstile.services.publish import Published, Publisher, TableUnread


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
        """Not one HEAD could be read: the store is at fault, not the tables."""
        return bool(self.failed) and not self.published and all(one.unread for one in self.failed)


def publish_tables(
    publisher: Publisher,
    clock: Clock,
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
        now = clock.now_ms()
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
