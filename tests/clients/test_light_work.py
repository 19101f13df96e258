"""A server keeps logs short by itself: checkpoints of what engines committed, which other engines
read (I15)."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.clients import duck
from tests.support.clients.engine import Engine

if TYPE_CHECKING:
    from turnstile_server import Server


def wait_for(folder: Path, pattern: str) -> None:
    deadline = time.monotonic() + 120
    while not list(folder.glob(pattern)):
        assert time.monotonic() < deadline, f"{pattern} was not written; there is {sorted(folder.iterdir())}"
        time.sleep(0.1)


def test_i15_duckdb_reads_a_servers_checkpoint_without_the_commits_before_it(server: Server, tmp_path: Path) -> None:
    table = Engine(server).create()
    for number in range(10):
        table.append_inline(range(10 * number, 10 * number + 10))
    for pattern in (f"{10:020d}.checkpoint.*.json", "_sidecars/*.parquet", "_last_checkpoint", f"{10:020d}.crc"):
        wait_for(table.files.log, pattern)
    pointer = json.loads((table.files.log / "_last_checkpoint").read_text())
    assert (pointer["version"], pointer["numOfAddFiles"]) == (10, 10)
    for version in range(10):
        (table.files.log / f"{version:020d}.json").unlink()
    table.append_inline(range(100, 110))
    db = duck.connect(tmp_path)
    duck.attach(db, server)
    assert duck.ids(db, table.name) == list(range(110))
    metrics = server.client().get("/metrics").text
    assert 'turnstile_light_work_files_total{kind="checkpoint"}' in metrics
