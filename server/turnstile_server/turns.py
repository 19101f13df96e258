"""Publish scheduling: a changed table has a turn at once, then pauses."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

IDLE_S: Final = 0.5
REST_S: Final = 0.1
"""The pause of a table after a turn, unless it changes often. Commits that follow each other
closely are published together, which costs a third of publishing each alone."""
REST_CHANGES: Final = 32
"""Changes that end the rest: far fewer than a HEAD can carry unpublished."""

log = logging.getLogger("turnstile.background")


@dataclass
class _Turn:
    """A table that changed, has its turn, or rests: ``changes`` since its last turn began."""

    changes: int = 0
    running: bool = False
    rests_until_s: float = 0.0


class Turns:
    """Turns of tables on a pool of threads. A table has one at a time; after it, it rests for
    ``REST_S``, or until it has changed ``REST_CHANGES`` times. A table that rests no longer has a
    turn as soon as it changes.
    """

    def __init__(self, run: Callable[[str], None], workers: int) -> None:
        self._run = run
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="publish")
        self._mutex = threading.Lock()
        self._tables: dict[str, _Turn] = {}

    def add(self, table_id: str, changes: int = 1) -> None:
        """Notes that a table changed; its turn comes by ``begin``."""
        with self._mutex:
            self._tables.setdefault(table_id, _Turn()).changes += changes

    def begin(self) -> float:
        """Begins the turns that are due; returns after how many seconds it has to be called again
        at the latest."""
        now_s = time.monotonic()
        wait_s = IDLE_S
        with self._mutex:
            for table_id, turn in list(self._tables.items()):
                if turn.running:
                    wait_s = min(wait_s, REST_S)
                elif turn.changes >= REST_CHANGES or (turn.changes and now_s >= turn.rests_until_s):
                    turn.running = True
                    turn.changes = 0
                    self._pool.submit(self._turn, table_id, turn)
                    wait_s = min(wait_s, REST_S)
                elif turn.changes:
                    wait_s = min(wait_s, turn.rests_until_s - now_s)
                elif now_s >= turn.rests_until_s:
                    del self._tables[table_id]
        return wait_s

    def idle(self) -> bool:
        """Returns whether every table that was added has had its turn."""
        with self._mutex:
            return not any(turn.running or turn.changes for turn in self._tables.values())

    def close(self) -> None:
        """Waits for the turns under way; the others do not begin."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _turn(self, table_id: str, turn: _Turn) -> None:
        try:
            self._run(table_id)
        except Exception:  # a table's own failure must not end the others' turns
            log.exception("table %s had no turn", table_id)
        with self._mutex:
            turn.running = False
            turn.rests_until_s = time.monotonic() + REST_S
