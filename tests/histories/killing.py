"""Kills the processes in which a deployed function runs, as Lambda may at any moment."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from turnstile_local import Stack

needs_proc = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to find the processes")


def kill_sandboxes(stack: Stack, function: str) -> int:
    """SIGKILL every running sandbox of ``function`` (its logical id in the template); how many there were."""
    killed = 0
    for process in Path("/proc").iterdir():
        try:
            command = (process / "cmdline").read_bytes().decode(errors="replace") if process.name.isdigit() else ""
            if str(stack.home) in command and f"-{function}-" in command:
                os.kill(int(process.name), signal.SIGKILL)
                killed += 1
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # gone meanwhile, or not ours
    return killed
