"""Delta commits as tests write them."""

from __future__ import annotations

import json
from typing import Any

FEATURES = ["catalogManaged"]
WRITER_FEATURES = [*FEATURES, "inCommitTimestamp", "appendOnly", "invariants"]
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]})


def protocol(*extra: str) -> dict[str, Any]:
    return {
        "protocol": {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": FEATURES,
            "writerFeatures": [*WRITER_FEATURES, *extra],
        }
    }


def metadata(**configuration: str) -> dict[str, Any]:
    return {
        "metaData": {
            "id": "m",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": SCHEMA,
            "partitionColumns": [],
            "configuration": {"delta.enableInCommitTimestamps": "true", **configuration},
            "createdTime": 1,
        }
    }


def info(txn: str, ict: int, operation: str = "WRITE", **more: Any) -> dict[str, Any]:
    return {"commitInfo": {"inCommitTimestamp": ict, "timestamp": ict, "operation": operation, "txnId": txn, **more}}


def add(path: str, rows: int = 1, **more: Any) -> dict[str, Any]:
    stats = json.dumps({"numRecords": rows})
    return {
        "add": {
            "path": path,
            "partitionValues": {},
            "size": 10,
            "modificationTime": 1,
            "dataChange": True,
            "stats": stats,
            **more,
        }
    }


def remove(path: str) -> dict[str, Any]:
    return {"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}}


def lines(*actions: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(action, separators=(",", ":")).encode() + b"\n" for action in actions)


def append(txn: str, ict: int, *, rows: int = 1, base: int | None = None, app: str | None = None) -> bytes:
    """A blind append of one file."""
    more = {} if base is None else {"readVersion": base}
    actions = [info(txn, ict, **more)]
    if app:
        actions.append({"txn": {"appId": app, "version": 1}})
    return lines(*actions, add(f"{txn}.parquet", rows))


def version_zero(txn: str, ict: int, *features: str, **configuration: str) -> bytes:
    return lines(info(txn, ict, "CREATE TABLE"), protocol(*features), metadata(**configuration))
