"""Responses of the Delta API, with the properties that the server derives. Optional members are
left out, never null.

Derived properties follow from protocol, domains and versions in the log. Clients decide by them: a
table is catalog-managed when ``delta.feature.catalogManaged`` is ``supported``. They are computed
for every response and never stored, so that they cannot contradict the log; values that a client
sends are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.api.unity.columns import fields_to_api
from turnstile.api.unity.requests import Body, Commit, Protocol
from turnstile.catalog.core.entities import External, Table
from turnstile.catalog.load import TableState
from turnstile.delta.commits import Listing
from turnstile.delta.core.actions import fields_of
from turnstile.delta.core.head import ACTIVE, TableHead
from turnstile.delta.core.metadata import DeltaMetadata, etag_of
from turnstile.maintenance.core.retention import allowed_maintenance
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.names import MAX_ROW_ID
from turnstile.store.ports import VendedCredentials

# -- tables ------------------------------------------------------------------------------------------------------------

T = TypeVar("T")

CATALOG_MANAGED: Final = ("catalogManaged", "catalogOwned-preview")
"""Features, present and former name, by which clients know that a table's commits go through its
catalog."""

_DERIVED: Final = {
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.lastUpdateVersion",
    "delta.lastCommitTimestamp",
    "delta.rowTracking.rowIdHighWaterMark",
    "delta.clusteringColumns",
    "clusteringColumns",
}

VERSION: Final = "1.0"
_SCHEMA: Final = "/v1/catalogs/{catalog}/schemas/{schema}"
_TABLE: Final = _SCHEMA + "/tables/{table}"

ENDPOINTS: Final = (
    f"POST {_SCHEMA}/staging-tables",
    f"POST {_SCHEMA}/tables",
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
"""All operations that are served."""

_LIST: Final = re.compile(r"\s*\d{1,6}\.\d{1,6}\s*(,\s*\d{1,6}\.\d{1,6}\s*)*", re.ASCII)


class Metadata(Body, frozen=True):
    """The visible metadata of a table."""

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


class LoadTable(Body, frozen=True):
    """A table in one consistent view; commits newest first, contiguous, down to the published
    version (I1, I6)."""

    metadata: Metadata
    commits: list[Commit]
    latest_table_version: int | UnsetType = UNSET
    uniform: dict[str, Any] | UnsetType = UNSET
    allowed_maintenance_operations: list[str] | UnsetType = UNSET


class StorageCredential(Body, frozen=True):
    """Credentials for one prefix, until ``expiration_time_ms`` since the epoch."""

    prefix: str
    operation: str
    expiration_time_ms: int
    config: dict[str, str]


class Credentials(Body, frozen=True):
    """All credentials for a location; none for local files."""

    storage_credentials: list[StorageCredential]


class Features(Body, frozen=True):
    """Further features that version 0 should have."""

    reader_features: list[str]
    writer_features: list[str]


class StagingTable(Body, frozen=True):
    """A location for a new table, and the requirements on its version 0. For a null property the
    engine chooses a value."""

    table_id: str
    table_type: str
    location: str
    storage_credentials: list[StorageCredential]
    required_protocol: Protocol
    suggested_protocol: Features
    required_properties: dict[str, str | None]
    suggested_properties: dict[str, str | None]


class Config(Body, frozen=True):
    """Operations that are served, and the version of the API."""

    endpoints: tuple[str, ...]
    protocol_version: str


def negotiate(versions: str | None) -> Config:
    """Returns the configuration for a client that supports ``versions``: the highest minor version
    of each major one; raises InvalidRequest if none is in common, or for an invalid list of
    versions.
    """
    field = "protocol-versions"
    if not versions or not _LIST.fullmatch(versions):
        raise InvalidRequest(f"{field} must be a list like 1.0,2.3; supported: {VERSION}", field=field)
    if 1 not in {int(version.strip().partition(".")[0]) for version in versions.split(",")}:
        raise InvalidRequest(f"no version in common; supported: {VERSION}", field=field)
    return Config(ENDPOINTS, VERSION)


def timestamp_of(head: TableHead, metadata: DeltaMetadata) -> int:
    """In-commit time of the metadata's version in ms; 0 where it is unknown."""
    if metadata.timestamp or metadata.version != head.latest:
        return metadata.timestamp
    return head.last_ict


def table(state: TableState, *, files_needed: bool, history_ms: int) -> LoadTable:
    """The response with a coordinated table. ``files_needed``: by clones or named snapshots;
    ``history_ms``: for how long the catalog's past is kept."""
    head = state.head
    metadata = state.metadata
    timestamp_ms = timestamp_of(head, metadata)
    properties = table_properties(metadata, timestamp_ms, head.row_hwm)
    uniform = metadata.beside.uniform
    return LoadTable(
        metadata=Metadata(
            etag=etag_of(head.metadata, metadata),
            table_type="MANAGED",
            table_uuid=head.table_id,
            location=head.location,
            created_time=head.created,
            updated_time=max(head.created, timestamp_ms, metadata.beside.updated),
            columns=fields_to_api(fields_of(metadata.metadata)),
            partition_columns=list(metadata.metadata.get("partitionColumns") or []),
            properties=properties,
            last_commit_version=metadata.version,
            last_commit_timestamp_ms=timestamp_ms or UNSET,
        ),
        commits=unpublished_commits(state.listing, Commit)[::-1],
        latest_table_version=head.latest,
        uniform={"iceberg": uniform} if uniform else UNSET,
        allowed_maintenance_operations=allowed_maintenance(
            properties, active=head.state == ACTIVE, files_needed=files_needed, history_ms=history_ms
        ),
    )


def unpublished_commits(listing: Listing, shape: Callable[[int, int, str, int, int], T]) -> list[T]:
    """Commits that are not published, as ``shape``. Each has its file: that of an inline commit was
    written before."""
    return [
        shape(commit.version, commit.ict, commit.name, listing.sizes[commit.version], commit.modified_ms)
        for commit in listing.places
        if not commit.published
    ]


def external_properties(about: External) -> dict[str, str]:
    """Properties of an external table, as far as clients gave them."""
    properties = {
        key: value for key, value in about.properties.items() if about.protocol is None or not is_derived(key)
    }
    properties |= protocol_properties(about.protocol) | clustering_properties(about.domains.get("delta.clustering"))
    mark = (about.domains.get("delta.rowTracking") or {}).get("rowIdHighWaterMark")
    if isinstance(mark, int):
        properties["delta.rowTracking.rowIdHighWaterMark"] = str(mark)
    if about.version is not None and about.timestamp is not None:
        properties |= {"delta.lastUpdateVersion": str(about.version), "delta.lastCommitTimestamp": str(about.timestamp)}
    return properties


def external(table: Table, etag: str) -> LoadTable:
    """The response with an external table: no commits, no latest version."""
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


def credentials(vended: tuple[VendedCredentials, ...]) -> list[StorageCredential]:
    return [StorageCredential(each.prefix, each.operation, each.expires_ms, dict(each.config)) for each in vended]


def is_derived(key: str) -> bool:
    return key in _DERIVED or key.startswith("delta.feature.")


def protocol_properties(protocol: dict[str, Any] | None) -> dict[str, str]:
    if protocol is None:
        return {}
    properties = {
        "delta.minReaderVersion": str(protocol.get("minReaderVersion")),
        "delta.minWriterVersion": str(protocol.get("minWriterVersion")),
    }
    for feature in [*(protocol.get("readerFeatures") or []), *(protocol.get("writerFeatures") or [])]:
        properties[f"delta.feature.{feature}"] = "supported"
    return properties


def clustering_properties(configuration: Any) -> dict[str, str]:
    """Clustering columns in the configuration of their domain: Delta's JSON text, or the object of
    the API."""
    if isinstance(configuration, str):
        try:
            configuration = msgspec.json.decode(configuration)
        except msgspec.DecodeError:
            return {}
    columns = configuration.get("clusteringColumns") if isinstance(configuration, dict) else None
    return {} if columns is None else {"clusteringColumns": msgspec.json.encode(columns).decode()}


def table_properties(metadata: DeltaMetadata, timestamp_ms: int, row_hwm: int | None) -> dict[str, str]:
    """All properties of a coordinated table; ``row_hwm`` is the row-id high-water mark of its
    newest version. The mark is shown if a client has set its domain, as in the reference: otherwise
    it would change with every INSERT.
    """
    properties = {**metadata.beside.properties, **(metadata.metadata.get("configuration") or {})}
    properties = {key: value for key, value in properties.items() if not is_derived(key)}
    properties |= protocol_properties(metadata.protocol)
    properties |= clustering_properties(metadata.domains.get("delta.clustering"))
    properties["delta.lastUpdateVersion"] = str(metadata.version)
    if timestamp_ms:
        properties["delta.lastCommitTimestamp"] = str(timestamp_ms)
    if metadata.beside.row_mark and row_hwm is not None and 0 <= row_hwm <= MAX_ROW_ID:
        properties["delta.rowTracking.rowIdHighWaterMark"] = str(row_hwm)
    return properties
