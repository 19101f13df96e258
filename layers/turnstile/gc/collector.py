"""Garbage collection: find what has been unreachable for long enough, and remove it, or only say what would go."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from turnstile.coordination.tasks import Busy, Running, Tasks
from turnstile.gc.core import KINDS, Grace, Item, Kind
from turnstile.gc.dropped import DroppedTables, GoneCatalogs
from turnstile.gc.iceberg import IcebergFiles
from turnstile.gc.kinds import Batch, Looker, Means, NotNow, Trouble
from turnstile.gc.objs import InlineObjs, OldMetadata
from turnstile.gc.refs import DeletedRefs
from turnstile.gc.staged import StagedFiles, StagingTables
from turnstile.gc.trees import HistoryObjs
from turnstile.store.batches import rows_between
from turnstile.store.core.writes import Row
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import World

_LOOKERS: Final[dict[Kind, Callable[[Means], Looker]]] = {
    "staged": StagedFiles,
    "staging": StagingTables,
    "dropped": DroppedTables,
    "objs": InlineObjs,
    "metadata": OldMetadata,
    "iceberg": IcebergFiles,
    "history": HistoryObjs,
    "catalogs": GoneCatalogs,
    "refs": DeletedRefs,
}


class Report(msgspec.Struct, frozen=True):
    """What was found and what became of it; JSON-friendly.

    ``bytes`` sum over ``items``; ``deleted`` how many of them are gone and ``freed`` their bytes (0 in a dry run);
    ``problems`` what was left alone, and why; ``complete`` False when time or ``most`` ended the run early.
    """

    dry_run: bool
    items: tuple[Item, ...]
    bytes: int
    deleted: int
    freed: int
    problems: tuple[Trouble, ...]
    complete: bool


class Place(msgspec.Struct, frozen=True):
    """Where a run was cut off: behind the row ``after`` of what ``kind`` looks at, or at its first one if that is empty."""

    kind: Kind
    after: str = ""


class Collector:
    """Removes garbage. Any number may run at once, and any may die at any point: the next one goes on.

    Args:
        grace: how long things stay after they became unreachable.
        workers: files that are deleted at once.
    """

    def __init__(
        self, world: World, grace: Grace | None = None, *, faults: Faults = no_faults, workers: int = 8
    ) -> None:
        self._world, self._grace, self._faults, self._workers = world, grace or Grace(), faults, workers

    def collect(
        self,
        kinds: Iterable[Kind] = KINDS,
        *,
        dry_run: bool,
        until_ms: int | None = None,
        most: int = 10_000,
        imported: Iterable[str] = (),
    ) -> Report:
        """One run over ``kinds``, from the beginning; arguments as for ``go_on``."""
        return self.go_on(None, kinds, dry_run=dry_run, until_ms=until_ms, most=most, imported=imported)[0]

    def go_on(
        self,
        place: Place | None,
        kinds: Iterable[Kind] = KINDS,
        *,
        dry_run: bool,
        until_ms: int | None = None,
        most: int = 10_000,
        imported: Iterable[str] = (),
    ) -> tuple[Report, Place | None]:
        """One run over ``kinds`` that begins at ``place`` and goes round, and the place where it was cut off, if it was.

        Every run that gets at least one row done ends at another place than it began, also if that row is never done in
        time. So whatever a single run has time for, a number of them looks at everything.

        Args:
            place: where an earlier run was cut off; of a kind that is not among ``kinds`` it means nothing.
            dry_run: only say what would be removed; nothing is written.
            until_ms: nothing more is begun after that time.
            most: items a run finds at most.
            imported: ids of imported tables whose files are to be purged like those of managed ones.
        """
        clock = self._world.clock
        run = _Run(dry_run, most, over=lambda: until_ms is not None and clock.now_ms() >= until_ms)
        means = Means(self._world, self._grace, self._faults, self._workers, run.over, frozenset(imported))
        done_any = False
        for kind, after, upto in _turned(list(dict.fromkeys(kinds)), place):
            looker, done = _LOOKERS[kind](means), after
            for row in rows_between(self._world.refs, looker.rows, after, upto):
                if run.finished():
                    return run.report(), Place(kind, done)
                self._look(looker, kind, row, run)
                if run.finished() and done_any:
                    return run.report(), Place(kind, done)
                done, done_any = row["key"], True
        return run.report(), None

    def _look(self, looker: Looker, kind: Kind, row: Row, run: _Run) -> None:
        try:
            for found in looker.look(row, self._world.clock.now_ms()):
                run.take(found)
                if run.finished():
                    return
        except Exception as error:  # one table's failure must not keep the others' garbage
            run.problems.append(Trouble(kind, str(row.get("table_id") or row.get("name")), str(error) or repr(error)))


def _turned(kinds: list[Kind], place: Place | None) -> list[tuple[Kind, str, str]]:
    """The kinds in the order of a run that begins at ``place``, with the keys to begin behind and to end at. What is
    before the place comes last: a kind that takes more than one run must not keep the others from theirs."""
    if place is None or place.kind not in kinds:
        return [(kind, "", "") for kind in kinds]
    first = kinds.index(place.kind)
    others = [(kind, "", "") for kind in kinds[first + 1 :] + kinds[:first]]
    before = [(place.kind, "", place.after)] if place.after else []
    return [(place.kind, place.after, ""), *others, *before]


class _Run:
    """What one run has found and removed so far."""

    def __init__(self, dry_run: bool, most: int, *, over: Callable[[], bool]) -> None:  # noqa: FBT001 - private
        self._dry_run, self._most, self.over = dry_run, most, over
        self._items: list[Item] = []
        self.problems: list[Trouble] = []
        self._deleted = self._freed = 0
        self._complete = True

    def finished(self) -> bool:
        """Whether time or the number of items ends the run."""
        if len(self._items) >= self._most or self.over():
            self._complete = False
        return not self._complete

    def take(self, found: Batch | Trouble) -> None:
        """Note a trouble, or a batch of items, which is removed unless this is a dry run."""
        if isinstance(found, Trouble):
            self.problems.append(found)
            return
        self._items += found.items
        if self._dry_run:
            return
        try:
            found.remove()
        except NotNow as reason:
            self.problems += [Trouble(item.kind, item.id, str(reason)) for item in found.items]
            return
        self._deleted += len(found.items)
        self._freed += sum(item.bytes for item in found.items)

    def report(self) -> Report:
        return Report(
            dry_run=self._dry_run,
            items=tuple(self._items),
            bytes=sum(item.bytes for item in self._items),
            deleted=self._deleted,
            freed=self._freed,
            problems=tuple(self.problems),
            complete=self._complete,
        )


# -- collect task -----------------------------------------------------------------------------------------------------
# Garbage collection as a coordinated task: one run at a time removes, two would only do the same work twice.
#
# A run holds the task for as long as its process may live. When that is over and it left no result, it has died, and the
# next one takes over. Dry runs wait for nobody, and begin at the beginning. What a run found, in numbers, is the task's
# result, and the place where time cut it off: there the next one goes on.


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
