"""An engine's part around its requests, in a few lines: data files, version 0, staged commits.

The clients under test do the rest themselves. Data files are real Parquet, written by DuckDB.
"""

from __future__ import annotations

import itertools
import json
import os
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import duckdb
import httpx

from tests.support.fakes import delta
from tests.support.unity import COLUMNS, FIXED, api_protocol, metadata, protocol

if TYPE_CHECKING:
    from turnstile_server import Server

B = "/api/2.1/unity-catalog"
SCHEMA = f"{B}/delta/v1/catalogs/main/schemas/default"
_numbers = itertools.count(1)
_stamps = itertools.count()


def fresh(prefix: str = "t") -> str:
    """A unique table name."""
    return f"{prefix}{os.getpid()}_{next(_numbers)}"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Files:
    """The files of one table; its location is on this machine."""

    def __init__(self, location: str) -> None:
        self.root = Path(unquote(urlsplit(location).path))
        self.log = self.root / "_delta_log"
        self.staged = self.log / "_staged_commits"

    def put(self, path: str, content: bytes) -> int:
        """Write a new file; its modification time in ms. Raises FileExistsError, as a conditional
        write would."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as out:
            out.write(content)
        return int(file.stat().st_mtime * 1000)

    def parquet(self, ids: range) -> dict[str, Any]:
        """A data file with these ids; its ``add`` action."""
        self.root.mkdir(parents=True, exist_ok=True)
        name = f"{uuid.uuid4()}.parquet"
        with duckdb.connect() as db:
            db.execute(f"COPY (SELECT range AS id FROM range({ids.start}, {ids.stop})) TO '{self.root / name}'")
        return delta.add(name, len(ids), size=(self.root / name).stat().st_size)

    def published(self) -> list[int]:
        """Versions that are in the log."""
        return sorted(int(file.stem) for file in self.log.glob("*.json"))


class Engine:
    """A table made through the Unity API over HTTP, and ways to change it."""

    def __init__(self, server: Server, name: str | None = None) -> None:
        self.http: httpx.Client = server.client()
        self.name = name or fresh()
        self.path = f"{SCHEMA}/tables/{self.name}"

    def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        answer = self.http.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return dict(answer.json())

    def create(self) -> Engine:
        staged = self.ask("POST", f"{SCHEMA}/staging-tables", {"name": self.name})
        self.id = staged["table-id"]
        self.location = staged["location"]
        self.files = Files(self.location)
        created = now_ms()
        config = {"io.unitycatalog.tableId": self.id}
        info = delta.info(str(uuid.uuid4()), created, "CREATE TABLE")
        self.files.put(f"_delta_log/{0:020d}.json", delta.lines(info, protocol(), metadata(**config)))
        body = {
            "name": self.name,
            "location": self.location,
            "table-type": "MANAGED",
            "columns": COLUMNS,
            "partition-columns": [],
            "protocol": api_protocol(),
            "properties": {**FIXED, **config},
            "last-commit-timestamp-ms": created,
        }
        self.ask("POST", f"{SCHEMA}/tables", body)
        return self

    def load(self) -> dict[str, Any]:
        return self.ask("GET", self.path)

    @property
    def latest(self) -> int:
        return int(self.load()["latest-table-version"])

    def staged(self, version: int, ids: range, **more: Any) -> dict[str, Any]:
        """Write a staged append; the commit as a request names it."""
        ict = max(now_ms(), self.load()["metadata"]["last-commit-timestamp-ms"] + 1)
        name = f"{version:020d}.{uuid.uuid4()}.json"
        content = delta.lines(delta.info(str(uuid.uuid4()), ict, **more), self.files.parquet(ids))
        modified = self.files.put(f"_delta_log/_staged_commits/{name}", content)
        return {
            "version": version,
            "timestamp": ict,
            "file-name": name,
            "file-size": len(content),
            "file-modification-timestamp": modified,
        }

    def propose(self, commit: dict[str, Any]) -> httpx.Response:
        required = [{"type": "assert-table-uuid", "uuid": self.id}]
        body = {"requirements": required, "updates": [{"action": "add-commit", "commit": commit}]}
        return self.http.post(self.path, json=body)

    def append(self, *batches: range) -> Engine:
        """Ratifies one staged commit for each batch of ids, without publishing."""
        for ids in batches:
            answer = self.propose(self.staged(self.latest + 1, ids))
            assert answer.is_success, answer.text
        return self

    def append_inline(self, ids: range) -> Engine:
        """Ratifies an append whose content travels in the request (``/v1``)."""
        version = self.latest + 1
        content = delta.lines(delta.info(str(uuid.uuid4()), now_ms()), self.files.parquet(ids))
        body = {"version": version, "inline": {"content": content.decode()}}
        self.ask("POST", f"/v1/tables/{self.id}/commits", body)
        return self

    def ids(self) -> list[int]:
        """The content of the table by its log, read without any client: the ids in the files it
        names."""
        held: dict[str, Any] = {}
        names = {commit["version"]: f"_staged_commits/{commit['file-name']}" for commit in self.load()["commits"]}
        for version in range(self.latest + 1):
            published = self.files.log / f"{version:020d}.json"
            text = published if published.exists() else self.files.log / names[version]
            for line in text.read_text().splitlines():
                action = json.loads(line)
                if "add" in action:
                    held[action["add"]["path"]] = action["add"]
                if "remove" in action:
                    held.pop(action["remove"]["path"], None)
        with duckdb.connect() as db:
            files = [str(self.files.root / unquote(path)) for path in held]
            found = db.execute("SELECT id FROM read_parquet(?)", [files]).fetchall() if files else []
        return sorted(row[0] for row in found)


READER_TOKEN = "another token for tests"
