"""The servers that the contract is checked against: MiniStack, moto, and dynoxide."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from tests.support.downloads import Missing
from tests.support.store.backends import DYNOXIDE, FAKE, MINISTACK, MOTO, SQLITE, Backend, SqliteBackend
from tests.support.store.dynoxide import build


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _die_with_parent() -> None:
    """Linux: end the server when the test session is killed, which runs no clean-up."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGTERM)


@contextmanager
def serving(
    command: Sequence[str], port: int, folder: Path, env: Mapping[str, str], patience: float = 90
) -> Iterator[str]:
    """Run ``command`` until the block ends; yields its URL once ``port`` takes connections.

    Args:
        folder: for its output (``server.log``) and whatever it writes.
        patience: seconds to wait for the port.
    """
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            env=dict(env),
            cwd=folder,
            stdout=log,
            stderr=log,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - servers start from the main thread, between tests
        )
    try:
        end = time.monotonic() + patience
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{command[0]} does not listen: {(folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        try:
            server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def ministack(folder: Path) -> Iterator[str]:
    """The embedded stack's AWS, with a state of its own."""
    port = free_port()
    env = os.environ | {
        "GATEWAY_PORT": str(port),
        "BIND_HOST": "127.0.0.1",
        "STATE_DIR": str(folder / "state"),
        "S3_DATA_DIR": str(folder / "s3"),
        "TMPDIR": str(folder),
    }
    with serving([sys.executable, "-m", "ministack"], port, folder, env) as url:
        yield url


@contextmanager
def moto(folder: Path) -> Iterator[str]:
    """moto's emulation of AWS, with nothing in it."""
    port = free_port()
    command = [sys.executable, str(Path(__file__).with_name("moto_server.py")), str(port)]
    with serving(command, port, folder, dict(os.environ)) as url:
        yield url


NOT_CHECKED: Final[set[str]] = set()
"""Why tests were skipped for want of a server."""


@contextmanager
def dynoxide(folder: Path) -> Iterator[str]:
    """dynoxide, with its tables in memory."""
    program = build()
    port = free_port()
    command = [str(program), "--host", "127.0.0.1", "--port", str(port), "--log", "quiet"]
    with serving(command, port, folder, dict(os.environ)) as url:
        yield url


class Servers:
    """Starts servers when they are asked for and keeps them until ``stack`` closes.

    Args:
        stack: what ends the servers.
        folder: where they keep their state.
    """

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self._stack = stack
        self._folder = folder
        self._backends: dict[str, Backend] = {}

    def get(self, name: str) -> Backend:
        """The backend of that name; skips the test, with the reason, where it cannot be had."""
        try:
            return self._find(name)
        except Missing as missing:
            NOT_CHECKED.add(str(missing))
            pytest.skip(str(missing))

    def dynamodb(self) -> Backend:
        """The faster of the backends that speak DynamoDB's API."""
        try:
            return self._find(DYNOXIDE)
        except Missing:
            return self.get(MINISTACK)

    def _find(self, name: str) -> Backend:
        """The backend of that name, started once. Raises Missing where it cannot be had."""
        if name not in self._backends:
            self._backends[name] = self._start(name)
        return self._backends[name]

    def _start(self, name: str) -> Backend:
        if name == FAKE:
            return Backend(name)
        for variable, value in (
            ("ACCESS_KEY_ID", "test"),
            ("SECRET_ACCESS_KEY", "test"),
            ("DEFAULT_REGION", "us-east-1"),
        ):
            os.environ.setdefault(f"AWS_{variable}", value)
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        if name == SQLITE:
            return SqliteBackend(folder)
        if name == MOTO:
            return Backend(name, self._stack.enter_context(moto(folder)))
        server = dynoxide(folder) if name == DYNOXIDE else ministack(folder)
        backend = Backend(name, self._stack.enter_context(server))
        backend.make_tables()
        return backend
