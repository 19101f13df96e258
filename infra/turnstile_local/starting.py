"""Start a stack, or find the one that runs in a home."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from turnstile_local import bootstrap, launch, locks, state
from turnstile_local.errors import AlreadyRunning
from turnstile_local.plan import Plan
from turnstile_local.settings import HOST

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from turnstile_local.layout import Layout

DEFAULT_PORT: Final = 8750


@dataclass(frozen=True)
class Wanted:
    """Settings asked for. What is None stays as it is or was in this home."""

    port: int | None = None
    token: str | None = None
    lake: str | None = None
    functions: Path | None = None
    parameters: dict[str, str] = field(default_factory=dict)
    roles: bool = False

    @property
    def lake_root(self) -> str:
        """The lake without a slash at the end; empty if none is asked for."""
        return (self.lake or "").rstrip("/")


Started = tuple[state.StackState, "subprocess.Popen[bytes] | None"]


def start(layout: Layout, wanted: Wanted) -> Started:
    """The running stack's state, and its process if this call started it. Raises StackError."""
    layout.create()
    with locks.hold(layout.starting):
        known = state.read(layout)
        if locks.held(layout.lock):
            return _same(layout, known, wanted), None
        return _start(layout, known, wanted)


def _start(layout: Layout, known: state.StackState | None, wanted: Wanted) -> Started:
    # A token that was given once stays: a restart must not open the API silently.
    token = wanted.token if wanted.token is not None else known.token if known else ""
    root = wanted.lake_root or (known.lake_root if known else "") or layout.lake.as_uri()
    keys = (known.keys if known else "") or f"local:{secrets.token_urlsafe(32)}"
    plan = Plan.make(root, token, keys, wanted.functions, wanted.parameters)
    kept = known.outputs if known and _read(layout.saved) == plan.digest else None
    asked = DEFAULT_PORT if wanted.port is None else wanted.port
    process, port = launch.launch(layout, asked, deploys=kept is None, roles=wanted.roles)
    url = f"http://{HOST}:{port}"
    try:
        outputs = plan.carry_out(url, kept, lambda: launch.wait_ready(process, layout, port))
        layout.deployed.write_text(plan.digest)
        if token or plan.opened:  # else only somebody else's token can make anything
            bootstrap.ensure(url, token)
        if kept is None:
            launch.save(url)
    except BaseException:
        launch.stop(layout, process.pid, process)
        raise
    now = int(time.time() * 1000)
    fresh = state.StackState(
        pid=process.pid, port=port, url=url, token=token, lake_root=root, started=now, outputs=outputs, keys=keys
    )
    state.write(layout, fresh)
    return fresh, process


def _same(layout: Layout, known: state.StackState | None, wanted: Wanted) -> state.StackState:
    """The running stack, if it is the one that was asked for."""
    remedy = f"stop it with 'turnstile down --home {layout.home}' first"
    if known is None:
        raise AlreadyRunning(f"a stack runs in {layout.home} but its stack.json is gone", remedy)
    if wanted.port not in (None, 0, known.port):
        raise AlreadyRunning(f"the stack in {layout.home} runs on port {known.port}, not {wanted.port}", remedy)
    if wanted.token not in (None, known.token):
        raise AlreadyRunning(f"the stack in {layout.home} runs with another token", remedy)
    if wanted.lake_root not in ("", known.lake_root):
        raise AlreadyRunning(f"the stack in {layout.home} has its tables in {known.lake_root}", remedy)
    return known


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
