"""Figures for Prometheus, of all processes of a server together, and log lines for failures.

Each process writes its figures into files of the runtime folder (``prometheus_client``'s
multiprocess mode). A process that answers a scrape adds them up. ``start`` has to be called before
anything counts. No figure is in a registry of the process (``registry=None``): ``exposition`` reads
the files, and a process may have several servers, as tests do.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turnstile_server.settings import ServerSettings
from turnstile_server.telemetry.conflicts import ConflictLog

if TYPE_CHECKING:
    from turnstile.maintenance.work import MaintenanceResult

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.0, 2.0, 4.0, 8.0)

log = logging.getLogger("turnstile.requests")


def start(settings: ServerSettings) -> None:
    """Sets the folder of the figures; each process calls it before anything counts.
    ``prometheus_client`` decides at its import whether figures go into files, so an earlier import
    is corrected here.
    """
    from prometheus_client import values

    folder = Path(settings.runtime) / "metrics"
    folder.mkdir(exist_ok=True)
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    if values.ValueClass is values.MutexValue:
        values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]


def exposition() -> bytes:
    """Returns the figures of all processes in Prometheus' text format."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.multiprocess import MultiProcessCollector

    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


class RequestMetrics:
    """``turnstile.api.http.handler.Telemetry``: counts every request and keeps conflicts; logs
    faults, and with ``every`` all requests."""

    def __init__(self, conflicts: ConflictLog, *, every: bool = False) -> None:
        from prometheus_client import Counter, Histogram

        self._conflicts = conflicts
        self._every = every
        self._requests = Counter("turnstile_requests", "Answered requests", ["operation", "status"], registry=None)
        self._seconds = Histogram(
            "turnstile_request_seconds", "Time to answer", ["operation"], buckets=_SECONDS, registry=None
        )
        self._rows = Counter("turnstile_rows_added", "Rows that came over HTTP and were added", registry=None)
        self._children: dict[tuple[str, int], tuple[Any, Any]] = {}

    def record(self, operation: str, status: int, duration_ms: float, fault: BaseException | None, **more: Any) -> None:
        children = self._children.get((operation, status))
        if children is None:
            children = (self._requests.labels(operation, str(status)), self._seconds.labels(operation))
            self._children[operation, status] = children
        children[0].inc()
        children[1].observe(duration_ms / 1000)
        if rows := more.get("rows"):
            self._rows.inc(rows)
        if "conflicts" in more:
            self._conflicts.add(operation, more)
        if fault is not None:
            log.error("%s %s", operation, status, exc_info=fault, extra={"duration_ms": round(duration_ms, 2), **more})
        elif self._every:
            log.info("%s %s", operation, status, extra={"duration_ms": round(duration_ms, 2), **more})


class ForwardingMetrics:
    """Changes of catalogs, and commits of hot tables, that the owner was asked for."""

    def __init__(self) -> None:
        from prometheus_client import Counter

        self._requests = Counter(
            "turnstile_asked_owners",
            "Changes of catalogs, and commits of hot tables, for which an owner was asked",
            ["outcome"],
            registry=None,
        )

    def count(self, outcome: str) -> None:
        self._requests.labels(outcome).inc()


class FleetMetrics:
    """A server's part in its fleet."""

    def __init__(self) -> None:
        from prometheus_client import Counter, Gauge

        self._members = Gauge(
            "turnstile_fleet_members", "Members of the fleet", multiprocess_mode="mostrecent", registry=None
        )
        self._granules = Gauge(
            "turnstile_fleet_granules", "Granules that this server owns", multiprocess_mode="mostrecent", registry=None
        )
        self._gained = Counter("turnstile_fleet_gained", "Granules that came to this server", registry=None)
        self._removed = Counter(
            "turnstile_fleet_removed", "Times that others found this server silent and removed it", registry=None
        )

    def record(self, members: int, granules: int, gained: int, *, removed: bool) -> None:
        """Counts the findings of one heartbeat."""
        self._members.set(members)
        self._granules.set(granules)
        self._gained.inc(gained)
        self._removed.inc(removed)


class BackgroundMetrics:
    """The work of the background."""

    def __init__(self) -> None:
        from prometheus_client import Counter, Gauge, Histogram

        self.published = Counter(
            "turnstile_published_versions", "Versions copied into _delta_log or found there", registry=None
        )
        self.lag_seconds = Histogram(
            "turnstile_publish_lag_seconds",
            "From ratification to publication, oldest version of a turn",
            buckets=_SECONDS,
            registry=None,
        )
        self.failures = Counter(
            "turnstile_publish_failures", "Turns of tables that could not be published further", registry=None
        )
        # The latest of whichever process set them: a background that was started anew replaces the
        # figures of the last.
        self.tables = Gauge(
            "turnstile_tables", "Tables at the last sweep", multiprocess_mode="mostrecent", registry=None
        )
        self.swept = Gauge(
            "turnstile_swept_seconds",
            "When the last sweep ended, by the epoch",
            multiprocess_mode="mostrecent",
            registry=None,
        )
        self.stuck = Gauge(
            "turnstile_tables_stuck", "Stuck tables at the last sweep", multiprocess_mode="mostrecent", registry=None
        )
        self.behind = Gauge(
            "turnstile_unpublished_versions",
            "Unpublished versions after the last sweep",
            multiprocess_mode="mostrecent",
            registry=None,
        )


class LightWorkMetrics:
    """The light work on tables."""

    def __init__(self) -> None:
        from prometheus_client import Counter

        self._written = Counter(
            "turnstile_light_work_files", "Files written beside the commits of tables", ["kind"], registry=None
        )
        self._failures = Counter("turnstile_light_work_failures", "Attempts on a table that failed", registry=None)

    def record(self, done: MaintenanceResult) -> None:
        """Counts the result for one table."""
        for kind, written in (
            ("checkpoint", done.checkpoints),
            ("checksum", done.checksums),
            ("compaction", done.compactions),
        ):
            self._written.labels(kind).inc(len(written))
        self._failures.inc(done.outcome == "failed")


class DeliveryMetrics:
    """The deliveries to targets of events."""

    def __init__(self) -> None:
        from prometheus_client import Counter

        self._sent = Counter("turnstile_events_sent", "Events that a target acknowledged", ["target"], registry=None)
        self._failures = Counter(
            "turnstile_event_delivery_failures", "Batches that a target did not acknowledge", ["target"], registry=None
        )

    def record(self, target: str, sent: int, *, failed: bool) -> None:
        """Counts the result of one call of a deliverer."""
        self._sent.labels(target).inc(sent)
        self._failures.labels(target).inc(failed)
