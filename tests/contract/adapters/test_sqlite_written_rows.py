"""Rows that a process wrote last are not decoded again, and a write of another process is never
missed (I1, I3)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite import refs as module
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.store.core.errors import StoreUnavailable
from turnstile.store.core.writes import Change, Check, Clause, Equals, Include, Insert, Row, Set, new_row
from turnstile.store.ports import Accepted, AllAccepted, Rejected, SomeRejected

KEY = "r/table/a"


@pytest.fixture
def other(tmp_path: Path, database: Database) -> Iterator[SqliteRefs]:
    """The same file in another process, as far as caches go."""
    opened = Database(database.path)
    yield SqliteRefs(opened, realm="r", clock=SystemClock())
    opened.close()


@pytest.fixture
def refs(database: Database) -> SqliteRefs:
    made = SqliteRefs(database, realm="r", clock=SystemClock())
    row: Row = {"key": KEY, "kind": "table", "latest": 0, "tail": [b"x"], "ids": {"t"}, "apps": {"one": 1}}
    made.write(Insert(row, (new_row("I1"),)))
    return made


def next_one(latest: int) -> Change:
    clause = Clause("next", "I1", "the version before", Equals(("latest",), latest))
    return Change(KEY, (clause,), (Set(("latest",), latest + 1), Include(("ids",), frozenset({f"t{latest}"}))))


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of the rows that are decoded from now on."""
    decoded = list[str]()
    decode = module.decode

    def noted(key: str, data: bytes) -> Row:
        decoded.append(key)
        return decode(key, data)

    monkeypatch.setattr(module, "decode", noted)
    return decoded


def test_a_process_that_writes_a_row_again_does_not_decode_it(
    refs: SqliteRefs, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded = counted(monkeypatch)
    for latest in range(5):
        assert isinstance(refs.write(next_one(latest)), Accepted)
    assert refs.transact([next_one(5)], "token") == AllAccepted()
    assert isinstance(refs.write(next_one(6)), Accepted)
    assert decoded == []


def test_i1_a_write_of_another_process_is_seen(refs: SqliteRefs, other: SqliteRefs) -> None:
    refs.write(next_one(0))
    assert isinstance(other.write(next_one(1)), Accepted)
    refused = refs.write(next_one(1))
    assert isinstance(refused, Rejected) and refused.row is not None and refused.row["latest"] == 2
    assert isinstance(refs.transact([next_one(1)], "token"), SomeRejected)
    accepted = refs.write(next_one(2))
    assert isinstance(accepted, Accepted) and accepted.row is not None
    assert accepted.row == other.read(KEY) == refs.read(KEY)
    assert accepted.row["ids"] == {"t", "t0", "t1", "t2"}


def test_i3_a_row_of_a_transaction_that_was_rolled_back_is_not_used(refs: SqliteRefs, database: Database) -> None:
    refs.write(next_one(0))

    def fails(_connection: apsw.Connection) -> None:
        raise apsw.FullError("the disk is full")

    original = database._commit
    database._commit = fails  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        refs.write(next_one(1))
    database._commit = original  # type: ignore[method-assign]
    refused = refs.write(next_one(2))
    assert isinstance(refused, Rejected) and refused.row is not None and refused.row["latest"] == 1
    assert isinstance(refs.write(next_one(1)), Accepted)


def test_a_check_in_a_transaction_leaves_its_row_as_it_is(refs: SqliteRefs, other: SqliteRefs) -> None:
    row: Row = {"key": "r/table/b", "kind": "table", "latest": 0}
    clause = Clause("next", "I1", "the version before", Equals(("latest",), 0))
    assert refs.transact([Check(KEY, (clause,)), Insert(row, (new_row("I1"),))], "token") == AllAccepted()
    assert other.read("r/table/b") == row
    assert refs.read(KEY) == {
        "key": KEY,
        "kind": "table",
        "latest": 0,
        "tail": [b"x"],
        "ids": {"t"},
        "apps": {"one": 1},
    }


def test_a_row_is_used_as_it_would_be_decoded(refs: SqliteRefs, database: Database) -> None:
    refs.write(next_one(0))
    data, row = refs._written.get(KEY) or (b"", {})
    assert module.decode(KEY, data) == row
    assert database.rows("SELECT row FROM refs WHERE key = ?", (KEY,)) == [(data,)]
