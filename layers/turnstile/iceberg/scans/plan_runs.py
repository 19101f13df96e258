"""Plans that take longer than a client should wait for one answer: they go on in this process, and
their client polls (ADR 49).

    runs = PlanRuns()
    page = runs.result(plan_id, lambda: scans.resume(entity, plan_id))   # None: still in progress;
                                                                         ask again
    runs.cancel(plan_id)

A plan id holds the whole plan, so it is no state: a process that does not know it begins with it.
The cache here only saves work, and is bounded: plans in progress, and results that were not fetched
yet.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, Generic, TypeVar

from turnstile.store.core.errors import Throttled

WAIT_S: Final = 10.0
"""How long one request waits for its plan: clients' own limits are longer, and so is that of a
request on Lambda."""
RUNNING: Final = 4
"""Plans that are under way at once; others are put off."""
KEPT: Final = 32
"""The limit of cached plans, in progress or done. Beyond it the least recently used ones are
dropped."""

Page = TypeVar("Page")


class PlanRuns(Generic[Page]):
    """Plans under way. One per process; safe for threads."""

    def __init__(self, wait_s: float = WAIT_S, running: int = RUNNING) -> None:
        self._wait_s = wait_s
        self._running = running
        self._pool = ThreadPoolExecutor(running, thread_name_prefix="turnstile-plan")
        self._runs: OrderedDict[str, Future[Page]] = OrderedDict()
        self._lock = threading.Lock()

    def result(self, plan_id: str, plan: Callable[[], Page]) -> Page | None:
        """Returns the result of ``plan``, which is called unless it is in progress or done; None if
        it is still in progress after some seconds. Its errors are raised here. A result is returned
        once.

        Raises:
            Throttled: too many plans are in progress.
        """
        run = self._begin(plan_id, plan)
        try:
            page = run.result(self._wait_s)
        except TimeoutError:
            if run.done():  # the plan itself raised it
                self._forget(plan_id, run)
                raise
            return None
        except BaseException:
            self._forget(plan_id, run)
            raise
        self._forget(plan_id, run)
        return page

    def cancel(self, plan_id: str) -> None:
        """Has a plan forgotten, and not begun if it has not been. Nothing where it is not known."""
        with self._lock:
            run = self._runs.pop(plan_id, None)
        if run is not None:
            run.cancel()

    def _begin(self, plan_id: str, plan: Callable[[], Page]) -> Future[Page]:
        with self._lock:
            run = self._runs.get(plan_id)
            if run is None:
                if sum(not other.done() for other in self._runs.values()) >= self._running:
                    raise Throttled("too many large plans are under way", retry_after_ms=int(self._wait_s * 1000))
                run = self._runs[plan_id] = self._pool.submit(plan)
            self._runs.move_to_end(plan_id)
            for other in [id for id, each in self._runs.items() if each.done()][: max(0, len(self._runs) - KEPT)]:
                del self._runs[other]
            return run

    def _forget(self, plan_id: str, run: Future[Page]) -> None:
        with self._lock:
            if self._runs.get(plan_id) is run:
                del self._runs[plan_id]
