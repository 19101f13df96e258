"""The process for light work on Delta tables: checkpoints, version checksums, log compaction
(``turnstile.maintenance``).

It is a separate process because it reads whole tables: in the background's interpreter it would
delay publishing. Its priority is low. The events of a catalog name its changed tables. They are
stored, with a cursor, so the process needs no hints, and after a crash it finishes interrupted
work.

In a fleet it works for catalogs in the granules of its own server or worker, and for catalogs
without a known owner. The background is the member of the fleet, and passes the assignment on
(``fleet.shares_file``). Two processes that work on one table at the same time are correct (I15).
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import threading
import time
from collections import Counter
from typing import Final

import msgspec

from turnstile.api.services import Services
from turnstile.events.append import enlisted_catalogs
from turnstile.events.deliver import Deliverer
from turnstile.fleet.core.roles import MAINTAIN
from turnstile.fleet.core.shares import Ownership
from turnstile.maintenance.work import LEFT, MaintenanceResult, MaintenanceTarget
from turnstile_server.apps import read_settings
from turnstile_server.children import end_with_parent
from turnstile_server.events import DeliveryWorker
from turnstile_server.fleet.member import Worked, maintained_file, shares_file
from turnstile_server.loops import start_loop
from turnstile_server.settings import ServerSettings
from turnstile_server.telemetry import logs, metrics
from turnstile_server.world import open_store

LOOK_S: Final = 10.0
"""The pause between looks at the events, and the least time between two turns of a catalog, in
which commits gather. Light work is never urgent."""
LOOK_PAID_S: Final = 60.0
"""The same where every read is paid for."""
ALL_S: Final = 6 * 3600.0
"""How often all tables are checked: also those without an event, and those that failed."""
ALL_FIRST_S: Final = 300.0
"""The time of the first check after the start, which finds work that a kill interrupted: later than
the end of its lease."""
AGAIN_S: Final = 60.0
"""How often the tables are tried again that were busy, or have failed. The pause of a failure
grows, and costs one read."""
REST_TURNS: Final = 10
"""How many times the CPU time of its turn a catalog rests where the machine has requests to
answer."""
NICE: Final = 10
"""Added to the niceness of the process: requests and publishing come first."""

log = logging.getLogger("turnstile.light_work")


class LightWork:
    """The loops of the process. ``run`` returns soon after ``stop`` is set, when the file under way
    is written."""

    def __init__(self, settings: ServerSettings) -> None:
        self.stop = threading.Event()
        self._store = open_store(settings, create=False)
        self._metrics = metrics.LightWorkMetrics()
        alone = settings.store_kind == "sqlite" and not settings.fleet
        background = msgspec.structs.replace(read_settings(settings), delivers_alone=alone)
        self._left = dict[str, None]()
        self._leaves = threading.Lock()
        self._maintainer = Services(self._store.world, background).maintainer
        target = MaintenanceTarget(self._maintainer, self._maintain, self._goes_on)
        self._look_s = LOOK_S if settings.store_kind == "sqlite" else LOOK_PAID_S
        self._shares = shares_file(settings) if settings.fleet else None
        self._worked = maintained_file(settings)
        self._events = Counter[str]()
        self._worker = DeliveryWorker(
            Deliverer(self._store.world, target, alone=alone), metrics.DeliveryMetrics(), rest_s=self._look_s,
            rest_turns=REST_TURNS if settings.workers else 0, on_sent=self._send,
        )  # fmt: skip

    def run(self) -> None:
        start_loop(self.stop, self._look_s, self._look_s, self._look)
        start_loop(self.stop, ALL_FIRST_S, ALL_S, self._maintain_all)
        start_loop(self.stop, AGAIN_S, AGAIN_S, self._maintain_left)
        self.stop.wait()
        self._worker.close()
        self._store.close()

    def does(self, catalog: str) -> bool:
        """Returns whether this process should do a catalog's light work."""
        if self._shares is None:
            return True
        now_ms = time.monotonic_ns() // 1_000_000
        return self._shares.read().whose(MAINTAIN, catalog.lower(), now_ms) is not Ownership.OTHERS

    def _look(self) -> None:
        self._worker.add([catalog for catalog in enlisted_catalogs(self._store.world) if self.does(catalog)])
        self._worked.write(Worked(dict(self._events)))

    def _send(self, catalog: str, count: int) -> None:
        self._events[catalog] += count

    def _maintain_all(self) -> None:
        for done in self._maintainer.maintain_all(self._goes_on, chosen=lambda row: self.does(row["catalog"])):
            self._maintain(done)

    def _maintain_left(self) -> None:
        """Tries the left tables again; a table that is left once more is noted once more."""
        with self._leaves:
            left = self._left
            self._left = {}
        for table_id in left:
            if not self._goes_on():
                return
            try:
                self._maintain(self._maintainer.maintain(table_id))
            except (
                Exception
            ) as error:  # the store does not answer, or its row cannot be read: the others have their turn
                self._maintain(MaintenanceResult(table_id, "failed", reason=str(error)))

    def _maintain(self, done: MaintenanceResult) -> None:
        self._metrics.record(done)
        if done.outcome in LEFT:
            with self._leaves:
                self._left[done.table_id] = None
        if done.outcome == "failed":
            log.warning("table %s is not maintained: %s", done.table_id, done.reason)

    def _goes_on(self) -> bool:
        return not self.stop.is_set()


def main() -> None:
    """Runs until SIGTERM, or until the main process is gone."""
    settings = ServerSettings.from_environment()
    logs.configure("light work")
    end_with_parent()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    metrics.start(settings)
    work = LightWork(settings)
    gc.freeze()
    signal.signal(signal.SIGTERM, lambda *_: work.stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    work.run()
