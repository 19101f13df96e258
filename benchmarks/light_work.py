"""Light work on Delta tables: time and memory of a checkpoint by the number of files.

    .venv/bin/python -m benchmarks.light_work [FILES ...]

For each number of files a log is written into a temporary folder: commits of up to 100,000 files,
partitioned, with statistics of eight columns. Then, each in a process of its own, whose peak memory
counts: the first checkpoint, from commits only; ten commits later the next one, from the first; and
reading all files.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnstile.adapters.files import FileStorage
from turnstile.store.core.names import published_path

COMMIT_FILES = 100_000
LATER = 10
COLUMNS = [f"column_{number}" for number in range(8)]


class Ids:
    """Fresh ids."""

    def uuid(self) -> str:
        return str(uuid.uuid4())

    def obj_id(self) -> str:
        return self.uuid()


def add_line(number: int) -> bytes:
    """An ``add`` action as an engine writes one."""
    stats = {
        "numRecords": 1000 + number % 7,
        "minValues": dict.fromkeys(COLUMNS, number),
        "maxValues": dict.fromkeys(COLUMNS, number + 1000),
        "nullCount": dict.fromkeys(COLUMNS, 0),
    }
    day = f"2026-{number % 12 + 1:02d}-{number % 28 + 1:02d}"
    action = {
        "path": f"day={day}/part-{number:09d}-{uuid.UUID(int=number)}.c000.snappy.parquet",
        "partitionValues": {"day": day},
        "size": 100_000_000 + number,
        "modificationTime": 1_770_000_000_000 + number,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }
    return json.dumps({"add": action}, separators=(",", ":")).encode() + b"\n"


def first_lines() -> Iterator[bytes]:
    """Protocol and metadata of the table."""
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in COLUMNS]
    fields.append({"name": "day", "type": "date", "nullable": True, "metadata": {}})
    yield json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}).encode() + b"\n"
    metadata = {
        "id": str(uuid.UUID(int=1)),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {},
    }
    yield json.dumps({"metaData": metadata}).encode() + b"\n"


def write_log(folder: Path, files: int) -> int:
    """Writes the commits; returns the last version."""
    storage = FileStorage(str(folder))
    version = -1
    for start in range(0, files, COMMIT_FILES):
        version += 1
        lines = [*first_lines()] if start == 0 else []
        lines += [add_line(number) for number in range(start, min(start + COMMIT_FILES, files))]
        storage.put_if_absent(published_path(version), b"".join(lines))
    return version


def write_later(folder: Path, version: int, files: int) -> int:
    """Ten commits that each replace a hundredth of the files, 1000 at most; returns the last
    version."""
    storage = FileStorage(str(folder))
    changed = min(1000, files // 100)
    for later in range(LATER):
        lines = []
        for number in range(later * changed, (later + 1) * changed):
            path = json.loads(add_line(number))["add"]["path"]
            removed = {"path": path, "deletionTimestamp": int(time.time() * 1000), "dataChange": True}
            lines.append(json.dumps({"remove": removed}).encode() + b"\n")
            lines.append(add_line(files + number))
        version += 1
        storage.put_if_absent(published_path(version), b"".join(lines))
    return version


def measure(work: str, folder: str, version: str) -> dict[str, Any]:
    """Does ``work`` in this process."""
    from turnstile.maintenance.checkpoint import CheckpointWriter, write_pointer
    from turnstile.maintenance.core.upkeep import upkeep_of
    from turnstile.maintenance.state import open_state

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.monotonic()
    storage = FileStorage(folder)
    state = open_state(storage, int(version))
    if work == "read":
        count = sum(1 for _ in state.files())
    else:
        written = CheckpointWriter(storage, state, upkeep_of(state.protocol, state.metadata), Ids()).write(
            int(time.time() * 1000)
        )
        assert written is not None
        assert write_pointer(storage, written)
        count = written.adds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"adds": count, "seconds": time.monotonic() - began, "peak_mb": peak / 1024, "start_mb": before / 1024}


def measured(work: str, folder: Path, version: int) -> dict[str, Any]:
    """Does ``work`` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.light_work", "--measure", work, str(folder), str(version)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--measure"]:
        print(json.dumps(measure(*arguments[1:])))
        return
    print("| files | work | seconds | peak memory, MB |\n| ---: | --- | ---: | ---: |")
    for files in [int(text) for text in arguments] or [10_000, 100_000, 1_000_000]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            version = write_log(folder, files)
            rows = [("checkpoint from commits", measured("checkpoint", folder, version))]
            version = write_later(folder, version, files)
            rows.append(("all files, from checkpoint and commits", measured("read", folder, version)))
            rows.append(("checkpoint from checkpoint and commits", measured("checkpoint", folder, version)))
            for work, figures in rows:
                assert figures["adds"] == files, figures
                print(f"| {files:,} | {work} | {figures['seconds']:.1f} | {figures['peak_mb']:.0f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
