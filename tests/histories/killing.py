"""Kills the processes of a server while clients use it, as an operator, or a kernel short of
memory, may."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.server import processes
from turnstile_server import Server

needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to find the processes")


@contextmanager
def kill_again_and_again(server: Server, name: str, every_s: float) -> Iterator[list[int]]:
    """SIGKILL for the process of that name, and for each that replaces it; the pids that were
    killed."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        while not over.wait(every_s):
            for pid, process in processes(server).items():
                if process == name and pid not in killed:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        over.set()
        killer.join()
