"""Local servers that a test session starts and ends by itself."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path


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
