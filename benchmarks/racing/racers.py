"""What each process of a race does: it proposes commits, each until its outcome is final."""

from __future__ import annotations

import hashlib
import random
import threading
import time
import uuid
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from benchmarks.racing.table import RaceTable, append

SEND_AGAIN = {
    *("CommitStateUnknown", "InternalError", "NoAnswer"),  # it may have been ratified
    *("Throttled", "BacklogFull", "ConcurrentChange", "StorageFault"),  # it was not, and still may be
}


class Proposer:
    """Sends proposals for one table.

    ``results`` counts responses by error type ("ok": none); ``ms`` has the time of every answered
    request.
    """

    def __init__(self, http: httpx.Client, table_id: str) -> None:
        self._http = http
        self._route = f"/v1/tables/{table_id}/commits"
        self.results: Counter[str] = Counter()
        self.ms: list[float] = []

    def propose(self, body: dict[str, Any], *, deadline: float = 120) -> dict[str, Any]:
        """The final response to ``body``: a 200's JSON, or an ``error``. After unknown outcomes and
        throttles exactly the same is sent again (I3)."""
        until = time.monotonic() + deadline
        while True:
            answer = self._once(body)
            kind = answer.get("error", {}).get("type", "ok")
            self.results[kind] += 1
            if kind not in SEND_AGAIN:
                return answer
            if time.monotonic() > until:
                raise TimeoutError(f"no final answer in {deadline:.0f} s, the last was {answer}")
            time.sleep(random.uniform(0, answer["error"].get("retry_after_ms", 200) / 1000))

    def _once(self, body: dict[str, Any]) -> dict[str, Any]:
        started = time.perf_counter()
        try:
            response = self._http.post(self._route, json=body)
            self.ms.append((time.perf_counter() - started) * 1000)
            body = response.json()
            if response.is_error and "type" not in body.get("error", {}):
                return {"error": {"type": "NoAnswer", "message": f"the gateway: {response.text[:200]}"}}
            return body
        except (httpx.HTTPError, ValueError) as fault:
            return {"error": {"type": "NoAnswer", "message": str(fault)}}


@dataclass
class Report:
    """What one racer saw. ``acknowledged``: versions with the digest of the bytes it believes are
    that version."""

    acknowledged: list[tuple[int, str]] = field(default_factory=list)
    results: Counter[str] = field(default_factory=Counter)
    ms: list[float] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.acknowledged += other.acknowledged
        self.results += other.results
        self.ms += other.ms


def digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def named(table: RaceTable, commits: int) -> Report:
    """Propose the version after the latest one known; on a conflict take ``latest`` from the answer
    and rebase.

    Every other commit is staged as a file, the rest travel inline.
    """
    report = Report()
    with table.http() as http:
        proposer = Proposer(http, table.table_id)
        head = http.get(f"/v1/tables/{table.table_id}/head").json()
        latest = head["latest"]
        last = head["timestamp"]
        for number in range(commits):
            txn = str(uuid.uuid4())
            while True:
                version = latest + 1
                ict = max(_now(), last + 1)
                text = append(txn, ict, latest, row_tracking=False)
                body = _staged(table, version, text) if number % 2 else _inline(version, text)
                answer = proposer.propose(body)
                if "error" not in answer:
                    commit = answer["commit"]
                    report.acknowledged.append((commit["version"], digest(text.encode())))
                    latest = answer["latest"]
                    last = max(last, commit["timestamp"])
                    break
                latest, last = _rebase(answer["error"], last)
        report.results = proposer.results
        report.ms = proposer.ms
    return report


def tickets(table: RaceTable, commits: int, appenders: int = 1) -> Report:
    """Blind appends that ask for the next version, from ``appenders`` threads of this process."""
    report = Report()
    lock = threading.Lock()

    def run() -> None:
        own = _append(table, commits)
        with lock:
            report.add(own)

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
            text = append(str(uuid.uuid4()), _now(), base, row_tracking=True)
            answer = proposer.propose({"version": None, "base": base, "inline": {"content": text}})
            if "error" in answer:
                raise RuntimeError(f"a blind append was refused: {answer['error']}")
            commit = answer["commit"]
            report.acknowledged.append((commit["version"], digest(commit["content"].encode())))
            base = answer["latest"]
        report.results = proposer.results
        report.ms = proposer.ms
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
