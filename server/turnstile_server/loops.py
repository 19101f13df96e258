"""Threads that do something again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("turnstile.background")


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
