"""The refs table in memory: writes are evaluated under one lock, with the store's documented
behaviour."""

from __future__ import annotations

import copy
import threading
from collections.abc import Collection, Iterator, Sequence

from turnstile.store.core.evaluate import accepts, clone, row_after
from turnstile.store.core.rows import DAMAGED, StoredRow, require_known, require_readable
from turnstile.store.core.writes import Row, Write
from turnstile.store.ports import TRANSACT_MAX, Accepted, AllAccepted, Rejected, SomeRejected, is_readable_as


class FakeRefs:
    """In-memory ``turnstile.store.ports.Refs``. ``requests`` counts calls the way the service bills
    them."""

    transact_max = TRANSACT_MAX

    def __init__(self, realm: str = "") -> None:
        self.rows: dict[str, Row] = {}
        self.requests: list[str] = []
        self.clock: int | None = None
        self._realm = realm and realm + "/"
        self._lock = threading.RLock()
        self._tokens: dict[str, list[Write]] = {}

    def seen_by(self, realm: str) -> FakeRefs:
        """The same rows, as the tenant ``realm`` scans them."""
        other = copy.copy(self)
        other._realm = realm + "/"
        return other

    def read(self, key: str) -> Row | None:
        with self._lock:
            self.requests.append("read")
            return self._readable(key)

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        with self._lock:
            self.requests += ["read_many"] * -(-len(set(keys)) // 100)
            return {key: self._shown(key) for key in keys if key in self.rows}

    def read_cut(self, keys: Sequence[str]) -> dict[str, Row]:
        with self._lock:
            different = list(dict.fromkeys(keys))
            if len(different) > 100:
                raise ValueError(f"transact_get_items: {len(different)} keys are more than 100")
            self.requests += ["read_cut"] * bool(different)
            found = {key: self._readable(key) for key in different if key in self.rows}
            return {key: row for key, row in found.items() if row is not None}

    def write(self, write: Write) -> Accepted | Rejected:
        with self._lock:
            self.requests.append("write")
            row = self._readable(write.key)
            if not self._accepts(write):
                require_known((row,))
                return Rejected(clone(row))
            self._apply(write)
            return Accepted(clone(self.rows.get(write.key)))

    def read_damaged(self, of: type[StoredRow], key: str) -> object | None:
        with self._lock:
            self.requests.append("read")
            is_there = key in self.rows
            return None if not is_there or is_readable_as(of, self._shown(key)) else self._shown(key)

    def replace_damaged(self, row: Row, content: object) -> bool:
        with self._lock:
            self.requests.append("write")
            key = row["key"]
            if self.rows.get(key) != content:
                return False
            self.rows[key] = dict(row)
            return True

    def transact(self, writes: Sequence[Write], token: str) -> AllAccepted | SomeRejected:
        with self._lock:
            self.requests.append("transact")
            if len({write.key for write in writes}) < len(writes):
                raise ValueError("a transaction cannot include multiple operations on one row")
            if len(writes) > self.transact_max:
                raise ValueError(f"transact_write_items: {len(writes)} writes are more than {self.transact_max}")
            if token in self._tokens:
                if self._tokens[token] != list(writes):
                    raise ValueError("IdempotentParameterMismatch: the token was used for other writes")
                return AllAccepted()
            failed = {
                position: self._readable(write.key) for position, write in enumerate(writes) if not self._accepts(write)
            }
            if failed:
                require_known(failed.values())
                return SomeRejected(failed)
            for write in writes:
                self._apply(write)
            self._tokens[token] = list(writes)
            return AllAccepted()

    def scan(self, kind: str, *, after: str = "", stale: bool = False) -> Iterator[Row]:
        with self._lock:
            rows = [self._shown(key) for key in sorted(self.rows) if key > after and key.startswith(self._realm)]
            found = [row for row in rows if row["kind"] == kind]
        yield from found

    def scan_part(self, kinds: Collection[str], *, after: str, limit: int) -> tuple[list[Row], str]:
        with self._lock:
            self.requests.append("scan_part")
            keys = [key for key in sorted(self.rows) if key > after and key.startswith(self._realm)]
            found = [row for row in map(self._shown, keys[:limit]) if row["kind"] in kinds]
        return found, keys[limit - 1] if len(keys) >= limit else ""

    def damage(self, key: str) -> None:
        """As if the bytes of the row had been overwritten."""
        self.rows[key] = {"key": key, "kind": key.split("/")[1], DAMAGED: "its bytes are no row"}

    def _shown(self, key: str) -> Row:
        row = clone(self.rows[key])
        assert row is not None
        return row

    def _readable(self, key: str) -> Row | None:
        row = clone(self.rows.get(key))
        return None if row is None else require_readable(row)

    def clock_ms(self) -> int | None:
        return self.clock

    def _accepts(self, write: Write) -> bool:
        return accepts(self._readable(write.key), write)

    def _apply(self, write: Write) -> None:
        row = row_after(self.rows.get(write.key), write)
        if row is None:
            self.rows.pop(write.key, None)
        else:
            self.rows[write.key] = row
