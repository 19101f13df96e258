"""Reads and write groups of one SQLite file, shared by the threads of a process and by several
processes.

The file is in WAL mode with ``synchronous=FULL``: a write is answered after its bytes were synced,
so neither ``kill -9`` nor a loss of power takes back an acknowledged write. Readers see only synced
writes.

Write groups. A thread that wants to write puts its job into a queue. If no group is being written,
the thread becomes the leader: it takes every waiting job, runs all of them in one transaction,
commits (one fsync) and wakes the others. Jobs that arrive meanwhile form the next group, led by the
first of them. A single writer so pays one commit and no hand-over between threads; many writers
share commits. Between processes, a lock on a file beside the database orders the groups (``file``).

The meaning of a failed group:

    before COMMIT    the transaction is rolled back; nothing of the group was applied
                     (``StoreUnavailable``)
    during COMMIT    the disk is full: the record that commits was not written, nothing was applied
                     (``StoreUnavailable``);
                     any other error: it is not known whether the group was applied
                         (``OutcomeUnknown``)

After a commit or a checkpoint that failed on a sync, the disk may differ from the system's memory.
The store takes no writes until it is opened anew: that copies the whole WAL into the database,
syncs it, and begins another WAL.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

import apsw

from turnstile.adapters.sqlite.checkpoints import CHECKPOINT_PAGES, Checkpoints
from turnstile.adapters.sqlite.file import IN_USE, RESTORE, StoreFile, problem_of
from turnstile.store.core.errors import OutcomeUnknown, StorageFault, StoreCause, StoreUnavailable, TurnstileError
from turnstile.store.queue import Turn

T = TypeVar("T")

GROUP_MAX: Final = 256
"""Jobs in one transaction."""

FEED_MAX: Final = 1_000_000
"""Changes that are kept for a consumer that is behind (about 60 MB). Older ones are forgotten, as
DynamoDB's stream forgets after a day; the sweeper finds the tables that were meant (I11)."""

_TRIM_EVERY: Final = 1024


class _Job(Generic[T]):
    """One waiting write: its function, and its result."""

    __slots__ = ("error", "leads", "result", "run", "settled", "turn")

    def __init__(self, run: Callable[[apsw.Connection], T]) -> None:
        self.run = run
        self.turn = Turn()
        self.leads = self.settled = False
        self.result: T | None = None
        self.error: Exception | None = None

    def settle(self, error: Exception | None) -> None:
        """Wake its thread: the group was committed, or failed with ``error``. Only the first time
        counts."""
        if not self.settled:
            self.settled = True
            self.error = self.error or error
            self.turn.set()


class Database:
    """The file and its connections.

    Args:
        path: the file; its folder must exist.
        vfs: name of a registered SQLite VFS, for tests that lose unsynced bytes.
        on_commit: called after each committed group with the number of its jobs; must not raise.
        checkpoint_pages: pages in the WAL at which a checkpoint begins.
        create: whether a file that is not there is made.

    Raises:
        StoreUnavailable: the file cannot be opened, or is not one of this store, or a newer release
            wrote it.
    """

    def __init__(
        self,
        path: Path,
        *,
        vfs: str | None = None,
        on_commit: Callable[[int], None] | None = None,
        checkpoint_pages: int = CHECKPOINT_PAGES,
        create: bool = True,
    ) -> None:
        self._file = StoreFile(path, vfs, create=create)
        self._on_commit = on_commit
        self._checkpoints = Checkpoints(self._file.connect, checkpoint_pages)
        self._local = threading.local()
        self._queue: deque[_Job[Any]] = deque()
        self._mutex = threading.Lock()
        self._leading = self._closed = False
        self._changed = threading.Condition()
        self._groups = 0
        self._watchers = 0
        self._writer: apsw.Connection | None = None
        self.damage: str | None = None
        """Where the file was found damaged since it was opened. From then on it takes no writes."""

    @property
    def failure(self) -> str | None:
        """Why the store takes no writes until it is opened anew; None while it takes them."""
        failure = self._checkpoints.failure
        return None if failure is None else f"{self._file.path} takes no writes since the disk failed ({failure})"

    def close(self) -> None:
        """Let the running group end and close the file. Writes that wait, and later ones, raise
        StorageFault."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
        self._checkpoints.close()
        self._local = threading.local()
        with contextlib.suppress(StorageFault), self._file.exclusively():  # after the running group
            self._drop_writer()
        self._file.close()

    # -- whether it can be used ---------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The file, absolute."""
        return self._file.path

    def touch(self) -> None:
        """Write a row that means nothing, as any other write. Raises as ``write``."""
        self.write(
            lambda connection: connection.execute("INSERT OR REPLACE INTO tokens VALUES ('', x'', 0)").fetchall()
        )

    def mark_used(self, *, used: bool) -> None:
        """Leave word in the file itself, once it is closed by all, whether a server uses it
        (``copies.was_used``)."""
        self.write(lambda connection: connection.pragma("application_id", IN_USE if used else 0))

    def require_whole(self) -> None:
        """Let SQLite look at every page, and compare indexes with their tables: an index that lost
        a key hides an outcome (I3). Raises StoreUnavailable with the first problem."""
        self._file.check_in_place()
        try:
            with contextlib.closing(self._file.connect(read_only=True)) as connection:
                problem = problem_of(connection, thorough=True)
        except (apsw.Error, UnicodeDecodeError) as error:
            raise self._note_damage(self._file.fault(error, "checked")) from error
        if problem is not None:
            text = f"{self._file.path} is damaged: {problem}"
            raise self._note_damage(StoreUnavailable(StoreCause.DAMAGED, text, remedy=RESTORE))

    # -- reading --------------------------------------------------------------------------------------------------

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of a SELECT, on a connection of the calling thread: it sees everything that was
        committed before it began. Raises StoreUnavailable, also where the file is no longer in its
        place.
        """
        self._file.check_in_place()
        try:
            connection = getattr(self._local, "connection", None)
            if connection is None:
                connection = self._local.connection = self._open_reader()
            return cast("list[Any]", connection.execute(statement, values).fetchall())
        except (apsw.Error, UnicodeDecodeError) as error:
            self._local.connection = None
            raise self._note_damage(self._file.fault(error, "read")) from error

    def _note_damage(self, fault: StoreUnavailable) -> StoreUnavailable:
        """Records damage: the store counts as damaged until the file is put right and opened
        anew."""
        if fault.cause is StoreCause.DAMAGED:
            self.damage = fault.message
        return fault

    def _open_reader(self) -> apsw.Connection:
        if self._closed:
            raise StorageFault("the store is closed")
        return self._file.connect(read_only=True)

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, run: Callable[[apsw.Connection], T]) -> T:
        """Runs ``run`` in a transaction and returns its result after the transaction was synced.

        ``run`` may be run with jobs of other threads in one transaction: it sees their changes. It
        must raise before it has changed anything, or not at all; its errors are raised here.

        Raises:
            StoreUnavailable: nothing was applied.
            OutcomeUnknown: the commit failed, and it is unknown whether it was applied.
        """
        job = _Job(run)
        with self._mutex:
            if self._closed:
                raise StorageFault("the store is closed")
            self._queue.append(job)
            job.leads = not self._leading
            self._leading = True
        try:
            if not job.leads:
                job.turn.wait()
            if job.leads:
                self._lead()
        except BaseException:  # the thread was interrupted: others must not wait for it
            self._withdraw(job)
            raise
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def _lead(self) -> None:
        """Write one group, which holds the leader's own job, and pass the lead to the first job
        that waits then."""
        group: list[_Job[Any]] = []
        try:
            with self._mutex:
                while self._queue and len(group) < GROUP_MAX:
                    group.append(self._queue.popleft())
            self._write_group(group)
        finally:
            with self._mutex:
                if group:
                    self._pass_lead()

    def _pass_lead(self) -> None:
        self._leading = bool(self._queue)
        if self._queue:
            self._queue[0].leads = True
            self._queue[0].turn.set()

    def _withdraw(self, job: _Job[Any]) -> None:
        """Take a job back that no group has; pass the lead on if it was to lead."""
        with self._mutex:
            if job in self._queue:
                self._queue.remove(job)
                if job.leads:
                    self._pass_lead()

    def _write_group(self, group: list[_Job[Any]]) -> None:
        error: Exception | None = None
        committed = False
        try:
            with self._file.exclusively():
                writer = self._open_writer()
                self._transact(writer, group)
                committed = True
                for job in group:
                    job.settle(None)
                self._checkpoints.finish(writer)
        except TurnstileError as refusal:
            error = refusal
        except Exception as other:  # disk full, locked for too long: nothing was applied
            error = self._note_damage(self._file.fault(other, "written"))
        finally:
            for job in group:
                if not job.settled:
                    job.settle(error or OutcomeUnknown("the thread that wrote the group was interrupted"))
        if committed:
            self._groups += 1
            if self._watchers:
                with self._changed:
                    self._changed.notify_all()
            if self._on_commit is not None:
                self._on_commit(len(group))

    def _transact(self, writer: apsw.Connection, group: list[_Job[Any]]) -> None:
        """Run the jobs of a group and commit."""
        try:
            self._file.check_in_place()
            self._begin(writer)
            for job in group:
                _run(job, writer)
            self._commit(writer)
        except BaseException:
            self._roll_back(writer)
            raise

    def _begin(self, writer: apsw.Connection) -> None:
        writer.set_busy_timeout(int(self._file.patience_s * 1000))
        try:
            writer.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            self._file.hangs = True
            raise
        self._file.hangs = False

    def _commit(self, writer: apsw.Connection) -> None:
        try:
            writer.execute("COMMIT")
        except apsw.FullError:
            self._checkpoints.begin()  # the WAL is used from its start again after a checkpoint
            raise
        except apsw.BusyError:
            raise
        except Exception as error:
            self._checkpoints.failure = error
            raise OutcomeUnknown(f"the commit failed: {error}") from error

    def _roll_back(self, writer: apsw.Connection) -> None:
        try:
            if writer.in_transaction:
                writer.execute("ROLLBACK")
        except apsw.Error:
            self._drop_writer()

    def _open_writer(self) -> apsw.Connection:
        if self._closed:
            raise StorageFault("the store is closed")
        if self.failure is not None:
            raise StoreUnavailable(
                StoreCause.FAILED,
                self.failure,
                remedy="check the disk, stop every server that has the file open, and start them again",
            )
        if self.damage is not None:  # what is written into a damaged tree may spread the damage
            raise StoreUnavailable(StoreCause.DAMAGED, self.damage, remedy=RESTORE)
        if self._writer is None:
            self._file.check_in_place()
            self._writer = self._file.connect()
            self._checkpoints.watch(self._writer)
        return self._writer

    def _drop_writer(self) -> None:
        writer = self._writer
        self._writer = None
        if writer is not None:
            with contextlib.suppress(apsw.Error):
                if self._checkpoints.failure is not None:  # the whole WAL is needed when the file is opened anew
                    writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                writer.close(True)

    # -- the change feed ------------------------------------------------------------------------------------------

    def changes(self, consumer: str, after: int = 0, most: int = 1000) -> tuple[dict[str, int], int]:
        """Keys of refs that changed after the cursor of ``consumer`` and after ``after``, in order,
        with how often each did, and the number of the last change (0: there is none). The consumer
        keeps that by ``advance`` when it has dealt with them.
        """
        self._local.groups = self._groups
        rows = self.rows(
            "SELECT seq, key FROM feed WHERE seq > max(?, coalesce((SELECT seq FROM cursors WHERE consumer = ?), 0)) "
            "ORDER BY seq LIMIT ?",
            (after, consumer, most),
        )
        return dict(Counter(key for _, key in rows)), rows[-1][0] if rows else 0

    def advance(self, consumer: str, seq: int) -> None:
        """Remember that ``consumer`` has dealt with all changes up to ``seq``, and forget changes
        that all consumers have dealt with. The newest change always stays, since numbers go on from
        it.
        """

        def run(connection: apsw.Connection) -> None:
            connection.execute(
                "INSERT INTO cursors VALUES (?, ?) ON CONFLICT (consumer) DO UPDATE SET seq = max(seq, excluded.seq)",
                (consumer, seq),
            )
            connection.execute(
                "DELETE FROM feed WHERE seq <= (SELECT min(seq) FROM cursors) AND seq < (SELECT max(seq) FROM feed)"
            )

        self.write(run)

    def wait_for_change(self, timeout_s: float) -> None:
        """Return after a group of this process was committed since this thread called ``changes``
        last, or after the time: other processes are not heard."""
        with self._changed:
            groups = getattr(self._local, "groups", self._groups)
            self._watchers += 1  # before the look at the groups, so that no leader misses it
            try:
                self._changed.wait_for(lambda: self._groups != groups, timeout_s)
            finally:
                self._watchers -= 1


def note_change(connection: apsw.Connection, key: str) -> None:
    """Add a change of the row ``key`` to the feed, in the transaction that makes it."""
    connection.execute("INSERT INTO feed (key) VALUES (?)", (key,))
    seq = connection.last_insert_rowid()
    if seq % _TRIM_EVERY == 0:
        connection.execute("DELETE FROM feed WHERE seq <= ?", (seq - FEED_MAX,))


def _run(job: _Job[Any], writer: apsw.Connection) -> None:
    try:
        job.result = job.run(writer)
    except (apsw.Error, UnicodeDecodeError):
        raise
    except Exception as error:  # a caller's mistake, found before it changed anything
        job.error = error
