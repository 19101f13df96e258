"""A table as the Delta API shows it, and its other answers. Optional members are left out, never null."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from turnstile.api.unity import maintenance
from turnstile.api.unity.derived import is_derived, of_clustering, of_protocol, of_snapshot
from turnstile.api.unity.schema import fields_to_api, to_api
from turnstile.catalog.core.entities import External, Table
from turnstile.catalog.load import Loaded, Registered
from turnstile.delta.core.head import TableHead
from turnstile.delta.core.metadata import MetadataSnapshot, etag_of
from turnstile.store.ports import Vended


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


def timestamp_of(head: TableHead, snapshot: MetadataSnapshot) -> int:
    """In-commit time of the snapshot's version in ms; 0 where nobody knows it any more."""
    if snapshot.timestamp or snapshot.version != head.latest:
        return snapshot.timestamp
    return head.last_ict


def table(loaded: Loaded) -> LoadTable:
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
        allowed_maintenance_operations=maintenance.allowed(properties),
    )


def commits(loaded: Loaded) -> list[Commit]:
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


def external(found: Registered) -> LoadTable:
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
