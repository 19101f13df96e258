"""Who goes first when many change one catalog.

Losing is not evenly spread: a large change takes longer than a small one, so on a busy catalog it finds the HEAD moved
every time; and whoever has just won has the newest tree and wins again. Two remedies, neither needed for safety:

* changes of one process stand in line, since only one of them can win at a time;
* a change that has lost for a good part of its time says so in the catalog's row, and the others hold back for a moment.
  They see it without a request: a refused swap returns the row, and a new change reads it anyway.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from turnstile.catalog.core.catalog_rows import CatalogHead, take_turn
from turnstile.store.core.writes import Row
from turnstile.store.world import World

HOLD_MS: Final = 1_000
"""How long others hold back at most, so that the crash of a change costs them no more."""

_LOOK_MS: Final = 60  # between looks of those who hold back
_LINES: Final = 64


class Line:
    """Changes of this process, one at a time a catalog. Waiting is bounded: past it everybody tries at once."""

    def __init__(self) -> None:
        self._locks = tuple(threading.Lock() for _ in range(_LINES))

    @contextmanager
    def stand(self, catalog: str, patience_ms: int) -> Iterator[None]:
        """Wait for those before, but no longer than ``patience_ms``."""
        lock = self._locks[hash(catalog) % _LINES]
        mine = lock.acquire(timeout=patience_ms / 1000)
        try:
            yield
        finally:
            if mine:
                lock.release()


class Turn:
    """One change's place among those of other processes."""

    look_ms = _LOOK_MS

    def __init__(self, world: World) -> None:
        self._world = world
        self.id = ""

    def others(self, row: Row | None) -> bool:
        """Whether another change has asked to go first. Nobody may ask for longer than ``HOLD_MS``: an end further away is
        that of a clock which is ahead, and would close the catalog for as long as it is."""
        if row is None or "turn" not in row:
            return False
        head, now = CatalogHead.from_row(row), self._world.clock.now_ms()
        return head.turn != self.id and now < head.turn_until <= now + HOLD_MS

    def ask(self, key: str) -> Row | None:
        """Ask to go first; the catalog's row after that, whether or not somebody else has asked before."""
        now = self._world.clock.now_ms()
        self.id = self.id or self._world.ids.uuid()
        return self._world.refs.write(take_turn(key, self.id, now + HOLD_MS, now)).row
