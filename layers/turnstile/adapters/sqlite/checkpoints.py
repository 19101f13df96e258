"""Checkpoints beside the writers: pages move from the WAL into the database while groups are
written.

Every commit appends to the WAL. When that has grown to ``CHECKPOINT_PAGES``, a thread copies its
pages into the database, which delays no writer. Under steady writes the WAL has grown on meanwhile,
and it is written from its start again only when nothing of it is left to copy. So the leader of the
next group copies the small rest, with the groups' lock in hand.

A checkpoint that fails because the disk is full or the file is busy changes nothing: the WAL still
has every page, and the next one begins when it has grown on. One that fails otherwise may not be
repeated (``failure``): the system forgets pages after a failed sync, and SQLite counts some as
copied before their sync. The store then takes no writes until it is opened anew, which copies the
whole WAL again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Final

import apsw

CHECKPOINT_PAGES: Final = 8_000
"""Pages in the WAL (32 MB) at which a checkpoint begins."""


class Checkpoints:
    """Watches the WAL of one writing connection after another. The thread starts with the first
    checkpoint.

    Args:
        connect: opens a connection for the thread.
        pages: ``CHECKPOINT_PAGES``, or fewer in tests.
    """

    def __init__(self, connect: Callable[[], apsw.Connection], pages: int = CHECKPOINT_PAGES) -> None:
        self._connect = connect
        self._pages = pages
        self._due = threading.Event()
        self._closed = False
        self._rest = False
        self._next = pages
        self.failure: Exception | None = None
        self._thread: threading.Thread | None = None

    def watch(self, writer: apsw.Connection) -> None:
        """Hear of the commits of ``writer``."""
        writer.set_wal_hook(lambda _connection, _name, pages: self._committed_frames(pages))

    def _committed_frames(self, pages: int) -> int:
        if pages < self._pages:
            self._next = self._pages
        elif pages >= self._next:
            self._next = pages + self._pages // 4  # a reader kept the WAL from its start: not again at every commit
            self.begin()
        return apsw.SQLITE_OK

    def begin(self) -> None:
        """Let the thread make a checkpoint."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sqlite-checkpoints", daemon=True)
            self._thread.start()
        self._due.set()

    def finish(self, writer: apsw.Connection) -> None:
        """Copies the pages that the thread left; called with the groups' lock in hand, after the
        group was answered."""
        if self._rest:
            self._rest = False
            self._checkpoint(writer)

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._due.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._due.wait()
            self._due.clear()
            if self._closed:
                return
            with contextlib.suppress(apsw.Error), contextlib.closing(self._connect()) as connection:
                self._checkpoint(connection)
                self._rest = True

    def _checkpoint(self, connection: apsw.Connection) -> None:
        """Copies the pages in the WAL that no reader needs."""
        if self.failure is not None:
            return
        try:
            connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except (apsw.FullError, apsw.BusyError, apsw.LockedError):
            return
        except apsw.Error as error:
            self.failure = error
