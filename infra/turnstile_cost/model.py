"""The cost model, as pure functions.

A workload is divided into steps; each step has a usage for a batch of commits, and a usage for each
commit in it. A stream hands commits to functions in batches: single commits at a low rate, many at
once at a high rate, so the price of a million commits depends on their rate. Counts are exact for a
table with short names and a tail that is published soon (``tests/functional/deploy/test_cost.py``
counts them again). Milliseconds are billed time, measured and rounded up (docs/performance.md), and
the smaller part.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache
from importlib.resources import files
from math import ceil
from typing import Final, Literal

Detail = Literal["alarms", "all", "none"]
"""The parameter MetricsDetail of the template (``turnstile.api.figures``)."""

SECONDS_A_MONTH: Final = 30 * 86_400
GB: Final = 10**9


@dataclass(frozen=True)
class Prices:
    """Dollars for one of each; ``as_of``, ``region`` and ``source`` say the date, the region and
    the publisher of the prices."""

    as_of: str
    region: str
    source: str
    api_request: float
    invocation: float
    gb_second: float
    snapstart_gb_second: float
    snapstart_restored_gb: float
    provisioned_gb_second: float
    write_unit: float
    read_unit: float
    put: float
    get: float
    bus_event: float
    queue_request: float
    firehose_gb: float
    log_gb: float
    store_gb_month: float
    alarm_month: float
    metric_month: float
    dashboard_month: float
    small_server_hour: float
    volume_gb_month: float


@cache
def prices() -> Prices:
    """The prices of ``prices.json``."""
    return Prices(**json.loads(files("turnstile_cost").joinpath("prices.json").read_text()))


@dataclass(frozen=True)
class Usage:
    """Usage that is paid for. Lists of S3 are priced like puts, and counted with them."""

    api_requests: float = 0
    invocations: float = 0
    gb_seconds: float = 0
    write_units: float = 0
    read_units: float = 0
    puts: float = 0
    gets: float = 0
    bus_events: float = 0
    queue_requests: float = 0
    log_bytes: float = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(Usage)))

    def __mul__(self, times: float) -> Usage:
        return Usage(*(getattr(self, field.name) * times for field in fields(Usage)))


def dollars(usage: Usage, at: Prices) -> dict[str, float]:
    """The price of the usage, by service."""
    return {
        "API Gateway": usage.api_requests * at.api_request,
        "Lambda": usage.invocations * at.invocation + usage.gb_seconds * at.gb_second,
        "DynamoDB": usage.write_units * at.write_unit + usage.read_units * at.read_unit,
        "S3": usage.puts * at.put + usage.gets * at.get,
        "EventBridge": usage.bus_events * at.bus_event,
        "SQS": usage.queue_requests * at.queue_request,
        "CloudWatch logs": usage.log_bytes / GB * at.log_gb,
    }


@dataclass(frozen=True)
class Step:
    """The milliseconds of a step for a single commit, and for 16 in one batch; other sizes are
    interpolated on the line."""

    alone: Usage
    of_16: Usage

    def batch(self, commits: float) -> Usage:
        """The milliseconds of a batch of so many commits."""
        return self.alone + (self.of_16 + self.alone * -1) * ((commits - 1) / 15)


COUNTED: Final = {
    "commit inline": Step(Usage(write_units=2), Usage(write_units=65)),
    "commit staged": Step(Usage(write_units=2, gets=1), Usage(write_units=46, gets=16)),
    "publish inline": Step(Usage(write_units=3, read_units=1, puts=1), Usage(write_units=22, read_units=2, puts=16)),
    "publish staged": Step(
        Usage(write_units=4, read_units=1, puts=1, gets=1), Usage(write_units=36, read_units=1, puts=16, gets=16)
    ),
    "rows": Step(Usage(write_units=6, read_units=6, puts=1), Usage(write_units=36, read_units=21, puts=1)),
    "events": Step(Usage(write_units=6.0625, read_units=3), Usage(write_units=11, read_units=3)),
}
"""Requests to the stores and their units, for a table with names of usual length and commits of 1
kB. In a batch the row grows with the unpublished commits, so that each write of it costs more."""

LIGHT_COMMITS: Final = 100
LIGHT_WORK: Final = Usage(write_units=6, read_units=33, puts=4, gets=109)
"""Light work on one table after so many commits, with the checkpoints that they make due."""


def _function(ms: float, memory_mb: int, log_bytes: float) -> Usage:
    """One invocation: billed milliseconds, and log bytes."""
    return Usage(invocations=1, gb_seconds=ms / 1000 * memory_mb / 1024, log_bytes=log_bytes)


_COMMIT: Final = {"inline": _function(9, 1024, 900), "staged": _function(25, 1024, 900)}
_PUBLISH: Final = {
    "inline": Step(_function(32, 1024, 700), _function(150, 1024, 700)),
    "staged": Step(_function(50, 1024, 700), _function(300, 1024, 700)),
}
_ROWS: Final = Step(_function(60, 1024, 600), _function(65, 1024, 600))
_EVENTS: Final = Step(_function(25, 512, 500), _function(30, 512, 500))
_LIGHT_WORK: Final = _function(1_500, 1024, 1_000)


# -- workloads ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Workload:
    """Commits to price.

    Args:
        commits: how many.
        staged: the share of them that is staged, 0 to 1; the client's own put of each file is
            counted as well.
        per_batch: how many the stream hands over at once: 1 where they come seldom.
        bus: whether events are sent to a bus of EventBridge; each version has one, and each batch
            one more.
    """

    commits: float = 1e6
    staged: float = 0.0
    per_batch: float = 1.0
    bus: bool = False


def commits(workload: Workload) -> dict[str, Usage]:
    """The usage of a workload's commits, by step."""
    batches = workload.commits / workload.per_batch
    used = {"requests": Usage(api_requests=workload.commits), "commit": Usage(), "publish": Usage()}
    for kind, share in (("inline", 1 - workload.staged), ("staged", workload.staged)):
        used["commit"] += COUNTED[f"commit {kind}"].batch(workload.per_batch) * (batches * share)
        used["commit"] += _COMMIT[kind] * (workload.commits * share)
        for step in (COUNTED[f"publish {kind}"], _PUBLISH[kind]):
            used["publish"] += step.batch(workload.per_batch) * (batches * share)
    used["staged files"] = Usage(puts=workload.commits * workload.staged)
    used["events"] = (COUNTED["events"].batch(workload.per_batch) + _EVENTS.batch(workload.per_batch)) * batches
    used["light work"] = (LIGHT_WORK + _LIGHT_WORK) * (workload.commits / LIGHT_COMMITS)
    if workload.bus:
        used["bus"] = Usage(bus_events=workload.commits + batches)
    return used


ROWS_MOST: Final = 90
"""Messages of one commit."""
RECEIVED_AT_ONCE: Final = 10
"""Messages that Lambda takes from a queue, and removes, with one request."""
QUEUE_CHUNK: Final = 65_536
"""Bytes of a message that are paid for as a request."""
FIREHOSE_STEP: Final = 5_000
"""Firehose counts the bytes of a record up to a multiple of this."""


@dataclass(frozen=True)
class Messages:
    """Messages with rows that come by a queue: how many, the bytes of each, and how many of one
    table a batch has."""

    count: float = 1e6
    bytes_each: int = 1_000
    per_batch: float = ROWS_MOST


def messages(workload: Messages) -> dict[str, Usage]:
    """The usage of messages that become commits, by step: the sender's requests too."""
    per_commit = min(workload.per_batch, ROWS_MOST)
    batches = workload.count / per_commit
    received = workload.count / min(per_commit, RECEIVED_AT_ONCE)
    chunks = ceil(workload.bytes_each / QUEUE_CHUNK)
    later = commits(Workload(commits=batches))
    return {
        "queue": Usage(queue_requests=workload.count * chunks + 2 * max(received, workload.count * chunks / 10)),
        "rows": (COUNTED["rows"].batch(per_commit) + _ROWS.batch(per_commit)) * batches,
        "publish": later["publish"],
        "events": later["events"],
        "light work": later["light work"],
    }


def firehose(workload: Messages, at: Prices) -> float:
    """Dollars that Firehose takes for the same messages, without the store's requests."""
    counted_bytes = ceil(workload.bytes_each / FIREHOSE_STEP) * FIREHOSE_STEP
    return workload.count * counted_bytes / GB * at.firehose_gb


ROWS_A_TABLE: Final = 4
"""HEAD, location, event mark, task of light work."""

PARTS: Final = {"sweep": 64, "events": 256, "light work": 1_000, "collect": 16_384, "idle tables": 512}
"""Rows that a scheduled run passes at most (decisions 53 and 60)."""


@dataclass(frozen=True)
class Idle:
    """A deployment in which nothing happens, for a month. ``table_bytes``: all rows of a Delta
    table; ``metrics``: the parameter MetricsDetail; ``snapshots``: versions of the commit function
    that are kept as snapshots (the parameter SnapStart).
    """

    tables: int = 100
    catalogs: int = 1
    table_bytes: int = 1_800
    alarms: int = 21
    metrics: Detail = "alarms"
    dashboard: bool = True
    snapshots: int = 0


def run_of(schedule: str, deployment: Idle) -> Usage:
    """The requests of one run of a schedule to the stores, on average over a round: the rows that
    it scans, eventually consistent, and its reads of each table among them."""
    rows = deployment.tables * ROWS_A_TABLE

    def tables_in(part: str) -> float:
        return min(PARTS[part], rows) / ROWS_A_TABLE

    def passing(part: str) -> float:
        return max(0.5, tables_in(part) * deployment.table_bytes / 8_192)

    moves = 0.0 if rows <= PARTS.get(schedule, 0) else 1.0
    return {
        "sweep": lambda: Usage(read_units=passing("sweep") + 1, write_units=moves / 10),
        "events": lambda: Usage(read_units=passing("events") + tables_in("events") + 1.5, write_units=moves),
        "new events": lambda: Usage(read_units=0.5 + 2 * deployment.catalogs),
        "light work": lambda: Usage(read_units=passing("light work") + tables_in("light work") + 1, write_units=moves),
        "collect": lambda: Usage(
            read_units=passing("collect") + passing("idle tables") + 1,
            write_units=2,
            puts=tables_in("idle tables") + deployment.catalogs,
        ),
    }[schedule]()


def idle(deployment: Idle) -> dict[str, Usage]:
    """The usage of schedules in a month, by function. It does not grow with the number of tables: a
    run scans a part of the rows, and the stream, events or notes name urgent work (decisions 53 and
    60).
    """

    def month(schedule: str, every_s: int, run: Usage) -> Usage:
        return (run_of(schedule, deployment) + run) * (SECONDS_A_MONTH / every_s)

    return {
        "sweep": month("sweep", 60, _function(25, 512, 300)),
        "events": month("events", 3_600, _function(100, 512, 500)),
        "light work": month("new events", 300, _function(30, 1024, 300))
        + month("light work", 21_600, _function(400, 1024, 300)),
        "collect": month("collect", 86_400, _function(5_000, 512, 1_000)),
    }


def round_days(deployment: Idle) -> dict[str, float]:
    """The days of a round over all rows: the delay of work that no stream, event or note named."""
    rows = deployment.tables * ROWS_A_TABLE
    every_s = {"sweep": 60, "events": 3_600, "light work": 21_600, "collect": 86_400, "idle tables": 86_400}
    return {part: ceil(rows / PARTS[part]) * seconds / 86_400 for part, seconds in every_s.items()}


FIGURES: Final = {"sweep": 10, "maintenance": 7, "collect": 6, "publish": 7, "events": 4, "delivery": 2}
"""Figures of a run of each kind: each is a metric where all are wanted."""

FIGURES_OF_ALARMS: Final = 8
"""The metrics that alarms read, which are the default."""

FIGURES_OF_OPERATION: Final = 3
"""Of each operation of the API that is in use, where all are wanted."""

IDLE_HOURS: Final = {"sweep": 1.0, "maintenance": 1.0, "collect": 1 / 24}
"""The share of the hours in which a run of each kind happens while nothing else does. A metric is
paid for by the hours that have a value."""


def idle_metrics(detail: Detail) -> float:
    """How many metrics are paid for while nothing happens: of the default none, since a figure of 0
    is not sent."""
    return sum(FIGURES[run] * share for run, share in IDLE_HOURS.items()) if detail == "all" else 0.0


def most_metrics(detail: Detail, operations: int = 0) -> int:
    """How many there are at most, with so many operations of the API in use: of the default, if
    everything fails in every hour."""
    if detail == "all":
        return sum(FIGURES.values()) + FIGURES_OF_OPERATION * operations
    return FIGURES_OF_ALARMS if detail == "alarms" else 0


def watching(deployment: Idle, at: Prices) -> dict[str, float]:
    """Dollars a month for the monitoring of a healthy deployment. It depends on parameters, and
    with the default of metrics it is the same at any load."""
    return {
        "alarms": deployment.alarms * at.alarm_month,
        "metrics": idle_metrics(deployment.metrics) * at.metric_month,
        "dashboard": at.dashboard_month if deployment.dashboard else 0.0,
    }


SNAPSHOT_GB: Final = 1.0
"""Memory of the commit function, which a snapshot of it is paid for by."""


def warmth(deployment: Idle, at: Prices) -> dict[str, float]:
    """Dollars a month for snapshots of the commit function, whether or not anything starts from
    them; and for each start from one."""
    return {
        "snapshots": deployment.snapshots * SNAPSHOT_GB * at.snapstart_gb_second * SECONDS_A_MONTH,
        "a start": SNAPSHOT_GB * at.snapstart_restored_gb,
    }
