"""Answers of an unusable store: one type of error with cause and remedy, at once (I3: nothing was
applied)."""

from __future__ import annotations

import fcntl
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, NoCredentialsError

from tests.support.store.clients import Scripted, error
from tests.support.store.disk import Disk
from tests.support.store.rows import change
from tests.support.store.workload import KEYS, start, step
from turnstile.adapters.dynamo.objs import DynamoObjs
from turnstile.adapters.dynamo.refs import DynamoRefs
from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite import file as file_module
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.objs import SqliteObjs
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.store.core.errors import StoreCause, StoreUnavailable
from turnstile.store.core.writes import Set
from turnstile.store.ports import Accepted
from turnstile.store.retry import Patience

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # apsw reports each error of a VFS
KEY = KEYS[0]
WRITE = change("r/table/t", Set(("latest",), 6))
NEVER_TIRED = Patience(deadline_s=3600, first_s=0.001, longest_s=0.002)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Closes the connections that a test left before the next test begins: what apsw reports of
    them is this test's."""
    yield
    gc.collect()


# -- DynamoDB ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "cause"),
    [
        (error("ResourceNotFoundException"), StoreCause.GONE),
        (error("AccessDeniedException"), StoreCause.DENIED),
        (error("KMSAccessDeniedException"), StoreCause.DENIED),
        (error("UnrecognizedClientException"), StoreCause.DENIED),
        (error("ExpiredTokenException"), StoreCause.DENIED),
        (error("IncompleteSignature"), StoreCause.DENIED),
        (NoCredentialsError(), StoreCause.DENIED),
        (error("SomethingElse"), StoreCause.FAILED),
    ],
    ids=repr,
)
def test_i3_tables_that_are_missing_or_denied_are_reported_after_one_request(
    fault: Exception, cause: StoreCause
) -> None:
    for call in _dynamo_calls():
        client = Scripted(fault)
        with pytest.raises(StoreUnavailable) as refusal:
            call(client)
        assert (refusal.value.cause, refusal.value.details["cause"], len(client.asked)) == (cause, cause, 1)
        assert refusal.value.remedy and "retry_after_ms" not in refusal.value.details


@pytest.mark.parametrize(
    "fault", [EndpointConnectionError(endpoint_url="x"), ConnectTimeoutError(endpoint_url="x")], ids=repr
)
def test_i3_a_service_that_cannot_be_reached_is_reported_long_before_the_deadline(fault: Exception) -> None:
    for call in (_dynamo_calls()[0], _dynamo_calls()[3]):
        with pytest.raises(StoreUnavailable) as refusal:
            call(Scripted(fault))
        assert refusal.value.cause is StoreCause.UNREACHABLE
        assert refusal.value.details["retry_after_ms"] > 0


def test_what_a_service_says_of_its_own_inside_is_not_handed_on() -> None:
    secret = "arn:aws:iam::123456789012:role/secret is not authorized"
    fault = error("AccessDeniedException", Error={"Code": "AccessDeniedException", "Message": secret})
    with pytest.raises(StoreUnavailable) as refusal:
        DynamoRefs(Scripted(fault), "refs", realm="r").read("r/table/t")
    assert "123456789012" not in f"{refusal.value.message}{refusal.value.remedy}{refusal.value.details}"


def _dynamo_calls() -> list[Callable[[Any], object]]:
    def refs(client: Any) -> DynamoRefs:
        return DynamoRefs(client, "refs", realm="r", patience=NEVER_TIRED)

    return [
        lambda client: refs(client).read("r/table/t"),
        lambda client: refs(client).read_many(["r/table/t"]),
        lambda client: list(refs(client).scan("table")),
        lambda client: refs(client).write(WRITE),
        lambda client: refs(client).transact([WRITE], "token"),
        lambda client: DynamoObjs(client, "objs", clock=SystemClock(), patience=NEVER_TIRED).get("s", "commit/1"),
    ]


# -- a SQLite file -----------------------------------------------------------------------------------------------------


def _opened(tmp_path: Path) -> Database:
    database = Database(tmp_path / "turnstile.db")
    start(database)
    return database


def _refs(database: Database) -> SqliteRefs:
    return SqliteRefs(database, realm="r", clock=SystemClock())


def _told(call: Callable[[], object]) -> StoreUnavailable:
    with pytest.raises(StoreUnavailable) as refusal:
        call()
    assert refusal.value.remedy and refusal.value.details["cause"] == refusal.value.cause
    return refusal.value


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_i6_a_file_that_is_gone_answers_neither_reads_nor_writes(replaced: bool, tmp_path: Path) -> None:
    database = _opened(tmp_path)
    assert _refs(database).read(KEY) is not None
    path = tmp_path / "turnstile.db"
    moved = path.rename(tmp_path / "moved.db")
    if replaced:
        path.write_bytes(moved.read_bytes())
    assert _told(lambda: _refs(database).read(KEY)).cause is StoreCause.GONE
    assert _told(lambda: _refs(database).write(step(KEY, 0, "t", b"x"))).cause is StoreCause.GONE
    database.close()


def test_i6_a_table_of_sqlite_that_is_gone_is_reported_as_damage(tmp_path: Path) -> None:
    database = _opened(tmp_path)
    database.write(lambda connection: connection.execute("DROP TABLE refs").fetchall())
    assert _told(lambda: _refs(database).read(KEY)).cause is StoreCause.DAMAGED
    assert _told(lambda: _refs(database).read_cut([KEY])).cause is StoreCause.DAMAGED
    assert _told(lambda: _refs(database).write(step(KEY, 0, "t", b"x"))).cause is StoreCause.DAMAGED
    database.close()


def test_i6_a_column_of_sqlite_that_is_gone_is_reported_as_damage(tmp_path: Path) -> None:
    database = _opened(tmp_path)
    database.write(lambda connection: connection.execute("ALTER TABLE refs RENAME COLUMN row TO other").fetchall())
    assert _told(lambda: _refs(database).read(KEY)).cause is StoreCause.DAMAGED
    assert database.damage is not None
    database.close()


@pytest.mark.parametrize("statement", ["SELECT nothing FROM refs", "SELEKT", "INSERT INTO refs VALUES (1, 2, 3)"])
def test_i11_a_statement_that_sqlite_refuses_is_no_damage_and_the_store_takes_the_next_write(
    tmp_path: Path, statement: str
) -> None:
    database = _opened(tmp_path)
    for call in (database.rows, lambda text: database.write(lambda connection: connection.execute(text).fetchall())):
        refusal = _told(lambda call=call: call(statement))  # type: ignore[misc]
        assert (refusal.cause, database.damage) == (StoreCause.FAILED, None)
        assert "the file is whole" in refusal.message
    before = _refs(database).read(KEY)
    assert before is not None
    assert isinstance(_refs(database).write(step(KEY, before["latest"], "t", b"x")), Accepted)
    database.close()


def test_i6_text_that_is_none_is_damage_and_no_error_of_python(tmp_path: Path) -> None:
    database = _opened(tmp_path)
    insert = "INSERT INTO objs VALUES ('s', 'commit/1', cast(x'ff' AS TEXT), x'00', 1, NULL, NULL)"
    database.write(lambda connection: connection.execute(insert).fetchall())
    objs = SqliteObjs(database, clock=SystemClock(), cache_bytes=0)
    assert _told(lambda: objs.get("s", "commit/1")).cause is StoreCause.DAMAGED
    assert _told(lambda: objs.delete("s", "commit/1")).cause is StoreCause.DAMAGED
    assert database.damage is not None
    database.close()


def test_a_file_without_rights_says_so(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    database = Database(tmp_path / "turnstile.db", vfs=disk.vfs)
    start(database)
    disk.read_only = True
    denied = _told(lambda: _refs(Database(tmp_path / "turnstile.db", vfs=disk.vfs)).write(step(KEY, 0, "t", b"x")))
    assert denied.cause is StoreCause.DENIED
    database.close()


def test_a_full_disk_says_so(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    database = Database(tmp_path / "turnstile.db", vfs=disk.vfs)
    start(database)
    disk.capacity_bytes = 0
    assert _told(lambda: _refs(database).write(step(KEY, 0, "t", os.urandom(20_000)))).cause is StoreCause.FULL
    database.close()


def test_i3_while_another_process_keeps_the_lock_only_the_first_write_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What would wait for ever, if each write waited for as long as the first one."""
    waits: list[float] = []
    database = _opened(tmp_path)
    acquire = database._file._group_lock.acquire

    def noted(seconds: float) -> bool:
        waits.append(seconds)
        return acquire(0.02)

    monkeypatch.setattr(database._file._group_lock, "acquire", noted)
    other = os.open(tmp_path / "turnstile.db-group", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    faults = [_told(lambda: _refs(database).write(step(KEY, 0, "t", b"x"))) for _ in range(3)]
    assert {fault.cause for fault in faults} == {StoreCause.LOCKED}
    assert all(fault.details["retry_after_ms"] > 0 for fault in faults)
    assert waits == [file_module.LOCK_S, file_module.HUNG_LOCK_S, file_module.HUNG_LOCK_S]
    os.close(other)
    monkeypatch.setattr(database._file._group_lock, "acquire", acquire)
    assert _refs(database).write(step(KEY, 0, "t", b"x"))
    assert not database._file.hangs
    database.close()


def test_i3_another_program_that_locks_the_file_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_module, "LOCK_S", 0.05)
    database = _opened(tmp_path)
    other = apsw.Connection(str(tmp_path / "turnstile.db"))
    other.execute("BEGIN IMMEDIATE")
    done = threading.Event()
    assert _told(lambda: _refs(database).write(step(KEY, 0, "t", b"x"))).cause is StoreCause.LOCKED
    other.execute("ROLLBACK")
    other.close()
    assert _refs(database).write(step(KEY, 0, "t", b"x"))
    done.set()
    database.close()
