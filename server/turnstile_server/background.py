"""The process that publishes changes, makes events of them, sweeps every minute, and collects
garbage once a day, as far as these are among its roles.

A key of a changed table is a hint, like a stream's record: its HEAD says which commits to publish.
Hints come from the change feed of SQLite. With DynamoDB they come from the server's own processes,
and from the table's stream, if it has one. The cursor of the feed passes a change after its table
had its turn and its events are appended, so a change is read again after a crash. A sweep at the
start and every minute finds changes without a hint (I11).
"""

from __future__ import annotations

import gc
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from turnstile.api import settings as variables
from turnstile.api.services import Services
from turnstile.coordination.tasks import Busy
from turnstile.delta.core.head import STUCK
from turnstile.events.append import behind, enlisted_catalogs
from turnstile.events.core.cloud_events import FLEET
from turnstile.events.deliver import Deliverer
from turnstile.events.follow_ups import Followed, FollowUpTarget
from turnstile.fleet.core.roles import EVENTS, PUBLISH, SWEEP
from turnstile.gc.collector import totals
from turnstile.gc.core import KINDS
from turnstile.store.core.errors import NotFound, StoreUnavailable, TurnstileError
from turnstile_server.apps import read_settings
from turnstile_server.children import end_with_parent
from turnstile_server.events import DeliveryWorker, EventWorker
from turnstile_server.fleet.member import Processes, Sharing, Work, differences, maintained_file, shares_file
from turnstile_server.fleet.owner import owners_file
from turnstile_server.loops import start_loop
from turnstile_server.settings import ServerSettings
from turnstile_server.store.health import watch_file
from turnstile_server.telemetry import logs, metrics
from turnstile_server.turns import IDLE_S, REST_S, Turns
from turnstile_server.world import WakeListener, open_store

if TYPE_CHECKING:
    from turnstile.adapters.sqlite.database import Database
    from turnstile_server.store.streams import Stream

CONSUMER: Final = "publish"
ADVANCE_S: Final = 5.0
"""How often the cursor is kept, which costs a sync; after a crash the hints of so many seconds come
again."""
LOOK_S: Final = 0.05
"""How long after a look at the feed the next one comes at the earliest."""
FEED_AGAIN_S: Final = 1.0
"""How long after a feed that could not be read it is read again."""
HEARTBEAT_S: Final = 1.0
SWEEP_S: Final = 60.0
COLLECT_S: Final = 24 * 3600.0
TIDY_S: Final = 3600.0
COLLECT_FIRST_S: Final = 600.0
"""How long after the start gc runs first: a server that is started anew each day has one, too."""
COLLECT_AGAIN_S: Final = 600.0
"""How long after it found another run at work, or another server at the sweeps, this process looks
whether gc is due."""
COLLECT_MS: Final = 3_600_000
TABLE_MS: Final = 20_000
WORKERS: Final = 8
_PROBLEMS_MAX: Final = 50
"""Problems of one gc run that the log has."""
GATHER_S: Final = 0.1
"""How long events are gathered before they are appended together."""
GATHER_PAID_S: Final = 0.5
"""The same where every write is paid for."""
ASK_AGAIN_S: Final = 10.0
"""How often follow-ups that failed are looked at; each has a pause of its own, which grows."""
LOST_EVENTS_S: Final = 3600.0
"""How often HEADs are looked at that no hint named."""

log = logging.getLogger("turnstile.background")


class Background:
    """The loops of the process, one for each of its roles. ``run`` returns soon after ``stop`` is
    set, when running turns have ended."""

    def __init__(self, settings: ServerSettings, workers: int = WORKERS) -> None:
        self.stop = threading.Event()
        self._beaten_s = float("-inf")
        self._collect_left = False
        self._settings = settings
        self._workers = workers
        self._roles = frozenset[str]() if settings.is_closed else frozenset(settings.roles)
        self._store = open_store(settings, create=False)
        targets = variables.event_targets()
        actions = variables.follow_ups()
        alone = settings.store_kind == "sqlite" and not settings.fleet
        background = msgspec.structs.replace(
            read_settings(settings), event_targets=targets, follow_ups=actions, delivers_alone=alone
        )
        self._services = Services(self._store.world, background)
        self._services.prepare("publisher", "sweeper", "collect_task", "appender")
        self._metrics = metrics.BackgroundMetrics()
        self._turns = Turns(self._publish, workers)
        gather_s = GATHER_S if self._store.database is not None else GATHER_PAID_S
        delivered = metrics.DeliveryMetrics()
        deliverers = list(self._services.deliverers) if EVENTS in self._roles else []
        if actions and EVENTS in self._roles:
            follow_ups = FollowUpTarget(self._services.follow_ups, _follow, lambda: not self.stop.is_set())
            deliverers.append(Deliverer(self._store.world, follow_ups, alone=alone))
        self._deliveries = [DeliveryWorker(deliverer, delivered) for deliverer in deliverers]
        self._events = EventWorker(self._services.appender, gather_s, self._deliver)
        tables = self._store.world.space.table("")
        is_source = self._services.appender.is_source
        self._fleet_log = self._store.world.space.event_log(FLEET)
        work = {
            PUBLISH: Work(lambda key: key.startswith(tables), self._publish_soon),
            EVENTS: Work(lambda key: is_source(key) or key == self._fleet_log, self._append_soon),
        }
        self._work = {role: work[role] for role in work if role in self._roles}
        self._missed = PendingSweeps()
        self._stream: Stream | None = None
        if self._store.database is None and self._work:
            from turnstile_server.store.streams import Stream

            self._stream = Stream(settings, self._hint, lambda: self._missed.add(self._roles), self.stop)
        self._sharing = self._join(settings)

    def _join(self, settings: ServerSettings) -> Sharing | None:
        """The part of this process in the fleet, where it has one."""
        if not settings.fleet or not (self._roles or settings.fleet_address):
            return None
        processes = Processes(
            owners_file(settings).write, shares_file(settings).write, differences(maintained_file(settings).read)
        )
        return Sharing(
            self._store.world, self._roles, self._work, self._missed.add, hears=self._hears,
            beat_ms=settings.fleet_beat_ms, address=settings.fleet_address, processes=processes,
        )  # fmt: skip

    def run(self) -> None:
        listener = WakeListener(self._settings.wake_socket)
        database = self._store.database
        if database is not None:
            threading.Thread(target=watch_file, args=(database, self.stop), name="store", daemon=True).start()
        if SWEEP in self._roles:
            self._start(0, SWEEP_S, self._sweep)
            self._start(COLLECT_FIRST_S, COLLECT_S, self._collect)
            self._start(TIDY_S, TIDY_S, self._store.remove_expired)
        if EVENTS in self._roles:
            self._start(0, LOST_EVENTS_S, self._find_lost_events)
            if self._services.settings.follow_ups:
                self._start(0, ASK_AGAIN_S, self._ask_again)
        if self._sharing is not None:
            self._start(0, 0, self._catch_up)
            self._sharing.start()
        if not self._work:
            self._only_beat(listener)
        elif self._store.database is not None:
            self._follow_feed(self._store.database, listener)
        else:
            assert self._stream is not None
            threading.Thread(target=self._stream.follow, name="stream", daemon=True).start()
            self._follow_hints(listener)
        if self._sharing is not None:
            self._sharing.close()
        self._turns.close()
        self._events.close()
        for delivery in self._deliveries:
            delivery.close()
        listener.close()
        self._store.close()

    # -- hints --------------------------------------------------------------------------------------------------------

    def _follow_feed(self, database: Database, listener: WakeListener) -> None:
        after = 0
        advanced = 0
        seen = 0
        due_s = 0.0
        while not self.stop.is_set():
            looked_s = self._beat()
            try:
                changes, last = database.changes(CONSUMER, after)
            except StoreUnavailable as error:  # it may be put right while the server runs
                log.warning("the feed was not read: %s", error.message)
                self.stop.wait(FEED_AGAIN_S)
                continue
            self._hint(changes)
            after = last or after
            wait_s = self._turns.begin()
            if not changes:
                if after > advanced and time.monotonic() > due_s and self._turns.idle() and self._events.idle():
                    # Servers that share the feed share its cursor: it moves behind what the slowest
                    # of them has seen, too.
                    upto = after if self._sharing is None else seen
                    if upto > advanced and self._advance(database, upto):
                        advanced = upto
                    seen = after
                    due_s = time.monotonic() + ADVANCE_S
                listener.wait(wait_s)
            self.stop.wait(max(0.0, looked_s + LOOK_S - time.monotonic()))

    def _advance(self, database: Database, upto: int) -> bool:
        """Keeps the cursor; whether it could: another process may stand still with the file's
        lock."""
        try:
            database.advance(CONSUMER, upto)
        except TurnstileError as error:
            log.warning("the cursor of the feed was not kept: %s", error.message)
            return False
        return True

    def _follow_hints(self, listener: WakeListener) -> None:
        while not self.stop.is_set():
            self._beat()
            self._hint(Counter(listener.wait(min(self._turns.begin(), REST_S))))

    def _only_beat(self, listener: WakeListener) -> None:
        """Nothing that changes calls for work of this process."""
        while not self.stop.is_set():
            self._beat()
            listener.wait(IDLE_S)

    def _beat(self) -> float:
        """Gives a sign of life now and then; returns the time."""
        now_s = time.monotonic()
        if now_s - self._beaten_s > HEARTBEAT_S:
            self._settings.heartbeat.touch()
            self._beaten_s = now_s
        return now_s

    def _hint(self, changes: Mapping[str, int]) -> None:
        if self._sharing is not None:
            self._sharing.notice(changes)
        for role, work in self._work.items():
            mine: Mapping[str, int] = {key: count for key, count in changes.items() if work.of(key)}
            work.do(mine if self._sharing is None else self._sharing.mine(role, mine))

    def _hears(self) -> bool:
        """Whether this process is told of every change of the store."""
        return self._stream is None or self._stream.is_heard()

    # -- work ---------------------------------------------------------------------------------------------------------

    def _publish_soon(self, changes: Mapping[str, int]) -> None:
        prefix = self._store.world.space.table("")
        for key, count in changes.items():
            self._turns.add(key.removeprefix(prefix), count)

    def _append_soon(self, changes: Mapping[str, int]) -> None:
        self._events.add(changes)
        if self._fleet_log in changes:  # members append to it themselves: only deliver
            self._deliver([FLEET])

    def _publish(self, table_id: str) -> None:
        try:
            published = self._services.publisher.publish(table_id, until_ms=self._now_ms() + TABLE_MS, meanwhile=False)
        except NotFound:  # a staging row, or a table that is gone
            return
        if published.count:
            self._metrics.published.inc(published.count)
            self._metrics.lag_seconds.observe(published.lag_ms / 1000)
        if published.problem is not None:
            self._metrics.failures.inc()
            log.warning("table %s is not published: %s", table_id, published.problem.message)
        elif published.behind:  # its time was up, or commits were ratified meanwhile
            self._turns.add(table_id)

    def _sweep(self) -> None:
        if self._sharing is None or self._sharing.sweeps():
            self._sweep_all()

    def _catch_up(self) -> None:
        """Sweeps a role when the fleet asks for it."""
        missed = self._missed.wait(IDLE_S)
        if missed & {PUBLISH, SWEEP}:
            self._sweep_all()
        if EVENTS in missed:
            self._events.add(behind(self._store.world, self._services.appender))

    def _sweep_all(self) -> None:
        until_ms = self._now_ms() + int(SWEEP_S * 1000)
        swept = self._services.sweeper.sweep(until_ms=until_ms, each_ms=TABLE_MS, workers=self._workers)
        self._metrics.tables.set(swept.tables)
        self._metrics.swept.set(self._now_ms() / 1000)
        self._metrics.behind.set(swept.round.behind)
        self._metrics.stuck.set(sum(table.state == STUCK for table in swept.round.published))
        for complaint in swept.round.complaints():
            log.warning("table not published: %s", complaint)
        for row in swept.unreadable:
            log.warning("left alone: %s", row.message)

    def _collect(self) -> float | None:
        """The daily gc. Returns when to look again, where it was left to another process, which may
        have died in it."""
        task = self._services.collect_task
        if self._sharing is not None and not self._sharing.sweeps():
            self._collect_left = True
            return COLLECT_AGAIN_S
        if self._collect_left and (rest_ms := task.rest_ms(int(COLLECT_S * 1000))):
            return max(COLLECT_AGAIN_S, rest_ms / 1000)
        until_ms = self._now_ms() + COLLECT_MS
        report = task.run(COLLECT_MS, KINDS, dry_run=False, until_ms=until_ms, most=200_000)
        self._collect_left = isinstance(report, Busy)
        if isinstance(report, Busy):  # another process is at it, or has died in it
            if report.reason:
                log.warning("gc waits: %s", report.reason)
            return COLLECT_AGAIN_S
        log.info("collected: %s", totals(report))
        for problem in report.problems[:_PROBLEMS_MAX]:
            log.warning("left alone: %s of kind %s: %s", problem.id, problem.kind, problem.message)
        return None

    def _find_lost_events(self) -> None:
        self._events.add(behind(self._store.world, self._services.appender))
        self._deliver(list(enlisted_catalogs(self._store.world)))

    def _deliver(self, names: Iterable[str]) -> None:
        for delivery in self._deliveries:
            delivery.add(names)

    def _ask_again(self) -> None:
        """Asks again for follow-ups that failed."""
        for table_id in self._services.follow_ups.failing():
            if self.stop.is_set():
                return
            _follow(self._services.follow_ups.follow(table_id))

    def _start(self, first_s: float, every_s: float, run: Callable[[], float | None]) -> None:
        start_loop(self.stop, first_s, every_s, run)

    def _now_ms(self) -> int:
        return self._store.world.clock.now_ms()


class PendingSweeps:
    """Roles that need a sweep, because hints may have been lost. Safe for threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._roles = set[str]()

    def add(self, roles: Iterable[str]) -> None:
        with self._changed:
            self._roles.update(roles)
            self._changed.notify_all()

    def wait(self, seconds: float) -> set[str]:
        """Waits for some; returns them once."""
        with self._changed:
            self._changed.wait_for(lambda: self._roles, seconds)
            missed = self._roles
            self._roles = set()
        return missed


def _follow(done: Followed) -> None:
    for action, reason in done.failures.items():
        log.warning("follow-up %s of table %s fails: %s", action, done.table_id, reason)


def main() -> None:
    """Runs until SIGTERM, or until the main process is gone."""
    settings = ServerSettings.from_environment()
    logs.configure("background")
    end_with_parent()
    metrics.start(settings)
    background = Background(settings)
    gc.freeze()
    signal.signal(signal.SIGTERM, lambda *_: background.stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    background.run()
