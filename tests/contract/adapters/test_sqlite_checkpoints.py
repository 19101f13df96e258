"""When pages move from the WAL into the database, and what a checkpoint that failed means (I2)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import pytest

from tests.support.stack import until
from tests.support.threads import join
from turnstile.adapters.sqlite.checkpoints import Checkpoints

PAGES = 100


class Connection:
    """Of the thread and of the writer alike: counts checkpoints, which fail with ``error`` if there
    is one."""

    def __init__(self) -> None:
        self.checkpoints = self.opened = self.closed = 0
        self.error: Exception | None = None
        self.hook: Callable[[Any, str, int], int] = lambda *_: 0

    def set_wal_hook(self, hook: Callable[[Any, str, int], int]) -> None:
        self.hook = hook

    def wal_checkpoint(self, mode: int) -> None:
        assert mode == apsw.SQLITE_CHECKPOINT_PASSIVE
        self.checkpoints += 1
        if self.error is not None:
            raise self.error

    def close(self) -> None:
        self.closed += 1

    def commit(self, pages: int) -> None:
        """A commit after which the WAL has ``pages``."""
        assert self.hook(self, "main", pages) == apsw.SQLITE_OK


@pytest.fixture
def connection() -> Connection:
    return Connection()


@pytest.fixture
def checkpoints(connection: Connection) -> Iterator[Checkpoints]:
    def connect() -> Any:
        connection.opened += 1
        return connection

    made = Checkpoints(connect, PAGES)
    made.watch(connection)  # type: ignore[arg-type]
    yield made
    closing = threading.Thread(target=made.close, daemon=True)  # one that waits for ever must not stop the tests
    closing.start()
    join(closing)


def wait_for(connection: Connection, count: int) -> None:
    """Waits for the thread's checkpoint ``count``, and for its end."""
    until(lambda: connection.closed == connection.opened == count)


def test_a_checkpoint_begins_when_the_wal_has_grown_and_not_before(
    checkpoints: Checkpoints, connection: Connection
) -> None:
    connection.commit(PAGES - 1)
    assert checkpoints._thread is None
    connection.commit(PAGES)
    wait_for(connection, 1)
    assert connection.checkpoints == 1


def test_a_wal_that_a_reader_keeps_from_its_start_is_not_copied_at_every_commit(
    checkpoints: Checkpoints, connection: Connection
) -> None:
    connection.commit(PAGES)
    wait_for(connection, 1)
    for pages in range(PAGES + 1, PAGES + PAGES // 4):
        connection.commit(pages)
    assert not checkpoints._due.is_set() and connection.opened == 1
    connection.commit(PAGES + PAGES // 4)
    wait_for(connection, 2)


def test_a_wal_that_began_anew_is_copied_when_it_has_grown_to_the_same_size(
    checkpoints: Checkpoints, connection: Connection
) -> None:
    connection.commit(2 * PAGES)
    wait_for(connection, 1)
    connection.commit(1)
    connection.commit(PAGES)
    wait_for(connection, 2)


def test_the_leader_of_one_group_copies_the_rest(checkpoints: Checkpoints, connection: Connection) -> None:
    writer = Connection()
    checkpoints.finish(writer)  # type: ignore[arg-type]
    assert writer.checkpoints == 0, "there was no checkpoint"
    connection.commit(PAGES)
    until(lambda: checkpoints._rest)
    for _ in range(3):
        checkpoints.finish(writer)  # type: ignore[arg-type]
    assert writer.checkpoints == 1


def test_closing_waits_for_the_checkpoint_under_way(connection: Connection) -> None:
    """Its connection holds the file open, which may be removed or opened by another program after
    that."""
    begun = threading.Event()
    go = threading.Event()

    def slow() -> Any:
        begun.set()
        assert go.wait(60)
        return connection

    checkpoints = Checkpoints(slow, PAGES)
    checkpoints.begin()
    assert begun.wait(60)
    closing = threading.Thread(target=checkpoints.close)
    closing.start()
    until(lambda: checkpoints._closed)
    assert closing.is_alive()
    go.set()
    join(closing)
    assert (connection.checkpoints, connection.closed) == (1, 1)


@pytest.mark.parametrize("error", [apsw.FullError("full"), apsw.BusyError("busy"), apsw.LockedError("locked")])
def test_a_checkpoint_that_changed_nothing_is_made_again_when_the_wal_has_grown_on(
    checkpoints: Checkpoints, connection: Connection, error: Exception
) -> None:
    connection.error = error
    connection.commit(PAGES)
    wait_for(connection, 1)
    assert checkpoints.failure is None
    connection.commit(2 * PAGES)
    wait_for(connection, 2)
    assert connection.checkpoints == 2


def test_i2_a_checkpoint_whose_sync_failed_is_kept_and_none_follows(
    checkpoints: Checkpoints, connection: Connection
) -> None:
    connection.error = apsw.IOError("fsync")
    connection.commit(PAGES)
    wait_for(connection, 1)
    assert checkpoints.failure is connection.error
    connection.error = None
    connection.commit(2 * PAGES)
    wait_for(connection, 2)
    checkpoints.finish(connection)  # type: ignore[arg-type]
    assert connection.checkpoints == 1
    assert isinstance(checkpoints.failure, apsw.IOError)
