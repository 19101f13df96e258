"""Garbage collection as a coordinated task: one run at a time removes, two would only do the same work twice.

A run holds the task for as long as its process may live. When that is over and it left no result, it has died, and the
next one takes over. Dry runs wait for nobody, and begin at the beginning. What a run found, in numbers, is the task's
result, and the place where time cut it off: there the next one goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from turnstile.coordination.tasks import Busy, Running, Tasks
from turnstile.gc.collect import Collector, Place, Report
from turnstile.gc.core_gc_plan import KINDS, Kind
from turnstile.store.world import World

TASK: Final = "collect"


class _Left(msgspec.Struct, frozen=True, omit_defaults=True):
    """Of the task's result, what the next run needs: ``next`` is where it goes on. The figures are beside it."""

    next: Place | None = None


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
        wanted = tuple(kinds)
        if dry_run:
            return self._collector.collect(wanted, dry_run=True, until_ms=until_ms, most=most, imported=imported)
        reports: list[Report] = []

        def work(running: Running) -> bytes:
            place = _left(running.task.result)
            report, cut = self._collector.go_on(
                place, wanted, dry_run=False, until_ms=until_ms, most=most, imported=imported
            )
            reports.append(report)
            if cut is None and place is not None and place.kind not in wanted:
                cut = place  # this run was about something else
            return msgspec.json.encode({**totals(report), **msgspec.to_builtins(_Left(cut))})

        done = self._tasks.run(TASK, term_ms, work)
        return done if isinstance(done, Busy) else reports[0]


def _left(result: bytes) -> Place | None:
    """Where the last run was cut off; None also for results of other versions that say it differently."""
    try:
        return msgspec.json.decode(result, type=_Left).next if result else None
    except msgspec.DecodeError:
        return None


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
