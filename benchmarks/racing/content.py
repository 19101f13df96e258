"""Commits as a writer makes them: commitInfo and one added file of ten rows."""

from __future__ import annotations

import json
from typing import Any

ROWS = 10
SCHEMA = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}


def lines(*actions: dict[str, Any]) -> str:
    return "".join(json.dumps(action, separators=(",", ":")) + "\n" for action in actions)


def version_zero(ict: int, features: list[str], properties: dict[str, str], *, row_tracking: bool) -> str:
    """The commit that creates the table."""
    wanted = {"catalogManaged", "inCommitTimestamp", *features}
    if row_tracking:
        wanted |= {"rowTracking", "domainMetadata"}
        properties = {**properties, "delta.enableRowTracking": "true"}
    readers = {"catalogManaged", "v2Checkpoint", "deletionVectors", "columnMapping", "vacuumProtocolCheck"}
    return lines(
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
                "schemaString": json.dumps(SCHEMA),
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
    return lines(*actions)
