"""The lock between processes that write to one SQLite file (I6)."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.threads import join
from turnstile.adapters.sqlite import lock as lock_module
from turnstile.adapters.sqlite.lock import GroupLock

_GREEDY = """
import sys, time
from turnstile.adapters.sqlite.lock import GroupLock

lock = GroupLock(sys.argv[1])
print("ready", flush=True)
while True:
    assert lock.acquire(60)
    time.sleep(0.002)
    lock.release()
"""


def test_a_process_that_takes_the_lock_again_and_again_keeps_no_other_process_out(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    greedy = subprocess.Popen([sys.executable, "-c", _GREEDY, path], stdout=subprocess.PIPE, text=True)
    try:
        assert greedy.stdout is not None and greedy.stdout.readline() == "ready\n"
        lock = GroupLock(path)
        for _ in range(50):
            assert lock.acquire(60)
            lock.release()
        lock.close()
    finally:
        greedy.kill()
        greedy.wait()


def test_a_lock_that_came_too_late_is_given_back_and_can_be_had_again(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    holder = GroupLock(path)
    waiter = GroupLock(path)
    assert holder.acquire(1)
    assert not waiter.acquire(0.01)
    assert not waiter.acquire(0.01), "it waits on, with the thread of before"
    holder.release()
    _until(lambda: holder.acquire(0.01), "nobody holds what came too late")
    holder.release()
    assert waiter.acquire(10)
    waiter.release()
    holder.close()
    waiter.close()


def test_a_wait_that_goes_on_takes_the_lock_when_it_comes(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    holder = GroupLock(path)
    waiter = GroupLock(path)
    assert holder.acquire(1)
    assert not waiter.acquire(0.01)
    taken: list[bool] = []
    thread = threading.Thread(target=lambda: taken.append(waiter.acquire(60)))
    thread.start()
    _until(lambda: waiter._wanted, "the thread waits")
    holder.release()
    join(thread)
    assert taken == [True]
    assert not holder.acquire(0.01)
    waiter.release()


def test_a_free_lock_is_taken_without_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = GroupLock(str(tmp_path / "lock"))
    monkeypatch.setattr(lock_module, "threading", SimpleNamespace())
    for _ in range(3):
        assert lock.acquire(1)
        lock.release()
    lock.close()


def test_i2_a_wait_that_fails_is_not_reported_as_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "lock")
    holder = GroupLock(path)
    waiter = GroupLock(path)
    assert holder.acquire(1)
    flock = fcntl.flock

    def without_waiting(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_EX:
            raise OSError(errno.ENOLCK, "no locks available")
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", without_waiting)
    with pytest.raises(OSError, match="no locks"):
        waiter.acquire(60)
    monkeypatch.undo()
    holder.release()
    assert waiter.acquire(60), "the next one begins anew"
    waiter.release()


def test_closing_gives_the_files_back_when_no_thread_waits_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "lock")
    closed = list[int]()
    close = os.close
    holder = GroupLock(path)
    waiter = GroupLock(path)
    idle = GroupLock(path)
    assert holder.acquire(1) and not waiter.acquire(0.01)
    monkeypatch.setattr(os, "close", lambda file: (closed.append(file), close(file)))
    waiter.close()
    assert waiter._group not in closed
    holder.release()
    _until(lambda: {waiter._group, waiter._queue} <= {*closed}, "its thread closes them")
    idle.close()
    assert {idle._group, idle._queue} <= {*closed}
    holder.close()


def test_i2_a_process_whose_thread_waits_tries_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have the same descriptors: what one takes the other would give back."""
    path = str(tmp_path / "lock")
    holder = GroupLock(path)
    waiter = GroupLock(path)
    assert holder.acquire(1) and not waiter.acquire(0.01)
    monkeypatch.setattr(waiter, "_try", lambda: pytest.fail("it tried"))
    assert not waiter.acquire(0.01)
    holder.release()


def test_a_later_process_waits_behind_the_queue_although_the_lock_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first = GroupLock(path)
    late = GroupLock(path)
    fcntl.flock(first._queue, fcntl.LOCK_EX)
    assert not late.acquire(0.05)
    fcntl.flock(first._queue, fcntl.LOCK_UN)
    assert late.acquire(60)
    late.release()


def _until(holds: object, what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
