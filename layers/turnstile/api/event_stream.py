"""Stream of refs -> the event logs: keys of HEADs from records, their events appended, and the
results logged and counted. Then the events are sent to targets, if there are any.

Records are hints, as for the publisher; their images show versions that have left the HEAD's tail
since. The stream sends a batch again if its events could not be appended, with all that follow it,
for as long as the stream has it: a day. A schedule finds changes that the stream lost among a
bounded number of rows; after a very late record, which means that others may be lost, it looks at
all rows. Another schedule sends events that a target did not acknowledge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any, Final

from aws_lambda_powertools import Logger

from turnstile.adapters.dynamo.models import row_of_image
from turnstile.api import settings
from turnstile.api.figures import count
from turnstile.api.services import Services
from turnstile.api.stream import oldest_ms, remaining_ms
from turnstile.delta.attention import Rounds
from turnstile.delta.core.head import TableHead
from turnstile.events.append import WATCHED, Appended, behind, enlisted_catalogs
from turnstile.events.core.events import Detail, details_of
from turnstile.store.core.writes import Row

MARGIN_MS: Final = 10_000

OLD_MS: Final = 3_600_000
"""Records that are older come after trouble that may have lost others; also how often a sandbox
says so at most."""

ROWS_MAX: Final = 256
"""Rows that the schedule passes in a run."""

DELIVER: Final = {"turnstile": "deliver"}
FULL: Final = {"full": True}
"""The event by which a person has this run and the following ones look at all rows."""
_SCHEDULED: Final = ("aws.events", "aws.scheduler")


class EventHandler:
    """Handles batches of the stream, and schedules. Services are opened from the environment unless
    they are set before."""

    def __init__(self) -> None:
        self._logger = Logger(service="events")
        self._wanted_ms = 0

    @cached_property
    def services(self) -> Services:
        services = Services.open(settings.events())
        services.prepare("appender")
        return services

    def on_refs(self, event: Mapping[str, Any], context: Any) -> dict[str, Any]:
        """Appends the events of every HEAD that the records name; on a schedule, of HEADs among the
        next rows that lack events. The schedule with the input ``DELIVER`` sends events of any log
        that targets have not acknowledged.
        """
        here = self.services
        until_ms = here.world.clock.now_ms() + remaining_ms(context) - MARGIN_MS
        if event == DELIVER:
            self._deliver(enlisted_catalogs(here.world), until_ms)
            return {}
        if event == FULL:
            self._rounds().attention.want_full_pass()
        if event == FULL or event.get("source") in _SCHEDULED:
            self._find_lost(until_ms)
            return {}
        records = event.get("Records", ())
        keys, sights = self._hints(records)
        try:
            done = here.appender.append(keys, sights, until_ms=until_ms)
        except Exception:  # whatever the store's client raises
            self._logger.exception("the batch goes back", extra={"heads": len(keys)})
            return _again(records)
        now = here.world.clock.now_ms()
        if now - oldest_ms(event, now) > OLD_MS and now - self._wanted_ms > OLD_MS:
            self._rounds().attention.want_full_pass()
            self._wanted_ms = now
        self._finish(done, until_ms)
        return _again(records) if done.left else {"batchItemFailures": []}

    def _rounds(self) -> Rounds:
        return Rounds(self.services.world, "events", WATCHED, ROWS_MAX)

    def _find_lost(self, until_ms: int) -> None:
        """Appends the events that HEADs among the next rows lack."""
        here = self.services

        def goes_on() -> bool:
            return here.world.clock.now_ms() < until_ms

        def look(rows: Sequence[Row]) -> tuple[()]:
            keys = list(behind(here.world, here.appender, rows))
            if keys:
                self._finish(here.appender.append(keys, until_ms=until_ms), until_ms)
            return ()

        self._rounds().run(look, goes_on)

    def _hints(self, records: Any) -> tuple[list[str], dict[str, dict[int, Detail]]]:
        """The HEADs that the records name, in their order, and the versions that their images
        show."""
        appender = self.services.appender
        sights = dict[str, dict[int, Detail]]()
        for record in records:
            change = record.get("dynamodb", {})
            key = change.get("Keys", {}).get("key", {}).get("S", "")
            if not appender.is_source(key):
                continue
            seen = sights.setdefault(key, {})
            try:
                row = row_of_image(key, change.get("NewImage", {}))
                if row.get("kind") == TableHead.kind:
                    seen.update(details_of(TableHead.from_row(row)))
            except Exception as error:  # an image is only a hint: the HEAD is read
                self._logger.warning("an image cannot be read", extra={"key": key, "cause": repr(error)})
        return list(sights), sights

    def _finish(self, done: Appended, until_ms: int) -> None:
        self._record(done)
        self._deliver(done.catalogs, until_ms)

    def _deliver(self, names: Iterable[str], until_ms: int) -> None:
        """Sends the events of these catalogs. A failure is logged and counted; the schedule comes
        back."""
        clock = self.services.world.clock
        figures = {"sent": 0, "failures": 0}
        for catalog, deliverer in product(names, self.services.deliverers):
            target = {"target": deliverer.target.name, "catalog": catalog}
            try:
                done = deliverer.deliver(catalog, go_on=lambda: clock.now_ms() < until_ms)
            except Exception:  # whatever the store's client raises
                self._logger.exception("events are not sent", extra=target)
                figures["failures"] += 1
                continue
            if done.error:
                self._logger.warning("a target fails", extra={**target, "cause": done.error})
                figures["failures"] += 1
            figures["sent"] += done.sent
        if self.services.deliverers:
            count("delivery", figures)

    def _record(self, done: Appended) -> None:
        figures = {
            "events": done.events,
            "writes": done.writes,
            "unreadable": len(done.unreadable),
            "left": len(done.left),
        }
        self._logger.info("events", extra=figures)
        for problem in done.unreadable:
            self._logger.error("no events are made", extra={"head": problem.key, "cause": problem.message})
        count("events", figures)


def _again(records: Any) -> dict[str, Any]:
    """The answer that makes the stream send all these records again: events that are appended
    already have their mark."""
    numbers = [record["dynamodb"].get("SequenceNumber", "") for record in records]
    return {"batchItemFailures": [{"itemIdentifier": number} for number in numbers[:1]]}
