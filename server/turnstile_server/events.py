"""The background's workers for events: one appends the events of changed HEADs, and one for each
target sends them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from turnstile.events.append import Appended
from turnstile_server.loops import EndingThread

if TYPE_CHECKING:
    from turnstile.events.deliver import Deliverer
    from turnstile_server.telemetry.metrics import DeliveryMetrics

AT_ONCE: Final = 1_000
"""HEADs whose events are appended by one call."""
RETRY_S: Final = 1.0
MIN_PAUSE_S: Final = 0.1
CLOSE_S: Final = 30.0

log = logging.getLogger("turnstile.events")


class Appends(Protocol):
    """The protocol of an appender (``turnstile.events.append.Appender``)."""

    def is_source(self, key: str) -> bool: ...
    def append(self, keys: Iterable[str]) -> Appended: ...


class EventWorker(EndingThread):
    """One thread that appends the events of the HEADs that were added, oldest first. After a
    failure it tries the same HEADs again: they stay added until their events are in the log."""

    def __init__(
        self, appender: Appends, gather_s: float, on_appended: Callable[[Iterable[str]], None] = lambda _: None
    ) -> None:
        """``on_appended`` is called with the catalogs that have new events."""
        super().__init__("events", CLOSE_S)
        self._appender = appender
        self._gather_s = gather_s
        self._on_appended = on_appended
        self._waiting: dict[str, None] = {}
        self._working = False
        self._thread.start()

    def add(self, keys: Iterable[str]) -> None:
        """Records that the rows under ``keys`` changed; keys of other rows than HEADs are
        ignored."""
        sources = [key for key in keys if self._appender.is_source(key)]
        if sources:
            with self._changed:
                self._waiting.update(dict.fromkeys(sources))
                self._changed.notify_all()

    def idle(self) -> bool:
        """Returns whether the events of everything that was added are in the log."""
        with self._changed:
            return not self._waiting and not self._working

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._stop.is_set())
            self._stop.wait(self._gather_s)
            with self._changed:
                keys = list(self._waiting)[:AT_ONCE]
                self._working = True
                for key in keys:
                    del self._waiting[key]
            done = self._append(keys)
            with self._changed:
                self._working = False
                if not done:
                    self._waiting = dict.fromkeys(keys) | self._waiting
            if not done:
                self._stop.wait(RETRY_S)

    def _append(self, keys: list[str]) -> bool:
        try:
            done = self._appender.append(keys)
        except Exception:  # the next attempt may succeed
            log.exception("events of %d HEADs are not appended", len(keys))
            return False
        for problem in done.unreadable:
            log.error("no events are made of %s: %s", problem.key, problem.message)
        self._on_appended(done.catalogs)
        return True


class DeliveryWorker(EndingThread):
    """A thread that sends the events of the catalogs that were added to one target, and repeats
    what failed.

    Args:
        rest_s: the least pause of a catalog after its turn; 0: none. For a target that works long
            on events, in this very process.
        rest_turns: the least pause as a multiple of the CPU time that this process took in the
            turn. On a busy machine a turn lasts long, and takes no more of it.
        on_sent: called with a catalog and the number of its events that the target has
            acknowledged.
    """

    def __init__(
        self, deliverer: Deliverer, metrics: DeliveryMetrics, rest_s: float = 0.0, rest_turns: int = 10,
        on_sent: Callable[[str, int], None] = lambda *_: None, *, cpu_s: Callable[[], float] = time.process_time,
    ) -> None:  # fmt: skip
        super().__init__(f"deliver {deliverer.target.name}", CLOSE_S)
        self._deliverer = deliverer
        self._metrics = metrics
        self._name = deliverer.target.name
        self._rest_turns = rest_turns
        self._on_sent = on_sent
        self._cpu_s = cpu_s
        self._due_s: dict[str, float] = {}
        self._rest_s = rest_s
        self._rested_s = dict[str, float]()
        self._thread.start()

    def add(self, catalogs: Iterable[str]) -> None:
        """Notes that the logs of these catalogs have grown."""
        with self._changed:
            self._due_s.update({catalog: self._rested_s.get(catalog, 0.0) for catalog in catalogs})
            self._changed.notify_all()

    def _run(self) -> None:
        while (catalog := self._next()) is not None:
            began_s = self._cpu_s()
            try:
                done = self._deliverer.deliver(catalog, go_on=lambda: not self._stop.is_set())
            except Exception:  # the store does not answer: the next attempt may succeed
                log.exception("events of %s are not sent to %s", catalog, self._name)
                self._come_back(catalog, RETRY_S)
                continue
            if self._rest_s:
                self._rest(catalog, max(self._rest_s, self._rest_turns * (self._cpu_s() - began_s)))
            self._on_sent(catalog, done.sent)
            self._metrics.record(self._name, done.sent, failed=bool(done.error))
            if done.error:
                log.warning("events of %s are not sent to %s: %s", catalog, self._name, done.error)
            if done.again_ms:
                self._come_back(catalog, max(MIN_PAUSE_S, done.again_ms / 1000 - time.time()))

    def _next(self) -> str | None:
        """Waits for the catalog that is due first; None: the worker is closed."""
        with self._changed:
            while not self._stop.is_set():
                catalog = min(self._due_s, key=self._due_s.__getitem__, default=None)
                wait_s = None if catalog is None else self._due_s[catalog] - time.monotonic()
                if catalog is not None and wait_s is not None and wait_s <= 0:
                    del self._due_s[catalog]
                    return catalog
                self._changed.wait(wait_s)
        return None

    def _rest(self, catalog: str, rest_s: float) -> None:
        with self._changed:
            self._rested_s[catalog] = time.monotonic() + rest_s
            if catalog in self._due_s:  # it was added during its turn
                self._due_s[catalog] = self._rested_s[catalog]

    def _come_back(self, catalog: str, after_s: float) -> None:
        with self._changed:
            self._due_s.setdefault(catalog, time.monotonic() + after_s)
