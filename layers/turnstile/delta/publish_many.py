"""Publishing several tables, so that one which cannot be published does not delay the others."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import msgspec

from turnstile.delta.publish import Published, Publisher, TableUnread
from turnstile.store.core.errors import TurnstileError
from turnstile.store.world import World


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
