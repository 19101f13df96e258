"""Time that passes only while nobody has anything to do, so that a busy machine changes no figure.

Threads run one at a time, always the one whose waiting ends first. Computing takes no time; what takes time are requests
and pauses.
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from turnstile.catalog.retry import Line

T = TypeVar("T")
_BEGAN_MS: Final = 1_770_000_000_000


class VirtualTime:
    """A clock, a way to wait, and the threads that do; ``turnstile.store.ports.Clock`` as well."""

    def __init__(self) -> None:
        self._now, self._numbers = 0.0, itertools.count()
        self._waiting: list[tuple[float, int, threading.Event]] = []

    def seconds(self) -> float:
        """Since the beginning."""
        return self._now

    def now_ms(self) -> int:
        return _BEGAN_MS + int(self._now * 1000)

    def sleep(self, seconds: float) -> None:
        """Let others run for so long."""
        mine = threading.Event()
        self.wake(mine, seconds)
        self.wait(mine)

    def wake(self, one: threading.Event, seconds: float = 0.0) -> None:
        """Let the thread that waits for ``one`` go on after so long."""
        heapq.heappush(self._waiting, (self._now + seconds, next(self._numbers), one))

    def wait(self, mine: threading.Event) -> None:
        """Let others run until somebody wakes ``mine``."""
        self._next()
        mine.wait()

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Results of ``tasks``, each of which starts now in a thread of its own."""
        found: dict[int, T] = {}
        failed: list[BaseException] = []

        def one(number: int, task: Callable[[], T], start: threading.Event) -> None:
            start.wait()
            try:
                found[number] = task()
            except BaseException as error:
                failed.append(error)
            finally:
                self._next()

        threads = []
        for number, task in enumerate(tasks):
            start = threading.Event()
            threads.append(threading.Thread(target=one, args=(number, task, start)))
            threads[-1].start()
            self.wake(start)
        self._next()
        for thread in threads:
            thread.join()
        if failed:
            raise failed[0]
        return [found[number] for number in range(len(tasks))]

    def _next(self) -> None:
        if self._waiting:
            self._now, _, event = heapq.heappop(self._waiting)
            event.set()


class VirtualLine(Line):
    """``turns.Line`` in virtual time: first come, first served. Nobody's patience ends."""

    def __init__(self, time: VirtualTime) -> None:
        super().__init__()
        self._time, self._held = time, False
        self._queue: deque[threading.Event] = deque()

    @contextmanager
    def stand(self, catalog: str, patience_ms: int) -> Iterator[None]:
        if self._held:
            mine = threading.Event()
            self._queue.append(mine)
            self._time.wait(mine)
        self._held = True
        try:
            yield
        finally:
            if self._queue:
                self._time.wake(self._queue.popleft())  # still held: by whoever was woken
            else:
                self._held = False
