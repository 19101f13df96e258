"""The lock that orders the write groups of several processes, in the order in which they came for
it."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from typing import Final

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
_PAUSE_S: Final = 0.00005
_TRIES: Final = 30


class GroupLock:
    """An advisory lock on a file, which the kernel releases when its holder dies. One thread of a
    process uses it at a time.

    A second lock is the queue: a process that waits for the first one holds it, so that a process
    that writes group after group cannot keep the others out. Only a thread of its own ever blocks
    in the kernel, where no time limit would reach it.

    Raises:
        OSError: the files cannot be made, or their filesystem has no locks.
    """

    def __init__(self, path: str) -> None:
        self._group = os.open(path, _FLAGS, 0o600)
        try:
            self._queue = os.open(f"{path}-queue", _FLAGS, 0o600)
        except OSError:
            os.close(self._group)
            raise
        self._mutex = threading.Lock()
        self._waiting: threading.Event | None = None  # set when the waiting thread has the lock, or an error
        self._wanted = self._closed = False
        self._error: OSError | None = None

    def acquire(self, seconds: float) -> bool:
        """Returns whether this process has the lock, after at most ``seconds``."""
        with self._mutex:
            if self._waiting is None and self._try():
                return True
            self._wanted = True
            if self._waiting is None:
                self._waiting = threading.Event()
                threading.Thread(target=self._wait, args=(self._waiting,), name="sqlite-lock", daemon=True).start()
            waiting = self._waiting
        waiting.wait(seconds)
        with self._mutex:
            if not waiting.is_set():
                self._wanted = False  # the thread gives the lock back when it gets it
                return False
            self._waiting = None
            error = self._error
            self._error = None
        if error is not None:
            raise error
        return True

    def release(self) -> None:
        """Gives the lock to the process that waits for it, if one does."""
        fcntl.flock(self._group, fcntl.LOCK_UN)

    def close(self) -> None:
        """Gives the files back, when no thread waits for the lock any more."""
        with self._mutex:
            self._closed = True
            if self._waiting is None:
                self._close()

    def _try(self) -> bool:
        """Tries for about the duration of a group, first in the queue if no other process is."""
        queued = False
        try:
            for _ in range(_TRIES):
                queued = queued or _lock_now(self._queue)
                if queued and _lock_now(self._group):
                    return True
                time.sleep(_PAUSE_S)
            return False
        finally:
            if queued:
                fcntl.flock(self._queue, fcntl.LOCK_UN)

    def _wait(self, waiting: threading.Event) -> None:
        error = None
        try:
            fcntl.flock(self._queue, fcntl.LOCK_EX)
            fcntl.flock(self._group, fcntl.LOCK_EX)
            fcntl.flock(self._queue, fcntl.LOCK_UN)
        except OSError as fault:
            error = fault
        with self._mutex:
            if self._wanted:
                self._wanted = False
                self._error = error
                waiting.set()
                return
            self._waiting = None
            if error is None:
                fcntl.flock(self._group, fcntl.LOCK_UN)
            if self._closed:
                self._close()

    def _close(self) -> None:
        os.close(self._group)
        os.close(self._queue)


def _lock_now(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
