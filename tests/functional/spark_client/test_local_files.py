"""Commit files on the local file system, written by the Spark client without a JVM."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from turnstile_spark.delta.log_files import STAGED, LogFiles, Write


@pytest.fixture
def files() -> LogFiles:
    return LogFiles(jvm=None)  # type: ignore[arg-type]  # the local file system needs none


def staged(log: Path, content: str = "{}\n", scheme: str = "file:") -> Write:
    return Write(None, None, f"{scheme}{log}/{STAGED}/00000000000000000001.a.json", content)


@pytest.mark.parametrize("scheme", ["file:", "file://"])
@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_written_whole_and_nothing_beside_it(
    tmp_path: Path, files: LogFiles, scheme: str, durable: bool
) -> None:
    """The folder of staged commits is made by the first of them; names in the path may be odd."""
    log = tmp_path / "a b%20é#" / "_delta_log"
    files.write(staged(log, "é\n", scheme), durable=durable)
    assert [path.name for path in (log / STAGED).iterdir()] == ["00000000000000000001.a.json"]
    assert (log / STAGED / "00000000000000000001.a.json").read_bytes() == "é\n".encode()


def test_writing_it_again_changes_nothing(tmp_path: Path, files: LogFiles) -> None:
    for _ in range(2):
        files.write(staged(tmp_path))
    assert [path.read_text() for path in (tmp_path / STAGED).iterdir()] == ["{}\n"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, files: LogFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(staged(tmp_path))
    assert not list((tmp_path / STAGED).iterdir())


def test_a_staged_file_is_synced_before_it_is_proposed(
    tmp_path: Path, files: LogFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I5: its bytes, its name, and the folder's name, before the server hears of it. An inline one
    need not be."""
    synced: list[Any] = []
    fsync = os.fsync

    def recording(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    files.write_later(staged(tmp_path)).result()
    assert synced == []
    files.write(staged(tmp_path))
    assert synced[0].name.endswith(".tmp")
    assert synced[1:] == [tmp_path / STAGED, tmp_path]
