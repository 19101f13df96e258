"""One SQLite file, shared by the threads of a process and by several processes.

The file is in WAL mode with ``synchronous=FULL``: a write is answered after its bytes were synced, so neither ``kill -9``
nor a loss of power takes back what was acknowledged.

Write groups. A thread that wants to write puts its job into a queue. If no group is being written, the thread becomes
the leader: it takes every waiting job, runs all of them in one transaction, commits (one fsync) and wakes the others.
Jobs that arrive meanwhile form the next group, led by the first of them. A single writer so pays one commit and no hand-over between threads;
many writers share commits. Between processes, an advisory lock on a file beside the database orders the groups; the
kernel releases it when a process dies.

What a failed group means:

    before COMMIT    the transaction is rolled back; nothing of the group was applied (``StorageFault``)
    during COMMIT    it is not known whether the group was applied (``OutcomeUnknown``); the connection is opened anew

The change feed. Every job that changes a row of refs adds the key to ``feed`` in the same transaction. A consumer reads
on from its own cursor, so it sees each change at least once, in the order of commits, also after a crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

import apsw

from turnstile.store.core.errors import OutcomeUnknown, StorageFault

T = TypeVar("T")

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS refs (key TEXT PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS objs (
    space TEXT NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, payload BLOB NOT NULL,
    created_us INTEGER NOT NULL, expires_s INTEGER, large BLOB
);
CREATE UNIQUE INDEX IF NOT EXISTS objs_id ON objs (space, id);
CREATE INDEX IF NOT EXISTS objs_end ON objs (expires_s) WHERE expires_s IS NOT NULL;
CREATE TABLE IF NOT EXISTS tokens (token TEXT PRIMARY KEY, digest BLOB NOT NULL, at_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tokens_at ON tokens (at_ms);
CREATE TABLE IF NOT EXISTS feed (seq INTEGER PRIMARY KEY, key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS cursors (consumer TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
"""

VERSION: Final = 1
"""Of the schema, in ``user_version``. A file of a newer version is refused."""

GROUP_MAX: Final = 256
"""Jobs in one transaction."""

_BUSY_MS: Final = 10_000
_CHECKPOINT_PAGES: Final = 4_000
"""Pages in the WAL (16 MB) after which a commit moves them into the database itself."""


class _Job(Generic[T]):
    """One waiting write: what to run, and what became of it."""

    __slots__ = ("error", "leads", "result", "run", "turn")

    def __init__(self, run: Callable[[apsw.Connection], T]) -> None:
        self.run = run
        self.turn = threading.Event()
        self.leads = False
        self.result: T | None = None
        self.error: Exception | None = None


class Database:
    """The file and its connections.

    Args:
        path: the file; its folder must exist.
        vfs: name of a registered SQLite VFS, for tests that lose unsynced bytes.
        on_commit: called after each committed group with the number of its jobs.
    """

    def __init__(self, path: Path, *, vfs: str | None = None, on_commit: Callable[[int], None] | None = None) -> None:
        self._path, self._vfs, self._on_commit = path, vfs, on_commit
        self._local = threading.local()
        self._queue: deque[_Job[Any]] = deque()
        self._mutex = threading.Lock()
        self._leading = False
        self._closed = False
        self._changed = threading.Condition()
        self._group_lock = os.open(f"{path}-group", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with self._exclusively():
            self._writer = self._open()
            self._prepare()

    # -- reading --------------------------------------------------------------------------------------------------

    @property
    def reader(self) -> apsw.Connection:
        """The connection of the calling thread for reads. Each statement sees everything that was committed before it began."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._open(read_only=True)
        return connection

    # -- writing --------------------------------------------------------------------------------------------------

    def write(self, run: Callable[[apsw.Connection], T]) -> T:
        """Run ``run`` in a transaction and return its result after the transaction was synced.

        ``run`` may be run with jobs of other threads in one transaction: it sees their changes. It must raise before it
        has changed anything, or not at all; what it raises is raised here.

        Raises:
            StorageFault: nothing was applied.
            OutcomeUnknown: the commit failed in a way that does not tell.
        """
        job = _Job(run)
        with self._mutex:
            if self._closed:
                raise StorageFault("the store is closed")
            self._queue.append(job)
            job.leads = not self._leading
            self._leading = True
        if not job.leads:
            job.turn.wait()
        if job.leads:
            self._lead()
        if job.error is not None:
            raise job.error
        return cast("T", job.result)

    def _lead(self) -> None:
        """Write one group, which holds the leader's own job, and pass the lead to the first job that waits then."""
        with self._mutex:
            group = [self._queue.popleft() for _ in range(min(len(self._queue), GROUP_MAX))]
        try:
            self._write_group(group)
        finally:
            for job in group:
                job.turn.set()
            with self._mutex:
                if self._queue:
                    self._queue[0].leads = True
                    self._queue[0].turn.set()
                else:
                    self._leading = False

    def _write_group(self, group: list[_Job[Any]]) -> None:
        try:
            with self._exclusively():
                self._writer.execute("BEGIN IMMEDIATE")
                try:
                    for job in group:
                        self._run(job)
                except BaseException:
                    self._roll_back()
                    raise
                self._commit()
        except OutcomeUnknown as error:
            self._fail(group, error)
            self._reopen()
            return
        except Exception as error:  # disk full, file gone, locked for too long: nothing was applied
            self._fail(group, StorageFault(f"the store could not be written: {error}"))
            return
        if self._on_commit is not None:
            self._on_commit(len(group))
        with self._changed:
            self._changed.notify_all()

    def _run(self, job: _Job[Any]) -> None:
        try:
            job.result = job.run(self._writer)
        except apsw.Error:
            raise
        except Exception as error:  # a caller's mistake, found before it changed anything
            job.error = error

    def _commit(self) -> None:
        try:
            self._writer.execute("COMMIT")
        except apsw.BusyError as error:
            self._roll_back()
            raise StorageFault(f"the commit found the store locked: {error}") from error
        except apsw.Error as error:
            raise OutcomeUnknown(f"the commit failed: {error}") from error

    def _roll_back(self) -> None:
        with contextlib.suppress(apsw.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    @staticmethod
    def _fail(group: list[_Job[Any]], error: Exception) -> None:
        for job in group:
            if job.error is None:
                job.error = error

    @contextlib.contextmanager
    def _exclusively(self) -> Iterator[None]:
        """Hold the lock that orders groups of several processes."""
        fcntl.flock(self._group_lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._group_lock, fcntl.LOCK_UN)

    # -- the change feed ------------------------------------------------------------------------------------------

    def changes(self, consumer: str, after: int = 0, most: int = 1000) -> tuple[list[str], int]:
        """Keys of refs that changed after the cursor of ``consumer`` and after ``after``, in order, without repetitions,
        and the number of the last change (0: there is none). The consumer keeps that by ``advance`` when it has dealt
        with them."""
        rows: list[Any] = self.reader.execute(
            "SELECT seq, key FROM feed WHERE seq > max(?, coalesce((SELECT seq FROM cursors WHERE consumer = ?), 0)) "
            "ORDER BY seq LIMIT ?",
            (after, consumer, most),
        ).fetchall()
        return list(dict.fromkeys(key for _, key in rows)), rows[-1][0] if rows else 0

    def advance(self, consumer: str, seq: int) -> None:
        """Remember that ``consumer`` has dealt with all changes up to ``seq``, and forget changes that all consumers
        have dealt with. The newest change always stays, since numbers go on from it."""

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
        """Return after a group of this process was committed, or after the time: other processes are not heard."""
        with self._changed:
            self._changed.wait(timeout_s)

    # -- the file -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let running groups end and close the file. Later writes raise StorageFault."""
        with self._mutex:
            self._closed = True
        with self._exclusively():
            self._writer.close()

    def _open(self, *, read_only: bool = False) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(self._path), flags=flags, vfs=self._vfs)
        connection.set_busy_timeout(_BUSY_MS)
        connection.execute("PRAGMA mmap_size = 268435456")
        return connection

    def _prepare(self) -> None:
        version = self._writer.pragma("user_version")
        if version > VERSION:
            raise StorageFault(
                f"{self._path} was written by a newer release (format {version}, this one knows {VERSION})",
                remedy="start the newer release, or restore an older copy of the file",
            )
        self._configure()
        self._writer.execute(_SCHEMA)
        self._writer.pragma("user_version", VERSION)

    def _configure(self) -> None:
        self._writer.pragma("journal_mode", "wal")
        self._writer.pragma("synchronous", "full")
        self._writer.wal_autocheckpoint(_CHECKPOINT_PAGES)

    def _reopen(self) -> None:
        with contextlib.suppress(apsw.Error):
            self._writer.close(True)
        with contextlib.suppress(apsw.Error), self._exclusively():
            self._writer = self._open()
            self._configure()
