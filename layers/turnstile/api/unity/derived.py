"""Properties that the API derives for a table from what the log says of protocol, domains and versions.

Clients decide by them: a table is catalog-managed when ``delta.feature.catalogManaged`` is ``supported``. They are
computed for every answer and never stored, so they cannot contradict the log; what a client sends of them is ignored.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from turnstile.delta.core.metadata import MetadataSnapshot
from turnstile.store.core.names import MAX_ROW_ID

CATALOG_MANAGED: Final = ("catalogManaged", "catalogOwned-preview")
"""Features, present and former name, by which clients know that a table's commits go through its catalog."""

_KEYS: Final = {
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.lastUpdateVersion",
    "delta.lastCommitTimestamp",
    "delta.rowTracking.rowIdHighWaterMark",
    "delta.clusteringColumns",
    "clusteringColumns",
}


def is_derived(key: str) -> bool:
    """Whether a property is the server's to say."""
    return key in _KEYS or key.startswith("delta.feature.")


def of_protocol(protocol: dict[str, Any] | None) -> dict[str, str]:
    """Minimum versions and features of a protocol in Delta's JSON."""
    if protocol is None:
        return {}
    made = {
        "delta.minReaderVersion": str(protocol.get("minReaderVersion")),
        "delta.minWriterVersion": str(protocol.get("minWriterVersion")),
    }
    for feature in [*(protocol.get("readerFeatures") or []), *(protocol.get("writerFeatures") or [])]:
        made[f"delta.feature.{feature}"] = "supported"
    return made


def of_clustering(configuration: Any) -> dict[str, str]:
    """Clustering columns of the domain's configuration: Delta's JSON text, or the object the API takes."""
    if isinstance(configuration, str):
        try:
            configuration = msgspec.json.decode(configuration)
        except msgspec.DecodeError:
            return {}
    columns = configuration.get("clusteringColumns") if isinstance(configuration, dict) else None
    return {} if columns is None else {"clusteringColumns": msgspec.json.encode(columns).decode()}


def of_snapshot(snapshot: MetadataSnapshot, timestamp: int, row_hwm: int | None) -> dict[str, str]:
    """All properties of a coordinated table.

    Args:
        timestamp: in-commit time of the snapshot's version in ms, 0 if nobody knows it.
        row_hwm: row-id high-water mark of the newest version.
    """
    made = {**snapshot.beside.properties, **(snapshot.metadata.get("configuration") or {})}
    made = {key: value for key, value in made.items() if not is_derived(key)}
    made |= of_protocol(snapshot.protocol) | of_clustering(snapshot.domains.get("delta.clustering"))
    made["delta.lastUpdateVersion"] = str(snapshot.version)
    if timestamp:
        made["delta.lastCommitTimestamp"] = str(timestamp)
    if row_hwm is not None and 0 <= row_hwm <= MAX_ROW_ID:
        made["delta.rowTracking.rowIdHighWaterMark"] = str(row_hwm)
    return made
