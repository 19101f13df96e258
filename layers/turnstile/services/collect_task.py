"""Garbage collection as a coordinated task: one run at a time removes, two would only do the same work twice.

A run holds the task for as long as its process may live. When that is over and it left no result, it has died, and the
next one takes over. Dry runs wait for nobody. What a run found, in numbers, is the task's result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from turnstile.core.gc_plan import KINDS, Kind
from turnstile.services.collect import Collector, Report
from turnstile.services.tasks import Busy, Running, Tasks
from turnstile.world import World

TASK: Final = "collect"


class CollectTask:
    """Runs a collector, one run of the realm at a time."""

    def __init__(self, world: World, collector: Collector) -> None:
        self._tasks, self._collector = Tasks(world), collector

    def run(
        self,
        term_ms: int,
        kinds: Iterable[Kind] = KINDS,
        *,
        dry_run: bool,
        until_ms: int,
        most: int = 10_000,
        imported: Iterable[str] = (),
    ) -> Report | Busy:
        """One run, or who is at it: three requests more than the collector's own, none in a dry run.

        Args:
            term_ms: how long this process may live; ``until_ms`` is earlier than its end.
            kinds, dry_run, until_ms, most, imported: as for ``Collector.collect``.
        """
        reports: list[Report] = []

        def work(_: Running | None = None) -> bytes:
            report = self._collector.collect(kinds, dry_run=dry_run, until_ms=until_ms, most=most, imported=imported)
            reports.append(report)
            return msgspec.json.encode(totals(report))

        if dry_run:
            work()
        else:
            done = self._tasks.run(TASK, term_ms, work)
            if isinstance(done, Busy):
                return done
        return reports[0]


def totals(report: Report) -> dict[str, int]:
    """A report in numbers."""
    return {
        "items": len(report.items),
        "bytes": report.bytes,
        "deleted": report.deleted,
        "freed": report.freed,
        "problems": len(report.problems),
        "incomplete": int(not report.complete),
    }
