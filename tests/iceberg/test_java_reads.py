"""I9: Java's own reader, the strictest there is, of files that bad writers made the catalog
write."""

from __future__ import annotations

import copy
import json
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.iceberg.client import Iceberg, add_snapshot, set_ref
from tests.support.iceberg.writers import Writers
from tests.support.repository import ROOT

READER = ROOT / "tests/support/iceberg/java_reads.py"
HISTORIES = 60
COMMITS = 12


def broken() -> dict[str, Any]:
    """Files that Java does not read, by what is wrong: were they read, the reader would be no
    judge."""
    client = Iceberg()
    client.create()
    said = client.commit(add_snapshot(1), set_ref(1)).json["metadata"]
    day = {"source-id": 2, "field-id": 1000, "name": "d", "transform": "day"}
    wrong: dict[str, dict[str, Any]] = {
        "sequence": {"last-sequence-number": 0},
        "log": {"snapshot-log": [{"timestamp-ms": said["last-updated-ms"] + 60_001, "snapshot-id": 1}]},
        "type": {"partition-specs": [{"spec-id": 0, "fields": [day]}]},
        "name": {"partition-specs": [{"spec-id": 0, "fields": [{**day, "name": "id", "transform": "bucket[4]"}]}]},
        "tag": {"refs": {**said["refs"], "t": {"snapshot-id": 1, "type": "tag", "min-snapshots-to-keep": 1}}},
        "ref": {"refs": {**said["refs"], "t": {"snapshot-id": 2, "type": "tag"}}},
    }
    return {f"broken-{name}.json": {**copy.deepcopy(said), **change} for name, change in wrong.items()}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_i9_java_reads_every_file_that_careless_writers_made(python: Path, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    answers = tmp_path / "answers.json"
    folder.mkdir()
    files = broken()
    for seed in range(HISTORIES):
        writers = Writers(Random(seed))
        for _ in range(COMMITS):
            writers.step()
        files |= {f"{seed:03d}-{position:02d}.json": said for position, said in enumerate(writers.files())}
    for name, said in files.items():
        (folder / name).write_text(json.dumps(said))
    done = subprocess.run(
        [python, READER, folder, answers], capture_output=True, text=True, check=False, timeout=600, cwd=tmp_path
    )
    if "UNRESOLVED DEPENDENCIES" in done.stdout + done.stderr:
        pytest.skip("NOT TESTED: Iceberg's runtime for Spark cannot be fetched")
    assert done.returncode == 0, done.stderr[-3000:]
    unreadable = {name: said for name, said in json.loads(answers.read_text()).items() if said is not None}
    assert set(unreadable) == set(broken()), unreadable
    assert len(files) > HISTORIES * 4, "most histories got somewhere"
