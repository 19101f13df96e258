"""Log lines during long calls: a call without an answer logs a line every few seconds on the logger
``turnstile_http``.

One thread watches all calls of the process, and sleeps while there are none; a call costs an entry
in a dict. The level is WARNING, which Python writes to stderr if no logging is configured.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

log = logging.getLogger("turnstile_http")
#: Between two lines, and before the first.
PAUSE_S = 2.5


@dataclass(slots=True)
class Wait:
    """An open call. ``problem``: why the last attempt failed."""

    what: str
    began_s: float
    logged_s: float
    problem: str = ""

    def line(self, now_s: float) -> str:
        """Returns the log line about the call."""
        reason = f": {self.problem}; it is tried again" if self.problem else ", no answer yet"
        return f"turnstile: waiting for {self.what} for {now_s - self.began_s:.0f} s{reason}"


class WaitReporter:
    """The open calls of a process, and the thread that logs them. Thread-safe."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        self._pause_s = pause_s
        self._open: dict[int, Wait] = {}  # by thread
        self._changed = threading.Condition()
        self._watching = False

    @contextmanager
    def of(self, what: str) -> Iterator[Wait]:
        """A context in which the thread waits for ``what``. A nested context belongs to the outer
        one."""
        me = threading.get_ident()
        outer = self._open.get(me)
        if outer is not None:
            yield outer
            return
        now_s = time.monotonic()
        wait = Wait(what, now_s, now_s)
        with self._changed:
            self._open[me] = wait
            if not self._watching:
                self._watching = True
                threading.Thread(target=self._watch, name="turnstile-waits", daemon=True).start()
            elif len(self._open) == 1:
                self._changed.notify()
        try:
            yield wait
        finally:
            with self._changed:
                self._open.pop(me, None)

    def due(self, now_s: float) -> list[str]:
        """Returns the due lines, and records that they are logged."""
        lines = []
        for wait in list(self._open.values()):
            if now_s - wait.logged_s >= self._pause_s:
                wait.logged_s = now_s
                lines.append(wait.line(now_s))
        return lines

    def _watch(self) -> None:
        while True:
            with self._changed:
                while not self._open:
                    self._changed.wait()
                next_s = min(wait.logged_s for wait in self._open.values()) + self._pause_s
                self._changed.wait(max(next_s - time.monotonic(), 0.05))
            for line in self.due(time.monotonic()):
                log.warning("%s", line)


WAIT_REPORTER = WaitReporter()
"""The reporter of this process."""
