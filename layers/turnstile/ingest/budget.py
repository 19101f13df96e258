"""The memory of a process for the rows of requests (I12)."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

from turnstile.store.core.errors import Throttled
from turnstile.store.shares import Shares

_RETRY_MS: Final = 250


class ByteBudget(Shares):
    """Counts the bytes that requests keep in memory."""

    def share_of(self, principal: str) -> Share:
        """Returns the share of one request, with no bytes yet."""
        return Share(self, principal)


class Share:
    """The bytes of one request; given back at the end of the block."""

    def __init__(self, budget: ByteBudget, principal: str) -> None:
        self._budget = budget
        self._principal = principal
        self._size = 0

    def grow(self, size: int) -> None:
        """Makes it ``size`` bytes at least. Raises Throttled where they are too many."""
        more = size - self._size
        if more <= 0:
            return
        if not self._budget.begin(self._principal, more):
            text = "as many rows as the server takes at once are being added"
            raise Throttled(text, retry_after_ms=_RETRY_MS)
        self._size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._size:
            self._budget.end(self._principal, self._size)
