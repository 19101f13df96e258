"""A catalog-managed table on the embedded stack, made as any client makes one."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

import httpx

from benchmarks.racing import content


@dataclass(frozen=True)
class RaceTable:
    """Where the table is; its log is on this machine (``file:``)."""

    url: str
    token: str
    table_id: str
    log: str

    def published(self, version: int) -> bytes:
        """Bytes of a published version."""
        return (Path(self.log) / f"{version:020d}.json").read_bytes()

    def http(self) -> httpx.Client:
        """A client of the stack; its read timeout is longer than the gateway's."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=httpx.Timeout(35, connect=5))


def create(url: str, token: str, name: str, *, row_tracking: bool = False) -> RaceTable:
    """Staging table, version 0, registration."""
    tables = RaceTable(url, token, "", "")
    with tables.http() as http:
        route = "/v1/catalogs/main/namespaces/default"
        staged = _ok(http.post(f"{route}/staging-tables", json={"name": name}))
        log = Path(unquote(urlparse(staged["location"]).path)) / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        first = content.version_zero(
            int(time.time() * 1000),
            staged["required_features"],
            staged["required_properties"],
            row_tracking=row_tracking,
        )
        (log / f"{0:020d}.json").write_text(first)
        _ok(http.post(f"{route}/tables", json={"name": name, "table_id": staged["table_id"]}))
    return RaceTable(url, token, staged["table_id"], str(log))


def _ok(answer: httpx.Response) -> dict:
    if answer.is_error:
        raise RuntimeError(f"{answer.request.url} answered {answer.status_code}: {answer.text}")
    return answer.json()
