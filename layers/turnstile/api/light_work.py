"""Schedules -> light work on Delta tables. Every few minutes: tables that events name, and tables
that failed or were busy. Every few hours: tables with due work among a bounded number of rows.

A run that is cut off loses nothing: the next one continues from the place in the event log, and
finds files that exist already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from itertools import product
from typing import Any, Final

from aws_lambda_powertools import Logger

from turnstile.api import settings
from turnstile.api.figures import count
from turnstile.api.services import Services
from turnstile.api.stream import remaining_ms
from turnstile.delta.attention import Rounds
from turnstile.delta.core.attention import note_of
from turnstile.delta.core.head import TableHead
from turnstile.events.append import enlisted_catalogs
from turnstile.events.deliver import Deliverer
from turnstile.events.follow_ups import Followed, FollowUpTarget
from turnstile.maintenance.work import LEFT, MaintenanceResult, MaintenanceTarget

MARGIN_MS: Final = 120_000
"""Kept of the function's time for the table under way when the time is up."""

_FIGURES: Final = ("tables", "checkpoints", "checksums", "compactions", "follow_ups", "follow_up_failures", "failures")

ROWS_MAX: Final = 1_000
"""Rows that a run of the schedule ``ALL`` passes."""

ALL: Final = {"turnstile": "maintain all"}
"""Input of the schedule that finds tables no event named."""

EVERY: Final = {"full": True}
"""The event by which a person has this run and the following ones look at all tables."""


class LightWorkHandler:
    """Handles schedules. Services are opened from the environment unless they are set before."""

    def __init__(self) -> None:
        self._logger = Logger(service="maintain")

    @cached_property
    def services(self) -> Services:
        services = Services.open(settings.maintain())
        services.prepare("maintainer")
        return services

    def maintain(self, event: Mapping[str, Any], context: Any) -> dict[str, int]:
        """Maintains the tables that earlier runs left (``LEFT``), and tables with publications
        since the last run. On the event ``ALL``: tables that were left, and tables of the next rows
        with due work. On ``EVERY`` also all others, in as many runs as that takes.
        """
        here = self.services
        figures = Counter[str]()
        left_over = list[str]()
        until_ms = here.world.clock.now_ms() + remaining_ms(context) - MARGIN_MS

        def goes_on() -> bool:
            return here.world.clock.now_ms() < until_ms

        rounds = Rounds(here.world, "maintenance", (TableHead.kind,), ROWS_MAX)

        def record(done: MaintenanceResult) -> None:
            self._record(done, figures)
            if done.outcome in LEFT:
                left_over.append(done.table_id)

        def maintain(ids: Iterable[str]) -> list[str]:
            """Returns the tables that have to be looked at again."""
            left = list[str]()
            for table_id in ids:
                done = here.maintainer.maintain(table_id) if goes_on() else None
                if done is not None:
                    record(done)
                if done is None or done.outcome in LEFT:
                    left.append(table_id)
            return left

        if event == EVERY:
            rounds.attention.want_full_pass()
        if event in (ALL, EVERY):
            rounds.run(lambda rows: maintain(here.maintainer.due_among(rows)), goes_on, maintain)
        else:
            rounds.retry(maintain)
            left_over.clear()
            targets: list[MaintenanceTarget | FollowUpTarget] = [MaintenanceTarget(here.maintainer, record, goes_on)]
            if here.settings.follow_ups:
                targets.append(FollowUpTarget(here.follow_ups, lambda done: self._follow(done, figures), goes_on))
            for catalog, target in product(enlisted_catalogs(here.world), targets):
                self._deliver(catalog, target, figures)
            if here.settings.follow_ups:
                self._ask_again(goes_on, figures)
            if left_over:
                rounds.attention.note(note_of(table_id, here.world.ids.uuid()[:8]) for table_id in left_over)
        answer = {name: figures[name] for name in _FIGURES}
        self._logger.info("maintained", extra=answer)
        count("maintenance", answer)
        return answer

    def _ask_again(self, goes_on: Callable[[], bool], figures: Counter[str]) -> None:
        """Asks again for the actions that failed. A store that does not answer is left for the next
        run."""
        try:
            for table_id in self.services.follow_ups.failing():
                if not goes_on():
                    return
                self._follow(self.services.follow_ups.follow(table_id), figures)
        except Exception:  # whatever the store's client raises
            self._logger.exception("follow-ups are not asked for again")
            figures["failures"] += 1

    def _follow(self, done: Followed, figures: Counter[str]) -> None:
        figures["follow_ups"] += len(done.actions)
        figures["follow_up_failures"] += len(done.failures)
        for action, reason in done.failures.items():
            extra = {"table": done.table_id, "action": action, "cause": reason}
            self._logger.warning("a follow-up fails", extra=extra)

    def _deliver(self, catalog: str, target: MaintenanceTarget | FollowUpTarget, figures: Counter[str]) -> None:
        try:
            done = Deliverer(self.services.world, target).deliver(catalog, go_on=target.go_on)
        except Exception:  # whatever the store's client raises: the other catalogs have their turn
            self._logger.exception("a catalog is not maintained", extra={"catalog": catalog})
            figures["failures"] += 1
            return
        if done.error:
            self._logger.warning("a catalog is not maintained", extra={"catalog": catalog, "cause": done.error})
            figures["failures"] += target.go_on()

    def _record(self, done: MaintenanceResult, figures: Counter[str]) -> None:
        figures["tables"] += done.outcome == "done"
        figures["checkpoints"] += len(done.checkpoints)
        figures["checksums"] += len(done.checksums)
        figures["compactions"] += len(done.compactions)
        if done.outcome == "failed":
            figures["failures"] += 1
            self._logger.warning("a table is not maintained", extra={"table": done.table_id, "cause": done.reason})
