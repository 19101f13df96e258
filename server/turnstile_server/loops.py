"""Threads that do something again and again."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("turnstile.background")


def start_loop(stop: threading.Event, first_s: float, every_s: float, run: Callable[[], None]) -> None:
    """Starts a thread that calls ``run`` after ``first_s``, and again and again ``every_s`` after its end, until ``stop`` is set."""

    def repeat() -> None:
        wait_s = first_s
        while not stop.wait(wait_s):
            try:
                run()
            except Exception:  # the next run may succeed
                log.exception("a run failed")
            wait_s = every_s

    threading.Thread(target=repeat, name=run.__name__, daemon=True).start()
