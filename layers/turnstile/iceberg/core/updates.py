"""The updates of a commit, one Struct for each action (REST specification, ``TableUpdate`` and
``ViewUpdate``).

Other actions are refused, as the specification requires. The catalog chooses the ids of schemas,
specs and orders.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from turnstile.iceberg.core.partition import PartitionSpec, SortOrder
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.snapshots import EncryptedKey, PartitionStatisticsFile, Snapshot, StatisticsFile
from turnstile.iceberg.core.views import ViewVersion
from turnstile.store.core.limits import Int32, Int64, Positive32, Positive64


class Update(msgspec.Struct, frozen=True, rename="kebab", tag_field="action"):
    """One change of metadata. The id -1 stands for the last addition of the same commit."""


class AssignUuid(Update, frozen=True, tag="assign-uuid"):
    uuid: str


class UpgradeFormatVersion(Update, frozen=True, tag="upgrade-format-version"):
    """Never to an older version."""

    format_version: Int32


class AddSchema(Update, frozen=True, tag="add-schema"):
    """``last_column_id`` is deprecated, and computed here."""

    schema: Schema
    last_column_id: Int32 | None = None


class SetCurrentSchema(Update, frozen=True, tag="set-current-schema"):
    schema_id: Int32


class AddSpec(Update, frozen=True, tag="add-spec"):
    spec: PartitionSpec


class SetDefaultSpec(Update, frozen=True, tag="set-default-spec"):
    spec_id: Int32


class AddSortOrder(Update, frozen=True, tag="add-sort-order"):
    sort_order: SortOrder


class SetDefaultSortOrder(Update, frozen=True, tag="set-default-sort-order"):
    sort_order_id: Int32


class AddSnapshot(Update, frozen=True, tag="add-snapshot"):
    """A reference to it is another update."""

    snapshot: Snapshot


class SetSnapshotRef(Update, frozen=True, tag="set-snapshot-ref"):
    ref_name: str
    snapshot_id: Int64
    type: Literal["branch", "tag"]
    max_ref_age_ms: Positive64 | None = None
    max_snapshot_age_ms: Positive64 | None = None
    min_snapshots_to_keep: Positive32 | None = None


class RemoveSnapshots(Update, frozen=True, tag="remove-snapshots"):
    """With the references to them."""

    snapshot_ids: tuple[Int64, ...]


class RemoveSnapshotRef(Update, frozen=True, tag="remove-snapshot-ref"):
    """The snapshot stays."""

    ref_name: str


class SetLocation(Update, frozen=True, tag="set-location"):
    location: str


class SetProperties(Update, frozen=True, tag="set-properties"):
    updates: dict[str, str]


class RemoveProperties(Update, frozen=True, tag="remove-properties"):
    removals: tuple[str, ...]


class SetStatistics(Update, frozen=True, tag="set-statistics"):
    """``snapshot_id`` is deprecated: the file has it."""

    statistics: StatisticsFile
    snapshot_id: Int64 | None = None


class RemoveStatistics(Update, frozen=True, tag="remove-statistics"):
    snapshot_id: Int64


class SetPartitionStatistics(Update, frozen=True, tag="set-partition-statistics"):
    partition_statistics: PartitionStatisticsFile


class RemovePartitionStatistics(Update, frozen=True, tag="remove-partition-statistics"):
    snapshot_id: Int64


class RemovePartitionSpecs(Update, frozen=True, tag="remove-partition-specs"):
    spec_ids: tuple[Int32, ...]


class RemoveSchemas(Update, frozen=True, tag="remove-schemas"):
    schema_ids: tuple[Int32, ...]


class AddEncryptionKey(Update, frozen=True, tag="add-encryption-key"):
    encryption_key: EncryptedKey


class RemoveEncryptionKey(Update, frozen=True, tag="remove-encryption-key"):
    key_id: str


class AddViewVersion(Update, frozen=True, tag="add-view-version"):
    view_version: ViewVersion


class SetCurrentViewVersion(Update, frozen=True, tag="set-current-view-version"):
    view_version_id: Int32


_SharedUpdate = AssignUuid | UpgradeFormatVersion | AddSchema | SetLocation | SetProperties | RemoveProperties
_SchemaUpdate = SetCurrentSchema | AddSpec | SetDefaultSpec | AddSortOrder | SetDefaultSortOrder
_SnapshotUpdate = AddSnapshot | SetSnapshotRef | RemoveSnapshots | RemoveSnapshotRef
_StatisticsUpdate = SetStatistics | RemoveStatistics | SetPartitionStatistics | RemovePartitionStatistics
_Cleanup = RemovePartitionSpecs | RemoveSchemas
_KeyUpdate = AddEncryptionKey | RemoveEncryptionKey

TableUpdate = _SharedUpdate | _SchemaUpdate | _SnapshotUpdate | _StatisticsUpdate | _Cleanup | _KeyUpdate
ViewUpdate = _SharedUpdate | AddViewVersion | SetCurrentViewVersion
