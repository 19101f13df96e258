"""Starts and stops the gateway process."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Final

import httpx

from turnstile_local.errors import AlreadyRunning, PortTaken, StackError
from turnstile_local.home import Layout
from turnstile_local.settings import HEALTH, HOST, OPEN, REGION, SAVE, Keys, child_environment
from turnstile_server.home import is_locked, take_lock

READY_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0


def launch(
    layout: Layout, port: int, keys: Keys, *, deploys: bool = True, roles: bool = False
) -> tuple[subprocess.Popen[bytes], int]:
    """Start the gateway on ``port`` (0: any free one). It listens when this returns;
    :func:`wait_ready` comes next.

    ``keys`` sign requests for the emulated AWS; ``deploys`` says that a template follows at once,
    ``roles`` that functions are held to their roles. Returns the process and the port. Raises
    PortTaken or AlreadyRunning.
    """
    layout.create()
    listener = _listen(port)
    lock = take_lock(layout.lock)
    if lock is None:
        listener.close()
        raise AlreadyRunning(f"a stack is running in {layout.home}", "stop it with 'turnstile down'")
    port = int(listener.getsockname()[1])
    with layout.log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "turnstile_local.gateway",
             "--home", str(layout.home), "--socket", str(listener.fileno()), "--lock", str(lock),
             *(["--deploys"] if deploys else [])],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=layout.home,
            # A session of its own: it outlives the terminal and gets no Ctrl-C meant for other
            # programs.
            start_new_session=True,
            pass_fds=(listener.fileno(), lock),
            env=child_environment(
                port=port, state=str(layout.state), s3=str(layout.s3), tmp=str(layout.tmp), roles=roles, keys=keys
            ),
        )  # fmt: skip
    listener.close()
    os.close(lock)
    return process, port


def healthy(port: int, *, timeout: float = 2.0) -> dict[str, object] | None:
    """The identity of the gateway on ``port``; None if no gateway answers there."""
    try:
        response = httpx.get(f"http://{HOST}:{port}{HEALTH}", timeout=timeout, trust_env=False)
        identity = response.json()
    except (httpx.HTTPError, ValueError):
        return None
    return identity if isinstance(identity, dict) and identity.get("service") == "turnstile-stack" else None


def save(url: str, keys: Keys) -> None:
    """Write the emulator's state now, so that a stack that is killed keeps its deployment."""
    _post_signed(url + SAVE, keys)


def open_api(url: str, keys: Keys) -> None:
    """Serve the API, which is closed after a kill."""
    _post_signed(url + OPEN, keys)


def _post_signed(url: str, keys: Keys) -> None:
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest("POST", url)
    SigV4Auth(Credentials(*keys), "turnstile", REGION).add_auth(request)
    httpx.post(url, headers=dict(request.headers), timeout=READY_SECONDS, trust_env=False).raise_for_status()


def stop(layout: Layout, pid: int, process: subprocess.Popen[bytes] | None = None) -> None:
    """End the gateway in order and wait until it has written its state.

    ``pid`` must come from a live holder of the stack's lock. After STOP_SECONDS it is killed, and
    StackError says so: the writes to the emulated tables since the start are lost then.
    """
    if process is not None and process.poll() is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while is_locked(layout.lock) and time.monotonic() < deadline:
        time.sleep(0.02)
    late = is_locked(layout.lock)
    if late:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if process is not None:
        process.wait(timeout=STOP_SECONDS)
    if late:
        raise StackError(
            f"the stack did not stop within {STOP_SECONDS:.0f} s and was killed; the tables' last changes are lost",
            remedy=f"look at the end of {layout.log}",
            kind="Killed",
        )


def _listen(port: int) -> socket.socket:
    """A listening socket, bound before anything starts: a taken port is an error at once and not a
    timeout."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise PortTaken(HOST, port) from error
    return listener


def wait_ready(process: subprocess.Popen[bytes], layout: Layout, port: int) -> None:
    """Wait until the gateway answers. Raises StackError with the end of its log."""
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        # The socket listens already: the first request waits in its queue until the emulator is up.
        if healthy(port, timeout=READY_SECONDS) is not None:
            return
        time.sleep(0.05)
    reason = f"ended with code {process.returncode}" if process.poll() is not None else "did not become ready"
    if process.poll() is None:
        process.kill()
        process.wait()
    raise StackError(
        f"the stack {reason}; the end of {layout.log}:\n{tail(layout)}",
        remedy="run 'turnstile up --aws' once more; if it fails again, report the log",
        kind="StartFailed",
    )


def tail(layout: Layout, lines: int = 20) -> str:
    """The last lines of the stack's log."""
    try:
        with layout.log.open("rb") as log:
            log.seek(max(0, layout.log.stat().st_size - 16_384))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""
