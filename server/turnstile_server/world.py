"""The world of a server: the stores that one setting names, and hints for the background after each
write."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnstile.adapters.machine import RandomIds, SystemClock
from turnstile.adapters.opening import FileStorages, open_world
from turnstile.catalog.core.request_rows import RequestOutcome
from turnstile.fleet.core.rows import MovesRow
from turnstile.store.core.rows import Space, StoredRow
from turnstile.store.core.writes import Check, Row, Write
from turnstile.store.ports import Accepted, AllAccepted, Refs, Rejected, SomeRejected, World
from turnstile_server.settings import ServerSettings

if TYPE_CHECKING:
    from turnstile.adapters.sqlite.database import Database

Wake = Callable[[str], None]
"""Reports the key of a changed row to the background. With an empty key it reads its feed."""


@dataclass(frozen=True)
class OpenStore:
    """A world, and the file below it where it is SQLite's."""

    world: World
    database: Database | None
    remove_expired: Callable[[], None] = lambda: None
    """Removes expired rows, for a store that does not do so by itself."""

    def close(self) -> None:
        if self.database is not None:
            self.database.close()


def open_store(settings: ServerSettings, wake: Wake | None = None, *, create: bool = True) -> OpenStore:
    """Returns the ports on the store that the settings name. ``wake`` is called after each write of
    this process; ``create``: whether a SQLite file that is not there is made. Raises
    StoreUnavailable where the file cannot be opened.
    """
    if settings.store_kind == "dynamodb":
        refs_table, objs_table = settings.store_place.split(",")
        endpoint = settings.store_endpoint or None
        world = open_world(refs_table=refs_table, objs_table=objs_table, realm=settings.realm, endpoint_url=endpoint)
        storages = FileStorages()  # an endpoint of the store is none of S3's
        refs = world.refs if wake is None else WakingRefs(world.refs, wake)
        return OpenStore(replace(world, refs=refs, storages=storages), None)
    return _open_sqlite(settings, wake, create=create)


def _open_sqlite(settings: ServerSettings, wake: Wake | None, *, create: bool) -> OpenStore:
    from turnstile.adapters.sqlite.database import Database
    from turnstile.adapters.sqlite.objs import SqliteObjs
    from turnstile.adapters.sqlite.refs import SqliteRefs

    path = Path(settings.store_place)
    if create:
        path.parent.mkdir(parents=True, exist_ok=True)
    database = Database(path, on_commit=None if wake is None else sparing(wake), create=create)
    clock = SystemClock()
    refs = SqliteRefs(database, realm=settings.realm, clock=clock)
    objs = SqliteObjs(database, clock=clock)
    world = World(
        refs=refs,
        objs=objs,
        storages=FileStorages(),
        clock=clock,
        ids=RandomIds(),
        space=Space(settings.realm),
    )

    def remove_expired() -> None:
        now_s = clock.now_ms() // 1000
        for kind in (RequestOutcome.kind, MovesRow.kind):
            refs.remove_expired(kind, now_s)
        while objs.remove_expired(now_s):
            pass

    return OpenStore(world, database, remove_expired)


class RefsAround:
    """``turnstile.store.ports.Refs`` around another one. Methods that are not overridden go to the
    other one."""

    def __init__(self, refs: Refs) -> None:
        self._refs = refs

    @property
    def transact_max(self) -> int:
        return self._refs.transact_max

    def read(self, key: str) -> Row | None:
        return self._refs.read(key)

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        return self._refs.read_many(keys)

    def read_cut(self, keys: Sequence[str]) -> dict[str, Row]:
        return self._refs.read_cut(keys)

    def write(self, write: Write) -> Accepted | Rejected:
        return self._refs.write(write)

    def read_damaged(self, of: type[StoredRow], key: str) -> object | None:
        return self._refs.read_damaged(of, key)

    def replace_damaged(self, row: Row, content: object) -> bool:
        return self._refs.replace_damaged(row, content)

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        return self._refs.transact(writes, token)

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        return self._refs.scan(kind, after=after, stale=stale)

    def scan_part(self, kinds: Collection[str], *, after: str, limit: int) -> tuple[list[Row], str]:
        return self._refs.scan_part(kinds, after=after, limit=limit)

    def clock_ms(self) -> int | None:
        return self._refs.clock_ms()


class WakingRefs(RefsAround):
    """Refs that tell of every row they changed: for a store that has no feed of its own."""

    def __init__(self, refs: Refs, wake: Wake) -> None:
        super().__init__(refs)
        self._wake = wake

    def write(self, write: Write) -> Accepted | Rejected:
        response = self._refs.write(write)
        if isinstance(response, Accepted):
            self._wake(write.key)
        return response

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        response = self._refs.transact(writes, token)
        if isinstance(response, AllAccepted):
            for write in writes:
                if not isinstance(write, Check):
                    self._wake(write.key)
        return response


# -- waking: datagrams from the processes that write to the one that publishes -----------------------------------------

_KEY_BYTES: Final = 2048


def waker(path: str) -> Wake:
    """Returns a function that sends a key to the background. It never waits: the feed or the sweep
    finds a lost key."""
    sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sender.setblocking(False)

    def wake(key: str) -> None:
        with suppress(OSError):  # nobody listens yet, or its queue is full
            sender.sendto(key.encode()[:_KEY_BYTES], path)

    return wake


HINT_S: Final = 0.02
"""How long after a hint at the feed no other one is sent. The background looks at the feed again
``background.LOOK_S`` after a look that found a change, so it finds what comes within this time."""


def sparing(wake: Wake, clock_s: Callable[[], float] = time.monotonic) -> Callable[[int], None]:
    """Returns a function that hints at the feed after a commit, at most once in ``HINT_S``: each
    hint wakes a process that competes with requests for the cores."""
    due_s = float("-inf")

    def hint(_jobs: int) -> None:
        nonlocal due_s
        now_s = clock_s()
        if now_s >= due_s:
            due_s = now_s + HINT_S
            wake("")

    return hint


class WakeListener:
    """Receives the keys that ``waker`` sends."""

    def __init__(self, path: str) -> None:
        Path(path).unlink(missing_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)

    def wait(self, seconds: float) -> list[str]:
        """Returns the keys that were sent, after the first one or after the time; empty texts say
        "look at the feed"."""
        self._socket.settimeout(seconds)
        try:
            keys = [self._socket.recv(_KEY_BYTES).decode()]
        except TimeoutError:
            return []
        self._socket.setblocking(False)
        with suppress(BlockingIOError):
            while len(keys) < 1000:
                keys.append(self._socket.recv(_KEY_BYTES).decode())
        return keys

    def close(self) -> None:
        self._socket.close()
