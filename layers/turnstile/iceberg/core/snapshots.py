"""Snapshots, references to them, and files about them (table specification, "Snapshots")."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from turnstile.store.core.limits import Int32, Int64, NonNegative64, Positive32, Positive64

MAIN: Final = "main"
"""The branch with the table's current snapshot as its head."""

NONE: Final = -1
"""``current-snapshot-id`` of a table without one, in versions 1 and 2."""


class Snapshot(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A state of the table; ``sequence_number`` 0 in format 1. Only format 1 knows ``manifests``
    without a list."""

    snapshot_id: Int64
    timestamp_ms: NonNegative64
    parent_snapshot_id: Int64 | None = None
    sequence_number: NonNegative64 = 0
    manifest_list: str = ""
    manifests: tuple[str, ...] = ()
    summary: dict[str, str] = {}
    schema_id: Int32 | None = None
    first_row_id: NonNegative64 | None = None
    added_rows: NonNegative64 | None = None
    key_id: str | None = None

    def __post_init__(self) -> None:
        if self.parent_snapshot_id == self.snapshot_id:  # msgspec adds the path of the member
            raise ValueError(f"snapshot {self.snapshot_id} is its own parent")
        if self.snapshot_id == NONE:
            raise ValueError(f"no snapshot is called {NONE}, which says in metadata files that there is none")


class SnapshotRef(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A branch or a tag, and its settings for expiry."""

    snapshot_id: Int64
    type: Literal["branch", "tag"]
    max_ref_age_ms: Positive64 | None = None
    max_snapshot_age_ms: Positive64 | None = None
    min_snapshots_to_keep: Positive32 | None = None


class SnapshotLogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """A snapshot, and when it became the current one."""

    timestamp_ms: NonNegative64
    snapshot_id: Int64


class MetadataLogEntry(msgspec.Struct, frozen=True, rename="kebab"):
    """A former metadata file, and when it was written."""

    timestamp_ms: NonNegative64
    metadata_file: str


class Blob(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """One blob of a statistics file."""

    type: str
    snapshot_id: Int64
    sequence_number: Int64
    fields: tuple[Int32, ...]
    properties: dict[str, str] = {}


class StatisticsFile(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A Puffin file with statistics of one snapshot."""

    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: NonNegative64
    file_footer_size_in_bytes: NonNegative64
    blob_metadata: tuple[Blob, ...]
    key_metadata: str | None = None


class PartitionStatisticsFile(msgspec.Struct, frozen=True, rename="kebab"):
    """A file with statistics of the partitions of one snapshot."""

    snapshot_id: Int64
    statistics_path: str
    file_size_in_bytes: NonNegative64


class EncryptedKey(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """A key of an encrypted table, itself encrypted (base64)."""

    key_id: str
    encrypted_key_metadata: str
    encrypted_by_id: str | None = None
    properties: dict[str, str] = {}
