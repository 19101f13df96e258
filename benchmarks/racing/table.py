"""A catalog-managed table on a running server, and commits to it: commitInfo and one added file of
ten rows."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import httpx

ROWS = 10
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


def _lines(*actions: dict[str, Any]) -> str:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)


def version_zero(
    ict: int, features: list[str], properties: dict[str, str], *, row_tracking: bool, schema: dict[str, Any] = SCHEMA
) -> str:
    """The commit that creates the table."""
    wanted = {"catalogManaged", "inCommitTimestamp", *features}
    if row_tracking:
        wanted |= {"rowTracking", "domainMetadata"}
        names = {
            f"delta.rowTracking.materialized{what}ColumnName": f"_{what}" for what in ("RowId", "RowCommitVersion")
        }
        properties = {**properties, "delta.enableRowTracking": "true", **names}
    readers = {"catalogManaged", "v2Checkpoint", "deletionVectors", "columnMapping", "vacuumProtocolCheck"}
    return _lines(
        {"commitInfo": {"inCommitTimestamp": ict, "timestamp": ict, "operation": "CREATE TABLE", "txnId": "create"}},
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": sorted(wanted & readers),
                "writerFeatures": sorted(wanted),
            }
        },
        {
            "metaData": {
                "id": "5f0c6d5e-7d2b-4b0a-9f43-2f1f6f1b8a10",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {**properties, "delta.enableInCommitTimestamps": "true"},
                "createdTime": ict,
            }
        },
    )


def append(txn: str, ict: int, read_version: int, *, row_tracking: bool) -> str:
    """A blind append."""
    info = {"inCommitTimestamp": ict, "timestamp": ict, "operation": "WRITE", "txnId": txn, "readVersion": read_version}
    add = {
        "path": f"{txn}.parquet",
        "partitionValues": {},
        "size": 1000,
        "modificationTime": ict,
        "dataChange": True,
        "stats": json.dumps({"numRecords": ROWS}),
    }
    actions: list[dict[str, Any]] = [{"commitInfo": info}, {"add": add}]
    if row_tracking:
        mark = json.dumps({"rowIdHighWaterMark": -1})
        actions.append({"domainMetadata": {"domain": "delta.rowTracking", "configuration": mark, "removed": False}})
    return _lines(*actions)


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


def create(
    url: str,
    token: str,
    name: str,
    *,
    row_tracking: bool = False,
    schema: dict[str, Any] = SCHEMA,
    namespace: str = "default",
) -> RaceTable:
    """Staging table, version 0, registration."""
    tables = RaceTable(url, token, "", "")
    with tables.http() as http:
        route = f"/v1/catalogs/main/namespaces/{namespace}"
        staged = _ok(http.post(f"{route}/staging-tables", json={"name": name}))
        log = Path(unquote(urlparse(staged["location"]).path)) / "_delta_log"
        log.mkdir(parents=True, exist_ok=True)
        first = version_zero(
            int(time.time() * 1000),
            staged["required_features"],
            staged["required_properties"],
            row_tracking=row_tracking,
            schema=schema,
        )
        (log / f"{0:020d}.json").write_text(first)
        _ok(http.post(f"{route}/tables", json={"name": name, "table_id": staged["table_id"]}))
    return RaceTable(url, token, staged["table_id"], str(log))


def _ok(response: httpx.Response) -> dict:
    if response.is_error:
        raise RuntimeError(f"{response.request.url} answered {response.status_code}: {response.text}")
    return response.json()
