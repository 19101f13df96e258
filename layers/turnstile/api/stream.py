"""Stream of refs -> ``_delta_log``: table ids from records, publish them, log and count the
results.

Records are hints: the HEAD says which commits to publish. They may come late, twice, in any order,
or not at all; the sweeper publishes the rest. A failure of one table is logged, noted for the
sweeper (``delta.core.attention``), and never reported to the stream, because a reported record is
sent again and blocks its shard until it expires. Only a fault that every table meets is reported,
and a note that could not be written. An old record means that the stream may have dropped others:
the sweeper is asked to look at all tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from aws_lambda_powertools import Logger

from turnstile.api import settings
from turnstile.api.figures import count
from turnstile.api.services import Services
from turnstile.delta.attention import AttentionRow
from turnstile.delta.sweep import Round, StoreUnreachable, publish_hinted

MARGIN_MS: Final = 10_000
"""Kept of the function's time for the version that is being written when the time is up."""

OLD_MS: Final = 300_000
"""Records that are older come after trouble that may have cost others; also how often a sandbox
says so at most."""


class StreamHandler:
    """Handles batches of the stream. Services are opened from the environment unless they are set
    before."""

    def __init__(self) -> None:
        self._logger = Logger(service="publish")
        self._wanted_ms = 0

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
        each_ms = here.settings.table_ms
        workers = here.settings.workers
        try:
            done = publish_hinted(here.world, here.publisher, ids, until_ms=until_ms, each_ms=each_ms, workers=workers)
        except StoreUnreachable as fault:
            return self._again(event, fault.message, len(ids))
        self._record(done)
        try:
            self._note(done, event)
        except Exception as fault:  # of any kind: without the note no run retries these tables soon
            return self._again(event, f"tables that are not published could not be noted: {fault}", len(ids))
        return {"batchItemFailures": []}

    def _note(self, done: Round, event: Mapping[str, Any]) -> None:
        """Notes for the sweeper the tables that this batch leaves unpublished."""
        world = self.services.world
        notes = done.tables_to_revisit(world.ids.uuid()[:8])
        if notes:
            AttentionRow(world).note(notes)
        now = world.clock.now_ms()
        if now - oldest_ms(event, now) > OLD_MS and now - self._wanted_ms > OLD_MS:
            AttentionRow(world).want_full_pass()
            self._wanted_ms = now

    def _again(self, event: Mapping[str, Any], reason: str, tables: int) -> dict[str, Any]:
        """Has the stream send the batch, and all that follow, again."""
        self._logger.error("the batch goes back: %s", reason, extra={"tables": tables})
        numbers = [record["dynamodb"].get("SequenceNumber", "") for record in event.get("Records", ())]
        return {"batchItemFailures": [{"itemIdentifier": number} for number in numbers[:1]]}

    def _record(self, done: Round) -> None:
        """One log line a batch, one more for every table that has a problem, and the figures as
        metrics."""
        totals = done.totals()
        self._logger.info("batch", extra=totals)
        for complaint in done.complaints():
            self._logger.warning("table not published", extra={"problem": complaint})
        count("publish", totals)


def _table_ids(event: Mapping[str, Any], prefix: str) -> list[str]:
    """The tables that the records name, in their order. A record without an image is a hint as good
    as any."""
    ids: dict[str, None] = {}
    for record in event.get("Records", ()):
        change = record.get("dynamodb", {})
        key = change.get("Keys", {}).get("key", {}).get("S", "")
        if key.startswith(prefix) and "pending" in change.get("NewImage", {"pending": None}):
            ids[key.removeprefix(prefix)] = None
    return list(ids)


def oldest_ms(event: Mapping[str, Any], now_ms: int) -> int:
    """When the oldest record was written; now where none says it."""
    times = (record.get("dynamodb", {}).get("ApproximateCreationDateTime") for record in event.get("Records", ()))
    return min((int(float(seconds) * 1000) for seconds in times if seconds), default=now_ms)


def remaining_ms(context: Any) -> int:
    """Returns how long this invocation may live (ms)."""
    return int(context.get_remaining_time_in_millis()) if context is not None else 60_000
