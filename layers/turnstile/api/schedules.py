"""Schedules and events -> ``sweep`` (publish changes that the stream lost) and ``collect`` (remove
unreachable rows and files)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from aws_lambda_powertools import Logger

from turnstile.api import settings
from turnstile.api.figures import count
from turnstile.api.services import Services
from turnstile.api.stream import remaining_ms
from turnstile.coordination.tasks import Busy
from turnstile.delta.recover import mark_all_restored
from turnstile.gc.collector import totals
from turnstile.gc.core import KINDS
from turnstile.store.core.rows import Kind

MARGIN_MS: Final = 15_000
"""The part of the function's time that is reserved for running work when the time is up."""

_SCHEDULED: Final = ("aws.events", "aws.scheduler")
_PROBLEMS_MAX: Final = 50


class CollectEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event that a person or a program sent: the kinds to collect, and whether it is a dry
    run."""

    dry_run: bool = False
    kinds: tuple[Kind, ...] = KINDS
    imported: tuple[str, ...] = ()
    most: int = 10_000


class SweepEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event that a person or a program sent; ``restored``: refs was restored and nothing is
    ratified yet; ``full``: this and the following runs look at all tables once."""

    restored: bool = False
    full: bool = False


class ScheduleHandler:
    """Handles schedules and events. Services are opened from the environment unless they are set
    before."""

    def __init__(self) -> None:
        self._logger = Logger(service="gc")

    @cached_property
    def services(self) -> Services:
        services = Services.open(settings.gc())
        services.prepare("sweeper", "collect_task")
        return services

    def sweep(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Every minute: publishes the tables that could not be published when the stream named
        them, and unpublished commits among the next rows (``delta.core.attention``). The event
        ``{"full": true}`` asks for a look at all tables. On ``{"restored": true}`` it only marks
        every table as recovering, so that none takes a commit before its log has been checked
        (``delta.recover``); the next runs check all of them.
        """
        here = self.services
        if event.get("source") not in _SCHEDULED:
            sent = msgspec.convert(event, SweepEvent)
            if sent.full:
                here.sweeper.want_full_pass()
            if sent.restored:
                figures = {"restored": mark_all_restored(here.world)}
                here.sweeper.want_full_pass()
                self._record("restored", figures, [])
                return figures
        each_ms = here.settings.table_ms
        workers = here.settings.workers
        rows_max = here.settings.sweep_rows
        swept = here.sweeper.sweep_part(
            until_ms=self._until_ms(context), each_ms=each_ms, workers=workers, rows_max=rows_max
        )
        heads = {"heads": swept.tables, "unreadable": len(swept.unreadable), "incomplete": int(not swept.complete)}
        figures = {**swept.round.totals(), **heads}
        problems = [*swept.round.complaints(), *(msgspec.to_builtins(row) for row in swept.unreadable)]
        self._record("sweep", figures, problems)
        return figures

    def collect(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Every day for a bounded part of all rows, or on an event like ``{"dry_run": true,
        "kinds": ["staged"]}`` for all: removes unreachable rows and files, unless another run does
        so at the same time.
        """
        scheduled = event.get("source") in _SCHEDULED
        request = CollectEvent(most=200_000) if scheduled else msgspec.convert(event, CollectEvent)
        report = self.services.collect_task.run(
            remaining_ms(context),
            request.kinds,
            dry_run=request.dry_run,
            until_ms=self._until_ms(context),
            most=request.most,
            imported=request.imported,
            in_parts=scheduled,
        )
        if isinstance(report, Busy):
            reason = {"reason": report.reason} if report.reason else {}
            self._record("collect", {"busy": 1}, [reason] if reason else [])
            return {"busy": 1, "attempt": report.attempt, "until": report.until, **reason}
        answer: dict[str, Any] = msgspec.to_builtins(report)
        self._record("dry run" if request.dry_run else "collect", totals(report), answer["problems"])
        return totals(report) if scheduled else answer

    def _until_ms(self, context: Any) -> int:
        return self.services.world.clock.now_ms() + remaining_ms(context) - MARGIN_MS

    def _record(self, what: str, totals: Mapping[str, int], problems: list[dict[str, Any]]) -> None:
        """One log line a run, one more for each of the first problems, and the figures as metrics.

        infra/alarms.yaml watches some of them, by these dimensions: a second stack of the account
        has another function.
        """
        self._logger.info(what, extra=dict(totals))
        for problem in problems[:_PROBLEMS_MAX]:
            self._logger.warning("left alone", extra={"run": what, "problem": problem})
        count("gc", totals, run=what)
