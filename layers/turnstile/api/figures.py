"""Figures of runs as metrics of CloudWatch, in lines of the log (embedded metric format).
``TURNSTILE_METRICS`` chooses them:

    alarms figures that infra/alarms.yaml reads, of a run in which one of them is not 0; nothing
             while all is well (default)
    all      every figure of every run, and of each operation of the API its duration, refusals and
             failures, and the rows that were added over HTTP
    none     nothing

CloudWatch takes $0.30 a month for a metric, by the hours in which it has a value, and counts each
combination of name and dimensions as one. So the default costs nothing while idle, and a deployment
in trouble has ``len(watched())`` at most.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from turnstile.api.http.env import BadSetting, text

Detail = Literal["alarms", "all", "none"]

VARIABLE: Final = "TURNSTILE_METRICS"
NAMESPACE: Final = "Turnstile"
WATCHED: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "gc": {"sweep": ("failures", "stuck", "unreadable", "incomplete"), "collect": ("incomplete", "problems")},
    "maintenance": {"": ("failures",)},
    "delivery": {"": ("failures",)},
}
"""Figures that alarms read, by service and run. Figures of a run are sent together: an alarm
computes with several."""

_UNITS: Final = {"lag_ms": MetricUnit.Milliseconds, "freed": MetricUnit.Bytes, "bytes": MetricUnit.Bytes}


def detail() -> Detail:
    """The choice of the deployment. Raises BadSetting."""
    value = text(VARIABLE, "alarms")
    if value not in get_args(Detail):
        raise BadSetting(f"{VARIABLE} must be one of {', '.join(get_args(Detail))}, not {value}")
    return value  # type: ignore[return-value]


def figures_to_send(wanted: Detail, service: str, run: str, figures: Mapping[str, int]) -> dict[str, int]:
    """Returns the figures of a run that are sent."""
    if wanted == "all":
        return dict(figures)
    names = WATCHED.get(service, {}).get(run, ()) if wanted == "alarms" else ()
    chosen = {name: figures[name] for name in names if name in figures}
    return chosen if any(chosen.values()) else {}


def count(service: str, figures: Mapping[str, int], *, run: str = "") -> None:
    """Writes the figures of a run as metrics. Figures of scheduled runs have the function as a
    dimension: a second stack of the account has another one."""
    chosen = figures_to_send(detail(), service, run, figures)
    if not chosen:
        return
    metrics: Any = EphemeralMetrics(namespace=NAMESPACE, service=service)
    if run:
        metrics.add_dimension("run", run)
    if service in WATCHED:
        metrics.add_dimension("function_name", os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "local"))
    for name, value in chosen.items():
        metrics.add_metric(name, _UNITS.get(name, MetricUnit.Count), value)
    # Lambda takes a line without a level for one of INFO, and leaves it out where the log has only
    # warnings.
    metrics.add_metadata("level", "ERROR" if any(chosen.values()) else "INFO")
    metrics.add_metadata("timestamp", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    metrics.flush_metrics()


class RequestFigures:
    """Writes the figures of requests; ``service`` and the operation are dimensions. Only for a
    deployment with ``detail() == "all"``."""

    def __init__(self, service: str) -> None:
        self._kept = _Kept(service)

    def record(self, operation: str, status: int, duration_ms: float, rows: int | None = None) -> None:
        """Writes one line of metrics for a request; ``rows`` that it added, if it may add some."""
        metrics = self._kept.metrics
        metrics.clear_metrics()  # powertools keeps them where metrics are disabled
        metrics.add_dimension("operation", operation)
        metrics.add_metric("duration", MetricUnit.Milliseconds, duration_ms)
        metrics.add_metric("refused", MetricUnit.Count, 1 if 400 <= status < 500 else 0)
        metrics.add_metric("failed", MetricUnit.Count, 1 if status >= 500 else 0)
        if rows:
            metrics.add_metric("rows", MetricUnit.Count, rows)
        metrics.flush_metrics()


class _Kept(threading.local):
    """The metrics of one thread, filled anew for every request: to make them takes longer than to
    fill them."""

    def __init__(self, service: str) -> None:
        self.metrics: Any = EphemeralMetrics(namespace=NAMESPACE, service=service)
