"""The SQLite file beneath the ports: what survives a process that is killed, groups of writes, and
the change feed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.refs import SqliteRefs, decode, encode
from turnstile.store.core.errors import StorageFault
from turnstile.store.core.writes import Change, Clause, Equals, Insert, Row, Set, Write, new_row
from turnstile.store.ports import Accepted

KEY = "r/table/t"


def refs_in(database: Database) -> SqliteRefs:
    return SqliteRefs(database, realm="r", clock=SystemClock())


def inserted(key: str = KEY) -> Insert:
    return Insert({"key": key, "kind": "table", "latest": 0}, (new_row("I1"),))


def step(latest: int, key: str = KEY) -> Write:
    return Change(key, (Clause("next", "I1", "", Equals(("latest",), latest)),), (Set(("latest",), latest + 1),))


def test_a_row_comes_back_as_it_was_written() -> None:
    row = {
        "key": KEY,
        "kind": "table",
        "n": -(2**63),
        "b": b"\0\xff",
        "flag": True,
        "list": [{"a": 1}, b"x"],
        "set": {"x", "y"},
        "map": {},
    }
    assert decode(KEY, encode(row)) == row


_WRITER = """
import sys
from pathlib import Path
from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.store.core.writes import Change, Clause, Equals, Set
refs = SqliteRefs(Database(Path(sys.argv[1])), realm="r", clock=SystemClock())
latest = refs.read(sys.argv[2])["latest"]
while True:
    clause = Clause("next", "I1", "", Equals(("latest",), latest))
    latest = refs.write(Change(sys.argv[2], (clause,), (Set(("latest",), latest + 1),))).row["latest"]
    print(latest, flush=True)
"""


def test_i2_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "turnstile.db"
    database = Database(file)
    refs_in(database).write(inserted())
    told = 0
    for _ in range(5):
        command = [sys.executable, "-c", _WRITER, str(file), KEY]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
            assert writer.stdout is not None
            for _, line in zip(range(40), writer.stdout, strict=False):
                told = int(line)
            writer.send_signal(signal.SIGKILL)
            told = max([told, *map(int, filter(str.strip, writer.stdout))])
        row = refs_in(database).read(KEY)
        assert row is not None
        assert told <= row["latest"] <= told + 1
        told = row["latest"]
    database.close()


def test_i1_writes_of_many_threads_share_groups_and_lose_nothing(tmp_path: Path) -> None:
    groups: list[int] = []
    database = Database(tmp_path / "turnstile.db", on_commit=groups.append)
    refs = refs_in(database)
    keys = [f"r/table/{number}" for number in range(16)]
    for key in keys:
        refs.write(inserted(key))

    def run(key: str) -> None:
        for latest in range(25):
            assert isinstance(refs.write(step(latest, key)), Accepted)

    threads = [threading.Thread(target=run, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {row["latest"] for row in refs.read_many(keys).values()} == {25}
    assert sum(groups) == 16 * 26
    database.close()


def test_a_mistake_of_one_job_is_its_own(database: Database) -> None:
    def wrong(_: apsw.Connection) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        database.write(wrong)
    assert isinstance(refs_in(database).write(inserted()), Accepted)


def test_what_sqlite_refuses_is_a_fault_and_nothing_is_applied(database: Database) -> None:
    def wrong(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO feed (key) VALUES ('x')")
        connection.execute("INSERT INTO feed (key) VALUES (NULL)")

    with pytest.raises(StorageFault):
        database.write(wrong)
    assert database.changes("anybody") == ({}, 0)
    assert isinstance(refs_in(database).write(inserted()), Accepted)


def test_i11_the_feed_names_each_change_until_its_consumer_has_dealt_with_it(
    database: Database, tmp_path: Path
) -> None:
    refs = refs_in(database)
    for key in ("r/table/a", "r/table/b"):
        refs.write(inserted(key))
    refs.write(step(0, "r/table/a"))
    refs.write(step(7, "r/table/a"))  # refused: no change
    keys, cursor = database.changes("publish")
    assert list(keys.items()) == [("r/table/a", 2), ("r/table/b", 1)]
    assert database.changes("publish") == (keys, cursor)
    database.advance("publish", cursor)
    database.advance("publish", cursor - 1)  # a process that is behind
    again = Database(tmp_path / "turnstile.db")
    assert again.changes("publish") == ({}, 0)
    assert again.changes("another") == ({"r/table/a": 1}, cursor)  # the newest stays, since numbers go on from it
    refs.write(step(1, "r/table/a"))
    assert again.changes("publish") == ({"r/table/a": 1}, cursor + 1)
    assert again.changes("publish", after=cursor + 1) == ({}, 0)
    again.close()


def test_i11_a_change_stays_in_the_feed_until_the_slowest_consumer_has_dealt_with_it(database: Database) -> None:
    refs = refs_in(database)
    for key in ("r/table/a", "r/table/b", "r/table/c"):
        refs.write(inserted(key))
    _, cursor = database.changes("fast")
    database.advance("slow", cursor - 2)
    database.advance("fast", cursor)
    assert list(database.changes("slow")[0]) == ["r/table/b", "r/table/c"]
    assert database.changes("fast") == ({}, 0)
    database.advance("slow", cursor)
    assert list(database.changes("third")[0]) == ["r/table/c"]  # the newest stays, since numbers go on from it


def test_a_file_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    Database(tmp_path / "turnstile.db").close()
    connection = apsw.Connection(str(tmp_path / "turnstile.db"))
    connection.pragma("user_version", 99)
    connection.close()
    with pytest.raises(StorageFault, match="newer release"):
        Database(tmp_path / "turnstile.db")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    database = Database(tmp_path / "turnstile.db")
    database.close()
    with pytest.raises(StorageFault, match="closed"):
        refs_in(database).write(inserted())


def test_what_has_ended_is_removed_and_nothing_else(database: Database) -> None:
    refs = refs_in(database)
    rows = [("r/request/a", 10), ("r/request/b", 20), ("r/request/c", None), ("r/table/d", 10)]
    for key, expires in rows:
        row = {"key": key, "kind": key.split("/")[1]} | ({} if expires is None else {"expires": expires})
        assert isinstance(refs.write(Insert(row, (new_row("I3"),))), Accepted)
    assert refs.remove_expired("request", 20) == 1
    assert refs.remove_expired("request", 20) == 0
    assert set(refs.read_many([key for key, _ in rows])) == {"r/request/b", "r/request/c", "r/table/d"}


def test_i3_what_was_renewed_after_it_was_seen_to_have_ended_stays(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = refs_in(database)
    key = "r/request/a"
    scan = refs.scan
    refs.write(Insert({"key": key, "kind": "request", "expires": 10}, (new_row("I3"),)))

    def scanned_before_it_was_renewed(kind: str) -> Iterator[Row]:
        rows = list(scan(kind))
        refs.write(Change(key, (), (Set(("expires",), 90),)))
        yield from rows

    monkeypatch.setattr(refs, "scan", scanned_before_it_was_renewed)
    assert refs.remove_expired("request", 20) == 0
    assert refs.read(key) is not None
