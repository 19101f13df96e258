"""What a SQLite store says when its disk, its file or a thread of it fails, and that it goes on
afterwards (I2, I3, I11)."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from tests.support.stack import until
from tests.support.store.disk import Disk
from tests.support.store.workload import KEYS, Record, Workload, check, start, step
from tests.support.threads import PATIENCE_S, join
from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite import database as database_module
from turnstile.adapters.sqlite import file as file_module
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.objs import SqliteObjs
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.store.core.errors import OutcomeUnknown, StorageFault
from turnstile.store.ports import Accepted, Obj

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # apsw reports each error of a VFS
KEY = KEYS[0]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Closes the connections that a test left before the next test begins: what apsw reports of
    them is this test's."""
    yield
    gc.collect()


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    folder = tmp_path / "disk"
    folder.mkdir()
    return Disk(folder)


@pytest.fixture
def database(disk: Disk) -> Iterator[Database]:
    opened = Database(disk.folder / "turnstile.db", vfs=disk.vfs)
    start(opened)
    yield opened
    opened.close()


def refs_in(database: Database) -> SqliteRefs:
    return SqliteRefs(database, realm="r", clock=SystemClock())


def latest(database: Database) -> int:
    row = refs_in(database).read(KEY)
    assert row is not None
    return int(row["latest"])


def write(database: Database, version: int, txn: str = "t", size_bytes: int = 10) -> Accepted:
    answer = refs_in(database).write(step(KEY, version - 1, txn, os.urandom(size_bytes)))
    assert isinstance(answer, Accepted)
    return answer


# -- the disk ----------------------------------------------------------------------------------------------------------


def test_i2_i3_a_full_disk_refuses_writes_loses_nothing_and_serves_again_when_there_is_room(
    disk: Disk, tmp_path: Path
) -> None:
    database = Database(disk.folder / "turnstile.db", vfs=disk.vfs, checkpoint_pages=50)
    record = Record()
    start(database)
    for seed in range(4):
        used = sum(path.stat().st_size for path in disk.folder.iterdir())
        disk.capacity_bytes = used + 300_000
        Workload(database, record, seed).run(threads=4)  # until everybody met a full disk three times
        check_reads(database, record)
        disk.capacity_bytes = None
        version = latest(database) + 1
        txn = record.txn()
        write(database, version, txn)
        record.accepted[KEY][version] = txn
    assert record.not_applied and not record.unknown
    database.close()
    disk.lose_power()
    disk.remains(tmp_path / "after")
    restarted = Database(tmp_path / "after" / "turnstile.db")
    check(restarted, record)
    restarted.close()


def check_reads(database: Database, record: Record) -> None:
    """While the disk is full, everything that was acknowledged can be read."""
    rows = refs_in(database).read_many(KEYS)
    for key, row in rows.items():
        assert record.accepted[key].items() <= dict(enumerate(row["txns"], start=1)).items()


def test_a_full_disk_is_reported_with_what_to_do(disk: Disk, database: Database) -> None:
    disk.capacity_bytes = 0
    with pytest.raises(StorageFault, match="the disk is full") as refusal:
        write(database, 1, size_bytes=20_000)
    assert "space" in (refusal.value.remedy or "")


def test_i2_i3_a_sync_that_fails_is_reported_as_unknown_and_the_store_opened_anew_has_lost_nothing(
    disk: Disk, tmp_path: Path
) -> None:
    record = Record()
    for seed in range(6):
        database = Database(disk.folder / "turnstile.db", vfs=disk.vfs, checkpoint_pages=100)
        start(database)
        Workload(database, record, seed).run(threads=4, seconds=0.1)
        disk.sync_failures = 0.05
        Workload(database, record, seed + 100).run(threads=4)
        disk.sync_failures = 0
        with pytest.raises(StorageFault, match="since the disk failed") as refusal:
            write(database, latest(database) + 1)
        assert "start" in (refusal.value.remedy or "")
        database.close()
    assert record.unknown
    disk.lose_power()
    disk.remains(tmp_path / "after", random.Random(5))
    restarted = Database(tmp_path / "after" / "turnstile.db")
    check(restarted, record)
    restarted.close()


# -- the file ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True], ids=["deleted", "replaced"])
def test_i2_a_file_that_was_deleted_or_replaced_takes_no_writes(replaced: bool, disk: Disk, database: Database) -> None:
    path = disk.folder / "turnstile.db"
    moved = path.rename(disk.folder / "moved.db")
    if replaced:
        path.write_bytes(moved.read_bytes())
    with pytest.raises(StorageFault, match="deleted, moved or replaced"):
        write(database, 1)
    path.unlink(missing_ok=True)
    moved.rename(path)
    assert write(database, 1).row is not None


def test_a_file_that_may_not_be_written_says_so(disk: Disk, database: Database) -> None:
    write(database, 1)
    disk.read_only = True
    with pytest.raises(StorageFault, match="may not be written"):
        write(Database(disk.folder / "turnstile.db", vfs=disk.vfs), 2)


@pytest.mark.parametrize("content", [b"this is no database" * 100, b"SQLite format 3\0" + b"\xff" * 4_080])
def test_a_file_that_is_damaged_says_so(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "turnstile.db").write_bytes(content)
    with pytest.raises(StorageFault, match="damaged, or no SQLite file"):
        Database(tmp_path / "turnstile.db")
    assert (tmp_path / "turnstile.db").read_bytes() == content


def test_a_file_of_another_program_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "turnstile.db"
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (a)")
    other.close()
    content = path.read_bytes()
    with pytest.raises(StorageFault, match="another program"):
        Database(path)
    assert path.read_bytes() == content


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageFault, match="could not be opened") as refusal:
        Database(tmp_path / "nowhere" / "turnstile.db")
    assert "folder" in (refusal.value.remedy or "")


def test_a_filesystem_without_locks_is_refused(disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk.locks = False
    with pytest.raises(StorageFault, match="no locks") as refusal:
        Database(disk.folder / "turnstile.db", vfs=disk.vfs)
    assert "local disk" in (refusal.value.remedy or "")

    def no_locks(_file: int, _operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(StorageFault, match="no locks"):
        Database(tmp_path / "turnstile.db")


def test_a_lock_that_another_process_keeps_is_reported_and_nothing_is_written(
    disk: Disk, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_module, "LOCK_S", 0.05)
    other = os.open(disk.folder / "turnstile.db-group", os.O_RDWR)
    fcntl.flock(other, fcntl.LOCK_EX)
    with pytest.raises(StorageFault, match="another process"):
        write(database, 1)
    os.close(other)
    write(database, 1)


def test_reads_of_a_file_that_fails_are_faults_of_storage_and_come_back(disk: Disk, database: Database) -> None:
    objs = SqliteObjs(database, clock=SystemClock(), cache_bytes=0)
    objs.put(Obj("s", "commit/1", "commit", b"x" * 200_000, 1))
    disk.reads_fail = True
    with pytest.raises(StorageFault, match="could not be read"):
        objs.get("s", "commit/1")
    disk.reads_fail = False
    obj = objs.get("s", "commit/1")
    assert obj is not None and obj.payload == b"x" * 200_000


# -- threads -----------------------------------------------------------------------------------------------------------


def test_i2_a_group_with_an_interrupted_leader_is_not_reported_as_written(database: Database) -> None:
    leading = threading.Event()
    joined = threading.Event()
    answers: list[object] = []

    def hold(_: apsw.Connection) -> None:
        leading.set()
        assert joined.wait(PATIENCE_S)

    def interrupted(_: apsw.Connection) -> None:
        raise KeyboardInterrupt

    def call(run: object) -> None:
        try:
            answers.append(database.write(run))  # type: ignore[arg-type]
        except BaseException as error:
            answers.append(error)

    first = threading.Thread(target=call, args=(hold,))
    first.start()
    assert leading.wait(PATIENCE_S)
    second = threading.Thread(target=call, args=(interrupted,))
    second.start()
    until(lambda: len(database._queue) == 1)
    third = threading.Thread(target=call, args=(lambda connection: connection.execute("DELETE FROM refs").fetchall(),))
    third.start()
    until(lambda: len(database._queue) == 2)
    joined.set()
    join(first, second, third)
    assert any(isinstance(answer, KeyboardInterrupt) for answer in answers)
    assert any(isinstance(answer, OutcomeUnknown | StorageFault) for answer in answers), answers
    assert latest(database) == 0
    write(database, 1)


def test_a_thread_that_is_interrupted_while_it_waits_delays_no_other_thread(database: Database) -> None:
    begun = threading.Event()
    may_end = threading.Event()
    ran: list[str] = []

    def slow(_: apsw.Connection) -> None:
        begun.set()
        assert may_end.wait(PATIENCE_S)

    writer = threading.Thread(target=database.write, args=(slow,))
    writer.start()
    assert begun.wait(PATIENCE_S)

    def interrupt_and_end() -> None:
        until(lambda: len(database._queue) == 1)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    interrupter = threading.Thread(target=interrupt_and_end)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of a test run may ignore it
    try:
        interrupter.start()
        with pytest.raises(KeyboardInterrupt):
            database.write(lambda _: ran.append("interrupted"))
    finally:
        signal.signal(signal.SIGINT, before)
    may_end.set()
    join(writer, interrupter)
    write(database, 1)
    assert not ran


def test_i2_closing_waits_for_the_group_that_is_written(database: Database) -> None:
    begun = threading.Event()
    may_end = threading.Event()
    answers: list[object] = []

    def slow(connection: apsw.Connection) -> str:
        begun.set()
        assert may_end.wait(PATIENCE_S)
        connection.execute("INSERT INTO feed (key) VALUES ('slow')")
        return "written"

    writer = threading.Thread(target=lambda: answers.append(database.write(slow)))
    writer.start()
    assert begun.wait(PATIENCE_S)
    closer = threading.Thread(target=database.close)
    closer.start()
    until(lambda: database._closed)
    assert closer.is_alive()
    may_end.set()
    join(writer, closer)
    assert answers == ["written"]


# -- what grows --------------------------------------------------------------------------------------------------------


def test_i11_the_feed_of_a_store_without_consumers_does_not_grow_without_bound(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "FEED_MAX", 2_000)

    def many(connection: apsw.Connection) -> None:
        for number in range(9_000):
            database_module.note_change(connection, f"k{number}")

    database.write(many)
    ((rows, newest),) = database.rows("SELECT count(*), max(seq) FROM feed")
    assert 2_000 <= rows <= 2_000 + 1_024
    keys, _ = database.changes("late", most=10_000)
    assert list(keys)[-1] == "k8999" and len(keys) == rows
    assert newest >= 9_000


def test_i11_a_change_between_reading_the_feed_and_waiting_is_not_waited_for(database: Database) -> None:
    database.changes("publish")
    thread = threading.Thread(target=write, args=(database, 1))
    thread.start()
    thread.join()
    waiter = threading.Event()

    def wait() -> None:
        database.changes("publish")
        write(database, 2)
        database.wait_for_change(60)
        waiter.set()

    threading.Thread(target=wait, daemon=True).start()
    assert waiter.wait(PATIENCE_S)


def test_the_wal_is_written_from_its_start_again_under_steady_writes(disk: Disk) -> None:
    database = Database(disk.folder / "turnstile.db", vfs=disk.vfs, checkpoint_pages=100)
    start(database)
    record = Record()
    for seed in range(100):
        Workload(database, record, seed, objs=0).run(threads=4, seconds=0.2)
        header = (disk.folder / "turnstile.db-wal").read_bytes()[:32]
        if int.from_bytes(header[12:16], "big") >= 3:  # how often it was begun again
            break
    else:
        raise AssertionError("the WAL was never begun again")
    check(database, record)
    database.close()


def test_expired_objs_are_removed(database: Database) -> None:
    objs = SqliteObjs(database, clock=SystemClock())
    for number, end in enumerate((10, 20, None)):
        objs.put(Obj("s", f"identity/{number}", "identity", b"x", 1, end))
    assert objs.remove_expired(15) == 1
    assert objs.remove_expired(10**6) == 1
    assert objs.remove_expired(10**6) == 0
    assert database.rows("SELECT id FROM objs") == [("identity/2",)]


# -- where it is -------------------------------------------------------------------------------------------------------


def test_a_relative_path_means_the_same_file_after_the_working_directory_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    database = Database(Path("turnstile.db"))
    start(database)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write(database, 1)
    database.close()
    assert not list((tmp_path / "elsewhere").iterdir())


def test_i12_no_other_user_of_the_machine_can_read_the_files(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        database = Database(tmp_path / "turnstile.db")
        start(database)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert len(modes) == 5 and set(modes.values()) == {0o600}, modes
    database.close()
