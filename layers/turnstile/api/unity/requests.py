"""Bodies of requests of the Delta API (``delta/v1``). Unknown members are skipped; a null counts as left out. Times are in
ms, sizes in bytes."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from turnstile.store.core.limits import NonNegative32, NonNegativeExact

Map = dict[str, str]


class Body(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of all bodies: kebab-case members."""


class Protocol(Body, frozen=True):
    """A protocol action in the API's spelling."""

    min_reader_version: NonNegative32
    min_writer_version: NonNegative32
    reader_features: list[str] | None = None
    writer_features: list[str] | None = None

    def to_delta(self) -> dict[str, Any]:
        """The protocol in Delta's JSON."""
        protocol = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
            "readerFeatures": self.reader_features,
            "writerFeatures": self.writer_features,
        }
        return {key: value for key, value in protocol.items() if value is not None}


class Iceberg(Body, frozen=True, omit_defaults=True):
    """UniForm's conversion state."""

    metadata_location: str
    converted_delta_version: NonNegativeExact
    converted_delta_timestamp: NonNegativeExact
    base_converted_delta_version: NonNegativeExact | None = None


class Uniform(Body, frozen=True):
    """Conversions that ride with a commit."""

    iceberg: Iceberg | None = None


class Commit(Body, frozen=True):
    """A staged commit; in a response one that is ratified, and not known to be published."""

    version: int
    timestamp: int
    file_name: str
    file_size: int
    file_modification_timestamp: int


class StageTable(Body, frozen=True):
    """``POST .../staging-tables``."""

    name: str


class CreateTable(Body, frozen=True):
    """``POST .../tables``."""

    name: str
    location: str
    table_type: Literal["MANAGED", "EXTERNAL"]
    columns: dict[str, Any]
    protocol: Protocol
    properties: Map
    last_commit_timestamp_ms: NonNegativeExact
    comment: str | None = None
    partition_columns: list[str] | None = None
    domain_metadata: dict[str, dict[str, Any] | None] | None = None
    uniform: Uniform | None = None


class Rename(Body, frozen=True):
    """``POST .../rename``."""

    new_name: str


class Metrics(Body, frozen=True):
    """``POST .../metrics``."""

    table_id: str
    report: dict[str, Any] | None = None


class AssertUuid(Body, frozen=True, tag_field="type", tag="assert-table-uuid"):
    """The name must still lead to this table."""

    uuid: str


class AssertEtag(Body, frozen=True, tag_field="type", tag="assert-etag"):
    """The visible metadata must still be what was loaded."""

    etag: str


class AddCommit(Body, frozen=True, tag_field="action", tag="add-commit"):
    """Ratify a staged commit."""

    commit: Commit
    uniform: Uniform | None = None


class SetPublished(Body, frozen=True, tag_field="action", tag="set-latest-backfilled-version"):
    """The client's claim that everything up to here is in ``_delta_log``."""

    latest_published_version: int


class SetProperties(Body, frozen=True, tag_field="action", tag="set-properties"):
    """Set these properties."""

    updates: Map


class RemoveProperties(Body, frozen=True, tag_field="action", tag="remove-properties"):
    """Remove these properties."""

    removals: list[str]


class SetColumns(Body, frozen=True, tag_field="action", tag="set-columns"):
    """Replace the columns."""

    columns: dict[str, Any]


class SetPartitions(Body, frozen=True, tag_field="action", tag="set-partition-columns"):
    """Replace the partition columns."""

    partition_columns: list[str]


class SetComment(Body, frozen=True, tag_field="action", tag="set-table-comment"):
    """Set the comment; null removes it."""

    comment: str | None


class SetProtocol(Body, frozen=True, tag_field="action", tag="set-protocol"):
    """Replace the protocol."""

    protocol: Protocol


class SetDomains(Body, frozen=True, tag_field="action", tag="set-domain-metadata"):
    """Set domains by name; a null is skipped."""

    updates: dict[str, dict[str, Any] | None]


class RemoveDomains(Body, frozen=True, tag_field="action", tag="remove-domain-metadata"):
    """Remove domains by name."""

    domains: list[str]


class SetSnapshotVersion(Body, frozen=True, tag_field="action", tag="update-metadata-snapshot-version"):
    """The version that an external table's metadata reflects."""

    last_commit_version: int
    last_commit_timestamp_ms: int


SetMetadata = SetProperties | SetColumns | SetPartitions | SetComment | SetProtocol | SetDomains
RemoveMetadata = RemoveProperties | RemoveDomains


class Update(Body, frozen=True):
    """``POST .../tables/{table}``."""

    requirements: list[AssertUuid | AssertEtag]
    updates: list[AddCommit | SetPublished | SetMetadata | RemoveMetadata | SetSnapshotVersion]
