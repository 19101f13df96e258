"""The memory of a process for the rows of requests: a limit for all, and a share of it for each
principal (I12)."""

from __future__ import annotations

import threading
from collections import Counter
from types import TracebackType
from typing import Final, Self

from turnstile.store.core.errors import Throttled

_RETRY_MS: Final = 250


class ByteBudget:
    """Counts bytes that requests keep in memory. Safe for threads.

    Args:
        most: bytes of all requests at once.
        each: how many of them may be of one principal.
    """

    def __init__(self, most: int, each: int) -> None:
        self._most = most
        self._each = each
        self._mutex = threading.Lock()
        self._used = Counter[str]()

    def share_of(self, principal: str) -> Share:
        """Returns the share of one request, with no bytes yet."""
        return Share(self, principal)

    def take(self, principal: str, size: int) -> None:
        """Counts bytes. Raises Throttled, and counts none, where they are too many."""
        with self._mutex:
            if self._used.total() + size > self._most or self._used[principal] + size > self._each:
                text = "as many rows as the server takes at once are being added"
                raise Throttled(text, retry_after_ms=_RETRY_MS)
            self._used[principal] += size

    def give_back(self, principal: str, size: int) -> None:
        """Counts bytes no more."""
        with self._mutex:
            self._used[principal] -= size
            if self._used[principal] <= 0:
                del self._used[principal]


class Share:
    """The bytes of one request; given back at the end of the block."""

    def __init__(self, budget: ByteBudget, principal: str) -> None:
        self._budget = budget
        self._principal = principal
        self._size = 0

    def grow(self, size: int) -> None:
        """Makes it ``size`` bytes at least. Raises Throttled where they are too many."""
        more = size - self._size
        if more > 0:
            self._budget.take(self._principal, more)
            self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._size:
            self._budget.give_back(self._principal, self._size)
