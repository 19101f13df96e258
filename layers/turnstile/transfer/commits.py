"""The two commits of a transfer: the upgrade that brings a table under the catalog, and the
release. Pure. Each carries a txn id that depends on the table's uuid alone. So a process that finds
the version taken can tell from the file whether this transfer took it, in an earlier run or in
another process.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.catalog.create import UUID_PROPERTY
from turnstile.delta.core.definition import MAX_COLUMN_ID, maps_columns, max_column_id
from turnstile.delta.core.features import features_to_list
from turnstile.delta.core.protocols import catalog_managed_protocol, protocol_without_catalog
from turnstile.delta.core.schemas import columns_of
from turnstile.delta.log.state import LogState

ICT: Final = "delta.enableInCommitTimestamps"
ICT_VERSION: Final = "delta.inCommitTimestampEnablementVersion"
ICT_TIMESTAMP: Final = "delta.inCommitTimestampEnablementTimestamp"


def import_txn(table_id: str) -> str:
    """The txn id of the upgrade commit that makes ``table_id``."""
    return f"turnstile-import-{table_id}"


def export_txn(table_id: str) -> str:
    """The txn id of the commit that releases ``table_id``."""
    return f"turnstile-export-{table_id}"


def first_timestamp(state: LogState, now: int) -> int:
    """In-commit timestamp (ms) of the next version: later than everything that readers saw so far
    (I7)."""
    return max(now, state.modified_ms + 1, (state.ict or 0) + 1)


def properties_after(state: LogState, table_id: str, ict: int) -> dict[str, str]:
    """The table's properties after the upgrade. Where in-commit timestamps begin in the middle of a
    history, the properties say at which version (Delta protocol, "In-Commit Timestamps")."""
    properties = {str(name): str(value) for name, value in (state.metadata.get("configuration") or {}).items()}
    if properties.get(ICT) != "true":
        properties |= {ICT: "true", ICT_VERSION: str(state.version + 1), ICT_TIMESTAMP: str(ict)}
    if maps_columns(properties):  # some writers leave it out, and Delta puts it right with its next commit
        greatest = max_column_id(columns_of(state.metadata["schemaString"]))
        text = properties.get(MAX_COLUMN_ID, "")
        if greatest is not None and not (text.isascii() and text.isdigit() and int(text) >= greatest):
            properties[MAX_COLUMN_ID] = str(greatest)
    return {**properties, UUID_PROPERTY: table_id}


def protocol_after(state: LogState) -> dict[str, Any]:
    """The table's protocol after the upgrade."""
    return catalog_managed_protocol(state.protocol, features_to_list(state.protocol, state.metadata))


def upgrade(state: LogState, table_id: str, ict: int) -> bytes:
    """Content of version ``state.version + 1``, after which the catalog decides."""
    protocol = protocol_after(state)
    metadata = {**state.metadata, "configuration": properties_after(state, table_id, ict)}
    info = _info(import_txn(table_id), ict, state.version, "UPGRADE PROTOCOL", protocol)
    return _lines(("commitInfo", info), ("protocol", protocol), ("metaData", metadata))


def release(version: int, protocol: dict[str, Any], metadata: dict[str, Any], table_id: str, ict: int) -> bytes:
    """Content of the version after ``version``, the latest ratified one, where ``protocol`` and
    ``metadata`` are in force. After it the file system decides again."""
    free = protocol_without_catalog(protocol)
    kept = {name: value for name, value in (metadata.get("configuration") or {}).items() if name != UUID_PROPERTY}
    info = _info(export_txn(table_id), ict, version, "DROP FEATURE", free)
    return _lines(("commitInfo", info), ("protocol", free), ("metaData", {**metadata, "configuration": kept}))


def _info(txn: str, ict: int, read_version: int, operation: str, protocol: dict[str, Any]) -> dict[str, Any]:
    return {
        "inCommitTimestamp": ict,
        "timestamp": ict,
        "operation": operation,
        "operationParameters": {"newProtocol": msgspec.json.encode(protocol).decode()},
        "readVersion": read_version,
        "isolationLevel": "Serializable",
        "isBlindAppend": False,
        "engineInfo": "Turnstile",
        "txnId": txn,
    }


def _lines(*actions: tuple[str, dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode({name: body}) + b"\n" for name, body in actions)
