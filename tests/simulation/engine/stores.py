"""Where a run keeps its rows: in memory, or in a SQLite file of its own, as a server on one machine
does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.simulation.engine.scheduler import Scheduler
from tests.support.fakes.objs import FakeObjs
from tests.support.fakes.refs import FakeRefs
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.objs import SqliteObjs
from turnstile.adapters.sqlite.refs import SqliteRefs, decode, encode
from turnstile.store.core.writes import Row
from turnstile.store.ports import Clock, Obj

REALM: Final = "sim"
_MEMORY: Final = Path("/dev/shm")  # a simulated power loss is not among the faults: syncs may cost nothing


class TrueTime:
    """The stores' own clock. When a run comes to rest, another scheduler goes on with the time of
    the first."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler

    def now_ms(self) -> int:
        return self.scheduler.now


@dataclass(frozen=True)
class Store:
    """Both tables. ``refs.rows`` and ``objs.rows`` are the stored rows, for the auditors, without a
    request."""

    refs: Any
    objs: Any


@contextmanager
def fake_store(_clock: Clock) -> Iterator[Store]:
    """The fakes of the other tests."""
    yield Store(FakeRefs(), FakeObjs())


@contextmanager
def sqlite_store(clock: Clock) -> Iterator[Store]:
    """A new SQLite file, in memory if the system has a folder there."""
    with TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        database = Database(Path(folder, "turnstile.db"))
        try:
            yield Store(_Refs(database, clock), _Objs(database, clock))
        finally:
            database.close()


STORES: Final[dict[str, Callable[[Clock], Any]]] = {"fake": fake_store, "sqlite": sqlite_store}


class _Refs(SqliteRefs):
    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, realm=REALM, clock=clock)
        self.rows = _RefRows(database)


class _RefRows(MutableMapping[str, Row]):
    """Stored rows by key. A row that did not change is the same object as before."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._decoded: dict[str, tuple[bytes, Row]] = {}

    def __getitem__(self, key: str) -> Row:
        stored = self._database.rows("SELECT row FROM refs WHERE key = ?", (key,))
        if not stored:
            raise KeyError(key)
        data: bytes = stored[0][0]
        if key not in self._decoded or self._decoded[key][0] != data:
            self._decoded[key] = data, decode(key, data)
        return self._decoded[key][1]

    def __iter__(self) -> Iterator[str]:
        return iter([key for (key,) in self._database.rows("SELECT key FROM refs ORDER BY key")])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __setitem__(self, key: str, row: Row) -> None:
        """Writes of code that is not simulated."""
        values = (encode(row), key)
        self._database.write(
            lambda connection: connection.execute("UPDATE refs SET row = ? WHERE key = ?", values).fetchall()
        )

    def __delitem__(self, key: str) -> None:
        """The store's own removal of an expired row."""
        self._database.write(lambda connection: connection.execute("DELETE FROM refs WHERE key = ?", (key,)).fetchall())


class _Objs(SqliteObjs):
    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(database, clock=clock, cache_bytes=0)
        self.rows = _ObjRows(database, self._rows.get)


class _ObjRows(Mapping[tuple[str, str], Obj]):
    def __init__(self, database: Database, get: Callable[[str, str], Obj | None]) -> None:
        self._database = database
        self._get = get

    def __getitem__(self, key: tuple[str, str]) -> Obj:
        obj = self._get(*key)
        if obj is None:
            raise KeyError(key)
        return obj

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._database.rows("SELECT space, id FROM objs ORDER BY space, id"))

    def __len__(self) -> int:
        return len(list(iter(self)))
