"""Snapshots, references to them, and files about them (table specification, "Snapshots")."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

MAIN: Final = "main"
"""The branch whose head is the table's current snapshot."""


class Snapshot(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A state of the table; ``sequence_number`` 0 in format 1. Only format 1 knows ``manifests`` without a list."""

    snapshot_id: int
    timestamp_ms: int
    parent_snapshot_id: int | None = None
    sequence_number: int = 0
    manifest_list: str = ""
    manifests: tuple[str, ...] = ()
    summary: dict[str, str] = {}
    schema_id: int | None = None
    first_row_id: int | None = None
    added_rows: int | None = None
    key_id: str | None = None


class SnapshotRef(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A branch or a tag, with what expiry has to keep for it."""

    snapshot_id: int
    type: Literal["branch", "tag"]
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


class SnapshotLogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """Since when a snapshot was the current one (ms)."""

    timestamp_ms: int
    snapshot_id: int


class MetadataLogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """A former metadata file, and when it was written (ms)."""

    timestamp_ms: int
    metadata_file: str


class Blob(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """One blob of a statistics file."""

    type: str
    snapshot_id: int
    sequence_number: int
    fields: tuple[int, ...]
    properties: dict[str, str] = {}


class StatisticsFile(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A Puffin file with statistics of one snapshot."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int
    file_footer_size_in_bytes: int
    blob_metadata: tuple[Blob, ...]
    key_metadata: str | None = None


class PartitionStatisticsFile(msgspec.Struct, frozen=True, rename="kebab"):
    """A file with statistics of the partitions of one snapshot."""

    snapshot_id: int
    statistics_path: str
    file_size_in_bytes: int


class EncryptedKey(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A key of an encrypted table, itself encrypted (base64)."""

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] = {}
