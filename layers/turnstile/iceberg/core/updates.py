"""The updates of a commit, one Struct for each action (REST specification, ``TableUpdate`` and ``ViewUpdate``). Other actions
are refused, as the specification requires."""

from __future__ import annotations

from typing import Literal

import msgspec

from turnstile.iceberg.core.partition import PartitionSpec, SortOrder
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.snapshots import EncryptedKey, PartitionStatisticsFile, Snapshot, StatisticsFile
from turnstile.iceberg.core.views import ViewVersion
from turnstile.store.core.integers import Int32, Int64, Positive32, Positive64


class Update(msgspec.Struct, frozen=True, rename="kebab", tag_field="action"):
    """One change of metadata. The id -1 is that of what the same commit added last."""


class AssignUuid(Update, frozen=True, tag="assign-uuid"):
    """The uuid of a new table or view."""

    uuid: str


class UpgradeFormatVersion(Update, frozen=True, tag="upgrade-format-version"):
    """A newer format version; never an older one."""

    format_version: Int32


class AddSchema(Update, frozen=True, tag="add-schema"):
    """A schema, under an id that the catalog chooses; ``last_column_id`` is deprecated and computed here."""

    schema: Schema
    last_column_id: Int32 | None = None


class SetCurrentSchema(Update, frozen=True, tag="set-current-schema"):
    """The schema that writers use from now on."""

    schema_id: Int32


class AddSpec(Update, frozen=True, tag="add-spec"):
    """A partition spec, under an id that the catalog chooses."""

    spec: PartitionSpec


class SetDefaultSpec(Update, frozen=True, tag="set-default-spec"):
    """The spec that writers use from now on."""

    spec_id: Int32


class AddSortOrder(Update, frozen=True, tag="add-sort-order"):
    """A sort order, under an id that the catalog chooses."""

    sort_order: SortOrder


class SetDefaultSortOrder(Update, frozen=True, tag="set-default-sort-order"):
    """The order that writers use from now on."""

    sort_order_id: Int32


class AddSnapshot(Update, frozen=True, tag="add-snapshot"):
    """A snapshot; a reference to it is another update."""

    snapshot: Snapshot


class SetSnapshotRef(Update, frozen=True, tag="set-snapshot-ref"):
    """The snapshot of a branch or tag."""

    ref_name: str
    snapshot_id: Int64
    type: Literal["branch", "tag"]
    max_ref_age_ms: Positive64 | None = None
    max_snapshot_age_ms: Positive64 | None = None
    min_snapshots_to_keep: Positive32 | None = None


class RemoveSnapshots(Update, frozen=True, tag="remove-snapshots"):
    """Snapshots to remove, with the references to them."""

    snapshot_ids: tuple[Int64, ...]


class RemoveSnapshotRef(Update, frozen=True, tag="remove-snapshot-ref"):
    """A branch or tag to remove; its snapshots stay."""

    ref_name: str


class SetLocation(Update, frozen=True, tag="set-location"):
    """The location of a new table or view."""

    location: str


class SetProperties(Update, frozen=True, tag="set-properties"):
    """Properties to set; others stay."""

    updates: dict[str, str]


class RemoveProperties(Update, frozen=True, tag="remove-properties"):
    """Properties to remove, if they are there."""

    removals: tuple[str, ...]


class SetStatistics(Update, frozen=True, tag="set-statistics"):
    """The statistics of a snapshot; ``snapshot_id`` is deprecated, the file has it."""

    statistics: StatisticsFile
    snapshot_id: Int64 | None = None


class RemoveStatistics(Update, frozen=True, tag="remove-statistics"):
    """Removes the statistics of a snapshot."""

    snapshot_id: Int64


class SetPartitionStatistics(Update, frozen=True, tag="set-partition-statistics"):
    """The partition statistics of a snapshot."""

    partition_statistics: PartitionStatisticsFile


class RemovePartitionStatistics(Update, frozen=True, tag="remove-partition-statistics"):
    """Removes the partition statistics of a snapshot."""

    snapshot_id: Int64


class RemovePartitionSpecs(Update, frozen=True, tag="remove-partition-specs"):
    """Specs to remove, which no snapshot needs."""

    spec_ids: tuple[Int32, ...]


class RemoveSchemas(Update, frozen=True, tag="remove-schemas"):
    """Schemas to remove, which no snapshot needs."""

    schema_ids: tuple[Int32, ...]


class AddEncryptionKey(Update, frozen=True, tag="add-encryption-key"):
    """A key of an encrypted table."""

    encryption_key: EncryptedKey


class RemoveEncryptionKey(Update, frozen=True, tag="remove-encryption-key"):
    """A key to remove, with which nothing is encrypted any more."""

    key_id: str


class AddViewVersion(Update, frozen=True, tag="add-view-version"):
    """A version of a view."""

    view_version: ViewVersion


class SetCurrentViewVersion(Update, frozen=True, tag="set-current-view-version"):
    """The current version of a view."""

    view_version_id: Int32


TableUpdate = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)

ViewUpdate = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion
)
