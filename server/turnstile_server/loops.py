"""Threads that do something again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("turnstile.background")


class EndingThread:
    """A thread that waits for ``_changed``, and ends when it is closed. A subclass has its work in
    ``_run``, and starts it at the end of its ``__init__``."""

    def __init__(self, name: str, close_s: float) -> None:
        """``close_s``: how long ``close`` waits for the thread."""
        self._close_s = close_s
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def close(self) -> None:
        """Ends the thread after its running work; the rest is done after the next start."""
        self._stop.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(self._close_s)

    def _run(self) -> None:
        raise NotImplementedError


def start_loop(stop: threading.Event, first_s: float, every_s: float, run: Callable[[], float | None]) -> None:
    """Starts a thread that calls ``run`` after ``first_s``, and again and again ``every_s`` after
    its end, until ``stop`` is set. Where ``run`` returns seconds, it is called again after these
    instead.
    """

    def repeat() -> None:
        wait_s = first_s
        while not stop.wait(wait_s):
            wait_s = every_s
            try:
                again_s = run()
            except Exception:  # the next run may succeed
                log.exception("a run failed")
            else:
                wait_s = every_s if again_s is None else again_s

    threading.Thread(target=repeat, name=run.__name__, daemon=True).start()
