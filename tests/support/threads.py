"""Calls that start at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from turnstile.store.core.errors import TurnstileError

T = TypeVar("T")


WRITERS = 8
PATIENCE_S = 60.0
"""How long a thread is waited for: far more than it takes on a busy machine."""


def join(*threads: threading.Thread) -> None:
    """Waits for the ends of threads. Raises AssertionError if one goes on."""
    for thread in threads:
        thread.join(PATIENCE_S)
    assert [thread.name for thread in threads if thread.is_alive()] == []


def together(work: Callable[[int], T]) -> list[T]:
    """``work(0..7)`` in threads that start at the same moment."""
    barrier = Barrier(WRITERS)

    def one(writer: int) -> T:
        barrier.wait()
        return work(writer)

    with ThreadPoolExecutor(WRITERS) as pool:
        return list(pool.map(one, range(WRITERS)))


def at_once(calls: list[Callable[[], object]]) -> list[object]:
    """Results or refusals, in order; everything starts together."""
    barrier = threading.Barrier(len(calls))

    def one(call: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return call()
        except TurnstileError as refusal:
            return refusal

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


def elsewhere(do: Callable[[], T]) -> T:
    """What ``do`` returns, or raises, in another thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(do).result()
