"""Garbage collection: finds what has been unreachable for long enough, and removes it or only reports it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec

from turnstile.coordination.tasks import Attempt, Busy, Tasks
from turnstile.gc.core import KINDS, Grace, Item
from turnstile.gc.kinds import SCANNERS
from turnstile.gc.scanner import Batch, GcContext, NotNow, Problem, Scanner
from turnstile.store.core.rows import Kind
from turnstile.store.core.writes import Row
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import World, rows_between
from turnstile.store.retry import Pause, no_pause

TASK: Final = "collect"


class Report(msgspec.Struct, frozen=True):
    """What a run found and removed: ``bytes`` is the sum over ``items``, ``deleted`` how many of them are gone and ``freed``
    their bytes (0 in a dry run); ``complete`` is False when time or ``most`` ended the run early."""

    dry_run: bool
    items: tuple[Item, ...]
    bytes: int
    deleted: int
    freed: int
    problems: tuple[Problem, ...]
    complete: bool


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


class Cursor(msgspec.Struct, frozen=True):
    """Where a run was cut off: behind the row with the key ``after`` (empty: at the first) of those that ``kind`` scans."""

    kind: Kind
    after: str = ""


class Collector:
    """Removes garbage, ``workers`` files at once. Any number may run at once, and each may die at any point: the next one
    goes on."""

    def __init__(
        self,
        world: World,
        grace: Grace | None = None,
        *,
        faults: Faults = no_faults,
        workers: int = 8,
        pause: Pause = no_pause,
    ) -> None:
        self._world, self._grace, self._faults, self._workers = world, grace or Grace(), faults, workers
        self._pause = pause

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
        cursor: Cursor | None,
        kinds: Iterable[Kind] = KINDS,
        *,
        dry_run: bool,
        until_ms: int | None = None,
        most: int = 10_000,
        imported: Iterable[str] = (),
    ) -> tuple[Report, Cursor | None]:
        """One run over ``kinds`` that begins at ``cursor`` and goes round; also returns where it was cut off, if it was.
        Every run that gets at least one row done ends at another place than it began, even if that row never gets done
        in time. So several runs reach everything, however little time each has.

        Args:
            cursor: where an earlier run was cut off; ignored if its kind is not among ``kinds``.
            until_ms: nothing more is begun after that time, or after ``most`` items.
            imported: ids of imported tables whose files are to be purged like those of managed ones.
        """
        clock = self._world.clock
        run = _Run(dry_run, most, time_is_up=lambda: until_ms is not None and clock.now_ms() >= until_ms)
        files = frozenset(imported)
        context = GcContext(self._world, self._grace, self._faults, self._workers, run.time_is_up, files, self._pause)
        done_any = False
        for kind, after, upto in _in_order(list(dict.fromkeys(kinds)), cursor):
            scanner, done = SCANNERS[kind](context), after
            for row in rows_between(self._world.refs, scanner.row_kind, after, upto):
                if run.finished():
                    return run.report(), Cursor(kind, done)
                self._scan(scanner, kind, row, run)
                if run.finished() and done_any:
                    return run.report(), Cursor(kind, done)
                done, done_any = row["key"], True
        return run.report(), None

    def _scan(self, scanner: Scanner, kind: Kind, row: Row, run: _Run) -> None:
        try:
            for batch in scanner.scan(row, self._world.clock.now_ms()):
                run.take(batch)
                if run.finished():
                    return
        except Exception as error:  # one table's failure must not keep the others' garbage
            run.problems.append(Problem(kind, str(row.get("table_id") or row.get("name")), str(error) or repr(error)))


def _in_order(kinds: list[Kind], cursor: Cursor | None) -> list[tuple[Kind, str, str]]:
    """The kinds in the order of a run that begins at ``cursor``, each with the keys to begin behind and to end at. What
    is before the cursor comes last: a kind that takes more than one run must not keep the others from theirs."""
    if cursor is None or cursor.kind not in kinds:
        return [(kind, "", "") for kind in kinds]
    first = kinds.index(cursor.kind)
    others = [(kind, "", "") for kind in kinds[first + 1 :] + kinds[:first]]
    before = [(cursor.kind, "", cursor.after)] if cursor.after else []
    return [(cursor.kind, cursor.after, ""), *others, *before]


class _Run:
    def __init__(self, dry_run: bool, most: int, *, time_is_up: Callable[[], bool]) -> None:  # noqa: FBT001 - private
        self._dry_run, self._most, self.time_is_up = dry_run, most, time_is_up
        self._items, self.problems = list[Item](), list[Problem]()
        self._deleted, self._freed, self._complete = 0, 0, True

    def finished(self) -> bool:
        if len(self._items) >= self._most or self.time_is_up():
            self._complete = False
        return not self._complete

    def take(self, batch: Batch | Problem) -> None:
        if isinstance(batch, Problem):
            self.problems.append(batch)
            return
        self._items += batch.items
        if self._dry_run:
            return
        try:
            batch.remove()
        except NotNow as reason:
            self.problems += [Problem(item.kind, item.id, str(reason)) for item in batch.items]
            return
        self._deleted += len(batch.items)
        self._freed += sum(item.bytes for item in batch.items)

    def report(self) -> Report:
        items, found_bytes = tuple(self._items), sum(item.bytes for item in self._items)
        problems = tuple(self.problems)
        return Report(self._dry_run, items, found_bytes, self._deleted, self._freed, problems, self._complete)


class _Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of the task's result that the next run needs; the totals are stored beside it."""

    next: Cursor | None = None


class CollectTask:
    """Runs a collector as a coordinated task, one run of the realm at a time: two would only do the same work twice. A
    run holds the task for as long as its process may live. If that time is over and it left no result, it has died, and
    the next one takes over, where the last result says that time cut a run off. Dry runs do not wait, and begin at the
    beginning."""

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
        """One run, or ``Busy`` if another one is at work. Three requests more than the collector's own, none in a dry run.
        This process may live for ``term_ms``, beyond ``until_ms``; the other arguments are as for ``Collector.go_on``."""
        wanted, reports = tuple(kinds), list[Report]()
        go_on = partial(
            self._collector.go_on, kinds=wanted, dry_run=dry_run, until_ms=until_ms, most=most, imported=imported
        )
        if dry_run:
            return go_on(None)[0]

        def work(attempt: Attempt) -> bytes:
            cursor = _cursor(attempt.task.result)
            report, cut_off = go_on(cursor)
            reports.append(report)
            if cut_off is None and cursor is not None and cursor.kind not in wanted:
                cut_off = cursor  # this run was about other kinds
            return msgspec.json.encode({**totals(report), **msgspec.to_builtins(_Result(cut_off))})

        done = self._tasks.run(TASK, term_ms, work)
        return done if isinstance(done, Busy) else reports[0]


def _cursor(result: bytes) -> Cursor | None:
    """Where the last run was cut off; None also for results of other versions that are not understood."""
    try:
        return msgspec.json.decode(result, type=_Result).next if result else None
    except msgspec.DecodeError:
        return None
