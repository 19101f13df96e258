"""Commits of a log that an operation, or a process, reads once."""

from __future__ import annotations

import pytest

from tests.support.fakes.storage import FakeClock, FakeStorages
from turnstile.delta.core.pointer import POINTER
from turnstile.delta.log.cached_commits import LARGEST, CachedCommits, CommitCache
from turnstile.store.core.names import LOG, published_path

PLACE = "s3://lake/t"


def opened(storages: FakeStorages, cache: CommitCache) -> CachedCommits:
    """The storage for one operation, after its listing."""
    storage = CachedCommits(storages.open(PLACE), PLACE, cache)
    list(storage.list(LOG))
    storages.requests.clear()
    return storage


def test_a_commit_is_read_once_also_by_a_later_operation() -> None:
    storages = FakeStorages(FakeClock())
    storages.open(PLACE).put_if_absent(published_path(0), b"zero")
    cache = CommitCache(1000)
    for expected in (["read"], []):
        storage = opened(storages, cache)
        for _ in range(2):
            file = storage.read(published_path(0), 100)
            assert file is not None and (file[0], file[1].size) == (b"zero", 4)
        assert storages.requests == expected


def test_a_file_that_was_changed_is_read_again() -> None:
    storages = FakeStorages(FakeClock())
    storages.open(PLACE).put_if_absent(published_path(0), b"zero")
    cache = CommitCache(1000)
    opened(storages, cache).read(published_path(0))
    storages.open(PLACE).replace(published_path(0), b"zerX")
    assert opened(storages, cache).read(published_path(0))[0] == b"zerX"  # type: ignore[index]
    storages.open(PLACE).delete(published_path(0))
    assert opened(storages, cache).read(published_path(0)) is None


def test_parts_of_a_file_large_commits_and_files_that_were_not_listed_are_read_each_time() -> None:
    storages = FakeStorages(FakeClock())
    inner = storages.open(PLACE)
    inner.put_if_absent(published_path(0), b"zero")
    inner.put_if_absent(published_path(1), b"x" * (LARGEST + 1))
    cache = CommitCache(10 * LARGEST)
    opened(storages, cache).read(published_path(0))
    storage = opened(storages, cache)
    inner.put_if_absent(published_path(2), b"two")
    storages.requests.clear()
    for _ in range(2):
        assert storage.read(published_path(0), 2)[0] == b"ze"  # type: ignore[index]
        assert storage.read(published_path(0), offset=2)[0] == b"ro"  # type: ignore[index]
        assert len(storage.read(published_path(1))[0]) == LARGEST + 1  # type: ignore[index]
        assert storage.read(published_path(2))[0] == b"two"  # type: ignore[index]
    assert storages.requests == ["read"] * 8


def test_a_file_that_changes_between_listing_and_reading_is_not_kept_under_the_listed_one() -> None:
    storages = FakeStorages(FakeClock())
    storages.open(PLACE).put_if_absent(published_path(0), b"zero")
    cache = CommitCache(1000)
    storage = opened(storages, cache)
    storages.open(PLACE).replace(published_path(0), b"longer")
    for _ in range(2):
        assert storage.read(published_path(0))[0] == b"longer"  # type: ignore[index]
    assert storages.requests[-2:] == ["read", "read"]


def test_a_file_of_the_largest_size_is_kept_and_served_for_a_limit_of_its_size() -> None:
    storages = FakeStorages(FakeClock())
    storages.open(PLACE).put_if_absent(published_path(0), b"x" * LARGEST)
    storage = opened(storages, CommitCache(LARGEST))
    for _ in range(2):
        assert storage.read(published_path(0), LARGEST)[0] == b"x" * LARGEST  # type: ignore[index]
    assert storages.requests == ["read"]


def test_a_file_that_goes_between_listing_and_reading_is_missing() -> None:
    storages = FakeStorages(FakeClock())
    storages.open(PLACE).put_if_absent(published_path(0), b"zero")
    storage = opened(storages, CommitCache(1000))
    storages.open(PLACE).delete(published_path(0))
    assert storage.read(published_path(0)) is None


@pytest.mark.parametrize(
    "path",
    [POINTER, f"{LOG}{1:020d}.crc", f"{LOG}{1:020d}.checkpoint.x.json", f"{LOG}1.json", f"{LOG}{1:020d}.json.json"],
)
def test_other_files_of_the_log_are_read_each_time(path: str) -> None:
    """Above all the pointer: it never leads back to an older checkpoint than another worker's."""
    storages = FakeStorages(FakeClock())
    storages.open(PLACE).replace(path, b"zero")
    storage = opened(storages, CommitCache(1000))
    storage.read(path)
    storages.open(PLACE).replace(path, b"zerX")
    assert storage.read(path)[0] == b"zerX"  # type: ignore[index]
