"""The mutable table in SQLite: ``turnstile.store.ports.Refs``."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import apsw
import msgspec

from turnstile.adapters.sqlite.database import Database
from turnstile.store.core.evaluate import accepts, written
from turnstile.store.core.writes import Check, Row, Write
from turnstile.store.ports import TRANSACT_MAX, Accepted, AllAccepted, Clock, Rejected, SomeRejected

_PAGE: Final = 500
_TOKEN_MS: Final = 10 * 60 * 1000
_SET: Final = 1
"""Code of the MessagePack extension that holds a set of strings."""

_MEMBERS: Final = msgspec.msgpack.Encoder(order="deterministic")


def _extension(code: int, data: memoryview) -> Any:
    if code != _SET:
        raise ValueError(f"a row with an unknown extension {code}")
    return set(msgspec.msgpack.decode(data, type=list[str]))


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(ext_hook=_extension)


def encode(row: Row) -> bytes:
    """A row as MessagePack. Sets stand at the top level only (``writes.Include``)."""
    plain = {
        name: msgspec.msgpack.Ext(_SET, _MEMBERS.encode(value)) if isinstance(value, set | frozenset) else value
        for name, value in row.items()
    }
    return _ENCODER.encode(plain)


def decode(data: bytes) -> Row:
    """The row of ``encode``."""
    row: Row = _DECODER.decode(data)
    return row


class SqliteRefs:
    """Rows by key. A conditional write reads the row, evaluates the clauses and writes it in one transaction.

    Args:
        realm: tenant; ``scan`` returns its rows only.
        clock: how long idempotence tokens are kept.
    """

    def __init__(self, database: Database, *, realm: str, clock: Clock) -> None:
        self._database, self._realm, self._clock = database, realm, clock

    def read(self, key: str) -> Row | None:
        return _read(self._database.reader, key)

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        reader, rows = self._database.reader, {}
        for key in dict.fromkeys(keys):
            row = _read(reader, key)
            if row is not None:
                rows[key] = row
        return rows

    def write(self, write: Write) -> Accepted | Rejected:
        def run(connection: apsw.Connection) -> Accepted | Rejected:
            row = _read(connection, write.key)
            if not accepts(row, write):
                return Rejected(row)
            after = written(row, write)
            _store(connection, write, after)
            return Accepted(after)

        return self._database.write(run)

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        if len({write.key for write in writes}) < len(writes):
            raise ValueError("a transaction cannot include multiple operations on one row")
        if len(writes) > TRANSACT_MAX:
            raise ValueError(f"transact_write_items: {len(writes)} writes are more than {TRANSACT_MAX}")
        digest = hashlib.sha256(_MEMBERS.encode([(type(write).__name__, write) for write in writes])).digest()
        now_ms = self._clock.now_ms()

        def run(connection: apsw.Connection) -> AllAccepted | SomeRejected:
            used = connection.execute(
                "SELECT digest FROM tokens WHERE token = ? AND at_ms > ?", (token, now_ms - _TOKEN_MS)
            ).fetchone()
            if used is not None:
                if used[0] != digest:
                    raise ValueError("IdempotentParameterMismatch: the token was used for other writes")
                return AllAccepted()
            rows = [_read(connection, write.key) for write in writes]
            failed = {
                position: row
                for position, (row, write) in enumerate(zip(rows, writes, strict=True))
                if not accepts(row, write)
            }
            if failed:
                return SomeRejected(failed)
            after = [written(row, write) for row, write in zip(rows, writes, strict=True)]
            encoded = [None if row is None else encode(row) for row in after]
            for write, data in zip(writes, encoded, strict=True):
                _store_encoded(connection, write, data)
            connection.execute("DELETE FROM tokens WHERE at_ms <= ?", (now_ms - _TOKEN_MS,))
            connection.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?)", (token, digest, now_ms))
            return AllAccepted()

        return self._database.write(run)

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        prefix = f"{self._realm}/{kind}/"
        last = max(after, prefix)
        while True:
            page: list[Any] = self._database.reader.execute(
                "SELECT key, row FROM refs WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
                (last, prefix + "\U0010ffff", _PAGE),
            ).fetchall()
            yield from (decode(data) for _, data in page)
            if len(page) < _PAGE:
                return
            last = page[-1][0]


def _read(connection: apsw.Connection, key: str) -> Row | None:
    stored: Any = connection.execute("SELECT row FROM refs WHERE key = ?", (key,)).fetchone()
    return None if stored is None else decode(stored[0])


def _store(connection: apsw.Connection, write: Write, row: Row | None) -> None:
    _store_encoded(connection, write, None if row is None else encode(row))


def _store_encoded(connection: apsw.Connection, write: Write, data: bytes | None) -> None:
    if isinstance(write, Check):
        return
    if data is None:
        connection.execute("DELETE FROM refs WHERE key = ?", (write.key,))
    else:
        connection.execute(
            "INSERT INTO refs VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET row = excluded.row", (write.key, data)
        )
    connection.execute("INSERT INTO feed (key) VALUES (?)", (write.key,))
