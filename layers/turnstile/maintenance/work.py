"""Light work on tables: after versions were published, a worker does the due work of the table
(I15).

    1  the task's row       says from which floor on work is due; most events end here
    2  the HEAD             the table must be active, and must have a log of its own
    3  the task             one attempt a table at a time, with a short lease; each read and write
                            renews the lease
    4  the log              one listing: the files of the log, and the work that is due
    5  checkpoints          the oldest first, since each one is the base of the next; then the
                            checksum of the version
    6  log compaction files
    7  further work         of other subjects: the file index (``planning``)
    8  the task ends        with the floor from which on work is due again

Each file is written put-if-absent and describes a published version, so a late or second writer
writes the same file. The worker reads the HEAD again before it writes a file: after a freeze it
must not write into the folder of a table that is gone (I10).

After a failure a table gets a pause, which doubles with each further failure; the task keeps the
reason. Work on other tables goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, Protocol

import msgspec

from turnstile.coordination.core.rows import Task
from turnstile.coordination.heartbeat import LEASE_MS, Heartbeat
from turnstile.coordination.tasks import Attempt, Busy, Tasks
from turnstile.delta.commits import read_head
from turnstile.delta.core.head import ACTIVE, DROPPED, TableHead
from turnstile.delta.log.cached_commits import CachedCommits, CommitCache
from turnstile.delta.log.files import list_log
from turnstile.delta.soundness.judge import ratified_sizes
from turnstile.maintenance.beating import BeatingStorage
from turnstile.maintenance.core.candidates import runs_task
from turnstile.maintenance.core.due import LONGEST_PAUSE_MS, due, pause_ms
from turnstile.maintenance.core.upkeep import upkeep_of
from turnstile.maintenance.state import TableState, derive, open_state
from turnstile.store.core.errors import ErrorType, NotFound, StateConflict, TurnstileError, UnreadableRow
from turnstile.store.core.terms import is_over
from turnstile.store.core.writes import Row
from turnstile.store.faults import Faults, no_faults
from turnstile.store.ports import LogStorage, World, rows_between

TERM_MS: Final = 15 * 60_000
"""How long an attempt may take: as long as a function may run. Its lease (``heartbeat.LEASE_MS``)
is shorter."""
MARGIN_MS: Final = 60_000
"""Kept of it: no file comes to be later than that before its end."""
COMMIT_BYTES: Final = 8 * 1024 * 1024
"""Commits that an attempt remembers: state, checkpoint and compaction each need them."""
PUBLISHED: Final = "turnstile.table.published"
GONE: Final = "turnstile.table.dropped"
TARGET: Final = "(maintenance)"
"""Name of the place in the event log; no target of a deployment is named so."""

Outcome = Literal["done", "nothing due", "busy", "paused", "not maintained", "failed"]
LEFT: Final[frozenset[Outcome]] = frozenset({"busy", "paused", "failed"})
"""Outcomes that leave something due: the table has to be tried again, though no event names it any
more."""


class LastAttempt(msgspec.Struct, frozen=True):
    """The result of the last attempt, in the task's row.

    Attributes:
        next: floor from which on something is due, unless the table's settings change by then.
        epoch: the newest version that had changed the table's metadata; -1: not known.
        failures: attempts that failed since one succeeded; ``reason`` why the last one did,
            ``again_ms`` when the next may begin.
    """

    next: int = 0
    epoch: int = -1
    failures: int = 0
    reason: str = ""
    again_ms: int = 0

    def pauses(self, now: int) -> bool:
        """Whether the table is left alone after a failure."""
        return not is_over(self.again_ms, now, LONGEST_PAUSE_MS)


class MaintenanceResult(msgspec.Struct, frozen=True):
    """The result of one call for a table: versions of ``checkpoints`` and ``checksums``, spans of
    ``compactions`` that it wrote; ``reason`` why it failed, or did nothing."""

    table_id: str
    outcome: Outcome
    checkpoints: tuple[int, ...] = ()
    checksums: tuple[int, ...] = ()
    compactions: tuple[tuple[int, int], ...] = ()
    reason: str = ""


class Following(Protocol):
    """Further light work on a table, of a subject that builds on this one
    (``turnstile.planning.upkeep.IndexUpkeep``)."""

    def keep_up(self, head: TableHead, guard: Callable[[], None]) -> int:
        """Does the due work at the floor of ``head``, and returns the floor from which on something
        is due again. ``guard`` is called before a file is created."""


class CatalogEvent(Protocol):
    """An event of a catalog's log (``turnstile.events.core.cloud_events.CloudEvent``)."""

    @property
    def type(self) -> str: ...
    @property
    def subject(self) -> str: ...
    @property
    def data(self) -> dict[str, object]: ...


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(LastAttempt)


class Maintainer:
    """Does light work on tables. No state between calls."""

    def __init__(self, world: World, *, following: Sequence[Following] = (), faults: Faults = no_faults) -> None:
        """``following`` is done after this module's work, in the same attempt."""
        self._world = world
        self._clock = world.clock
        self._faults = faults
        self._following = following
        self._tasks = Tasks(world)

    def maintain(self, table_id: str, floor: int | None = None) -> MaintenanceResult:
        """Does the due work on a table. A failure of its own is in the result.

        Args:
            floor: a published version that the caller knows of: if nothing is due at it, one read
                suffices.

        Raises:
            TurnstileError: the store does not answer.
        """
        name = _task(table_id)
        now = self._clock.now_ms()
        last = self.upkept(table_id)
        if last.pauses(now):
            return MaintenanceResult(table_id, "paused", reason=last.reason)
        if floor is not None and floor < last.next:
            return MaintenanceResult(table_id, "nothing due")
        try:
            head = read_head(self._world, table_id)
        except NotFound:
            self.forget(table_id)
            return MaintenanceResult(table_id, "not maintained", reason="there is no such table")
        if head.state == DROPPED:
            self.forget(table_id)
        refusal = _refusal(head)
        if refusal:
            return MaintenanceResult(table_id, "not maintained", reason=refusal)
        if not _may_be_due(head, last):
            return MaintenanceResult(table_id, "nothing due")
        attempt = self._tasks.begin(name, LEASE_MS)
        if isinstance(attempt, Busy):
            return MaintenanceResult(table_id, "busy", reason=attempt.reason)
        return self._attempt(head, attempt, last)

    def upkept(self, table_id: str) -> LastAttempt:
        """The result of the last attempt on a table."""
        return _upkept(self._tasks.last(_task(table_id)))

    def standing(self, head: TableHead) -> tuple[LastAttempt, bool]:
        """The result of the last attempt, and whether something is due, which is so while an
        attempt has begun and not ended: one read."""
        task = self._tasks.last(_task(head.table_id))
        last = _upkept(task)
        begun = task is not None and task.until > 0
        return last, not _refusal(head) and (begun or _may_be_due(head, last))

    def forget(self, table_id: str) -> None:
        """Removes the tasks of a table that is gone: this one, and that of runs by policy."""
        forget_tasks(self._tasks, table_id)

    def due_among(self, rows: Sequence[Row]) -> list[str]:
        """Returns the ids of the tables among these HEADs that may have due work: without an event,
        after a pause, or after a change of their properties. One request for every 100 HEADs."""
        heads = [
            head for row in rows if row["kind"] == TableHead.kind and (head := readable(row)) and head.state == ACTIVE
        ]
        tasks = self._tasks.last_of([_task(head.table_id) for head in heads])
        return [head.table_id for head in heads if _may_be_due(head, _upkept(tasks.get(_task(head.table_id))))]

    def maintain_all(
        self, go_on: Callable[[], bool], after: str = "", *, chosen: Callable[[Row], bool] = lambda _: True
    ) -> Iterator[MaintenanceResult]:
        """Scans the HEADs from the key ``after`` on, and yields the result for each ``chosen``
        table. This finds the tables of ``due_among``."""
        for row in rows_between(self._world.refs, TableHead.kind, after, stale=True):
            if not go_on():
                return
            head = readable(row)
            if head is None:
                yield MaintenanceResult(
                    row["key"].rpartition("/")[2], "failed", reason=f"row '{row['key']}' cannot be read"
                )
            elif head.state == ACTIVE and chosen(row):
                try:
                    yield self.maintain(head.table_id)
                except UnreadableRow as error:  # of its task
                    yield MaintenanceResult(head.table_id, "failed", reason=error.message)

    # -- an attempt -------------------------------------------------------------------------------------------------

    def _attempt(self, head: TableHead, attempt: Attempt, last: LastAttempt) -> MaintenanceResult:
        self._faults("maintenance.begun")
        heartbeat = Heartbeat(self._tasks, attempt, self._clock)
        work = _Work(self._world, head, heartbeat, self._faults)
        try:
            due_again = min([work.run(), *(each.keep_up(head, work.guard) for each in self._following)])
        except Exception as error:  # whatever a file of the table, or its storage, leads to
            reason = error.message if isinstance(error, TurnstileError) else repr(error)
            failures = last.failures + 1
            again_ms = self._clock.now_ms() + pause_ms(failures)
            shown = error.public_message if isinstance(error, TurnstileError) else reason
            left = LastAttempt(last.next, last.epoch, failures, shown[:500], again_ms)
            self._tasks.finish(heartbeat.attempt, _ENCODER.encode(left))
            return work.result("failed", reason)
        self._faults("maintenance.written")
        epoch = head.epoch if head.epoch <= head.floor else -1
        self._tasks.finish(heartbeat.attempt, _ENCODER.encode(LastAttempt(due_again, epoch)))
        return work.result("done")


class _Work:
    """One attempt on one table."""

    def __init__(self, world: World, head: TableHead, heartbeat: Heartbeat, faults: Faults) -> None:
        self._world = world
        self._head = head
        self._heartbeat = heartbeat
        self._faults = faults
        self._began_ms = heartbeat.attempt.task.began
        storage = BeatingStorage(world.storages.open(head.location), heartbeat.beat)
        self._storage: LogStorage = CachedCommits(storage, head.location, CommitCache(COMMIT_BYTES))
        self._checkpoints: list[int] = []
        self._checksums: list[int] = []
        self._compactions: list[tuple[int, int]] = []

    def result(self, outcome: Outcome, reason: str = "") -> MaintenanceResult:
        """The written files."""
        checkpoints = tuple(self._checkpoints)
        checksums = tuple(self._checksums)
        spans = tuple(self._compactions)
        return MaintenanceResult(self._head.table_id, outcome, checkpoints, checksums, spans, reason)

    def run(self) -> int:
        """Does the due work; returns the floor from which on something is due again."""
        floor = self._head.floor
        files = list_log(self._storage).upto(floor)
        ratified = ratified_sizes(self._head)
        state = open_state(self._storage, floor, files, ratified=ratified)
        interval = upkeep_of(state.protocol, state.metadata).interval
        sizes = {version: stat.size for version, stat in files.commits.items()}
        todo = due(floor, state.start, interval, sizes, files.compactions)
        for version in todo.checkpoints:
            alone = todo.checkpoints == (floor,)
            known, opened = (files, state) if alone else (None, None)
            derive(self._storage, version, self._checkpoint, known, ratified=ratified, opened=opened)
        for first, last in todo.compactions:
            self._compact(first, last)
        return todo.next

    def _checkpoint(self, state: TableState) -> None:
        from turnstile.maintenance.checkpoint import CheckpointWriter, write_checksum, write_pointer

        now = self._world.clock.now_ms()
        upkeep = upkeep_of(state.protocol, state.metadata)
        writer = CheckpointWriter(self._storage, state, upkeep, self._world.ids, self._faults)
        written = writer.write(now, self.guard)
        if written is None:  # whoever wrote it does the rest
            return
        self._checkpoints.append(state.version)
        self.guard()
        write_pointer(self._storage, written)
        self._faults("checkpoint.pointed")
        if write_checksum(self._storage, state, writer.totals, upkeep, now):
            self._checksums.append(state.version)
            self._faults("checkpoint.checksum")

    def _compact(self, first: int, last: int) -> None:
        from turnstile.maintenance.compaction import write_compaction

        if write_compaction(self._storage, first, last, self.guard):
            self._compactions.append((first, last))
            self._faults("compaction.written")

    def guard(self) -> None:
        """Raises StateConflict unless this attempt may still write into the table's log."""
        head = read_head(self._world, self._head.table_id)
        refusal = _refusal(head)
        if head.location != self._head.location or head.floor < self._head.floor:
            refusal = "its HEAD was restored or moved meanwhile"
        if not self._heartbeat.beat():
            refusal = "another attempt has been begun meanwhile"
        if self._world.clock.now_ms() > self._began_ms + TERM_MS - MARGIN_MS:
            refusal = "the attempt takes too long"
        if refusal:
            raise StateConflict(ErrorType.TABLE_NOT_ACTIVE, refusal, remedy="try again later", state=head.state)


def _refusal(head: TableHead) -> str:
    """Why a table has no light work; empty if it has. A clone is pinned: its log is its
    source's."""
    return "" if head.state == ACTIVE else f"it is {head.state}"


def readable(row: Row) -> TableHead | None:
    """The HEAD of a row; None for a damaged one, which must keep no other table's work."""
    try:
        return TableHead.from_row(row)
    except UnreadableRow:
        return None


def _upkept(task: Task | None) -> LastAttempt:
    return _DECODER.decode(task.result) if task is not None and task.result else LastAttempt()


def _may_be_due(head: TableHead, last: LastAttempt) -> bool:
    """Whether work may be due: the floor has reached the next due version, or the table's metadata
    has changed."""
    return head.floor >= last.next or head.epoch != last.epoch


def forget_tasks(tasks: Tasks, table_id: str) -> None:
    """Removes the rows of the light work and of the runs of a table that is gone, unless one is in
    progress."""
    tasks.forget(_task(table_id))
    tasks.forget(runs_task(table_id))


def _task(table_id: str) -> str:
    return f"maintain.{table_id}"


class OutOfTime(Exception):
    """Not every table of a batch had a turn; the batch comes again."""


class MaintenanceTarget:
    """The consumer of a catalog's events (``turnstile.events.deliver.EventTarget``): its place is
    stored like the places of targets. It acknowledges every batch: a table that fails, or is busy,
    does not delay the others. Its caller tries it again (``LEFT``).
    """

    name: Final = TARGET
    most: Final = 100

    def __init__(
        self,
        maintainer: Maintainer,
        record: Callable[[MaintenanceResult], None] = lambda _: None,
        go_on: Callable[[], bool] = lambda: True,
    ) -> None:
        """``record`` is called with the result for each table; ``go_on`` is called before each
        one."""
        self._maintainer = maintainer
        self._record = record
        self.go_on = go_on

    def send(self, events: Sequence[CatalogEvent]) -> None:
        """Maintains the tables with publications in the events. Raises OutOfTime if not all had a
        turn, and the errors of the store."""
        floors: dict[str, int] = {}
        for event in events:
            version = event.data.get("version")
            if event.type == PUBLISHED and isinstance(version, int):
                floors[event.subject] = version
            elif event.type == GONE:
                floors.pop(event.subject, None)
                self._maintainer.forget(event.subject)
        for table_id, floor in floors.items():
            if not self.go_on():
                raise OutOfTime("the time is up")
            try:
                done = self._maintainer.maintain(table_id, floor)
            except UnreadableRow as error:
                done = MaintenanceResult(table_id, "failed", reason=error.message)
            self._record(done)
