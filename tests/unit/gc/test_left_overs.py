"""Temporary files of writes that were cut off go from a file system after the grace; a living
writer's never do (I10)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.delta_table import TABLE, Table
from tests.support.fakes.storage import FakeStorage
from tests.support.fakes.world import FakeWorld, fake_world
from tests.support.gc import DAY, collect, days, names
from tests.support.iceberg.client import Iceberg
from turnstile.adapters.files import FileStorage
from turnstile.gc.collector import Collector
from turnstile.gc.core import Grace
from turnstile.store.core.errors import StorageFault
from turnstile.store.ports import Stat

HIDDEN = f".turnstile-{'0a' * 12}"
NOT_OURS = (".turnstile-staged", ".turnstile-", f"{HIDDEN}0", "_delta.turnstile-", ".00000000000000000000.json.crc")


class Below:
    """Storages whose locations lie below a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, location: str) -> FileStorage:
        return FileStorage(f"{self._folder}{location.removeprefix('file://')}")


@pytest.fixture
def world(tmp_path: Path) -> FakeWorld:
    return replace(fake_world(), storages=Below(tmp_path))  # type: ignore[arg-type]


def written(folder: Path, name: str, at_ms: int) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"half")
    os.utime(path, (at_ms / 1000, at_ms / 1000))
    return path


@pytest.mark.parametrize("folder", ["_delta_log", "_delta_log/_staged_commits", "_delta_log/_sidecars", "metadata"])
def test_i10_what_a_killed_write_left_goes_when_its_grace_is_over_and_no_other_file_does(
    world: FakeWorld, tmp_path: Path, folder: str
) -> None:
    table = Table(world)
    now = world.clock.now
    below = tmp_path / table.location.removeprefix("file:///")
    old = written(below / folder, HIDDEN, now - DAY - 60_000)
    young = written(below / folder, f".turnstile-{'1' * 24}", now - DAY + 60_000)
    others = [written(below / folder, name, 1) for name in NOT_OURS]
    outside = written(below / "part=1", HIDDEN, 1)
    before = {stat.path for stat in table.storage.list_all()}
    assert names(collect(world, "staged", dry_run=True)) == [("staged", f"{TABLE}/{folder}/{HIDDEN}", 4)]
    assert old.exists()
    assert names(collect(world, "staged")) == [("staged", f"{TABLE}/{folder}/{HIDDEN}", 4)]
    assert not old.exists()
    assert young.exists() and outside.exists() and all(path.exists() for path in others)
    assert {stat.path for stat in table.storage.list_all()} == before
    assert names(collect(world, "staged")) == []


def test_i10_a_temporary_file_that_is_written_to_meanwhile_stays(
    world: FakeWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(world)
    now = world.clock.now
    path = written(tmp_path / table.location.removeprefix("file:///") / "_delta_log", HIDDEN, now - 3 * DAY)
    listed = FileStorage.left_overs

    def awoken(storage: FileStorage, before_ms: int) -> Iterator[Stat]:
        for stat in listed(storage, before_ms):
            os.utime(path, (now / 1000, now / 1000))
            yield stat

    monkeypatch.setattr(FileStorage, "left_overs", awoken)
    collect(world, "staged")
    assert path.exists()


def test_i5_a_writer_that_was_frozen_until_its_temporary_file_was_gone_acknowledges_nothing(tmp_path: Path) -> None:
    storage = FileStorage(str(tmp_path))

    def pieces() -> Iterator[bytes]:
        yield b"first"
        (left,) = storage.left_overs(2**62)
        storage.put_if_absent("_delta_log/other", b"a table has files")
        storage.delete(left.path)
        yield b"last"

    with pytest.raises(StorageFault):
        storage.put_if_absent("_delta_log/1.json", pieces())
    assert [stat.path for stat in storage.list_all()] == ["_delta_log/other"]


def test_i10_iceberg_tables_have_no_left_overs_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that keep all their files: the temporary ones are no files of the table."""
    api = Iceberg()
    location = api.create("t1")["metadata"]["location"]
    storage = api.world.storages.open(location)
    storage.put_if_absent(f"metadata/{HIDDEN}", b"half")

    def left_overs(self: Any, before_ms: int) -> Iterator[Stat]:
        found = self.stat(f"metadata/{HIDDEN}")
        if found is not None and found.modified_ms < before_ms:
            yield found

    monkeypatch.setattr(FakeStorage, "left_overs", left_overs)
    grace = Grace(staged_ms=DAY, history_ms=DAY)
    days(api.world, 0.9)
    collector = Collector(api.world, grace, workers=1)
    assert names(collector.collect(("iceberg-files",), dry_run=False)) == []
    days(api.world, 0.4)
    found = names(collector.collect(("iceberg-files",), dry_run=False))
    assert found == [("iceberg-files", f"{location}/metadata/{HIDDEN}", 4)]
    assert storage.stat(f"metadata/{HIDDEN}") is None
