"""Copies of a SQLite store: taken while it is used, checked, and restored.

    back_up     SQLite's own copy of one moment into a new folder: one file without a WAL, and a
                manifest
    read        the manifest of a folder, after a check of its file
    put_back    the file into the place of the store; the replaced files are moved into a folder
                beside it

A file that is put beside the ``-wal`` of another state is undone by SQLite, which plays that WAL
into it. So the old ``-wal`` and ``-shm`` are moved first. During a restore its copy lies beside the
store (``staged_copy``), and the store is not opened: the file there may be the old one without its
WAL.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec

from turnstile.adapters.files import make_durable
from turnstile.adapters.sqlite.file import IN_USE, VERSION, problem_of
from turnstile.adapters.sqlite.refs import decode
from turnstile.store.core.errors import StorageFault, StoreCause, StoreUnavailable
from turnstile.store.core.rows import is_damaged

STORE_FILE: Final = "turnstile.db"
MANIFEST_FILE: Final = "manifest.json"
FORMAT: Final = 1

_HEADER_BYTES: Final = 100
_APPLICATION_ID: Final = slice(68, 72)
_PIECE: Final = 1 << 20
_SHARED_LOCKS: Final = (0x40000000 + 2, 510)
"""Bytes of the file that every connection in WAL mode has a lock on, as long as it is open: first
one and count."""


class Manifest(msgspec.Struct, frozen=True):
    """The manifest of a backup.

    Attributes:
        format: of the manifest; a newer one is refused.
        taken_ms: when it was begun, in milliseconds since the epoch: every earlier acknowledged
            write is in it.
        release: the version of Turnstile that took it.
        schema: the version of the file's tables.
        store: the file that it is a copy of.
        refs, objs, tables: rows of both tables, and HEADs of Delta tables.
        bytes, sha256: of the copy.
    """

    format: int
    taken_ms: int
    release: str
    schema: int
    store: str
    refs: int
    objs: int
    tables: int
    bytes: int
    sha256: str


def back_up(store: Path, folder: Path, *, now_ms: int, release: str) -> Manifest:
    """Copies a store that is in use, or is not, into ``folder``, which must not exist or be empty;
    returns the manifest. The folder appears when it is whole.

    Raises:
        StoreUnavailable: the store cannot be read, or the copy is damaged, as then the store is.
        StorageFault: the folder has something in it, or cannot be written.
    """
    store = store.absolute()
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StorageFault(f"{folder} is there and not empty", remedy="name a folder that does not exist yet")
    if not store.is_file():
        raise StoreUnavailable(StoreCause.GONE, f"there is no store at {store}", remedy="mend --home, or --store")
    partial = folder.with_name(f"{folder.name}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True, mode=0o700)
        copy = partial / STORE_FILE
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        _copy(store, copy)
        refs, objs, tables = _check_copy(copy)
        manifest = Manifest(
            FORMAT, now_ms, release, VERSION, str(store), refs, objs, tables, copy.stat().st_size, _digest(copy)
        )
        (partial / MANIFEST_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n")
        for path in (copy, partial / MANIFEST_FILE, partial):
            make_durable(path)
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
        make_durable(folder.parent)
    except OSError as error:
        raise StorageFault(f"{folder} could not be written: {error.strerror}", remedy="choose another place") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def read(folder: Path) -> Manifest:
    """The manifest of a backup with an unchanged file. Raises StorageFault for any other folder."""
    remedy = "name a folder that 'turnstile backup' made, whole"
    try:
        manifest = msgspec.json.decode((folder / MANIFEST_FILE).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError) as error:
        raise StorageFault(f"{folder} is no backup: {MANIFEST_FILE} cannot be read ({error})", remedy=remedy) from error
    if manifest.format > FORMAT or manifest.schema > VERSION:
        raise StorageFault(
            f"{folder} was made by release {manifest.release}, which is newer", remedy="use that release"
        )
    copy = folder / STORE_FILE
    try:
        if copy.stat().st_size != manifest.bytes or _digest(copy) != manifest.sha256:
            raise StorageFault(f"{copy} is not as it was when the backup was taken", remedy="use another backup")
    except OSError as error:
        raise StorageFault(f"{copy} cannot be read: {error.strerror}", remedy=remedy) from error
    return manifest


def put_back(folder: Path, store: Path, *, now_ms: int) -> Path | None:
    """Puts the backup in ``folder`` in the place of ``store``; returns the folder with the replaced
    files, None if there were none. May be repeated after it was interrupted.

    Raises:
        StoreUnavailable: a process has the store open.
        StorageFault: ``read`` refuses the folder, or a file could not be moved.
    """
    read(folder)
    store = store.absolute()
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        with _alone(store):
            staged = staged_copy(store)
            staged.unlink(missing_ok=True)
            os.close(os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with (folder / STORE_FILE).open("rb") as source, staged.open("wb") as target:
                shutil.copyfileobj(source, target, _PIECE)
            make_durable(staged)
            make_durable(store.parent)
            kept = _set_aside(store, now_ms)
            make_durable(store.parent)
            staged.replace(store)
            make_durable(store.parent)
    except OSError as error:
        raise StorageFault(
            f"{store} could not be restored: {error.strerror}", remedy="mend it and run the same command again"
        ) from error
    return kept


def staged_copy(store: Path) -> Path:
    """Where the copy lies while a restore of ``store`` is under way."""
    return store.with_name(f"{store.name}-restoring")


def is_open(store: Path) -> bool:
    """Whether another process has the store open. For processes that have no connection to it
    themselves: the locks of a process on a file end when it closes any descriptor of that file."""
    try:
        file = os.open(store, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        first, count = _SHARED_LOCKS
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, count, first)  # ends with the descriptor
    except (BlockingIOError, PermissionError):
        return True
    else:
        return False
    finally:
        os.close(file)


def was_used(store: Path) -> bool:
    """Whether the file says that a server uses it: one does, or died, or the file is a copy of one
    in use. For processes that have no connection to it themselves."""
    try:
        with store.open("rb") as file:
            header = file.read(_HEADER_BYTES)
    except OSError:
        return False
    return header.startswith(b"SQLite format 3\0") and header[_APPLICATION_ID] == IN_USE.to_bytes(4, "big")


@contextlib.contextmanager
def _alone(store: Path) -> Iterator[None]:
    """Keeps writers of other processes away. Raises StoreUnavailable if a process has the store
    open."""
    group = os.open(f"{store}-group", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(group, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(store) from None
        if is_open(store):
            raise _in_use(store)
        yield
    finally:
        os.close(group)


def _in_use(store: Path) -> StoreUnavailable:
    remedy = "stop every server and program that has it open ('turnstile down'), and run the command again"
    return StoreUnavailable(StoreCause.LOCKED, f"{store} is in use", remedy=remedy)


def _set_aside(store: Path, now_ms: int) -> Path | None:
    """Moves the store away with its WAL, the WAL first; returns the folder. A link keeps the file
    itself, so that one is in its place until the copy is."""
    wal, shm = (store.with_name(store.name + suffix) for suffix in ("-wal", "-shm"))
    if not any(path.exists() for path in (wal, shm, store)):
        return None
    kept = store.with_name(f"{store.name}-replaced-{now_ms}")
    kept.mkdir(mode=0o700)
    for path in (wal, shm):
        if path.exists():
            path.rename(kept / path.name)
    if store.is_file():
        os.link(store, kept / store.name)
    elif store.exists():
        store.rename(kept / store.name)
    make_durable(kept)
    return kept


def _copy(store: Path, copy: Path) -> None:
    """One moment of the store, as one read transaction sees it, in a file that needs no other."""
    try:
        with (
            contextlib.closing(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY)) as source,
            contextlib.closing(apsw.Connection(str(copy))) as target,
        ):
            source.set_busy_timeout(5_000)
            with target.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(-1)
            target.pragma("journal_mode", "delete")
            target.pragma("application_id", 0)
    except apsw.Error as error:
        raise _damage(store, str(error)) from error


def _check_copy(copy: Path) -> tuple[int, int, int]:
    """Rows of refs, of objs, and HEADs of tables. Raises StoreUnavailable for a copy that is
    damaged."""
    try:
        with contextlib.closing(apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
            problem = problem_of(connection, thorough=True)
            if problem is not None:
                raise _damage(copy, problem)
            refs = tables = 0
            for key, row in connection.execute("SELECT key, row FROM refs"):
                if is_damaged(decode(key, row)):
                    raise _damage(copy, f"row {key!r} cannot be read")
                refs += 1
                tables += key.split("/")[1:2] == ["table"]
            counted: Any = connection.execute("SELECT count(*) FROM objs").fetchone()
    except (apsw.Error, UnicodeDecodeError) as error:
        raise _damage(copy, str(error)) from error
    return refs, counted[0], tables


def _damage(path: Path, problem: str) -> StoreUnavailable:
    return StoreUnavailable(
        StoreCause.DAMAGED, f"{path} is damaged, or no store: {problem}", remedy="'turnstile doctor --store' says more"
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
