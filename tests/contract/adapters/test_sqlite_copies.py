"""Backups of a SQLite store: whole, of one moment, checked; and put back so that nothing that was
there before undoes them (I6)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.store.workload import KEYS, start, step
from turnstile.adapters.machine import SystemClock
from turnstile.adapters.sqlite import copies
from turnstile.adapters.sqlite.copies import back_up, put_back, read, staged_copy
from turnstile.adapters.sqlite.database import Database
from turnstile.adapters.sqlite.objs import SqliteObjs
from turnstile.adapters.sqlite.refs import SqliteRefs
from turnstile.store.core.errors import StorageFault, StoreCause, StoreUnavailable
from turnstile.store.ports import Accepted, Obj

KEY = KEYS[0]


class Store:
    """A store at ``path``, and commits of its first row."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.database = Database(path)
        self.refs = SqliteRefs(self.database, realm="r", clock=SystemClock())

    def commit(self, version: int) -> None:
        assert isinstance(self.refs.write(step(KEY, version - 1, f"t{version}", b"x")), Accepted)

    @property
    def latest(self) -> int:
        row = self.refs.read(KEY)
        assert row is not None
        return int(row["latest"])

    def close(self) -> None:
        self.database.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    opened = Store(tmp_path / "home" / "turnstile.db")
    start(opened.database)
    return opened


def taken(store: Store, folder: Path) -> copies.Manifest:
    return back_up(store.path, folder, now_ms=1_000, release="1.2.3")


def latest_of(path: Path) -> int:
    opened = Store(path)
    try:
        return opened.latest
    finally:
        opened.close()


def killed(store: Store) -> None:
    """Its files as a process leaves them that is killed: with a WAL."""
    kept = [path for path in store.path.parent.iterdir() if path.is_file()]
    copied = {path: path.read_bytes() for path in kept}
    store.close()
    for path, content in copied.items():
        path.write_bytes(content)


# -- taking one --------------------------------------------------------------------------------------------------------


def test_a_backup_of_a_store_in_use_has_what_was_acknowledged_and_says_what_it_is(store: Store, tmp_path: Path) -> None:
    store.commit(1)
    SqliteObjs(store.database, clock=SystemClock()).put(Obj("s", "commit/1", "commit", b"x", 1))
    manifest = taken(store, tmp_path / "backup")
    assert store.path.with_name("turnstile.db-wal").stat().st_size > 0, "what was committed is in the WAL alone"
    assert sorted(path.name for path in (tmp_path / "backup").iterdir()) == ["manifest.json", "turnstile.db"]
    assert read(tmp_path / "backup") == manifest
    ((refs,),) = store.database.rows("SELECT count(*) FROM refs")
    assert (manifest.taken_ms, manifest.release, manifest.objs, manifest.refs) == (1_000, "1.2.3", 1, refs)
    shutil.copy(tmp_path / "backup" / "turnstile.db", tmp_path / "alone.db")
    assert latest_of(tmp_path / "alone.db") == 1
    store.close()


def test_a_backup_needs_no_pause_of_the_writers_and_is_of_one_moment(store: Store, tmp_path: Path) -> None:
    done = threading.Event()

    def commits() -> None:
        for version in range(1, 300):
            store.commit(version)
        done.set()

    writer = threading.Thread(target=commits)
    writer.start()
    before = store.latest
    manifests = [taken(store, tmp_path / f"backup-{number}") for number in range(3)]
    after = store.latest
    writer.join()
    assert done.is_set()
    found = [latest_of(tmp_path / f"backup-{number}" / "turnstile.db") for number in range(3)]
    assert found == sorted(found) and before <= found[0] and found[-1] <= after and len(manifests) == 3
    store.close()


def test_no_other_user_of_the_machine_can_read_a_backup(store: Store, tmp_path: Path) -> None:
    taken(store, tmp_path / "backup")
    assert (tmp_path / "backup").stat().st_mode & 0o077 == 0
    assert (tmp_path / "backup" / "turnstile.db").stat().st_mode & 0o077 == 0
    store.close()


def test_a_damaged_store_gives_no_backup_and_says_so(store: Store, tmp_path: Path) -> None:
    store.commit(1)
    store.database.write(lambda connection: connection.execute("UPDATE refs SET row = x'c1'").fetchall())
    with pytest.raises(StoreUnavailable) as refusal:
        taken(store, tmp_path / "backup")
    assert refusal.value.cause is StoreCause.DAMAGED
    assert [path.name for path in tmp_path.iterdir()] == ["home"], "nothing is left that looks like a backup"
    store.close()


def test_a_backup_goes_into_no_folder_that_has_something(store: Store, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("kept")
    (tmp_path / "file").write_text("kept")
    for place in ("full", "file"):
        with pytest.raises(StorageFault, match="not empty"):
            taken(store, tmp_path / place)
    (tmp_path / "empty").mkdir()
    taken(store, tmp_path / "empty")
    with pytest.raises(StoreUnavailable, match="no store"):
        back_up(tmp_path / "none.db", tmp_path / "backup", now_ms=1, release="1")
    store.close()


# -- putting one back --------------------------------------------------------------------------------------------------


def test_i6_the_wal_of_the_state_before_cannot_undo_a_restore(store: Store, tmp_path: Path) -> None:
    store.commit(1)
    taken(store, tmp_path / "backup")
    for version in range(2, 6):
        store.commit(version)
    killed(store)
    shutil.copytree(store.path.parent, tmp_path / "plainly")
    shutil.copy(tmp_path / "backup" / "turnstile.db", tmp_path / "plainly" / "turnstile.db")
    assert latest_of(tmp_path / "plainly" / "turnstile.db") != 1, "which is what a plain copy leads to"
    kept = put_back(tmp_path / "backup", store.path, now_ms=7)
    assert latest_of(store.path) == 1
    assert kept is not None and latest_of(kept / "turnstile.db") == 5, "what was there is kept whole"


def test_a_restore_into_an_empty_place_keeps_nothing(store: Store, tmp_path: Path) -> None:
    store.commit(1)
    taken(store, tmp_path / "backup")
    store.close()
    assert put_back(tmp_path / "backup", tmp_path / "new" / "turnstile.db", now_ms=7) is None
    assert latest_of(tmp_path / "new" / "turnstile.db") == 1


_OPENS = """
import sys, time
from pathlib import Path
from turnstile.adapters.sqlite.database import Database
database = Database(Path(sys.argv[1]))
database.rows("SELECT 1 FROM refs")
print("open", flush=True)
sys.stdin.readline()
"""


def test_i6_a_store_that_a_process_has_open_is_not_replaced(store: Store, tmp_path: Path) -> None:
    store.commit(1)
    taken(store, tmp_path / "backup")
    store.commit(2)
    store.close()
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", _OPENS, str(store.path)], stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None and other.stdout.readline() == "open\n"
        with pytest.raises(StoreUnavailable, match="in use") as refusal:
            put_back(tmp_path / "backup", store.path, now_ms=7)
        assert refusal.value.cause is StoreCause.LOCKED
        other.communicate("\n")
    assert latest_of(store.path) == 2
    put_back(tmp_path / "backup", store.path, now_ms=8)
    assert latest_of(store.path) == 1


@pytest.mark.parametrize("damage", ["flipped", "cut", "another", "no manifest", "newer"])
def test_a_backup_that_is_not_as_it_was_taken_is_refused_and_changes_nothing(
    damage: str, store: Store, tmp_path: Path
) -> None:
    store.commit(1)
    taken(store, tmp_path / "backup")
    store.close()
    copy = tmp_path / "backup" / "turnstile.db"
    manifest = tmp_path / "backup" / "manifest.json"
    content = bytearray(copy.read_bytes())
    match damage:
        case "flipped":
            content[-100] ^= 1
            copy.write_bytes(content)
        case "cut":
            os.truncate(copy, len(content) // 2)
        case "another":
            copy.write_bytes(bytes(len(content)))
        case "no manifest":
            manifest.unlink()
        case "newer":
            manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "format": 99}))
    before = {path.name: path.read_bytes() for path in store.path.parent.iterdir()}
    with pytest.raises(StorageFault) as refusal:
        put_back(tmp_path / "backup", store.path, now_ms=7)
    assert refusal.value.remedy
    assert {path.name: path.read_bytes() for path in store.path.parent.iterdir()} == before


class Killed(BaseException):
    """The process ends here."""


def test_i6_a_restore_that_is_killed_anywhere_opens_nothing_until_it_is_repeated(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.commit(1)
    taken(store, tmp_path / "backup")
    store.commit(2)
    killed(store)
    steps = 0
    sync = copies.make_durable
    for last in range(20):
        home = tmp_path / f"home-{last}"
        shutil.copytree(store.path.parent, home)
        steps = 0

        def dies(path: Path, last: int = last) -> None:
            nonlocal steps
            if steps == last:
                raise Killed
            steps += 1
            sync(path)

        monkeypatch.setattr(copies, "make_durable", dies)
        try:
            put_back(tmp_path / "backup", home / "turnstile.db", now_ms=last)
        except Killed:
            monkeypatch.setattr(copies, "make_durable", sync)
            if staged_copy(home / "turnstile.db").exists():
                with pytest.raises(StoreUnavailable, match="restore"):
                    Database(home / "turnstile.db")
                put_back(tmp_path / "backup", home / "turnstile.db", now_ms=100 + last)
            assert latest_of(home / "turnstile.db") == 1
        else:
            break
    assert steps >= 4, "it was killed at several places"
