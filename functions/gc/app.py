"""Schedules and events -> ``sweep`` (publish what the stream lost) and ``collect`` (remove what is unreachable).

Glue only: read the event, call one operation, log and count what became of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit
from wiring import services, use_world

from turnstile.api.http.env import in_lambda
from turnstile.coordination.tasks import Busy
from turnstile.gc.collector import totals
from turnstile.gc.core import KINDS
from turnstile.store.core.obj_types import Kind

__all__ = ["collect", "sweep", "use_world"]

MARGIN_MS: Final = 15_000
"""Kept of the function's time for what is under way when the time is up."""

_UNITS: Final = {"lag_ms": MetricUnit.Milliseconds, "freed": MetricUnit.Bytes, "bytes": MetricUnit.Bytes}
_SCHEDULED: Final = ("aws.events", "aws.scheduler")
_LOGGED: Final = 50

logger = Logger(service="gc")


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event that a person or a program sent: what to collect, and whether only to say so."""

    dry_run: bool = False
    kinds: tuple[Kind, ...] = KINDS
    imported: tuple[str, ...] = ()
    most: int = 10_000


def sweep(_event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Every minute: publish every table that has something unpublished."""
    here = services()
    swept = here.sweeper.sweep(until_ms=_until(context), each_ms=here.table_ms, workers=here.workers)
    figures = {
        **swept.round.totals(),
        "heads": swept.tables,
        "unreadable": len(swept.unreadable),
        "incomplete": int(not swept.complete),
    }
    complaints = [*swept.round.complaints(), *(msgspec.to_builtins(one) for one in swept.unreadable)]
    _tell("sweep", figures, complaints)
    return figures


def collect(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Every day, or on an event like ``{"dry_run": true, "kinds": ["staged"]}``: remove what is unreachable, unless
    another run is at it."""
    scheduled = event.get("source") in _SCHEDULED
    asked = Asked(most=200_000) if scheduled else msgspec.convert(event, Asked)
    found = services().collect_task.run(
        _remaining(context),
        asked.kinds,
        dry_run=asked.dry_run,
        until_ms=_until(context),
        most=asked.most,
        imported=asked.imported,
    )
    if isinstance(found, Busy):
        _tell("collect", {"busy": 1}, [])
        return {"busy": 1, "attempt": found.attempt, "until": found.until}
    answer: dict[str, Any] = msgspec.to_builtins(found)
    _tell("dry run" if asked.dry_run else "collect", totals(found), answer["problems"])
    return totals(found) if scheduled else answer


def _remaining(context: Any) -> int:
    """How long this invocation may live (ms)."""
    return int(context.get_remaining_time_in_millis()) if context is not None else 60_000


def _until(context: Any) -> int:
    return services().world.clock.now_ms() + _remaining(context) - MARGIN_MS


def _tell(what: str, totals: Mapping[str, int], complaints: list[dict[str, Any]]) -> None:
    """One log line a run, one more for each of the first problems, and the figures as metrics.

    infra/alarms.yaml watches some of them, by these dimensions: a second stack of the account has another function.
    """
    logger.info(what, extra=dict(totals))
    for complaint in complaints[:_LOGGED]:
        logger.warning("left alone", extra={"run": what, "problem": complaint})
    metrics = EphemeralMetrics(namespace="Turnstile", service="gc")
    metrics.add_dimension("run", what)
    metrics.add_dimension("function_name", os.environ.get("AWS_LAMBDA_FUNCTION_NAME", "local"))
    for name, value in totals.items():
        metrics.add_metric(name, _UNITS.get(name, MetricUnit.Count), value)
    metrics.flush_metrics()


if in_lambda():
    services()
