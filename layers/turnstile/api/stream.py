"""Stream of refs -> ``_delta_log``: records to table ids, publish them, log and count what became of it.

Records are hints: the HEAD says what is to be published. They may come late, twice, in any order, or not at all; the
sweeper closes what is left. A table's own failure is logged and never reported to the stream, because a reported
record is sent again and blocks its shard until it expires. Only a fault that every table meets is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.metrics import EphemeralMetrics, MetricUnit

from turnstile.api import settings
from turnstile.api.services import Services
from turnstile.delta.sweep import Round, StoreUnreachable, publish_hinted

MARGIN_MS: Final = 10_000
"""Kept of the function's time for the version that is being written when the time is up."""

_UNITS: Final = {"lag_ms": MetricUnit.Milliseconds, "freed": MetricUnit.Bytes, "bytes": MetricUnit.Bytes}


class StreamHandler:
    """Handles batches of the stream. Services are opened from the environment unless they are set before."""

    def __init__(self) -> None:
        self._logger = Logger(service="publish")

    @cached_property
    def services(self) -> Services:
        services = Services.open(settings.publish())
        services.prepare("publisher")
        return services

    def on_refs(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Publishes every table that the records name, the one that has waited longest first."""
        here = self.services
        until_ms = here.world.clock.now_ms() + remaining_ms(context) - MARGIN_MS
        ids = _table_ids(event, here.world.space.table(""))
        each_ms, workers = here.settings.table_ms, here.settings.workers
        try:
            done = publish_hinted(here.world, here.publisher, ids, until_ms=until_ms, each_ms=each_ms, workers=workers)
        except StoreUnreachable as fault:
            self._logger.error("the batch goes back: %s", fault.message, extra={"tables": len(ids)})  # noqa: TRY400 - a cause, not a bug
            numbers = [record["dynamodb"].get("SequenceNumber", "") for record in event.get("Records", ())]
            first = [{"itemIdentifier": number} for number in numbers[:1]]
            return {"batchItemFailures": first}  # the stream sends it and all that follow again
        self._record(done)
        return {"batchItemFailures": []}

    def _record(self, done: Round) -> None:
        """One log line a batch, one more for every table that has a problem, and the figures as metrics."""
        totals = done.totals()
        self._logger.info("batch", extra=totals)
        for complaint in done.complaints():
            self._logger.warning("table not published", extra={"problem": complaint})
        count("publish", totals)


def _table_ids(event: Mapping[str, Any], prefix: str) -> list[str]:
    """The tables that the records name, in their order. A record without an image is a hint as good as any."""
    ids: dict[str, None] = {}
    for record in event.get("Records", ()):
        change = record.get("dynamodb", {})
        key = change.get("Keys", {}).get("key", {}).get("S", "")
        if key.startswith(prefix) and "pending" in change.get("NewImage", {"pending": None}):
            ids[key.removeprefix(prefix)] = None
    return list(ids)


def count(service: str, figures: Mapping[str, int], **dimensions: str) -> None:
    """Writes the figures of a run as metrics."""
    metrics = EphemeralMetrics(namespace="Turnstile", service=service)
    for name, text in dimensions.items():
        metrics.add_dimension(name, text)
    for name, value in figures.items():
        metrics.add_metric(name, _UNITS.get(name, MetricUnit.Count), value)
    metrics.flush_metrics()


def remaining_ms(context: Any) -> int:
    """Returns how long this invocation may live (ms)."""
    return int(context.get_remaining_time_in_millis()) if context is not None else 60_000
