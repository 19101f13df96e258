"""The embedded stack as an object: start, stop, and what a client needs to reach it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import httpx

from turnstile_local import deploy, launch, locks, starting, state
from turnstile_local.errors import NotRunning
from turnstile_local.layout import Layout
from turnstile_local.settings import client_environment

if TYPE_CHECKING:
    import subprocess
    from types import TracebackType

DEFAULT_HOME = ".turnstile"


class Stack:
    """A running stack. Get one with :meth:`start` or :meth:`attach`; it is a context manager that stops it.

    ``url`` is the one base URL: the API below ``/v1``, the emulated AWS everywhere else.
    """

    def __init__(self, layout: Layout, known: state.StackState, process: subprocess.Popen[bytes] | None = None) -> None:
        self._layout = layout
        self._state = known
        self._process = process

    @classmethod
    def start(
        cls,
        home: str | Path = DEFAULT_HOME,
        port: int | None = None,
        token: str | None = None,
        lake: str | None = None,
        *,
        functions: Path | None = None,
        parameters: dict[str, str] | None = None,
        roles: bool = False,
    ) -> Self:
        """Start a stack in ``home``, or find the one that runs there.

        What is None stays as it is or was in this home, and is port 8750, no token and ``<home>/lake`` in a new one.
        ``port`` 0 takes any free one. ``token`` makes every request of the API carry it; empty opens it. ``lake`` is
        the root of new tables, ``s3://bucket/prefix`` for a bucket of the emulated S3.

        For tests: ``functions`` and ``parameters`` replace functions and template parameters, ``roles``
        makes the emulator hold every function to its role.

        Raises:
            PortTaken: another program listens there.
            AlreadyRunning: the stack of this home runs with other settings.
            StackError: it could not be started or deployed; the message has the end of the log.
        """
        layout = Layout.at(home)
        wanted = starting.Wanted(port, token, lake, functions, parameters or {}, roles)
        return cls(layout, *starting.start(layout, wanted))

    @classmethod
    def attach(cls, home: str | Path = DEFAULT_HOME) -> Self:
        """The stack that runs in ``home``; raises NotRunning."""
        layout = Layout.at(home)
        known = state.read(layout)
        if known is None or not locks.held(layout.lock):
            raise NotRunning(layout.home)
        return cls(layout, known)

    def stop(self) -> None:
        """Stop it in order: requests in flight end, state is written. Raises StackError if it had to be killed."""
        with locks.hold(self._layout.starting):
            if locks.held(self._layout.lock):
                launch.stop(self._layout, self._state.pid, self._process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def fresh(self) -> bool:
        """Whether this object started the stack, rather than finding it running."""
        return self._process is not None

    @property
    def url(self) -> str:
        return self._state.url

    @property
    def port(self) -> int:
        return self._state.port

    @property
    def token(self) -> str:
        """Bearer token of the API; empty when it is open."""
        return self._state.token

    @property
    def home(self) -> Path:
        return self._layout.home

    @property
    def log(self) -> Path:
        """Output of the gateway; ``functions.log`` next to it has that of the functions."""
        return self._layout.log

    @property
    def lake_root(self) -> str:
        """Root of the tables, ``file:///...`` or ``s3://...``."""
        return self._state.lake_root

    @property
    def s3_endpoint(self) -> str:
        """Endpoint of the emulated S3; use path-style addresses."""
        return self._state.url

    @property
    def env(self) -> dict[str, str]:
        """Environment variables that point AWS clients at the stack."""
        return client_environment(self._state.url)

    @property
    def refs_table(self) -> str:
        return self._state.refs_table

    @property
    def objs_table(self) -> str:
        return self._state.objs_table

    @property
    def state(self) -> state.StackState:
        """What ``stack.json`` holds."""
        return self._state

    def client(self, timeout: float = 35.0) -> httpx.Client:
        """An HTTP client of the API that carries the token; ``timeout`` in seconds. Close it."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=timeout, trust_env=False)

    def aws(self, service: str) -> Any:
        """A boto3 client of the emulated service."""
        return deploy.client(service, self._state.url)
