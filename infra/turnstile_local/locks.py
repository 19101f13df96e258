"""Advisory file locks. The kernel releases them when their holder dies, however it dies; a pid file stays behind."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def take(path: Path, *, wait: bool = False) -> int | None:
    """An open descriptor that holds the lock, or None if somebody else does. Closing it gives the lock back."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        return None
    return handle


def held(path: Path) -> bool:
    """Whether a living process holds the lock."""
    if not path.exists():
        return False
    handle = take(path)
    if handle is None:
        return True
    os.close(handle)
    return False


@contextmanager
def hold(path: Path) -> Iterator[None]:
    """Wait for the lock and hold it for the duration of the block."""
    handle = take(path, wait=True)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)
