"""The embedded stack as an object: start, stop, and what a client needs to reach it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from turnstile_local import bootstrap, deploy, launch, locks, state
from turnstile_local.errors import AlreadyRunning, NotRunning
from turnstile_local.layout import Layout
from turnstile_local.plan import Plan
from turnstile_local.settings import HOST, client_environment

if TYPE_CHECKING:
    import subprocess
    from types import TracebackType

DEFAULT_PORT = 8750
DEFAULT_HOME = ".turnstile"


class Stack:
    """A running stack. Get one with :meth:`start` or :meth:`attach`; it is a context manager that stops it.

    ``url`` is the one base URL: the API below ``/v1``, the emulated AWS everywhere else.
    """

    def __init__(self, layout: Layout, known: state.StackState, process: subprocess.Popen[bytes] | None = None) -> None:
        self._layout = layout
        self._state = known
        self._process = process
        self.fresh = process is not None
        """Whether this call started it, rather than finding it running."""

    @classmethod
    def start(
        cls,
        home: str | Path = DEFAULT_HOME,
        port: int = DEFAULT_PORT,
        token: str = "",
        lake: str = "",
        *,
        functions: Path | None = None,
        parameters: dict[str, str] | None = None,
    ) -> Self:
        """Start a stack in ``home``, or find the one that runs there with the same settings.

        ``port`` 0 takes any free one. ``token`` makes every request of the API carry it. ``lake`` is the root of the
        tables: empty for ``<home>/lake``, ``s3://bucket/prefix`` for a bucket of the emulated S3. ``functions`` and
        ``parameters`` replace the functions' folder and template parameters, for tests. Raises StackError.
        """
        layout = Layout.at(home)
        layout.create()
        with locks.hold(layout.starting):
            known = state.read(layout)
            if locks.held(layout.lock):
                return cls._found(layout, known, port, token, lake)
            # A home keeps its lake: the tables' locations are written in it.
            root = lake.rstrip("/") or (known.lake_root if known else "") or layout.lake.as_uri()
            plan = Plan.make(root, token, functions, parameters or {})
            kept = known.outputs if known and _read(layout.saved) == plan.digest else None
            process, port = launch.launch(layout, port, deploys=kept is None)
            url = f"http://{HOST}:{port}"
            try:
                outputs = plan.carry_out(url, kept, lambda: launch.wait_ready(process, layout, port))
                layout.deployed.write_text(plan.digest)
                bootstrap.ensure(url, token)
            except BaseException:
                launch.stop(layout, process.pid, process)
                raise
            known = state.StackState(
                pid=process.pid, port=port, url=url, token=token, lake_root=root,
                started=int(time.time() * 1000), outputs=outputs,
            )  # fmt: skip
            state.write(layout, known)
            return cls(layout, known, process)

    @classmethod
    def _found(cls, layout: Layout, known: state.StackState | None, port: int, token: str, lake: str) -> Self:
        remedy = f"stop it with 'turnstile down --home {layout.home}' first"
        if known is None:
            raise AlreadyRunning(f"a stack runs in {layout.home} but its stack.json is gone", remedy)
        if port not in (0, known.port):
            raise AlreadyRunning(f"the stack in {layout.home} runs on port {known.port}, not {port}", remedy)
        if token != known.token:
            raise AlreadyRunning(f"the stack in {layout.home} runs with another token", remedy)
        if lake and lake.rstrip("/") != known.lake_root:
            raise AlreadyRunning(f"the stack in {layout.home} has its tables in {known.lake_root}", remedy)
        return cls(layout, known)

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

    def aws(self, service: str) -> Any:
        """A boto3 client of the emulated service."""
        return deploy.client(service, self._state.url)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
