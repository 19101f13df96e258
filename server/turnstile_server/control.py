"""A server in the background as an object: start it, find it, stop it, and read the address and
token that a client needs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from turnstile_server.children import children_of
from turnstile_server.errors import AlreadyRunning, NotRunning, ServerError
from turnstile_server.home import Home, ServerState, has_open, hold_lock, is_locked
from turnstile_server.settings import ACCEPTS, AUTHENTICATION, DEFAULT_PORT, TOKEN, ServerSettings, default_workers

if TYPE_CHECKING:
    import httpx

DEFAULT_HOME: Final = ".turnstile"
READY_S: Final = 120.0
STOP_S: Final = 60.0
POLL_S: Final = 0.01

_FAILURES: Final = "turnstile-server: "
"""How the line begins by which the main process says why it did not start (``__main__``)."""


class Server:
    """A running server. Get one with :meth:`start` or :meth:`attach`; it is a context manager that
    stops it."""

    def __init__(self, home: Home, state: ServerState, process: subprocess.Popen[bytes] | None = None) -> None:
        self._home = home
        self._state = state
        self._process = process

    @classmethod
    def start(
        cls,
        home: str | Path = DEFAULT_HOME,
        port: int | None = None,
        token: str | None = None,
        lake: str | None = None,
        *,
        store: str = "",
        store_endpoint: str = "",
        workers: int | None = None,
        closed: bool = False,
        settings: ServerSettings | None = None,
        environment: dict[str, str] | None = None,
    ) -> Self:
        """Starts a server in ``home``, or finds the one that runs there.

        Settings that are not given stay as they were in this home. A new home has port 8750, no
        token, a SQLite file and ``<home>/lake``. ``port`` 0 takes any free port. With ``token``
        every request needs it; an empty one opens the API, on loopback addresses only.

        Args:
            closed: it takes no changes until ``turnstile open``.
            settings: all other settings of the server.
            environment: further variables for it (``template.yaml`` lists them).

        Raises:
            PortTaken: another program listens on the port.
            AlreadyRunning: the server of this home runs with other settings.
            BadSettings: it would be unsafe, or a setting has the wrong form.
            ServerError: it did not start; the message has the end of the log.
        """
        place = Home.at(home)
        place.create()
        with hold_lock(place.starting):
            previous = ServerState.read(place)
            if is_locked(place.lock) and previous is not None and _answers(previous.url):
                return cls(place, _same(place, previous, port, token, lake=lake, store=store, closed=closed))
            previous = previous.of_home(place) if previous else None
            # A token that was given once stays: a restart must not open the API silently. An empty
            # one opens it on purpose.
            others = any({**os.environ, **(environment or {})}.get(name) for name in ACCEPTS if name != TOKEN)
            opened = {AUTHENTICATION: "none"} if token == "" and not others else {}
            token = token if token is not None else previous.token if previous else ""
            base = settings or ServerSettings(
                str(place.path),
                store=store or (previous.store if previous else ""),
                store_endpoint=store_endpoint or (previous.store_endpoint if previous else ""),
                port=previous.port if previous else DEFAULT_PORT,
                workers=workers or default_workers(),
            )
            base = replace(
                base,
                home=str(place.path),
                port=base.port if port is None else port,
                lake_root=lake or (previous.lake_root if previous else "") or base.lake_root,
                closed=base.closed or closed,
            )
            return cls(place, *_start(place, base, {**opened, **(environment or {}), TOKEN: token}))

    @classmethod
    def attach(cls, home: str | Path = DEFAULT_HOME) -> Self:
        """Returns the server that runs in ``home``; raises NotRunning."""
        place = Home.at(home)
        state = ServerState.read(place)
        if state is None or not is_locked(place.lock):
            raise NotRunning(place.path)
        return cls(place, state)

    def stop(self) -> None:
        """Stops the server in order: it completes the running requests and publishing. Raises
        ServerError if it had to be killed, which loses no acknowledged commit. A server whose home
        is gone stops by itself.
        """
        if not self._home.path.is_dir():
            if self._process is not None:
                self._process.wait(STOP_S)
            return
        with hold_lock(self._home.starting):
            if is_locked(self._home.lock):
                _stop(self._home, self.state.pids[0] if self.state.pids else None, self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def fresh(self) -> bool:
        """Whether this object started the server, rather than finding it running."""
        return self._process is not None

    @property
    def state(self) -> ServerState:
        """The present contents of ``server.json``."""
        return ServerState.read(self._home) or self._state

    @property
    def url(self) -> str:
        return self._state.url

    @property
    def port(self) -> int:
        return self._state.port

    @property
    def token(self) -> str:
        """Bearer token of the operator; empty when the API is open."""
        return self._state.token

    @property
    def home(self) -> Path:
        return self._home.path

    @property
    def log(self) -> Path:
        """Output of its processes."""
        return self._home.log

    @property
    def lake_root(self) -> str:
        """Root of new tables."""
        return self._state.lake_root

    @property
    def started_ms(self) -> int:
        return self._state.started_ms

    @property
    def is_emulated(self) -> bool:
        return False

    @property
    def authentication(self) -> str:
        """``required`` or ``none``: whether it demands tokens, of whichever kind."""
        return self.state.authentication or ("required" if self.state.token else "none")

    @property
    def notices(self) -> tuple[str, ...]:
        """The notices of this start for the user."""
        return self.state.notices

    @property
    def pids(self) -> tuple[int, ...]:
        """Its processes, the main one first."""
        return self.state.pids

    def client(self, timeout: float = 35.0) -> httpx.Client:
        """Returns an HTTP client of the API that carries the token; ``timeout`` in seconds. Close
        it."""
        import ssl

        import httpx

        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        none = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the URL is http: reading certificates would take 40 ms
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False, verify=none)


def _start(
    home: Home, settings: ServerSettings, environment: dict[str, str]
) -> tuple[ServerState, subprocess.Popen[bytes]]:
    began = home.log.stat().st_size if home.log.exists() else 0
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with home.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "turnstile_server"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=home.path,
            # A session of its own: it outlives the terminal and gets no Ctrl-C meant for other
            # programs.
            start_new_session=True,
            env={**variables, **environment, **settings.to_environment()},
        )  # fmt: skip
    deadline = time.monotonic() + READY_S
    while True:
        state = ServerState.read(home)
        is_whole = (
            state is not None
            and state.pids[:1] == (process.pid,)
            and len(state.pids) == 1 + settings.workers + len(children_of(settings))
        )
        if state is not None and is_whole and _answers(state.url):
            return state, process
        if process.poll() is not None:
            raise _failure(home, began)
        if time.monotonic() > deadline:
            with contextlib.suppress(ServerError):  # that it had to be killed is not what its user has to know
                _stop(home, process.pid, process)
            raise ServerError(f"the server did not answer within {READY_S:.0f} s", remedy=f"look at {home.log}")
        time.sleep(POLL_S)


def _failure(home: Home, began: int) -> ServerError:
    """The error that the main process wrote before it ended, else the end of its log."""
    with home.log.open("rb") as file:
        file.seek(began)
        text = file.read().decode(errors="replace")
    lines = [line.removeprefix(_FAILURES) for line in text.splitlines() if line.startswith(_FAILURES)]
    if lines:
        kind, message, remedy = lines[-1].split("\t")
        return ServerError.of(kind, message, remedy)
    return ServerError(f"the server did not start:\n{text[-2000:]}", remedy=f"look at {home.log}")


def _same(
    home: Home, state: ServerState, port: int | None, token: str | None, *, lake: str | None, store: str, closed: bool
) -> ServerState:
    """Returns the running server's state, if it has these settings; raises AlreadyRunning if
    not."""
    remedy = f"stop it with 'turnstile down --home {home.path}' first"
    if port not in (None, 0, state.port):
        raise AlreadyRunning(f"the server in {home.path} runs on port {state.port}, not {port}", remedy)
    if token not in (None, state.token):
        raise AlreadyRunning(f"the server in {home.path} runs with another token", remedy)
    if lake and lake.rstrip("/") != state.lake_root:
        raise AlreadyRunning(f"the server in {home.path} has its tables in {state.lake_root}", remedy)
    if store and store != state.store:
        raise AlreadyRunning(f"the server in {home.path} has the store {state.store}", remedy)
    if closed and not home.closed_marker.exists():
        raise AlreadyRunning(f"the server in {home.path} takes changes", remedy)
    return state


def _stop(home: Home, pid: int | None, process: subprocess.Popen[bytes] | None) -> None:
    """Ends the main process in order, and kills it after STOP_S. Raises ServerError if ``pid`` is
    not the holder of the lock."""
    if pid is None:
        return
    if not has_open(pid, home.lock):
        if not is_locked(home.lock):
            return
        raise ServerError(
            f"a server runs in {home.path}, and it is not process {pid} of this machine; nothing was stopped",
            remedy="stop it where it was started, such as in its container, or try again if it is just starting",
        )
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while is_locked(home.lock):
        if process is not None:
            process.poll()  # a child of ours that has ended is a zombie until it is asked
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise ServerError(
                f"the server did not stop within {STOP_S:.0f} s and was killed",
                remedy="no acknowledged commit is lost; unpublished ones are published at the next start",
                kind="Killed",
            )
        time.sleep(POLL_S)


def _answers(url: str) -> bool:
    """Whether a server answers there. The standard library's client: httpx takes a quarter of a
    second to import."""
    import http.client
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=2.0)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


__all__ = ["DEFAULT_PORT", "Server"]
