"""The write-once table in SQLite: rows below ``turnstile.store.stored_objs.StoredObjs``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import apsw
import msgspec

from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.file import RESTORE
from turnstile.store.cache import ObjCache
from turnstile.store.core.errors import StoreCause, StoreUnavailable
from turnstile.store.ports import BATCH_GET_MAX, Clock, Obj, in_batches
from turnstile.store.stored_objs import LargeObj, Seconds, StoredObjs

_CACHE_BYTES: Final = 64 * 1024 * 1024
_ID_BYTES: Final = 1024
_PAGE: Final = 200
_COLUMNS: Final = "space, id, type, payload, created_us, expires_s, large"
_SELECT: Final = f"SELECT {_COLUMNS} FROM objs WHERE space = ? AND id = ?"  # noqa: S608 - constants
_LARGE: Final = msgspec.msgpack.Decoder(tuple[bytes, int, str, int])


class SqliteObjs(StoredObjs):
    """``turnstile.store.ports.Objs``. Expired objs count as absent; ``remove_expired`` removes
    them.

    Args:
        cache_bytes: memory for objs that were read or written; 0: none are cached.
        on_request: called after each statement or transaction with its name.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Clock,
        cache_bytes: int = _CACHE_BYTES,
        on_request: Callable[[str], None] | None = None,
    ) -> None:
        self._database = database
        super().__init__(
            _Rows(database, on_request or (lambda _: None)),
            lambda: clock.now_ms() // 1000,
            ObjCache(cache_bytes, clock) if cache_bytes else None,
        )

    def remove_expired(self, now_s: int, most: int = 1000) -> int:
        """Remove up to ``most`` rows that ended before ``now_s``; returns how many were removed."""

        def run(connection: apsw.Connection) -> int:
            connection.execute(
                "DELETE FROM objs WHERE rowid IN (SELECT rowid FROM objs WHERE expires_s < ? LIMIT ?)", (now_s, most)
            )
            return connection.changes()

        return self._database.write(run)


class _Rows:
    """``ObjRows`` of one file."""

    def __init__(self, database: Database, on_request: Callable[[str], None]) -> None:
        self._database = database
        self._sent = on_request

    def insert(self, row: Obj, now: Seconds) -> Obj | None:
        values = _values(row)

        def run(connection: apsw.Connection) -> Obj | None:
            stored = _get(connection, row.space, row.id)
            if stored is not None and not _has_ended(stored, now):
                return stored
            _put(connection, values)
            return None

        stored = self._database.write(run)
        self._sent("put")
        return stored

    def put_many(self, rows: Sequence[Obj]) -> None:
        values = [_values(row) for row in rows]

        def run(connection: apsw.Connection) -> None:
            for one in values:
                _put(connection, one)

        if values:
            self._database.write(run)
            self._sent("put_many")

    def get(self, space: str, id: str) -> Obj | None:
        _check_id(id)
        stored = self._database.rows(_SELECT, (space, id))
        self._sent("get")
        return _row(stored[0]) if stored else None

    def get_many(self, space: str, ids: Sequence[str]) -> dict[str, Obj]:
        for id in ids:
            _check_id(id)
        stored = []
        for batch in in_batches(ids, BATCH_GET_MAX):
            places = ", ".join("?" * len(batch))
            statement = f"SELECT {_COLUMNS} FROM objs WHERE space = ? AND id IN ({places})"  # noqa: S608 - constants
            stored += self._database.rows(statement, (space, *batch))
        self._sent("get_many")
        return {row.id: row for row in map(_row, stored)}

    def query(self, space: str, prefix: str, *, newest_first: bool = False) -> Iterator[Obj]:
        bound, order = ("id < ?", "DESC") if newest_first else ("id > ?", "ASC")
        statement = (
            f"SELECT {_COLUMNS} FROM objs WHERE space = ? AND id >= ? AND id < ? AND {bound} "  # noqa: S608 - constants
            f"ORDER BY id {order} LIMIT ?"
        )
        end = prefix + "\U0010ffff"
        last = end if newest_first else ""
        page_size = 1 if newest_first else _PAGE
        while True:
            page = self._database.rows(statement, (space, prefix, end, last, page_size))
            self._sent("list")
            yield from map(_row, page)
            if len(page) < page_size:
                return
            last = page[-1][1]
            page_size = _PAGE

    def delete(self, space: str, id: str) -> Obj | None:
        _check_id(id)

        def run(connection: apsw.Connection) -> Obj | None:
            row = _get(connection, space, id)
            if row is not None:
                connection.execute("DELETE FROM objs WHERE space = ? AND id = ?", (space, id))
            return row

        row = self._database.write(run)
        self._sent("delete")
        return row


def _check_id(id: str) -> None:
    """Refuses sort keys that DynamoDB refuses, so that every store accepts the same keys."""
    size = len(id.encode())
    if not 0 < size <= _ID_BYTES:
        raise ValueError(f"ValidationException: the id of an obj has 1 to {_ID_BYTES} bytes, not {size}")


def _has_ended(row: Obj, now: Seconds) -> bool:
    return row.expires_s is not None and row.expires_s <= now()


def _get(connection: apsw.Connection, space: str, id: str) -> Obj | None:
    stored = connection.execute(_SELECT, (space, id)).fetchone()
    return None if stored is None else _row(stored)


def _put(connection: apsw.Connection, values: tuple[Any, ...]) -> None:
    connection.execute(
        f"INSERT INTO objs ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) "  # noqa: S608 - constants
        "ON CONFLICT (space, id) DO UPDATE SET type = excluded.type, payload = excluded.payload, "
        "created_us = excluded.created_us, expires_s = excluded.expires_s, large = excluded.large",
        values,
    )


def _values(row: Obj) -> tuple[Any, ...]:
    _check_id(row.id)
    large = None
    if isinstance(row, LargeObj):
        large = msgspec.msgpack.encode((row.digest, row.size, row.stamp, row.count))
    return row.space, row.id, row.type, row.payload, row.created_us, row.expires_s, large


def _row(stored: tuple[Any, ...]) -> Obj:
    space, id, type, payload, created, expires, large = stored
    if large is None:
        return Obj(space, id, type, payload, created, expires)
    try:
        digest, size, stamp, count = _LARGE.decode(large)
    except (msgspec.MsgspecError, TypeError) as error:
        text = f"the store is damaged: the obj {id!r} of {space!r} cannot be read"
        raise StoreUnavailable(StoreCause.DAMAGED, text, remedy=RESTORE) from error
    return LargeObj(space, id, type, payload, created, expires, digest=digest, size=size, stamp=stamp, count=count)
