"""Limits of what the requests of a process use at once, with a share for each principal (I12)."""

from __future__ import annotations

import threading
from collections import Counter


class Shares:
    """Counts what requests use: their number, or their bytes. Safe for threads.

    Args:
        most: of all requests at once.
        each: how much of it may be one principal's.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._mutex = threading.Lock()
        self._used = Counter[str]()

    def begin(self, principal: str, amount: int = 1) -> bool:
        """Counts an amount for the principal, which has to ``end``; returns False, and counts
        nothing, where it would be too much."""
        with self._mutex:
            if self._used.total() + amount > self._most or self._used[principal] + amount > self._each:
                return False
            self._used[principal] += amount
        return True

    def end(self, principal: str, amount: int = 1) -> None:
        """Counts the amount no more."""
        with self._mutex:
            self._used[principal] -= amount
            if self._used[principal] <= 0:
                del self._used[principal]
