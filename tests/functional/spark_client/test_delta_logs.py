"""When Delta is told that the snapshot it holds is the current one (I6)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from turnstile_spark.delta.cached_logs import DeltaLogs


class Lock:
    """A ReentrantLock as py4j shows it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def tryLock(self) -> bool:
        return self._lock.acquire(blocking=False)

    def unlock(self) -> None:
        self._lock.release()


class Log:
    """A DeltaLog whose snapshot is of ``version``; ``confirmed`` are the versions that were
    installed again."""

    def __init__(self, version: int) -> None:
        self.lock = Lock()
        self.confirmed = list[int]()
        self.snapshot = SimpleNamespace(version=lambda: version)

    def snapshotLock(self) -> Lock:
        return self.lock

    def unsafeVolatileSnapshot(self) -> Any:
        return self.snapshot

    def installSnapshot(self, snapshot: Any, updated_ms: int) -> None:
        assert updated_ms > 1_700_000_000_000
        self.confirmed.append(snapshot.version())


@pytest.fixture
def another_thread() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def loaded(logs: DeltaLogs, log: Log, latest: int, table_id: str = "a", times: int = 1) -> None:
    for _ in range(times):
        logs.note_load(table_id, SimpleNamespace(deltaLog=lambda: log), latest)


def test_the_snapshot_of_the_latest_version_is_confirmed() -> None:
    log = Log(4)
    loaded(DeltaLogs(), log, latest=4, times=2)
    assert log.confirmed == [4]


@pytest.mark.parametrize("latest", [3, 5])
def test_a_snapshot_of_another_version_is_left_to_delta(latest: int) -> None:
    log = Log(4)
    loaded(DeltaLogs(), log, latest, times=2)
    assert log.confirmed == []


def test_the_first_load_of_a_table_confirms_nothing() -> None:
    """Another table with as many versions may have been at its path, which is what Delta goes
    by."""
    logs = DeltaLogs()
    log = Log(4)
    loaded(logs, log, latest=4, table_id="a")
    loaded(logs, log, latest=4, table_id="b")
    assert log.confirmed == []


def test_while_another_thread_updates_the_snapshot_nothing_is_confirmed(another_thread: ThreadPoolExecutor) -> None:
    """It may be about to install a newer one, over which the older must not be put."""
    logs = DeltaLogs()
    log = Log(4)
    loaded(logs, log, latest=4)
    another_thread.submit(log.lock.tryLock).result()
    loaded(logs, log, latest=4)
    assert log.confirmed == []
    another_thread.submit(log.lock.unlock).result()
    loaded(logs, log, latest=4)
    assert log.confirmed == [4]


def test_a_log_that_cannot_be_read_is_left_to_delta_to_report() -> None:
    def broken() -> Any:
        raise RuntimeError("DELTA_MISSING_TRANSACTION_LOG")

    logs = DeltaLogs()
    logs.note_load("a", SimpleNamespace(deltaLog=broken), 4)
    assert logs.of("a") is None
