"""The mutable table in SQLite: ``turnstile.store.ports.Refs``."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Final

import apsw
import msgspec

from turnstile.adapters.sqlite.database import Database, note_change
from turnstile.store.cache import Lru
from turnstile.store.core.evaluate import accepts, row_after
from turnstile.store.core.rows import StoredRow, damaged_row, is_damaged, require_known, require_readable
from turnstile.store.core.writes import Check, Insert, Row, Write
from turnstile.store.ports import (
    BATCH_GET_MAX,
    TRANSACT_MAX,
    Accepted,
    AllAccepted,
    Clock,
    Rejected,
    SomeRejected,
    in_batches,
    is_readable_as,
)

_PAGE: Final = 500
_TRANSACT_MAX: Final = 2_200
"""Writes of one transaction: room for a promotion of a thousand tables (two rows each, beside those
of names). Other writers wait for about 0.1 s for so many; prepared in parts, they took 0.4 s."""
_SELECT: Final = "SELECT row FROM refs WHERE key = ?"
_TOKEN_MS: Final = 10 * 60 * 1000
_WRITTEN_BYTES: Final = 32 * 1024 * 1024
_ROW_SIZE: Final = 3
"""About how many bytes a row takes in memory for each in the file, with these."""

_SET: Final = 1
"""Code of the MessagePack extension that holds a set of strings."""

_SETS: Final = (set, frozenset)

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
        name: msgspec.msgpack.Ext(_SET, _MEMBERS.encode(value)) if isinstance(value, _SETS) else value
        for name, value in row.items()
    }
    return _ENCODER.encode(plain)


def decode(key: str, data: bytes) -> Row:
    """The row of ``encode`` under ``key``, or its placeholder if it is damaged (``is_damaged``)."""
    try:
        row: Any = _DECODER.decode(data)
    except Exception as error:  # whatever bytes lead to that are no row
        return damaged_row(key, error)
    if not isinstance(row, dict) or row.get("key") != key or "kind" not in row:
        return damaged_row(key, ValueError("it is no row of this key"))
    return row


def digest_of(writes: Sequence[Write]) -> bytes:
    """Returns the digest of a transaction's writes, which is kept with its token."""
    return hashlib.sha256(_MEMBERS.encode([(type(write).__name__, write) for write in writes])).digest()


class SqliteRefs:
    """Rows by key. A conditional write reads the row, evaluates the clauses and writes it in one
    transaction.

    Args:
        realm: tenant; ``scan`` returns its rows only.
        clock: how long idempotence tokens are kept.
    """

    transact_max: Final = _TRANSACT_MAX

    def __init__(self, database: Database, *, realm: str, clock: Clock) -> None:
        self._database = database
        self._realm = realm
        self._clock = clock
        self._written = Lru[str, tuple[bytes, Row]](_WRITTEN_BYTES)
        """The rows that this process wrote last, with their bytes in the file. The transaction that
        uses one has read the same bytes, so another process's write is never missed."""

    def read(self, key: str) -> Row | None:
        stored = self._database.rows(_SELECT, (key,))
        return self._decode(key, stored[0][0]) if stored else None

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        stored = dict(row for batch in in_batches(dict.fromkeys(keys), BATCH_GET_MAX) for row in self._rows(batch))
        return {key: decode(key, stored[key]) for key in dict.fromkeys(keys) if key in stored}

    def _rows(self, keys: Sequence[str]) -> list[tuple[str, bytes]]:
        """The bytes of rows by key. One statement is one read transaction: all of them are of the
        same commit."""
        places = ", ".join("?" * len(keys))
        statement = f"SELECT key, row FROM refs WHERE key IN ({places})"  # noqa: S608 - question marks alone
        return self._database.rows(statement, keys)

    def read_cut(self, keys: Sequence[str]) -> dict[str, Row]:
        different = list(dict.fromkeys(keys))
        if len(different) > TRANSACT_MAX:
            raise ValueError(f"transact_get_items: {len(different)} keys are more than {TRANSACT_MAX}")
        return {key: require_readable(decode(key, data)) for key, data in self._rows(different)}

    def write(self, write: Write) -> Accepted | Rejected:
        def run(connection: apsw.Connection) -> Accepted | Rejected:
            row = self._read(connection, write.key)
            if not accepts(row, write):
                require_known((row,))
                return Rejected(row)
            after = row_after(row, write)
            data = None if after is None else encode(after)
            _store_encoded(connection, write, data)
            if after is not None and data is not None:
                self._written.put(write.key, (data, after), _ROW_SIZE * len(data))
            return Accepted(after)

        return self._database.write(run)

    def read_damaged(self, of: type[StoredRow], key: str) -> object | None:
        stored: Any = self._database.rows(_SELECT, (key,))
        return None if not stored or is_readable_as(of, decode(key, stored[0][0])) else stored[0][0]

    def replace_damaged(self, row: Row, content: object) -> bool:
        write = Insert(row, ())

        def run(connection: apsw.Connection) -> bool:
            stored: Any = connection.execute(_SELECT, (write.key,)).fetchone()
            if stored is None or stored[0] != content:
                return False
            _store_encoded(connection, write, encode(row))
            return True

        return self._database.write(run)

    def _read(self, connection: apsw.Connection, key: str) -> Row | None:
        """The row under ``key`` in the transaction of ``connection``."""
        stored: Any = connection.execute(_SELECT, (key,)).fetchone()
        return None if stored is None else self._decode(key, stored[0])

    def _decode(self, key: str, data: bytes) -> Row:
        """The row of ``data``, not decoded again where it is the one that this process wrote last.
        Rows are never changed in place. Raises UnreadableRow."""
        last = self._written.get(key)
        return last[1] if last is not None and last[0] == data else require_readable(decode(key, data))

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        if len({write.key for write in writes}) < len(writes):
            raise ValueError("a transaction cannot include multiple operations on one row")
        if len(writes) > self.transact_max:
            raise ValueError(f"transact_write_items: {len(writes)} writes are more than {self.transact_max}")
        digest = digest_of(writes)
        now_ms = self._clock.now_ms()

        def run(connection: apsw.Connection) -> AllAccepted | SomeRejected:
            used = connection.execute(
                "SELECT digest FROM tokens WHERE token = ? AND at_ms > ?", (token, now_ms - _TOKEN_MS)
            ).fetchone()
            if used is not None:
                if used[0] != digest:
                    raise ValueError("IdempotentParameterMismatch: the token was used for other writes")
                return AllAccepted()
            rows = [self._read(connection, write.key) for write in writes]
            failed = {
                position: row
                for position, (row, write) in enumerate(zip(rows, writes, strict=True))
                if not accepts(row, write)
            }
            if failed:
                require_known(failed.values())
                return SomeRejected(failed)
            after = [row_after(row, write) for row, write in zip(rows, writes, strict=True)]
            encoded = [
                None if row is None or isinstance(write, Check) else encode(row)
                for row, write in zip(after, writes, strict=True)
            ]
            for write, row, data in zip(writes, after, encoded, strict=True):
                _store_encoded(connection, write, data)
                if row is not None and data is not None:
                    self._written.put(write.key, (data, row), _ROW_SIZE * len(data))
            connection.execute("DELETE FROM tokens WHERE at_ms <= ?", (now_ms - _TOKEN_MS,))
            connection.execute("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?)", (token, digest, now_ms))
            return AllAccepted()

        return self._database.write(run)

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        prefix = f"{self._realm}/{kind}/"
        last = max(after, prefix)
        while True:
            page = self._database.rows(
                "SELECT key, row FROM refs WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
                (last, prefix + "\U0010ffff", _PAGE),
            )
            yield from (decode(key, data) for key, data in page)
            if len(page) < _PAGE:
                return
            last = page[-1][0]

    def scan_part(self, kinds: Collection[str], *, after: str, limit: int) -> tuple[list[Row], str]:
        prefixes = tuple(sorted(f"{self._realm}/{kind}/" for kind in kinds))
        page = self._database.rows(
            "SELECT key, row FROM refs WHERE key > ? AND key < ? ORDER BY key LIMIT ?",
            (max(after, prefixes[0]), prefixes[-1] + "\U0010ffff", limit),
        )
        rows = [decode(key, data) for key, data in page if key.startswith(prefixes)]
        return rows, page[-1][0] if len(page) == limit else ""

    def clock_ms(self) -> int | None:
        return None  # the file is this machine's, and so is its clock

    def remove_expired(self, kind: str, now_s: int) -> int:
        """Removes the rows of a kind that ended before ``now_s`` (``expires``, in seconds), as
        DynamoDB's time to live does; returns how many were removed."""
        ended = [
            str(row["key"]) for row in self.scan(kind) if row.get("expires", now_s) < now_s and not is_damaged(row)
        ]
        return sum(self._remove_expired(batch, now_s) for batch in in_batches(ended, _PAGE))

    def _remove_expired(self, keys: Sequence[str], now_s: int) -> int:
        def run(connection: apsw.Connection) -> int:
            rows = ((key, self._read(connection, key)) for key in keys)
            ended = [key for key, row in rows if row is not None and row.get("expires", now_s) < now_s]
            for key in ended:
                connection.execute("DELETE FROM refs WHERE key = ?", (key,))
            return len(ended)

        return self._database.write(run)


def _store_encoded(connection: apsw.Connection, write: Write, data: bytes | None) -> None:
    if isinstance(write, Check):
        return
    if data is None:
        connection.execute("DELETE FROM refs WHERE key = ?", (write.key,))
    else:
        connection.execute(
            "INSERT INTO refs VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET row = excluded.row", (write.key, data)
        )
    note_change(connection, write.key)
