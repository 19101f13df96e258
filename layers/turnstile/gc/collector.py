"""Garbage collection: finds rows, objs and files that have been unreachable for long enough, and
removes or reports them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import msgspec

from turnstile.catalog.core.rows import CatalogHead, GoneCatalog
from turnstile.coordination.heartbeat import Heartbeat
from turnstile.coordination.tasks import Busy, Tasks
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.gc.core import KINDS, Grace, Item, Place, idle_since
from turnstile.gc.kinds import SCANNERS
from turnstile.gc.scanner import Batch, GcContext, NotNow, Problem, Scanner
from turnstile.store.core.errors import ErrorType, StateConflict
from turnstile.store.core.names import is_branch
from turnstile.store.core.rows import Kind, is_damaged
from turnstile.store.core.writes import Row
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import World, rows_between
from turnstile.store.retry import Pause, no_pause

TASK: Final = "collect"

ROWS_MAX: Final = 16_384
"""Rows that a scheduled run passes; a round of more takes several days."""

IDLE_MAX: Final = 512
"""Rows that a scheduled run passes beside these to look at idle tables."""

IDLE_KIND: Final[Kind] = "staged"
"""Garbage of tables that do not change: files of writers that died before they proposed them."""

AHEAD_MS: Final = 5 * 60_000
"""A run removes nothing if its clock is further ahead (ADR 64)."""

_PAGE: Final = 512


LEASE_MS: Final = 8 * 60_000
"""The term of a run's lease, which the run renews: a server checks whether gc is due ten minutes
after its start, and takes over a run that a kill interrupted then."""

Beat = Callable[[], bool]


def _no_beat() -> bool:
    return True


class Report(msgspec.Struct, frozen=True):
    """The findings and removals of a run: ``bytes`` is the sum over ``items``, ``deleted`` how many
    of them are gone and ``freed`` their bytes (0 in a dry run); ``complete`` is False when time or
    ``most`` ended the run early.
    """

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
    """The position at which a run was cut off: among the rows that ``kind`` scans, behind the row
    with the key ``after`` (empty: at the first)."""

    kind: Kind
    after: str = ""


class Collector:
    """Removes garbage, ``workers`` files at once. Any number may run at once, and each may die at
    any point: the next one goes on."""

    def __init__(
        self,
        world: World,
        grace: Grace | None = None,
        *,
        faults: Faults = no_faults,
        workers: int = 8,
        pause: Pause = no_pause,
    ) -> None:
        self._world = world
        self._grace = grace or Grace()
        self._faults = faults
        self._workers = workers
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
        beat: Beat = _no_beat,
    ) -> tuple[Report, Cursor | None]:
        """One run over ``kinds`` that begins at ``cursor`` and goes round; also returns the
        position at which it was cut off, if it was. Every run that gets at least one row done ends
        at another place than it began, even if that row never gets done in time. So several runs
        reach everything, however little time each has.

        Args:
            cursor: where an earlier run was cut off; ignored if its kind is not among ``kinds``.
            until_ms: nothing more is begun after that time, or after ``most`` items.
            imported: ids of imported tables that are to be purged with their files, like managed
                ones.
            beat: called wherever the run may end; if it returns False, the run ends.
        """
        clock = self._world.clock
        run = _Run(
            dry_run, most, time_is_up=lambda: not beat() or (until_ms is not None and clock.now_ms() >= until_ms)
        )
        files = frozenset(imported)
        context = GcContext(self._world, self._grace, self._faults, self._workers, run.time_is_up, files, self._pause)
        done_any = False
        for kind, after, upto in _in_order(list(dict.fromkeys(kinds)), cursor):
            scanner = SCANNERS[kind](context)
            done = after
            for row in rows_between(self._world.refs, scanner.row_kind, after, upto):
                if run.is_at_limit():
                    return run.report(), Cursor(kind, done)
                self._scan(scanner, kind, row, run)
                if run.is_at_limit() and done_any:
                    return run.report(), Cursor(kind, done)
                done = row["key"]
                done_any = True
        return run.report(), None

    def go_round(
        self,
        place: Place,
        kinds: Iterable[Kind] = KINDS,
        *,
        until_ms: int,
        most: int = 10_000,
        imported: Iterable[str] = (),
        beat: Beat = _no_beat,
    ) -> tuple[Report, Place]:
        """One run over a part of the rows, of all kinds at once, so that the cost of a day does not
        grow with the number of tables (decision 60): ``ROWS_MAX`` rows behind ``place``, without
        tables that are idle (``core.idle_since``), and of idle tables the next few. Other arguments
        as for ``go_on``. Also returns where the next run begins; that is another place if one row
        was done.
        """
        clock = self._world.clock
        place = place.start_run(self._world.clock.now_ms())
        run = _Run(False, most, time_is_up=lambda: not beat() or clock.now_ms() >= until_ms)
        context = GcContext(
            self._world, self._grace, self._faults, self._workers, run.time_is_up, frozenset(imported), self._pause
        )
        scanners: dict[str, list[tuple[Kind, Scanner]]] = {}
        for kind in dict.fromkeys(kinds):
            scanner = SCANNERS[kind](context)
            scanners.setdefault(scanner.row_kind, []).append((kind, scanner))
        idle_ms = idle_since(place, self._grace)

        def look(after: str, by: Mapping[str, list[tuple[Kind, Scanner]]], rows_max: int, *, idle: bool) -> str:
            """Scans the next rows, either of idle tables or of the others; returns the last key,
            empty: the end. A row that is not done when the run ends has another turn, unless it was
            the first.
            """
            done_any = False
            for passed in range(0, rows_max, _PAGE):
                rows, reached = self._world.refs.scan_part(by, after=after, limit=min(_PAGE, rows_max - passed))
                for row in rows:
                    if run.is_at_limit():
                        return after
                    for kind, scanner in by[row["kind"]] if _is_idle(row, idle_ms) == idle else ():
                        self._scan(scanner, kind, row, run)
                    if run.is_at_limit() and done_any:
                        return after
                    after = row["key"]
                    done_any = True
                after = reached
                if not after:
                    break
            return after

        after = look(place.after, scanners, ROWS_MAX, idle=False)
        of_idle = {TableHead.kind: [each for each in scanners.get(TableHead.kind, ()) if each[0] == IDLE_KIND]}
        idle_after = look(place.idle_after, of_idle, IDLE_MAX, idle=True)
        return run.report(), msgspec.structs.replace(place, after=after, idle_after=idle_after)

    def _scan(self, scanner: Scanner, kind: Kind, row: Row, run: _Run) -> None:
        if is_damaged(row):  # what it may refer to stays
            run.problems.append(
                Problem(kind, row["key"], f"row '{row['key']}' cannot be read, so nothing of it is removed")
            )
            return
        if row["kind"] in _CATALOGS and is_branch(row["name"]):  # its objs and files are its catalog's
            return
        try:
            for batch in scanner.scan(row, self._world.clock.now_ms()):
                run.take(batch)
                if run.is_at_limit():
                    return
        except Exception as error:  # one table's failure must not keep the others' garbage
            run.problems.append(Problem(kind, str(row.get("table_id") or row.get("name")), str(error) or repr(error)))


_CATALOGS: Final = (CatalogHead.kind, GoneCatalog.kind)


def _is_idle(row: Row, idle_ms: int) -> bool:
    """Whether the row is of a table that nothing has changed for so long."""
    if is_damaged(row):
        return False
    changed_ms = row.get("changed_at") or row.get("created", 0)
    return row["kind"] == TableHead.kind and row.get("state") == ACTIVE and bool(changed_ms < idle_ms)


def _in_order(kinds: list[Kind], cursor: Cursor | None) -> list[tuple[Kind, str, str]]:
    """The kinds in the order of a run that begins at ``cursor``, each with the keys to begin behind
    and to end at. The part before the cursor comes last: a kind that takes more than one run must
    not keep the others from theirs.
    """
    if cursor is None or cursor.kind not in kinds:
        return [(kind, "", "") for kind in kinds]
    first = kinds.index(cursor.kind)
    others = [(kind, "", "") for kind in kinds[first + 1 :] + kinds[:first]]
    before = [(cursor.kind, "", cursor.after)] if cursor.after else []
    return [(cursor.kind, cursor.after, ""), *others, *before]


class _Run:
    def __init__(self, dry_run: bool, most: int, *, time_is_up: Callable[[], bool]) -> None:  # noqa: FBT001 - private
        self._dry_run = dry_run
        self._most = most
        self.time_is_up = time_is_up
        self._items = list[Item]()
        self.problems = list[Problem]()
        self._deleted = 0
        self._freed = 0
        self._complete = True

    def is_at_limit(self) -> bool:
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
        items = tuple(self._items)
        found_bytes = sum(item.bytes for item in self._items)
        problems = tuple(self.problems)
        return Report(self._dry_run, items, found_bytes, self._deleted, self._freed, problems, self._complete)


class _Result(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part of the task's result that the next run needs; the totals are stored beside it.
    ``place``: of scheduled runs in parts."""

    next: Cursor | None = None
    place: Place = Place()


class CollectTask:
    """Runs a collector as a coordinated task, one run of the realm at a time: two would only do the
    same work twice. A run holds the task by a lease that it renews. If that is over and the run
    left no result, it has died, and the next one takes over, where the last result says that time
    cut a run off. Dry runs do not wait, and begin at the beginning.
    """

    def __init__(self, world: World, collector: Collector, *, ahead_ms: Callable[[], int] = lambda: 0) -> None:
        """``ahead_ms``: how far this process's clock is ahead of others; such a clock takes young
        files and rows for old ones."""
        self._tasks = Tasks(world)
        self._collector = collector
        self._ahead_ms = ahead_ms
        self._clock = world.clock

    def rest_ms(self, every_ms: int) -> int:
        """How long it is until the next run, of one every ``every_ms``; 0 where the last one has
        not ended, failed, or never was: one read."""
        last = self._tasks.last(TASK)
        if last is None or last.until or last.failure:
            return 0
        return max(0, min(last.ended + every_ms - self._clock.now_ms(), every_ms))

    def run(
        self,
        term_ms: int,
        kinds: Iterable[Kind] = KINDS,
        *,
        dry_run: bool,
        until_ms: int,
        most: int = 10_000,
        imported: Iterable[str] = (),
        in_parts: bool = False,
    ) -> Report | Busy:
        """One run, or ``Busy`` if another one is at work. Three requests more than the collector's
        own, none in a dry run. Raises StateConflict (``ClockAhead``) where the clock is ahead by
        more than ``AHEAD_MS``: nothing is removed. A dry run may lie then. This process may live
        for ``term_ms``, beyond ``until_ms``, and no lease of it is longer; ``in_parts``: it looks
        at a bounded number of rows (``Collector.go_round``); the other arguments are as for
        ``Collector.go_on``.
        """
        wanted = tuple(kinds)
        go_on = partial(
            self._collector.go_on, kinds=wanted, dry_run=dry_run, until_ms=until_ms, most=most, imported=imported
        )
        if dry_run:
            return go_on(None)[0]

        lease_ms = min(term_ms, LEASE_MS)
        attempt = self._tasks.begin(TASK, lease_ms)
        if isinstance(attempt, Busy):
            return attempt
        heartbeat = Heartbeat(self._tasks, attempt, self._clock, lease_ms)
        last = _result(attempt.task.result)
        try:
            self._require_right_clock()
            if in_parts:
                report, place = self._collector.go_round(
                    last.place, wanted, until_ms=until_ms, most=most, imported=imported, beat=heartbeat.beat
                )
                left = _Result(last.next, place)
            else:
                report, cut_off = go_on(last.next, beat=heartbeat.beat)
                if cut_off is None and last.next is not None and last.next.kind not in wanted:
                    cut_off = last.next  # this run was about other kinds
                left = _Result(cut_off, last.place)
        except Exception as error:  # kept in the task for its readers, and raised for the caller
            self._tasks.fail(heartbeat.attempt, repr(error))
            raise
        self._tasks.finish(heartbeat.attempt, msgspec.json.encode({**totals(report), **msgspec.to_builtins(left)}))
        return report

    def _require_right_clock(self) -> None:
        ahead_ms = self._ahead_ms()
        if ahead_ms > AHEAD_MS:
            raise StateConflict(
                ErrorType.CLOCK_AHEAD,
                f"this server's clock is {ahead_ms // 1000} s ahead, so that young files look old enough to be removed",
                remedy="set the clock of the server, and see that it is synchronised; nothing was removed",
                ahead_ms=ahead_ms,
            )


def _result(result: bytes) -> _Result:
    """The result of the last run; empty also for results of other versions that are not
    understood."""
    try:
        return msgspec.json.decode(result, type=_Result) if result else _Result()
    except msgspec.DecodeError:
        return _Result()
