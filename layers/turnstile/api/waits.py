"""The number of requests that may wait for other work: a limit for all, and a share of it for each
principal (I12)."""

from __future__ import annotations

import threading
from collections import Counter


class Waits:
    """Counts requests that wait. Safe for threads."""

    def __init__(self, most: int, each: int) -> None:
        """
        Args:
            most: requests that wait at once.
            each: how many of them may be of one principal.
        """
        self._most = most
        self._each = each
        self._mutex = threading.Lock()
        self._waiting = Counter[str]()

    def begin(self, principal: str) -> bool:
        """Counts a request of the principal, which has to ``end``; returns False, and counts none,
        where it may not wait."""
        with self._mutex:
            if self._waiting.total() >= self._most or self._waiting[principal] >= self._each:
                return False
            self._waiting[principal] += 1
        return True

    def end(self, principal: str) -> None:
        """Counts the request no more."""
        with self._mutex:
            self._waiting[principal] -= 1
            if self._waiting[principal] <= 0:
                del self._waiting[principal]
