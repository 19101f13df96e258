"""Transactions by the HTTP API alone: a cut, reads at it, and a group of commits.

This is a Delta client of a few lines. A table's rows are one to a file, and their values are the
bounds in the file's statistics, so that what a reader of the log sees is a row; there are no data
files, which the server never opens.
"""

from __future__ import annotations

import itertools
import json
import time
import uuid
from pathlib import Path
from typing import Any

import httpx

from benchmarks.hermitage.cases import Insert, Read, Row, Statement, Update
from benchmarks.hermitage.running import Refused
from benchmarks.racing.table import RaceTable, create

SCHEMA = {
    "type": "struct",
    "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "value")],
}
Files = dict[str, Row]
"""The rows of a table by the path of their file."""


def _add(path: str, row: Row, now_ms: int) -> dict[str, Any]:
    bounds = {"id": row.id, "value": row.value}
    stats = {"numRecords": 1, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0, "value": 0}}
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": 1000,
            "modificationTime": now_ms,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
    }


def _remove(path: str, now_ms: int) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": now_ms, "dataChange": True}}


def _content(before: Files, after: Files, later_than_ms: int, base: int) -> str:
    """The commit that turns one state of a table into another."""
    now_ms = max(int(time.time() * 1000), later_than_ms + 1)
    info = {"inCommitTimestamp": now_ms, "timestamp": now_ms, "operation": "TRANSACTION", "readVersion": base}
    actions: list[dict[str, Any]] = [{"commitInfo": {**info, "txnId": str(uuid.uuid4())}}]
    actions += [_remove(path, now_ms) for path in before if path not in after]
    actions += [_add(path, row, now_ms) for path, row in after.items() if path not in before]
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)


def _replay(contents: list[str]) -> Files:
    """The rows after these commits, from version 0 on."""
    files: Files = {}
    for line in itertools.chain.from_iterable(content.splitlines() for content in contents):
        action = json.loads(line)
        if "remove" in action:
            del files[action["remove"]["path"]]
        elif "add" in action:
            bounds = json.loads(action["add"]["stats"])["minValues"]
            files[action["add"]["path"]] = Row(bounds["id"], bounds["value"])
    return files


class HttpSystem:
    """Groups on the server at ``url``, whose tables are files of this machine. ``isolation``:
    "serializable" names what was read and not written in the group (``reads``), "snapshot" does
    not. A system is closed after use."""

    def __init__(self, url: str, token: str, isolation: str) -> None:
        self.url = url
        self.token = token
        self.isolation = isolation
        self.http = RaceTable(url, token, "", "").http()
        self.logs: dict[str, str] = {}

    def close(self) -> None:
        self.http.close()

    def create(self, rows: list[Row]) -> str:
        table = create(self.url, self.token, f"hermitage_{uuid.uuid4().hex[:12]}", schema=SCHEMA)
        self.logs[table.table_id] = table.log
        content = _content({}, {f"{uuid.uuid4()}.parquet": row for row in rows}, self._cut([table.table_id])[0][1], 0)
        body = {"version": 1, "inline": {"content": content}}
        _ok(self.http.post(f"/v1/tables/{table.table_id}/commits", json=body))
        return table.table_id

    def begin(self, tables: list[str]) -> HttpTransaction:
        return HttpTransaction(self, dict(zip(tables, self._cut(tables), strict=True)))

    def rows(self, table: str) -> list[Row]:
        return sorted(self.files(table, self._cut([table])[0][0]).values())

    def files(self, table: str, version: int) -> Files:
        """The table at a version: what the server lists, and what is published."""
        query = {"end": version, "content": "true"}
        listed = _ok(self.http.get(f"/v1/tables/{table}/commits", params=query))["commits"]
        contents = {commit["version"]: commit["content"] for commit in listed if "content" in commit}
        log = Path(self.logs[table])
        return _replay(
            [contents[v] if v in contents else (log / f"{v:020d}.json").read_text() for v in range(version + 1)]
        )

    def _cut(self, tables: list[str]) -> list[tuple[int, int]]:
        """The versions of tables at one moment, with their in-commit timestamps (ms)."""
        entries = _ok(self.http.post("/v1/snapshots", json={"tables": tables}))["tables"]
        return [(entry["version"], entry["timestamp"]) for entry in entries]


class HttpTransaction:
    """What a transaction has read and is to write. ``cut``: version and in-commit timestamp (ms) of
    its tables."""

    def __init__(self, system: HttpSystem, cut: dict[str, tuple[int, int]]) -> None:
        self._system = system
        self._cut = cut
        self._before: dict[str, Files] = {}
        self._after: dict[str, Files] = {}

    def do(self, statement: Statement, table: str) -> list[Row]:
        if table not in self._before:
            self._before[table] = self._system.files(table, self._cut[table][0])
            self._after[table] = dict(self._before[table])
        files = self._after[table]
        if isinstance(statement, Read):
            return sorted(row for row in files.values() if statement.where.holds(row))
        if isinstance(statement, Insert):
            files[f"{uuid.uuid4()}.parquet"] = statement.row
        elif isinstance(statement, Update):
            for path in [path for path, row in files.items() if statement.where.holds(row)]:
                row = files.pop(path)
                files[f"{uuid.uuid4()}.parquet"] = Row(row.id, statement.value)
        return []

    def commit(self) -> None:
        written = [table for table in self._before if self._before[table] != self._after[table]]
        if not written:
            return
        commits = []
        for table in written:
            base, timestamp_ms = self._cut[table]
            content = _content(self._before[table], self._after[table], timestamp_ms, base)
            commits.append({"table_id": table, "version": base + 1, "base": base, "inline": {"content": content}})
        reads = [{"table_id": t, "version": self._cut[t][0]} for t in self._before if t not in written]
        body = {"id": str(uuid.uuid4()), "commits": commits}
        if self._system.isolation == "serializable" and reads:
            body["reads"] = reads
        response = self._system.http.post("/v1/transactions", json=body)
        if response.status_code == 409 and response.json()["error"]["type"] == "TransactionConflict":
            raise Refused(response.text)
        _ok(response)

    def abort(self) -> None:
        """Nothing was sent: nothing is to be taken back."""


def _ok(response: httpx.Response) -> Any:
    if response.is_error:
        raise RuntimeError(f"{response.request.url} answered {response.status_code}: {response.text}")
    return response.json()
