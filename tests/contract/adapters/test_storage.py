"""Log storage: what the publisher and the readers of ``_delta_log`` rest on (I2, I4, I5)."""

from __future__ import annotations

import threading
import time

import pytest

from tests.support.store.backends import Place
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.ports import LogStorage

LOG = "_delta_log/"
STAGED = "_delta_log/_staged_commits/"
COMMIT = LOG + "00000000000000000007.json"
ODD_NAMES = [
    "part-00000-6f0f3f2e.c000.snappy.parquet",
    "day=2026-11-21/part 1.parquet",
    "p=%2F%20x/a+b=c&d.parquet",
    "ünïcode/日本語/\U0001f600.parquet",
    "a#b?c/x;y,z@w!$'()*~.bin",
    "deep/" * 30 + "file",
    "x" * 200,
    "no-extension",
    "_delta_log/_last_checkpoint",
]


def test_i4_a_file_reads_back_as_it_was_put_with_its_size_and_time(storage: LogStorage) -> None:
    content = bytes(range(256)) * 40
    before = time.time_ns() // 1_000_000
    assert storage.put_if_absent(COMMIT, content) is True
    file = storage.read(COMMIT)
    assert file is not None
    assert file[0] == content
    assert file[1] == storage.stat(COMMIT)
    assert (file[1].path, file[1].size) == (COMMIT, len(content))
    assert abs(file[1].modified_ms - before) < 10_000 or file[1].modified_ms < 1_780_000_000_000  # the fake's clock


def test_i2_the_second_put_reports_that_the_file_exists_and_changes_nothing(storage: LogStorage) -> None:
    assert storage.put_if_absent(COMMIT, b"first") is True
    before = storage.stat(COMMIT)
    assert storage.put_if_absent(COMMIT, b"second") is False
    assert storage.put_if_absent(COMMIT, b"first") is False
    assert storage.read(COMMIT) == (b"first", before)


def test_i4_after_a_refused_put_the_winner_can_be_read_whole_and_compared(storage: LogStorage) -> None:
    """Verify-on-exists: a version that is there already must be the ratified bytes."""
    storage.put_if_absent(COMMIT, b"ratified" * 1000)
    assert storage.put_if_absent(COMMIT, b"ratified" * 1000) is False
    file = storage.read(COMMIT)
    assert file is not None
    assert file[0] == b"ratified" * 1000


def test_i5_a_file_is_there_for_every_reader_right_after_it_was_put(place: Place) -> None:
    location = place.location()
    for number in range(20):
        path = f"{LOG}{number:020d}.json"
        assert place.storages.open(location).put_if_absent(path, b"x" * number)
        reader = place.storages.open(location)
        assert reader.read(path) is not None
        assert [stat.path for stat in reader.list(LOG)][-1] == path


def test_i15_a_file_is_replaced_whole_or_made(storage: LogStorage) -> None:
    pointer = LOG + "_last_checkpoint"
    storage.replace(pointer, b'{"version":1000}')
    storage.replace(pointer, b'{"version":7}')
    file = storage.read(pointer)
    assert file is not None
    assert (file[0], file[1]) == (b'{"version":7}', storage.stat(pointer))
    assert storage.put_if_absent(pointer, b"x") is False
    assert [stat.path for stat in storage.list(LOG)] == [pointer]


def test_i4_files_put_in_order_end_before_the_first_name_that_is_taken(storage: LogStorage) -> None:
    files = [(f"{LOG}{version:020d}.json", bytes([version]) * version) for version in range(1, 9)]
    assert storage.put_if_absent(files[5][0], b"foreign")
    assert storage.put_in_order(files) == 5
    assert [stat.path for stat in storage.list(LOG)] == [path for path, _ in files[:6]]
    for path, content in files[:5]:
        assert (storage.read(path) or (b"",))[0] == content
    assert (storage.read(files[5][0]) or (b"",))[0] == b"foreign"
    assert storage.put_in_order(files[6:]) == 2
    assert storage.put_in_order([]) == 0


def test_i4_readers_never_see_a_file_before_those_that_precede_it(place: Place) -> None:
    location = place.location()
    gaps = []
    done = threading.Event()

    def read() -> None:
        storage = place.storages.open(location)
        while not done.is_set():
            versions = [int(stat.path[len(LOG) : -len(".json")]) for stat in storage.list(LOG)]
            if versions != list(range(len(versions))):
                gaps.append(versions)

    reader = threading.Thread(target=read)
    reader.start()
    storage = place.storages.open(location)
    for first in range(0, 96, 32):
        files = [(f"{LOG}{version:020d}.json", b"x" * 100) for version in range(first, first + 32)]
        assert storage.put_in_order(files) == 32
    done.set()
    reader.join()
    assert not gaps


@pytest.mark.parametrize("limit", [0, 1, 5, 10, 11, 100])
def test_i2_a_limited_read_gives_the_beginning_and_the_whole_files_size(storage: LogStorage, limit: int) -> None:
    storage.put_if_absent(COMMIT, b"0123456789")
    file = storage.read(COMMIT, limit)
    assert file is not None
    assert file[0] == b"0123456789"[:limit]
    assert file[1].size == 10


@pytest.mark.parametrize("limit", [None, 0, 5])
def test_i2_an_empty_file_is_a_file(storage: LogStorage, limit: int | None) -> None:
    assert storage.put_if_absent(COMMIT, b"") is True
    file = storage.read(COMMIT, limit)
    assert file is not None
    assert (file[0], file[1].size) == (b"", 0)
    assert [stat.size for stat in storage.list(LOG)] == [0]
    assert storage.put_if_absent(COMMIT, b"x") is False


def test_i5_what_is_not_there_reads_as_nothing(storage: LogStorage) -> None:
    assert storage.read(COMMIT) is None
    assert storage.read(COMMIT, 10) is None
    assert storage.stat(COMMIT) is None
    assert list(storage.list(LOG)) == []
    assert list(storage.list_all()) == []
    storage.delete(COMMIT)


def test_i5_a_folder_is_no_file(storage: LogStorage) -> None:
    storage.put_if_absent(COMMIT, b"x")
    for folder in ("_delta_log", COMMIT + "/below"):
        assert storage.read(folder) is None
        assert storage.stat(folder) is None
    assert [stat.path for stat in storage.list("")] == []


def test_i10_a_deleted_file_is_gone_and_its_name_is_free(storage: LogStorage) -> None:
    storage.put_if_absent(COMMIT, b"x")
    storage.put_if_absent(COMMIT + ".other", b"x")
    storage.delete(COMMIT)
    storage.delete(COMMIT)
    assert storage.read(COMMIT) is None
    assert [stat.path for stat in storage.list_all()] == [COMMIT + ".other"]
    assert storage.put_if_absent(COMMIT, b"y") is True


def test_i4_the_log_is_listed_in_version_order_and_without_what_lies_in_folders(storage: LogStorage) -> None:
    """The trap: a recursive listing that takes staged commits for published ones."""
    versions = [3, 10, 0, 2, 99]
    for version in versions:
        storage.put_if_absent(f"{LOG}{version:020d}.json", b"x")
        storage.put_if_absent(f"{STAGED}{version:020d}.some-uuid.json", b"x")
    storage.put_if_absent("_delta_log.txt", b"x")
    storage.put_if_absent("part-0.parquet", b"x")
    assert [stat.path for stat in storage.list(LOG)] == [f"{LOG}{version:020d}.json" for version in sorted(versions)]
    assert [stat.path for stat in storage.list(STAGED)] == [
        f"{STAGED}{version:020d}.some-uuid.json" for version in sorted(versions)
    ]
    assert [stat.path for stat in storage.list("")] == ["_delta_log.txt", "part-0.parquet"]


def test_i5_a_listing_starts_after_a_name_and_keeps_to_its_prefix(storage: LogStorage) -> None:
    for version in range(12):
        storage.put_if_absent(f"{LOG}{version:020d}.json", b"x" * version)
    after = f"{LOG}{8:020d}.json"
    assert [stat.size for stat in storage.list(LOG, after)] == [9, 10, 11]
    assert [stat.size for stat in storage.list(LOG, f"{LOG}{8:020d}")] == [8, 9, 10, 11]
    assert [stat.size for stat in storage.list(LOG, "a")] == []
    assert [stat.size for stat in storage.list(f"{LOG}0000000000000000001")] == [10, 11]
    assert [stat.size for stat in storage.list(f"{LOG}0000000000000000001", f"{LOG}{10:020d}.json")] == [11]


def test_i10_everything_of_the_table_is_found_and_nothing_of_its_neighbours(place: Place) -> None:
    location = place.location()
    table = place.storages.open(location)
    beside = place.storages.open(location + "x")
    names = ["a", "b/c", "b/d/e", COMMIT, STAGED + "s.json"]
    for name in names:
        table.put_if_absent(name, b"x")
        beside.put_if_absent("x" + name, b"x")
    assert [stat.path for stat in table.list_all()] == sorted(names)
    assert [stat.path for stat in place.storages.open(location + "/").list_all()] == sorted(names)


@pytest.mark.parametrize("name", ODD_NAMES)
def test_i10_any_name_an_engine_may_choose_can_be_written_found_and_deleted(storage: LogStorage, name: str) -> None:
    assert storage.put_if_absent(name, name.encode()) is True
    assert storage.put_if_absent(name, b"") is False
    file = storage.read(name)
    assert file is not None
    assert file[0] == name.encode()
    assert [stat.path for stat in storage.list_all()] == [name]
    assert [stat.path for stat in storage.list(name)] == [name]
    storage.delete(name)
    assert list(storage.list_all()) == []


@pytest.mark.parametrize(
    "path", ["../other/x", "a/../../x", "/etc/passwd", "a//b", "./a", "a/.", "", "a\0b", "a\\..\\b"]
)
def test_i10_no_path_leads_out_of_the_table(storage: LogStorage, path: str) -> None:
    for use in (storage.read, storage.stat, storage.delete, lambda path: storage.put_if_absent(path, b"x")):
        with pytest.raises(InvalidRequest):
            use(path)


@pytest.mark.parametrize("prefix", ["../", "/", "a/../", "a//"])
def test_i10_no_listing_leads_out_of_the_table(storage: LogStorage, prefix: str) -> None:
    with pytest.raises(InvalidRequest):
        list(storage.list(prefix))
