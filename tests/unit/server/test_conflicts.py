"""Conflicts that the processes of a server keep: bounded, of all processes, newest first."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

from turnstile_server.telemetry.conflicts import FILE_BYTES_MAX, ConflictLog, recent

COMMITS = "POST /v1/tables/{table_id}/commits"


def lost(table_id: str, proposal: str) -> dict[str, Any]:
    conflicts = [{"table_id": table_id, "because": "version", "latest": 7, "winners": []}]
    return {"principal": "etl", "client": "spark", "proposal": proposal, "conflicts": conflicts, "reason": "left out"}


def test_the_newest_come_first_and_those_of_a_table_can_be_asked_for(tmp_path: Path) -> None:
    clock_ms = count(1)
    kept = ConflictLog(tmp_path, lambda: next(clock_ms))
    for number in range(4):
        kept.add(COMMITS, lost("ab"[number % 2], f"p{number}"))
    assert [entry["proposal"] for entry in recent(tmp_path, 3)] == ["p3", "p2", "p1"]
    assert [entry["proposal"] for entry in recent(tmp_path, 9, "a")] == ["p2", "p0"]
    assert recent(tmp_path, 1) == [
        {"at": 4, "operation": COMMITS} | {name: value for name, value in lost("b", "p3").items() if name != "reason"}
    ]


def test_a_process_keeps_no_more_than_two_files(tmp_path: Path) -> None:
    clock_ms = count(1)
    kept = ConflictLog(tmp_path, lambda: next(clock_ms))
    line = len(json.dumps({"at": 1, "operation": COMMITS, **lost("a", "p" * 1000)}))
    written = 3 * FILE_BYTES_MAX // line
    for number in range(written):
        kept.add(COMMITS, lost("a", f"{number:01000}"))
    files = list(tmp_path.iterdir())
    assert len(files) == 2 and all(file.stat().st_size <= FILE_BYTES_MAX for file in files)
    entries = recent(tmp_path, written)
    assert [int(entry["proposal"]) for entry in entries] == list(range(written - 1, written - 1 - len(entries), -1))


def test_what_a_killed_process_wrote_half_is_left_out(tmp_path: Path) -> None:
    ConflictLog(tmp_path).add(COMMITS, lost("a", "whole"))
    (tmp_path / "1.jsonl").write_text('{"at": 5, "conf')
    assert [entry["proposal"] for entry in recent(tmp_path, 9)] == ["whole"]


def test_a_disk_that_takes_nothing_does_no_harm(tmp_path: Path) -> None:
    kept = ConflictLog(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    kept.add(COMMITS, lost("a", "p"))
    assert recent(tmp_path / "gone", 9) == []
