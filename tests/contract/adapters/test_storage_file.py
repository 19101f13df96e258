"""Files in particular: locations as engines write them, and what a crash may leave behind (I4,
I10)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.fakes.world import fake_world
from turnstile.adapters import FileStorages
from turnstile.gc.core import Grace
from turnstile.gc.scanner import GcContext
from turnstile.store.core.errors import InvalidRequest, StorageFault
from turnstile.store.faults import no_faults

STORAGES = FileStorages()


@pytest.mark.parametrize("form", ["file:{}", "file://{}", "file:///{}", "file://localhost{}", "FILE:{}/", "file:{}//"])
def test_i9_all_spellings_of_a_local_location_are_the_same_place(tmp_path: Path, form: str) -> None:
    assert STORAGES.open(form.format(tmp_path)).put_if_absent("a", b"x") is True
    assert STORAGES.open(f"file:{tmp_path}").put_if_absent("a", b"x") is False


NOT_SERVED = ["", "/tmp/x", "relative", "hdfs://h/x", "gs://b/x", "abfss://c@a/x", "http://x/y"]
NOT_ABSOLUTE = ["file:x", "file://host/x", "file:///", "file:/a/../b", "s3:b/x", "s3:///x", "s3://b/../x"]


@pytest.mark.parametrize("location", [*NOT_SERVED, *NOT_ABSOLUTE])
def test_i10_a_location_that_is_not_served_is_refused_by_name(location: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        STORAGES.open(location)
    assert refused.value.field == "location"


def test_i4_an_unfinished_file_of_a_crashed_writer_is_never_listed_and_blocks_no_writer(tmp_path: Path) -> None:
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / ".turnstile-0123").write_bytes(b"half")
    storage = STORAGES.open(f"file:{tmp_path}")
    assert storage.put_if_absent("_delta_log/1.json", b"x") is True
    assert [stat.path for stat in storage.list("_delta_log/")] == ["_delta_log/1.json"]
    assert [stat.path for stat in storage.list_all()] == ["_delta_log/1.json"]


def test_i4_a_finished_put_leaves_nothing_but_the_file(tmp_path: Path) -> None:
    storage = STORAGES.open(f"file:{tmp_path}")
    storage.put_if_absent("a/b", b"x")
    storage.put_if_absent("a/b", b"y")
    assert os.listdir(tmp_path / "a") == ["b"]


def test_a_log_has_a_folder_for_staged_commits_from_its_first_file_on(tmp_path: Path) -> None:
    """Delta's clients make it for tables that they create, and not for imported ones."""
    storage = STORAGES.open(f"file:{tmp_path}")
    storage.put_if_absent("_delta_log/0.json", b"x")
    assert (tmp_path / "_delta_log/_staged_commits").is_dir()
    assert [stat.path for stat in storage.list_all()] == ["_delta_log/0.json"]
    storage.put_if_absent("data/_delta_log/0.json", b"x")
    assert not (tmp_path / "data/_delta_log/_staged_commits").exists()
    for path in ("_delta_log/0.json", "data/_delta_log/0.json"):
        storage.delete(path)
    assert not tmp_path.exists()


def test_i10_hadoops_checksum_leaves_with_its_file(tmp_path: Path) -> None:
    """A stale ``.name.crc`` would make Hadoop refuse a later file of that name."""
    storage = STORAGES.open(f"file:{tmp_path}")
    storage.put_if_absent("a/b", b"x")
    (tmp_path / "a" / ".b.crc").write_bytes(b"sum")
    assert [stat.path for stat in storage.list_all()] == ["a/b"]
    storage.delete("a/b")
    assert not (tmp_path / "a" / ".b.crc").exists()


def test_i10_the_last_file_of_a_table_takes_its_folders_along(tmp_path: Path) -> None:
    storage = STORAGES.open(f"file:{tmp_path}/table")
    for path in ("_delta_log/_staged_commits/a", "_delta_log/b", "c"):
        storage.put_if_absent(path, b"x")
    litter = tmp_path / "table" / "_delta_log" / ".turnstile-0123"
    litter.write_bytes(b"half")
    os.utime(litter, (1, 1))
    storage.delete("_delta_log/_staged_commits/a")
    assert (tmp_path / "table" / "_delta_log" / "_staged_commits").is_dir()  # engines count on it while the table lives
    storage.delete("_delta_log/b")
    storage.delete("c")
    assert os.listdir(tmp_path) == []
    assert storage.put_if_absent("_delta_log/b", b"x") is True


def test_i2_folders_that_go_away_while_they_are_made_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer made the folder, and a cleaner removed it, between the two looks of
    ``makedirs``."""
    make = os.mkdir
    folder = tmp_path / "table" / "_delta_log"
    raced: list[str] = []

    def race(path: str, *more: int) -> None:
        if Path(path) == folder and not raced:
            raced.append(path)
            raise FileExistsError(path)
        make(path, *more)

    monkeypatch.setattr(os, "mkdir", race)
    assert STORAGES.open(f"file:{tmp_path}/table").put_if_absent("_delta_log/b", b"x") is True
    assert raced and (folder / "b").read_bytes() == b"x"


MANAGED = "main/sales/6e6f0fb6-3bd5-4b1c-a6a4-b7e6a1f1a6a1"


def test_i10_a_managed_table_takes_the_empty_folders_of_its_namespace_and_catalog_along(tmp_path: Path) -> None:
    storage = STORAGES.open(f"file:{tmp_path}/lake/{MANAGED}")
    storage.put_if_absent("_delta_log/a", b"x")
    storage.delete("_delta_log/a")
    assert os.listdir(tmp_path) == ["lake"]
    assert os.listdir(tmp_path / "lake") == []


def test_i10_folders_with_other_tables_stay(tmp_path: Path) -> None:
    storage = STORAGES.open(f"file:{tmp_path}/{MANAGED}")
    other = STORAGES.open(f"file:{tmp_path}/main/sales/other")
    for each in (storage, other):
        each.put_if_absent("a", b"x")
    storage.delete("a")
    assert os.listdir(tmp_path / "main" / "sales") == ["other"]
    other.delete("a")  # not laid out by the catalog: what is above it is its owner's
    assert os.listdir(tmp_path / "main" / "sales") == []


def test_i10_a_purge_leaves_no_folder_of_a_table_that_never_had_a_file(tmp_path: Path) -> None:
    (tmp_path / MANAGED / "_delta_log" / "_staged_commits").mkdir(parents=True)
    context = GcContext(fake_world(), Grace(), no_faults, workers=1, time_is_up=lambda: False)
    context.delete_all_files(STORAGES.open(f"file:{tmp_path}/{MANAGED}"), lambda: None)
    assert os.listdir(tmp_path) == []


def test_i10_a_file_that_a_writer_is_just_writing_stays_with_its_folder(tmp_path: Path) -> None:
    storage = STORAGES.open(f"file:{tmp_path}/table")
    storage.put_if_absent("a/b", b"x")
    (tmp_path / "table" / "a" / ".turnstile-0123").write_bytes(b"half")
    storage.delete("a/b")
    assert os.listdir(tmp_path / "table" / "a") == [".turnstile-0123"]


def test_i10_folders_with_files_of_others_stay(tmp_path: Path) -> None:
    storage = STORAGES.open(f"file:{tmp_path}/table")
    storage.put_if_absent("a/b", b"x")
    (tmp_path / "table" / ".git").write_bytes(b"precious")
    storage.delete("a/b")
    assert os.listdir(tmp_path / "table") == [".git"]


def test_i4_a_place_that_cannot_be_written_is_a_fault_and_no_refusal(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a file where the table should be")
    storage = STORAGES.open(f"file:{tmp_path}/table")
    with pytest.raises(StorageFault):
        storage.put_if_absent("_delta_log/1.json", b"x")
    assert storage.read("_delta_log/1.json") is None
    assert list(storage.list_all()) == []


def test_i4_a_name_that_is_too_long_is_a_fault(tmp_path: Path) -> None:
    storage = STORAGES.open(f"file:{tmp_path}")
    with pytest.raises(StorageFault):
        storage.put_if_absent("x" * 300, b"x")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", [b"one piece", [b"two", b"pieces"]], ids=["whole", "in pieces"])
def test_i5_a_new_file_and_its_name_are_on_the_disk_before_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | list[bytes]
) -> None:
    """A crash of the machine must not undo what was acknowledged: first the content, then the name
    in its folder."""
    synced = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        fsync(descriptor)
        named = (tmp_path / "_delta_log" / "1.json").exists()
        synced.append((os.fstat(descriptor).st_ino, named))

    monkeypatch.setattr(os, "fsync", noted)
    assert STORAGES.open(f"file:{tmp_path}").put_if_absent("_delta_log/1.json", content)
    file = tmp_path / "_delta_log" / "1.json"
    folder = tmp_path / "_delta_log"
    assert synced == [(file.stat().st_ino, False), (folder.stat().st_ino, True)]


@pytest.mark.parametrize("link", ["_delta_log", "_delta_log/_staged_commits"])
def test_i10_i12_nothing_is_read_written_or_removed_behind_a_symbolic_link(tmp_path: Path, link: str) -> None:
    """A folder that somebody imports, or has the right to write, must not lead to another table's
    commits."""
    victim = tmp_path / "victim"
    hostile = tmp_path / "hostile"
    path = "_delta_log/_staged_commits/a.json"
    STORAGES.open(victim.as_uri()).put_if_absent(path, b"acknowledged")
    (hostile / link).parent.mkdir(parents=True)
    (hostile / link).symlink_to(victim / link)
    storage = STORAGES.open(hostile.as_uri())
    attempts: list[Callable[[], object]] = [
        lambda: storage.read(path),
        lambda: storage.stat(path),
        lambda: storage.put_if_absent("_delta_log/_staged_commits/b.json", b"forged"),
        lambda: storage.put_in_order([("_delta_log/_staged_commits/b.json", b"forged")]),
        lambda: list(storage.list("_delta_log/_staged_commits/")),
        lambda: storage.delete(path),
    ]
    for attempt in attempts:
        with pytest.raises(InvalidRequest, match="symbolic link"):
            attempt()
    assert [stat.path for stat in storage.list_all()] == []
    assert [stat.path for stat in STORAGES.open(victim.as_uri()).list_all()] == [path]


def test_i12_a_file_that_is_a_symbolic_link_is_not_read_and_its_removal_leaves_what_it_leads_to(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"{}")
    table = tmp_path / "table"
    table.mkdir()
    (table / "a.json").symlink_to(secret)
    storage = STORAGES.open(table.as_uri())
    with pytest.raises(InvalidRequest, match="symbolic link"):
        storage.read("a.json")
    assert storage.stat("a.json") is None
    assert not storage.put_if_absent("a.json", b"forged")
    storage.delete("a.json")
    assert secret.read_bytes() == b"{}"


def test_a_location_may_itself_lie_behind_a_symbolic_link(tmp_path: Path) -> None:
    (tmp_path / "disk" / "lake").mkdir(parents=True)
    (tmp_path / "lake").symlink_to(tmp_path / "disk" / "lake")
    storage = STORAGES.open(f"{(tmp_path / 'lake').as_uri()}/t")
    assert storage.put_if_absent("_delta_log/a.json", b"{}")
    assert [stat.path for stat in storage.list("_delta_log/")] == ["_delta_log/a.json"]
