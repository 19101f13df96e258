"""Properties that the API derives for a table from what the log says of protocol, domains and versions.

Clients decide by them: a table is catalog-managed when ``delta.feature.catalogManaged`` is ``supported``. They are
computed for every answer and never stored, so they cannot contradict the log; what a client sends of them is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.api.unity.columns import fields_to_api, to_api
from turnstile.catalog.core.entities import External, Table
from turnstile.catalog.load import LoadedTable, RegisteredTable
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import DeltaMetadata, etag_of
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import MAX_ROW_ID
from turnstile.store.ports import Vended

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


def of_snapshot(snapshot: DeltaMetadata, timestamp: int, row_hwm: int | None) -> dict[str, str]:
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


# -- maintenance ------------------------------------------------------------------------------------------------------
# Which maintenance clients may run on a table: a policy per table, its property ``turnstile.allowed-maintenance``.
#
# By default everything: OPTIMIZE is a commit like another one, VACUUM and log cleanup delete what no retained version
# needs, and nothing here reads published files below the floor again once identities have left for the index. An empty
# value allows nothing.


OPERATIONS: Final = ("DATA_REORGANIZATION", "DATA_CLEANUP", "METADATA_CLEANUP")
POLICY: Final = "turnstile.allowed-maintenance"


def allowed(properties: Mapping[str, str]) -> list[str]:
    """The operations, in the API's order."""
    said = properties.get(POLICY)
    if said is None:
        return list(OPERATIONS)
    names = {one.strip().upper() for one in said.split(",")}
    return [operation for operation in OPERATIONS if operation in names]


# -- answers ----------------------------------------------------------------------------------------------------------
# A table as the Delta API shows it, and its other answers. Optional members are left out, never null.


class Answer(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of all answers: kebab-case members."""


class Commit(Answer, frozen=True):
    """A ratified commit that is not known to be published."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class Metadata(Answer, frozen=True):
    """What is visible of a table; times in ms."""

    etag: str
    table_type: str
    table_uuid: str
    location: str
    created_time: int
    updated_time: int
    columns: dict[str, Any]
    partition_columns: list[str]
    properties: dict[str, str]
    last_commit_version: int | UnsetType = UNSET
    last_commit_timestamp_ms: int | UnsetType = UNSET


class LoadTable(Answer, frozen=True):
    """A table in one consistent view; commits newest first, contiguous, down to what is published (I1, I6)."""

    metadata: Metadata
    commits: list[Commit]
    latest_table_version: int | UnsetType = UNSET
    uniform: dict[str, Any] | UnsetType = UNSET
    allowed_maintenance_operations: list[str] | UnsetType = UNSET


class StorageCredential(Answer, frozen=True):
    """Keys for one prefix, for some time (ms since the epoch)."""

    prefix: str
    operation: str
    expiration_time_ms: int
    config: dict[str, str]


class Credentials(Answer, frozen=True):
    """All there are for a location; none for local files."""

    storage_credentials: list[StorageCredential]


class Protocol(Answer, frozen=True):
    """What version 0 must have."""

    min_reader_version: int
    min_writer_version: int
    reader_features: list[str]
    writer_features: list[str]


class Features(Answer, frozen=True):
    """What version 0 should have."""

    reader_features: list[str]
    writer_features: list[str]


class StagingTable(Answer, frozen=True):
    """A place for a new table. A null property is one that the engine makes a value for."""

    table_id: str
    table_type: str
    location: str
    storage_credentials: list[StorageCredential]
    required_protocol: Protocol
    suggested_protocol: Features
    required_properties: dict[str, str | None]
    suggested_properties: dict[str, str | None]


def timestamp_of(head: TableHead, snapshot: DeltaMetadata) -> int:
    """In-commit time of the snapshot's version in ms; 0 where nobody knows it any more."""
    if snapshot.timestamp or snapshot.version != head.latest:
        return snapshot.timestamp
    return head.last_ict


def table(loaded: LoadedTable) -> LoadTable:
    """A coordinated table."""
    head, snapshot = loaded.head, loaded.snapshot
    timestamp = timestamp_of(head, snapshot)
    properties = of_snapshot(snapshot, timestamp, head.row_hwm)
    uniform = snapshot.beside.uniform
    return LoadTable(
        metadata=Metadata(
            etag=etag_of(head.metadata, snapshot),
            table_type="MANAGED",
            table_uuid=head.table_id,
            location=head.location,
            created_time=head.created,
            updated_time=max(head.created, timestamp, snapshot.beside.updated),
            columns=to_api(snapshot.metadata["schemaString"]),
            partition_columns=list(snapshot.metadata.get("partitionColumns") or []),
            properties=properties,
            last_commit_version=snapshot.version,
            last_commit_timestamp_ms=timestamp or UNSET,
        ),
        commits=commits(loaded),
        latest_table_version=head.latest,
        uniform={"iceberg": uniform} if uniform else UNSET,
        allowed_maintenance_operations=allowed(properties),
    )


def commits(loaded: LoadedTable) -> list[Commit]:
    """What is not published, newest first. Every file is there: inline commits were written before."""
    return [
        Commit(place.version, place.ict, place.name, loaded.listing.sizes[place.version], place.modified)
        for place in reversed(loaded.listing.places)
        if not place.published
    ]


def external_properties(about: External) -> dict[str, str]:
    """Properties of an external table, as far as somebody said them."""
    made = {key: value for key, value in about.properties.items() if about.protocol is None or not is_derived(key)}
    made |= of_protocol(about.protocol) | of_clustering(about.domains.get("delta.clustering"))
    mark = (about.domains.get("delta.rowTracking") or {}).get("rowIdHighWaterMark")
    if isinstance(mark, int):
        made["delta.rowTracking.rowIdHighWaterMark"] = str(mark)
    if about.version is not None and about.timestamp is not None:
        made |= {"delta.lastUpdateVersion": str(about.version), "delta.lastCommitTimestamp": str(about.timestamp)}
    return made


def external(found: RegisteredTable) -> LoadTable:
    """A table that is registered only: no commits, no latest version."""
    return external_table(found.table, found.etag)


def external_table(table: Table, etag: str) -> LoadTable:
    """As ``external``, of its parts."""
    about = table.external or External()
    return LoadTable(
        metadata=Metadata(
            etag=etag,
            table_type="EXTERNAL",
            table_uuid=table.table_id,
            location=table.location,
            created_time=table.created,
            updated_time=max(table.created, about.updated),
            columns=fields_to_api(about.columns),
            partition_columns=list(about.partition_columns),
            properties=external_properties(about),
            last_commit_version=UNSET if about.version is None else about.version,
            last_commit_timestamp_ms=UNSET if about.timestamp is None else about.timestamp,
        ),
        commits=[],
    )


def credentials(vended: tuple[Vended, ...]) -> list[StorageCredential]:
    """Vended keys in the API's words."""
    return [StorageCredential(one.prefix, one.operation, one.expires, dict(one.config)) for one in vended]


# -- config -----------------------------------------------------------------------------------------------------------
# Which version of the Delta API is spoken, and which of its operations are served.


VERSION: Final = "1.0"
_TABLES: Final = "/v1/catalogs/{catalog}/schemas/{schema}/tables"
_TABLE: Final = _TABLES + "/{table}"

ENDPOINTS: Final = (
    "POST /v1/catalogs/{catalog}/schemas/{schema}/staging-tables",
    f"POST {_TABLES}",
    f"GET {_TABLE}",
    f"POST {_TABLE}",
    f"DELETE {_TABLE}",
    f"HEAD {_TABLE}",
    f"POST {_TABLE}/rename",
    f"GET {_TABLE}/credentials",
    f"POST {_TABLE}/metrics",
    "GET /v1/staging-tables/{table_id}/credentials",
    "GET /v1/temporary-path-credentials",
)
"""All that are served, and nothing else."""

_LIST: Final = re.compile(r"\s*\d{1,6}\.\d{1,6}\s*(,\s*\d{1,6}\.\d{1,6}\s*)*", re.ASCII)


class Config(Answer, frozen=True):
    """What this server speaks."""

    endpoints: tuple[str, ...]
    protocol_version: str


def negotiate(versions: str | None) -> Config:
    """The configuration for a client that speaks ``versions``: for each major version its highest minor one.

    Raises:
        InvalidRequest: none in common, or not a list of versions.
    """
    if not versions or not _LIST.fullmatch(versions):
        raise InvalidRequest(
            f"protocol-versions must be a list like 1.0,2.3; supported: {VERSION}", field="protocol-versions"
        )
    majors = {int(one.strip().partition(".")[0]) for one in versions.split(",")}
    if 1 not in majors:
        raise InvalidRequest(f"no version in common; supported: {VERSION}", field="protocol-versions")
    return Config(ENDPOINTS, VERSION)
