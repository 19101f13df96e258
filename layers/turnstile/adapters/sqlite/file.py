"""The SQLite file itself: its format, connections to it, the lock between processes, and the
meaning of its errors."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from functools import cache
from pathlib import Path
from typing import Final

import apsw

from turnstile.adapters.sqlite.lock import GroupLock
from turnstile.store.core.errors import StorageFault, StoreCause, StoreUnavailable

VERSION: Final = 1
"""Of the schema, in ``user_version``. A file of a newer version is refused."""

LOCK_S: Final = 5.0
"""How long a writer waits for other processes, before it has changed anything."""

HUNG_LOCK_S: Final = 0.2
"""The same after one wait without success, until the lock is free again: later waiters are answered
at once."""

_SCHEMA: Final = """
CREATE TABLE refs (key TEXT PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE objs (
    space TEXT NOT NULL, id TEXT NOT NULL, type TEXT NOT NULL, payload BLOB NOT NULL,
    created_us INTEGER NOT NULL, expires_s INTEGER, large BLOB
);
CREATE UNIQUE INDEX objs_id ON objs (space, id);
CREATE INDEX objs_end ON objs (expires_s) WHERE expires_s IS NOT NULL;
CREATE TABLE tokens (token TEXT PRIMARY KEY, digest BLOB NOT NULL, at_ms INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX tokens_at ON tokens (at_ms);
CREATE TABLE feed (seq INTEGER PRIMARY KEY, key TEXT NOT NULL);
CREATE TABLE cursors (consumer TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID;
"""

_TABLES: Final = frozenset({"refs", "objs", "tokens", "feed", "cursors"})

IN_USE: Final = 0x54535455
"""The ``application_id`` of a file that a server uses. It is in the file itself, which a copy
without the WAL has, too."""

_CACHE_KB: Final = 16_000
_WAL_BYTES: Final = 128 * 1024 * 1024
"""The size of the WAL after a checkpoint; it is written again from its start, which is faster than
growing."""

_NO_LOCKS: Final = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}
_CUT: Final = {apsw.SQLITE_IOERR_SHORT_READ, apsw.SQLITE_IOERR_CORRUPTFS, apsw.SQLITE_IOERR_DATA}
RESTORE: Final = "stop the server and put a backup back ('turnstile restore'), then 'turnstile repair --all'"
"""The remedy for a damaged file."""

_REFUSED: Final = (apsw.SQLError, apsw.SchemaChangeError)
"""Errors of a statement that SQLite cannot make a program of."""

_NO_SQLITE_LOCKS: Final = {
    apsw.SQLITE_IOERR_LOCK,
    apsw.SQLITE_IOERR_RDLOCK,
    apsw.SQLITE_IOERR_SHMLOCK,
    apsw.SQLITE_IOERR_SHMMAP,
    apsw.SQLITE_IOERR_SHMOPEN,
}


class StoreFile:
    """Opens the file, and creates it if there is none. Processes that open it at the same moment
    create it once.

    Args:
        path: the file; its folder must exist.
        vfs: name of a registered SQLite VFS, for tests that lose unsynced bytes.
        create: whether a file that is not there is made. A process of a running server makes none:
            it would be empty.

    Raises:
        StoreUnavailable: the file cannot be opened, or is not one of this store, or a newer release
            wrote it.
    """

    def __init__(self, path: Path, vfs: str | None = None, *, create: bool = True) -> None:
        # the working directory may change
        self.path = path.resolve()
        self._path = str(self.path)
        self._vfs = vfs
        self._lock = threading.Lock()
        self._exclusively = Exclusively(self)
        self._closed = False
        self.hangs = False
        """Whether the last write waited in vain for another process or program."""
        if (restoring := self.path.with_name(f"{self.path.name}-restoring")).exists():
            raise StoreUnavailable(
                StoreCause.GONE,
                f"a restore of {self.path} was interrupted, or is under way ({restoring} is there)",
                remedy="run the same 'turnstile restore' again",
            )
        if not create and not self.path.exists():
            raise self.fault(FileNotFoundError("there is no such file"), "opened")
        try:
            self._group_lock = GroupLock(f"{self.path}-group")
        except OSError as error:
            raise self.fault(error, "opened") from error
        try:
            with self.exclusively():
                self._prepare()
                self._identity = self._identify()
        except BaseException as error:
            self._group_lock.close()
            if isinstance(error, apsw.Error | OSError):
                raise self.fault(error, "opened") from error
            raise

    def connect(self, *, read_only: bool = False) -> apsw.Connection:
        """Returns a connection of its own. Raises apsw.Error."""
        flags = apsw.SQLITE_OPEN_READONLY if read_only else apsw.SQLITE_OPEN_READWRITE
        return self._configure(apsw.Connection(str(self.path), flags=flags, vfs=self._vfs))

    def close(self) -> None:
        """Give the lock file back; ``exclusively`` raises StoreUnavailable from now on."""
        with self._lock:
            if not self._closed:
                self._group_lock.close()
            self._closed = True

    @property
    def patience_s(self) -> float:
        """How long the next write waits for others."""
        return HUNG_LOCK_S if self.hangs else LOCK_S

    # -- the lock -------------------------------------------------------------------------------------------------

    def exclusively(self) -> Exclusively:
        """Hold the lock that orders groups of several threads and processes. The kernel releases it
        when a process dies.

        Raises:
            StoreUnavailable: another process held it for ``LOCK_S``, or the filesystem has no
                locks.
        """
        return self._exclusively

    def begin_exclusively(self) -> None:
        """Takes the lock; raises as ``exclusively``. For ``Exclusively``."""
        self._lock.acquire()
        try:
            self._acquire()
        except BaseException:
            self._lock.release()
            raise

    def end_exclusively(self) -> None:
        """Gives the lock back."""
        try:
            self._group_lock.release()
        finally:
            self._lock.release()

    def _acquire(self) -> None:
        if self._closed:
            raise StorageFault("the store is closed", remedy="send the same request again")
        try:
            taken = self._group_lock.acquire(self.patience_s)
        except OSError as error:
            raise self.fault(error, "locked") from error
        if not taken:
            self.hangs = True
            raise StoreUnavailable(
                StoreCause.LOCKED,
                f"another process holds the lock of {self.path} and does not give it back; nothing was written",
                remedy="end that process if it hangs, and send the same request again",
            )

    # -- what the file is -----------------------------------------------------------------------------------------

    def check_in_place(self) -> None:
        """Raises StoreUnavailable if the file was deleted, moved or replaced since it was opened:
        writes to it now would be gone with this process (I6)."""
        try:
            if self._identify() == self._identity:
                return
        except FileNotFoundError:
            pass
        raise StoreUnavailable(
            StoreCause.GONE,
            f"{self.path} was deleted, moved or replaced while it was open; nothing was written",
            remedy="put the file back where it was, with its -wal file, or start the server again on the new one",
        )

    def fault(self, error: Exception, what: str) -> StoreUnavailable:
        """The error of the store for one of SQLite or of the system; ``what``: the action on the
        file that failed.

        A statement that SQLite refuses means damage only if a table or column of the store is gone:
        else the statement is wrong.
        """
        fault = fault_of(self.path, error, what)
        if fault.cause is not StoreCause.DAMAGED or not isinstance(error, _REFUSED):
            return fault
        try:
            with contextlib.closing(self.connect(read_only=True)) as connection:
                if not _columns(connection) >= _known_columns():
                    return fault
        except (apsw.Error, UnicodeDecodeError) as unreadable:
            return fault_of(self.path, unreadable, what)
        return StoreUnavailable(
            StoreCause.FAILED,
            f"{self.path} could not be {what}: SQLite refuses a statement of this release ({error}); the file is whole",
            remedy="report this error; nothing was written, and other requests go on",
        )

    def _identify(self) -> tuple[int, int]:
        stat = os.stat(self._path)  # noqa: PTH116 - for every group; Path.stat takes three times as long
        return stat.st_dev, stat.st_ino

    def _prepare(self) -> None:
        """Makes the file one of this store's, whole or not at all, readable for its owner only
        (I12).

        If no other process has it open, the close at the end moves the WAL's pages into the
        database and syncs it: writes of a process that was killed are durable before any read, even
        if its last sync had failed.
        """
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        connection = apsw.Connection(str(self.path), flags=flags, vfs=self._vfs)
        try:
            version = connection.pragma("user_version")
            if version > VERSION:
                raise StoreUnavailable(
                    StoreCause.FAILED,
                    f"{self.path} was written by a newer release (format {version}, this one knows {VERSION})",
                    remedy="start the newer release, or restore an older copy of the file",
                )
            if version == 0 and connection.execute("SELECT count(*) FROM sqlite_schema").fetchone() != (0,):
                raise StoreUnavailable(
                    StoreCause.DAMAGED,
                    f"{self.path} is a SQLite file of another program",
                    remedy="name a file that does not exist yet",
                )
            if connection.pragma("journal_mode", "wal") != "wal":
                raise StoreUnavailable(
                    StoreCause.FAILED,
                    f"{self.path} cannot have a WAL: its filesystem has no shared memory",
                    remedy="put the file on a local disk",
                )
            self._configure(connection)
            if version == 0:
                with connection:
                    connection.execute(_SCHEMA)
                    connection.pragma("user_version", VERSION)
        finally:
            connection.close()

    @staticmethod
    def _configure(connection: apsw.Connection) -> apsw.Connection:
        connection.set_busy_timeout(int(LOCK_S * 1000))
        connection.pragma("synchronous", "full")
        connection.pragma("fullfsync", 1)  # macOS: a plain fsync leaves bytes in the disk's memory
        connection.pragma("checkpoint_fullfsync", 1)
        connection.pragma("cache_size", -_CACHE_KB)
        connection.pragma("journal_size_limit", _WAL_BYTES)
        connection.wal_autocheckpoint(0)
        return connection


class Exclusively:
    """``StoreFile.exclusively``, for ``with``: every commit enters it, and a generator takes thrice
    as long."""

    def __init__(self, file: StoreFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        self._file.begin_exclusively()

    def __exit__(self, *_: object) -> None:
        self._file.end_exclusively()


def fault_of(path: Path, error: Exception, what: str) -> StoreUnavailable:
    """The error of the store at ``path`` for one of SQLite or of the system; ``what``: the action
    on the file that failed."""
    cause, problem, remedy = _cause(path, error)
    return StoreUnavailable(cause, f"{path} could not be {what}: {problem}", remedy=remedy)


def _cause(path: Path, error: Exception) -> tuple[StoreCause, str, str]:
    local = "put the file on a local disk: network filesystems have no locks that hold"
    writable = "make the file and its folder writable for the user of the server"
    check = f"check the disk and the folder {path.parent}; 'turnstile doctor --store' looks at the file"
    match error:
        case apsw.FullError():
            return StoreCause.FULL, "the disk is full", "free some space and send the same request again"
        case apsw.ReadOnlyError() | apsw.PermissionsError() | apsw.AuthError() | PermissionError():
            return StoreCause.DENIED, "it may not be written", writable
        case apsw.NotADBError() | apsw.CorruptError() | apsw.FormatError() | UnicodeDecodeError():
            return StoreCause.DAMAGED, f"it is damaged, or no SQLite file ({error})", RESTORE
        case (
            apsw.SQLError() | apsw.SchemaChangeError()
        ):  # a table or column is gone, unless ``StoreFile.fault`` finds it
            return StoreCause.DAMAGED, f"it is damaged, or no store ({error})", RESTORE
        case apsw.BusyError() | apsw.LockedError():
            return StoreCause.LOCKED, "another program has locked it", "end the program that uses the file"
        case apsw.CantOpenError() | FileNotFoundError() | NotADirectoryError():
            if path.exists() and not os.access(path, os.R_OK | os.W_OK):
                return StoreCause.DENIED, "it may not be opened", writable
            return StoreCause.GONE, str(error), f"check that the folder {path.parent} exists and may be written"
        case apsw.IOError() if getattr(error, "extendedresult", 0) in _NO_SQLITE_LOCKS:
            return StoreCause.FAILED, "its filesystem has no locks or no shared memory", local
        case apsw.IOError() if getattr(error, "extendedresult", 0) in _CUT:
            return StoreCause.DAMAGED, f"it is shorter than it says, or its disk changed it ({error})", RESTORE
        case OSError(errno=number) if number in _NO_LOCKS:
            return StoreCause.FAILED, "its filesystem has no locks", local
    return StoreCause.FAILED, str(error), check


def _columns(connection: apsw.Connection) -> frozenset[tuple[str, str]]:
    """The columns of all tables, each behind the name of its table."""
    found = connection.execute(
        "SELECT tables.name, columns.name FROM sqlite_schema AS tables, pragma_table_info(tables.name) AS columns"
        " WHERE tables.type = 'table'"
    )
    return frozenset((str(table), str(column)) for table, column in found)


@cache
def _known_columns() -> frozenset[tuple[str, str]]:
    """The columns that a file of this format has."""
    with contextlib.closing(apsw.Connection(":memory:")) as connection:
        connection.execute(_SCHEMA)
        return _columns(connection)


def problem_of(connection: apsw.Connection, *, thorough: bool = False) -> str | None:
    """The first problem that SQLite's own check finds; None: there is none. ``thorough`` compares
    indexes with their tables, too. Raises apsw.Error and UnicodeDecodeError where the file is too
    damaged to be checked.
    """
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    missing = sorted(_TABLES - names)
    if missing:
        return f"it has no table {missing[0]!r}; a copy without its -wal file has none, either"
    check = "integrity_check" if thorough else "quick_check"
    ((found, *_), *_) = connection.execute(f"PRAGMA {check}(1)").fetchall()
    return None if found == "ok" else " ".join(str(found).replace("*** in database main ***", "").split())


def problem_in(path: Path) -> str | None:
    """The first problem that SQLite finds in all of a store, which may be in use; None: there is
    none. Raises StoreUnavailable for a file that cannot be opened or is too damaged to be checked.
    Changes nothing.
    """
    path = path.absolute()
    if not path.is_file():
        raise fault_of(path, FileNotFoundError("there is no such file"), "opened")
    try:
        with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            connection.set_busy_timeout(int(LOCK_S * 1000))
            return problem_of(connection, thorough=True)
    except (apsw.Error, UnicodeDecodeError) as error:
        raise fault_of(path, error, "checked") from error
