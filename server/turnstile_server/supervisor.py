"""The main process of a server. It serves one home folder, and starts and ends the other processes:

    main process    holds the lock of the home, and the port; starts the other processes, and
                    restarts each that dies
    http            ``workers`` processes that answer requests
    background      publishes, sweeps and collects
    light work      writes checkpoints, version checksums and log compaction files
    owner           in a fleet: applies the changes of catalogs in the server's own granules

Where the system allows it, processes are forked after all imports, so that a start, and the
replacement of a killed process, costs no imports. A process without a main process ends itself; a
server without a home folder stops.
"""

from __future__ import annotations

import importlib
import logging
import os
import resource
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from turnstile_server.admission import PLACES, SPARE_THREADS
from turnstile_server.children import STOP_S, Children, check_variables, children_of, reset_signals_in_children
from turnstile_server.errors import AlreadyRunning, BadSettings, PortTaken
from turnstile_server.home import Home, ServerState, take_lock
from turnstile_server.settings import AUTHENTICATION, TOKEN, TOKEN_KEYS, ServerSettings, decide_authentication
from turnstile_server.store.health import leave_store, require_store

WATCH_S: Final = 0.2

BACKLOG: Final = 4_096
"""Connections that the system keeps until a process takes them."""

FILES_MOST: Final = 65_536
"""The limit of open files that a server asks for, where it may have as many."""

FILES_OWN: Final = 512
"""Files that a process which answers has beside its connections: store, lake, sockets to S3."""
LOCK_S: Final = 3.0
"""How long a server that was killed may take to end all its processes, which hold the lock and the
port."""

_RUNTIME: Final = "tst-"
"""How the name of a runtime folder begins. It is no folder of the home: a socket's path may have a
hundred characters."""

log = logging.getLogger("turnstile.supervisor")


def serve(settings: ServerSettings, *, ready: Callable[[ServerState], None] = lambda _: None) -> None:
    """Runs a server until SIGTERM or SIGINT, or until its home is gone.

    ``ready`` is called when it has its port and its processes are being started. Raises
    BadSettings, AlreadyRunning, PortTaken, and ServerError of the kind ``StoreUnavailable``.
    """
    mode = decide_authentication(settings, os.environ)
    home = Home.at(settings.home)
    home.create()
    lock = _take(home)
    try:
        previous = ServerState.read(home)
        _close(home, settings)
        require_closed_still(mode, os.environ, previous)
        _remove_runtime(previous)
        settings = replace(
            settings, port=_free_port(settings.host, settings.port), runtime=tempfile.mkdtemp(prefix=_RUNTIME)
        )
        if settings.advertised_host:
            port = _free_port(settings.host, 0)
            secret = secrets.token_urlsafe(32)
            settings = replace(settings, fleet_port=port, fleet_secret=secret)
        try:
            notices = require_store(settings)
            try:
                _Server(home, settings, mode, notices).run(ready)
            finally:
                leave_store(settings)
        finally:
            shutil.rmtree(settings.runtime, ignore_errors=True)
    finally:
        os.close(lock)


class _Server:
    def __init__(self, home: Home, settings: ServerSettings, mode: str, notices: tuple[str, ...]) -> None:
        self._home = home
        self._settings = settings
        self._closed = settings.is_closed
        previous = ServerState.read(home)
        keys = os.environ.get(TOKEN_KEYS) or (previous.keys if previous else "") or f"local:{secrets.token_urlsafe(32)}"
        token = os.environ.get(TOKEN, "")
        os.environ |= {**settings.to_environment(), AUTHENTICATION: mode}
        if mode == "required" and (settings.store_kind == "sqlite" or TOKEN_KEYS in os.environ):
            os.environ[TOKEN_KEYS] = keys  # servers that share a DynamoDB table must be given the same ones
        self._state = ServerState(
            url=settings.url,
            port=settings.port,
            lake_root=settings.lake_root,
            store=settings.store,
            token=token,
            keys=keys,
            started_ms=time.time_ns() // 1_000_000,
            store_endpoint=settings.store_endpoint,
            runtime=settings.runtime,
            authentication=mode,
            notices=notices,
        )
        self._stopping = threading.Event()
        self._children = Children(children_of(settings))

    def run(self, ready: Callable[[ServerState], None]) -> None:
        importlib.import_module("turnstile_server.http")
        self._children.prepare()
        check_variables()
        reset_signals_in_children()
        server = self._granian()
        server.respawned_wrks = StartTimes(server, self._settings)
        server.on_startup(lambda: self._start(server, ready))
        server.on_shutdown(self._stop)
        server.serve()

    def _granian(self) -> Any:
        from granian.constants import HTTPModes, Interfaces
        from granian.log import LogLevels
        from granian.server import Server

        settings = self._settings
        # With one thread the process has no second one for anything: it is for what is behind a
        # proxy (docs/server.md).
        threads = PLACES + SPARE_THREADS if settings.threads > 1 else 1
        return Server(
            "turnstile_server.http:create",
            factory=True,
            interface=Interfaces.WSGI,
            address=settings.host,
            port=settings.port,
            workers=settings.workers,
            blocking_threads=threads,
            backlog=BACKLOG,
            backpressure=most_connections(raise_file_limit()),
            http=HTTPModes.http1,
            log_level=LogLevels.error,
            respawn_failed_workers=True,
            workers_kill_timeout=int(STOP_S),
        )

    def _start(self, server: Any, ready: Callable[[ServerState], None]) -> None:
        self._children.start()
        threading.Thread(target=self._watch, args=(server,), name="watch", daemon=True).start()
        self._state.write(self._home)
        ready(self._state)

    def _watch(self, server: Any) -> None:
        """Keeps the children alive and ``server.json`` true; ends the server when its home is
        gone."""
        while not self._stopping.wait(WATCH_S):
            if not self._home.lock.exists():
                os.kill(os.getpid(), signal.SIGTERM)
                return
            self._open()
            self._children.mend()
            if server.interrupt_children:  # granian forgets a death in the moment in which it mends another
                server.main_loop_interrupt.set()
            workers = [worker.inner.pid for worker in server.wrks if worker.inner.pid]
            pids = (os.getpid(), *workers, *self._children.pids)
            if pids != self._state.pids:
                self._state = replace(self._state, pids=pids)
                try:
                    self._state.write(self._home)
                except OSError as error:  # the home is going, or the disk is full
                    log.warning("server.json could not be written: %s", error)

    def _open(self) -> None:
        """Starts the background anew when the server was opened: it rested."""
        if self._closed and not self._settings.is_closed:
            self._closed = False
            self._children.stop()
            self._children = Children(children_of(self._settings))
            self._children.prepare()
            self._children.start()

    def _stop(self) -> None:
        self._stopping.set()
        self._children.stop()


def raise_file_limit() -> int:
    """Lets this process, and its children, open as many files as it may, ``FILES_MOST`` at most;
    returns how many it may now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_MOST if hard == resource.RLIM_INFINITY else min(hard, FILES_MOST)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return FILES_MOST if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        log.warning("the limit of open files stays at %d: %s", soft, error)
        return soft
    return wanted


def most_connections(files: int) -> int:
    """Returns how many connections a process may have that may open so many files. Each connection
    is a file, idle or not, and a process without a file left could neither take a connection nor
    open the lake; granian's own limit is a thousand connections.
    """
    return max(files // 2, files - FILES_OWN)


class StartTimes(dict[int, float]):
    """The time when each worker was restarted, without workers that were ready to answer. granian
    ends the server if a worker dies within seconds of that time: correct for a worker that cannot
    start, wrong for one that is killed twice. It is never cleared: granian does so whenever a
    worker dies, and two workers that cannot start would be restarted in turns for ever.
    """

    def __init__(self, server: Any, settings: ServerSettings) -> None:
        super().__init__()
        self._server = server
        self._settings = settings

    def get(self, number: int, default: float = 0) -> float:  # type: ignore[override]
        pid = self._server.wrks[number].inner.pid
        return default if self._settings.ready_file(pid).exists() else super().get(number, default)

    def clear(self) -> None:
        pass


def require_closed_still(mode: str, environment: Mapping[str, str], previous: ServerState | None) -> None:
    """Raises BadSettings for a server that would be open by mistake: the server of this home
    demanded tokens, its authentication is not configured any more, and no setting opens it
    explicitly.
    """
    closed = previous is not None and (previous.authentication == "required" or bool(previous.token))
    if closed and mode == "none" and environment.get(AUTHENTICATION) != "none":
        raise BadSettings(
            "the server of this home demanded tokens, and none is configured now: it would be open to every program",
            f"configure the tokens or the issuer again, or set {AUTHENTICATION}=none to open it",
        )


def _close(home: Home, settings: ServerSettings) -> None:
    """Leaves the file in the home by which its processes take no changes, or removes that of a
    start before."""
    if settings.closed:
        home.closed_marker.touch()
    else:
        home.closed_marker.unlink(missing_ok=True)


def _remove_runtime(previous: ServerState | None) -> None:
    """Removes the runtime folder of a server of this home that was killed; never a folder
    elsewhere, also if the state names one."""
    folder = Path(previous.runtime) if previous is not None else Path()
    if folder.parent == Path(tempfile.gettempdir()) and folder.name.startswith(_RUNTIME):
        shutil.rmtree(folder, ignore_errors=True)


def _take(home: Home) -> int:
    deadline = time.monotonic() + LOCK_S
    while True:
        lock = take_lock(home.lock)
        if lock is not None:
            return lock
        if time.monotonic() > deadline:
            raise AlreadyRunning(
                f"a server is running in {home.path}", f"stop it with 'turnstile down --home {home.path}'"
            )
        time.sleep(0.02)


def _free_port(host: str, port: int) -> int:
    """Returns the port, or a free one for 0. Raises PortTaken: granian itself would share a port
    that another program has."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + (LOCK_S if port else 0)
    while True:
        with socket.socket(family, socket.SOCK_STREAM) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind((host, port))
                listener.listen(1)
                return int(listener.getsockname()[1])
            except OSError as error:
                if time.monotonic() > deadline:
                    if error.errno in (98, 48):
                        raise PortTaken(host, port) from error
                    raise BadSettings(
                        f"{host}:{port} cannot be listened on: {error.strerror}", "choose --host"
                    ) from error
        time.sleep(0.05)
