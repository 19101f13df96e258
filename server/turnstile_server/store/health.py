"""Whether the store of a server is usable: checked before the start, and while it runs.

    at the start    the main process opens the store, checks a small SQLite file completely, and
                    writes
    /readyz         a process that answers reads and writes a row without meaning, at most once in
                    ``PROBE_S``
    background      checks the whole file again and again, for a hundredth of the time

Unauthenticated callers see only the cause of a failure; the error itself goes to the log.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnstile.catalog.services import ensure
from turnstile.store.core.errors import StoreCause, StoreUnavailable, TurnstileError
from turnstile.store.core.names import LOG
from turnstile.store.core.writes import Erase
from turnstile_server.errors import ServerError
from turnstile_server.settings import ServerSettings
from turnstile_server.world import OpenStore, open_store

if TYPE_CHECKING:
    from turnstile.adapters.sqlite.database import Database

PROBE_S: Final = 1.0
PROBE_PAID_S: Final = 10.0
"""How long the result of a check of the store is used; the second where each write is paid for."""

WAIT_S: Final = 2.0
"""How long ``/readyz`` waits for the check that is under way."""

FREE_BYTES: Final = 8_388_608
"""The free space that the disk of a SQLite file needs: a checkpoint needs some room beside the
commits."""

CHECKED_AT_START_BYTES: Final = 67_108_864
CHECKED_BYTES: Final = 1_073_741_824
"""The largest file that is read as a whole: at the start, and while the server runs (a reader
keeps the WAL from its start meanwhile)."""

LOOKED_AT: Final = 500
"""Files of the lake that are read where the store has no table."""

CHECK_FIRST_S: Final = 30.0
CHECK_SHARE: Final = 100
"""A check that took a second is repeated after as many seconds."""

SAYS: Final = {
    StoreCause.DAMAGED: "the store is damaged: put a backup back",
    StoreCause.GONE: "the store is gone: its file or table was deleted, moved or replaced",
    StoreCause.LOCKED: "the store takes no writes: another process holds its lock",
    StoreCause.DENIED: "the store refuses the server: it lacks rights or credentials",
    StoreCause.FULL: "the store takes no writes: its disk is full",
    StoreCause.UNREACHABLE: "the store cannot be reached",
    StoreCause.FAILED: "the store does not answer, or takes no writes",
}
"""The texts of ``/readyz``, by cause."""

_BEHIND: Final = (
    "Put the files back, or a backup ('turnstile restore'); then start with 'turnstile up --closed' and run "
    "'turnstile repair --all'"
)

SILENT: Final = "the store has not answered for seconds"

log = logging.getLogger("turnstile.store")


def look(store: OpenStore) -> None:
    """Reads and writes a row without meaning. Raises StoreUnavailable, or an error of the store's
    client."""
    database = store.database
    world = store.world
    world.refs.read(world.space.table("-"))
    if database is None:
        world.objs.get(world.space.table("-"), "-")
        world.refs.write(Erase(world.space.table("-"), ()))
        return
    database.damage = database.damage or _noted_damage(database.path)
    database.touch()
    disk = os.statvfs(database.path.parent)
    if disk.f_bavail * disk.f_frsize < FREE_BYTES:
        raise StoreUnavailable(StoreCause.FULL, f"the disk of {database.path} has less than {FREE_BYTES} bytes left")


class StoreProbe:
    """The failure of the store, at most a second old; None if it works. However many callers ask,
    one thread checks, now and then."""

    def __init__(self, look: Callable[[], None], every_s: float = PROBE_S, wait_s: float = WAIT_S) -> None:
        self._look = look
        self._every_s = every_s
        self._wait_s = wait_s
        self._mutex = threading.Lock()
        self._looked_s = float("-inf")
        self._running: threading.Event | None = None
        self._problem: str | None = None

    def problem(self) -> str | None:
        """The reason why the store is not usable, for any caller; None if it is."""
        with self._mutex:
            if self._running is None and time.monotonic() - self._looked_s >= self._every_s:
                self._running = threading.Event()
                threading.Thread(target=self._run, args=(self._running,), name="store-probe", daemon=True).start()
            running = self._running
        if running is not None and not running.wait(self._wait_s):
            return self._problem or SILENT
        return self._problem

    def _run(self, done: threading.Event) -> None:
        problem: str | None = None
        try:
            self._look()
        except StoreUnavailable as error:
            log.critical("the store cannot be used: %s", error.message)
            problem = SAYS[error.cause]
        except Exception:  # whatever the store's client raises
            log.exception("the store does not answer")
            problem = SAYS[StoreCause.FAILED]
        with self._mutex:
            self._problem = problem
            self._looked_s = time.monotonic()
            self._running = None
        done.set()


# -- at the start ------------------------------------------------------------------------------------------------------


def require_store(settings: ServerSettings) -> tuple[str, ...]:
    """Opens the store, creates the parts of a new one, and closes it again, so that forked
    processes share no connection. Returns notices for the operator. Raises ServerError of the kind
    ``StoreUnavailable`` if it is not usable.
    """
    try:
        notices = lost_wal(settings)
        store = open_store(settings)
        try:
            if store.database is not None and store.database.path.stat().st_size <= CHECKED_AT_START_BYTES:
                store.database.require_whole()
            ensure(store.world, lake_root=settings.lake_root)
            look(store)
            notices += unknown_lake(store, settings.lake_root) + former_stack(store, settings)
            if store.database is not None:
                store.database.mark_used(used=True)
        finally:
            store.close()
    except TurnstileError as error:
        message = f"the store {settings.store} cannot be used: {error.message}"
        remedy = error.remedy or ""
        raise ServerError(message, remedy=remedy, kind="StoreUnavailable") from error
    except OSError as error:
        message = f"the store {settings.store} cannot be used: {error.strerror or error}"
        raise ServerError(message, remedy="mend --store, or the folder it names", kind="StoreUnavailable") from error
    finally:
        forget_connections()
    for notice in notices:
        log.warning("%s", notice)
    return notices


def leave_store(settings: ServerSettings) -> None:
    """Records in a SQLite file that no server uses it, unless one still does. Failures go to the
    log: then the next start reports a missing WAL only if it is missing."""
    if settings.store_kind != "sqlite":
        return
    from turnstile.adapters.sqlite.copies import is_open

    if not Path(settings.store_place).is_file() or is_open(Path(settings.store_place)):
        return
    try:
        store = open_store(settings, create=False)
        try:
            if store.database is not None:
                store.database.mark_used(used=False)
        finally:
            store.close()
    except TurnstileError as error:
        log.warning("the store was not left in order: %s", error.message)


def lost_wal(settings: ServerSettings) -> tuple[str, ...]:
    """Says so where a SQLite file was in use when its server ended or it was copied, and the
    ``-wal`` that it had then is missing."""
    if settings.store_kind != "sqlite":
        return ()
    from turnstile.adapters.sqlite.copies import is_open, was_used

    path = Path(settings.store_place)
    if not was_used(path) or path.with_name(f"{path.name}-wal").exists() or is_open(path):
        return ()
    return (
        (
            f"{path} was in use when its server ended, or when it was copied, and the -wal file that it had then is "
            f"not here: what was committed last is missing, which may be whole tables. {_BEHIND}"
        ),
    )


def unknown_lake(store: OpenStore, lake_root: str) -> tuple[str, ...]:
    """Says so where the store knows no table, and its lake has some. Looks at a few files only."""
    if next(iter(store.world.refs.scan("table")), None) is not None:
        return ()
    try:
        files = islice(store.world.storages.open(lake_root).list_all(), LOOKED_AT)
        found = next((file.path for file in files if f"/{LOG}" in f"/{file.path}"), None)
    except TurnstileError as error:
        log.warning("%s could not be looked at: %s", lake_root, error.message)
        return ()
    if found is None:
        return ()
    return (
        (
            f"the store has no table, and its lake {lake_root} has some ({found}): if the store had tables, it was "
            f"lost, or copied without its -wal file. {_BEHIND}; tables that no store knows any more come back by "
            f"'turnstile import'"
        ),
    )


def former_stack(store: OpenStore, settings: ServerSettings) -> tuple[str, ...]:
    """Says so where the store knows no table, and the home is one of an emulated deployment, as
    ``turnstile up`` once started it."""
    home = Path(settings.home)
    if not (home / "stack.json").is_file() or not (home / "state").is_dir():
        return ()
    if next(iter(store.world.refs.scan("table")), None) is not None:
        return ()
    return (
        (
            f"{home} is the home of an emulated deployment, whose tables (in {home / 'state'}) this server does not "
            f"know, so it starts empty: "
            "start that by the version which wrote it and bring its tables over (docs/migration.md), or use another "
            "home"
        ),
    )


def forget_connections() -> None:
    """Lets the next use of a client of AWS make connections of its own: two processes cannot share
    one."""
    from turnstile.adapters import opening

    opening.forget_clients()


# -- in the background -------------------------------------------------------------------------------------------------


def watch_file(database: Database, stop: threading.Event) -> None:
    """Looks at the whole file again and again, until ``stop`` is set or damage is found; that is
    noted beside the file, for the processes that answer."""
    _damage_file(database.path).unlink(missing_ok=True)
    pause_s = CHECK_FIRST_S
    while not stop.wait(pause_s):
        began_s = time.monotonic()
        try:
            if database.path.stat().st_size <= CHECKED_BYTES:
                database.require_whole()
        except StoreUnavailable as error:
            log.critical("%s", error.message)
            if error.cause is StoreCause.DAMAGED:
                note_damage(database.path, error.message)
                return
        except OSError as error:
            log.warning("%s could not be looked at: %s", database.path, error)
        pause_s = max(CHECK_FIRST_S, CHECK_SHARE * (time.monotonic() - began_s))


def note_damage(path: Path, problem: str) -> None:
    """Leaves word for the other processes of the store's servers. A new start looks again."""
    try:
        _damage_file(path).write_text(problem)
    except OSError as error:
        log.warning("%s could not be written: %s", _damage_file(path), error)


def _noted_damage(path: Path) -> str | None:
    try:
        return _damage_file(path).read_text()
    except OSError:
        return None


def _damage_file(path: Path) -> Path:
    return path.with_name(f"{path.name}-damaged")
