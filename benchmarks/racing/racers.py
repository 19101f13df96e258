"""What each process of a race does."""

from __future__ import annotations

import hashlib
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.racing import content
from benchmarks.racing.client import Proposer
from benchmarks.racing.table import RaceTable


@dataclass
class Report:
    """What one racer was told: version -> digest of the bytes it believes are that version."""

    acknowledged: list[tuple[int, str]] = field(default_factory=list)
    told: Counter[str] = field(default_factory=Counter)
    ms: list[float] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.acknowledged += other.acknowledged
        self.told += other.told
        self.ms += other.ms


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def named(table: RaceTable, commits: int) -> Report:
    """Propose the version after the latest one known; on a conflict take ``latest`` from the answer and rebase.

    Every other commit is staged as a file, the rest travel inline.
    """
    report = Report()
    with table.http() as http:
        proposer = Proposer(http, table.table_id)
        head = http.get(f"/v1/tables/{table.table_id}/head").json()
        latest, last = head["latest"], head["timestamp"]
        for number in range(commits):
            txn = str(uuid.uuid4())
            while True:
                version, ict = latest + 1, max(_now(), last + 1)
                text = content.append(txn, ict, latest, row_tracking=False)
                body = _staged(table, version, text) if number % 2 else _inline(version, text)
                answer = proposer.propose(body)
                if "error" not in answer:
                    commit = answer["commit"]
                    report.acknowledged.append((commit["version"], digest(text.encode())))
                    latest, last = answer["latest"], max(last, commit["timestamp"])
                    break
                latest, last = _rebase(answer["error"], last)
        report.told, report.ms = proposer.told, proposer.ms
    return report


def tickets(table: RaceTable, commits: int, appenders: int = 1) -> Report:
    """Blind appends that ask for the next version, from ``appenders`` threads of this process."""
    report, lock = Report(), threading.Lock()

    def run() -> None:
        mine = _append(table, commits)
        with lock:
            report.add(mine)

    threads = [threading.Thread(target=run) for _ in range(appenders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return report


def _append(table: RaceTable, commits: int) -> Report:
    report = Report()
    with table.http() as http:
        proposer = Proposer(http, table.table_id)
        base = http.get(f"/v1/tables/{table.table_id}/head").json()["latest"]
        for _ in range(commits):
            text = content.append(str(uuid.uuid4()), _now(), base, row_tracking=True)
            answer = proposer.propose({"version": None, "base": base, "inline": {"content": text}})
            if "error" in answer:
                raise RuntimeError(f"a blind append was refused: {answer['error']}")
            commit = answer["commit"]
            report.acknowledged.append((commit["version"], digest(commit["content"].encode())))
            base = answer["latest"]
        report.told, report.ms = proposer.told, proposer.ms
    return report


def _rebase(error: dict[str, Any], last: int) -> tuple[int, int]:
    """Latest version and timestamp after a refusal that allows another version."""
    if error["type"] == "CommitVersionConflict":
        return error["latest"], max([last, *(winner["timestamp"] for winner in error["winners"])])
    if error["type"] == "TimestampNotIncreasing":
        return error["latest"], error["last"]
    raise RuntimeError(f"a proposal was refused: {error}")


def _inline(version: int, text: str) -> dict[str, Any]:
    return {"version": version, "inline": {"content": text}}


def _staged(table: RaceTable, version: int, text: str) -> dict[str, Any]:
    name = f"{version:020d}.{uuid.uuid4()}.json"
    folder = Path(table.log) / "_staged_commits"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    return {"version": version, "staged": {"name": name, "size": len(text), "modified": _now()}}


def _now() -> int:
    return int(time.time() * 1000)
