"""A table's metadata, and its JSON in format versions 1 to 3 (table specification, "Table
Metadata").

In memory there is one form for all versions; members that no version up to 3 has are dropped.
``check_readable`` is for files before they are written or registered, since an unreadable file
would be the end of its table. It follows the rules of Java's ``TableMetadata``, the strictest of
the readers; updates are checked where they are applied.
"""

from __future__ import annotations

import binascii
import uuid
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from turnstile.iceberg.core.partition import (
    FIRST_PARTITION_ID,
    PartitionSpec,
    SortOrder,
    check_former_spec,
    check_order,
    check_spec,
)
from turnstile.iceberg.core.schema import Schema
from turnstile.iceberg.core.schema import check as check_schema
from turnstile.iceberg.core.snapshots import (
    MAIN,
    NONE,
    EncryptedKey,
    MetadataLogEntry,
    PartitionStatisticsFile,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
)
from turnstile.store.core.errors import InvalidRequest
from turnstile.store.core.limits import Int32, Int64, NonNegative64

NEWEST: Final = 3
"""The newest format version that is served."""

CLOCK_SKEW_MS: Final = 60_000
"""How far times in logs may go back, since every writer has its own clock."""

OPERATIONS: Final = ("append", "replace", "overwrite", "delete")
"""Operations of snapshots. PyIceberg reads no others."""

_MAPS: Final = ("properties", "updates", "summary")
"""Maps of text. In them null is a wrong value, which must not be dropped."""


class TableMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    """Everything about a table but its data. Times in ms; ``next_row_id`` means something from
    version 3 on."""

    format_version: Int32
    table_uuid: str
    location: str
    last_updated_ms: NonNegative64
    last_column_id: Int32
    schemas: tuple[Schema, ...]
    current_schema_id: Int32
    partition_specs: tuple[PartitionSpec, ...]
    default_spec_id: Int32
    last_partition_id: Int32
    sort_orders: tuple[SortOrder, ...]
    default_sort_order_id: Int32
    last_sequence_number: NonNegative64 = 0
    current_snapshot_id: Int64 | None = None
    next_row_id: NonNegative64 = 0
    properties: dict[str, str] = {}
    snapshots: tuple[Snapshot, ...] = ()
    refs: dict[str, SnapshotRef] = {}
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    encryption_keys: tuple[EncryptedKey, ...] = ()

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return next(schema for schema in self.schemas if schema.schema_id == self.current_schema_id)

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return next(spec for spec in self.partition_specs if spec.spec_id == self.default_spec_id)

    @property
    def order(self) -> SortOrder:
        """The default sort order."""
        return next(order for order in self.sort_orders if order.order_id == self.default_sort_order_id)

    def snapshot(self, id: int | None) -> Snapshot | None:
        return next((snapshot for snapshot in self.snapshots if snapshot.snapshot_id == id), None)

    def without_unreferenced_snapshots(self) -> TableMetadata:
        """The same without snapshots that no branch or tag names, which clients load later."""
        named = {ref.snapshot_id for ref in self.refs.values()}
        kept = tuple(snapshot for snapshot in self.snapshots if snapshot.snapshot_id in named)
        return msgspec.structs.replace(self, snapshots=kept)


_MEMBERS: Final = tuple((field.name, field.encode_name) for field in msgspec.structs.fields(TableMetadata))


def document(metadata: TableMetadata) -> dict[str, Any]:
    """The JSON object of a metadata file, and in responses."""
    members: dict[str, Any] = msgspec.to_builtins(_document(metadata))
    return members


def _document(metadata: TableMetadata) -> dict[str, Any]:
    """As ``document``; members are structs still, which an encoder takes in a third of the time."""
    members = {name: getattr(metadata, attribute) for attribute, name in _MEMBERS}
    version = metadata.format_version
    if version < 3:
        del members["next-row-id"]
        if metadata.current_snapshot_id is None:
            members["current-snapshot-id"] = NONE
    if not metadata.encryption_keys:
        del members["encryption-keys"]
    if version == 1:  # old readers need these members
        del members["last-sequence-number"]
        members["schema"] = metadata.schema
        members["partition-spec"] = metadata.spec.fields
    return members


def encode(metadata: TableMetadata) -> bytes:
    """The bytes of a metadata file."""
    return msgspec.json.encode(_document(metadata))


def parse(raw: bytes) -> TableMetadata:
    """Returns the metadata in a file; raises InvalidRequest if it is none, of another version, or
    contradicts itself."""
    try:
        members = msgspec.json.decode(raw, type=dict[str, Any])
        if b"null" in raw:
            members = without_nulls(members)
        version = members.get("format-version")
        if not isinstance(version, int) or not 1 <= version <= NEWEST:
            raise _bad(f"format version {version!r} is not served", f"use versions 1 to {NEWEST}")
        if version == 1:
            _supply_defaults(members)
        _supply_snapshots(members)
        metadata = msgspec.convert(members, TableMetadata)
    except (msgspec.MsgspecError, RecursionError, TypeError, AttributeError, KeyError) as error:
        raise _bad(f"not table metadata: {error}") from None
    check_references(metadata)
    return metadata


def _supply_defaults(members: dict[str, Any]) -> None:
    """Adds members that a writer of version 1 may leave out. Ids are the ones that every reader
    assigns; the uuid is derived from the location, so that it stays the same until a commit writes
    it.
    """
    members.setdefault("table-uuid", str(uuid.uuid5(uuid.NAMESPACE_URL, members["location"])))
    if "schemas" not in members:
        schema = {"schema-id": 0, **members["schema"]}
        members |= {"schemas": [schema], "current-schema-id": schema["schema-id"]}
    if "partition-specs" not in members:
        numbered = enumerate(members.get("partition-spec") or [], FIRST_PARTITION_ID)
        fields = [{"field-id": id, **field} for id, field in numbered]
        members |= {"partition-specs": [{"spec-id": 0, "fields": fields}], "default-spec-id": 0}
    if "last-partition-id" not in members:
        ids = [field.get("field-id", 0) for spec in members["partition-specs"] for field in spec["fields"]]
        members["last-partition-id"] = max(ids, default=FIRST_PARTITION_ID - 1)
    if "sort-orders" not in members:
        members |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}


def _supply_snapshots(members: dict[str, Any]) -> None:
    current = members.get("current-snapshot-id")
    if current == NONE:
        members["current-snapshot-id"] = None
    elif current is not None:  # old writers have no branches, only the current snapshot
        members["refs"] = {MAIN: {"snapshot-id": current, "type": "branch"}, **members.get("refs", {})}


def without_nulls(value: Any) -> Any:
    """``value``, decoded JSON, without members that are null: clients of every language send null
    for a member left out."""
    if isinstance(value, dict):
        return {
            name: inner if name in _MAPS and isinstance(inner, dict) else without_nulls(inner)
            for name, inner in value.items()
            if inner is not None
        }
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def check_references(metadata: TableMetadata) -> None:
    """Raises InvalidRequest if a member refers to a missing one."""
    snapshot_ids = {snapshot.snapshot_id for snapshot in metadata.snapshots}
    if metadata.current_schema_id not in {schema.schema_id for schema in metadata.schemas}:
        raise _bad(f"schema {metadata.current_schema_id} is missing")
    if metadata.default_spec_id not in {spec.spec_id for spec in metadata.partition_specs}:
        raise _bad(f"partition spec {metadata.default_spec_id} is missing")
    if metadata.default_sort_order_id not in {order.order_id for order in metadata.sort_orders}:
        raise _bad(f"sort order {metadata.default_sort_order_id} is missing")
    main = metadata.refs.get(MAIN)
    if (main.snapshot_id if main else None) != metadata.current_snapshot_id:
        raise _bad("the current snapshot is not the one of branch main")
    if not {ref.snapshot_id for ref in metadata.refs.values()} <= snapshot_ids:
        raise _bad("a branch or tag names a snapshot that is missing")


def check_foreign(metadata: TableMetadata) -> None:
    """Raises InvalidRequest if metadata of another writer cannot be served."""
    for schema in metadata.schemas:
        check_schema(schema, metadata.format_version)
    _check_unique("schema", [schema.schema_id for schema in metadata.schemas])
    _check_unique("partition spec", [spec.spec_id for spec in metadata.partition_specs])
    _check_unique("sort order", [order.order_id for order in metadata.sort_orders])
    _check_unique("snapshot", [snapshot.snapshot_id for snapshot in metadata.snapshots])
    check_readable(metadata)


def check_readable(metadata: TableMetadata) -> None:
    """Raises InvalidRequest if not every client can read ``metadata``, whose schemas were checked
    when they were added."""
    check_references(metadata)
    _check_uuid(metadata.table_uuid)
    for spec in metadata.partition_specs:
        if spec.spec_id == metadata.default_spec_id:
            check_spec(spec, metadata.schema, metadata.format_version)
        else:
            check_former_spec(spec, metadata.schema)
    check_order(metadata.order, metadata.schema)
    for name, ref in metadata.refs.items():
        _check_ref(name, ref)
    for snapshot in metadata.snapshots:
        _check_snapshot(snapshot, metadata)
    for key in metadata.encryption_keys:
        _check_key(key)
    _check_log("snapshot", [entry.timestamp_ms for entry in metadata.snapshot_log], metadata.last_updated_ms)
    _check_log("metadata", [entry.timestamp_ms for entry in metadata.metadata_log], metadata.last_updated_ms)


def _check_unique(what: str, ids: Sequence[int]) -> None:
    for id, times in Counter(ids).items():
        if times > 1:
            raise _bad(f"{what} {id} is there twice")


def _check_uuid(text: str) -> None:
    try:
        uuid.UUID(text)
    except ValueError:
        raise _bad(f"'{text[:60]}' is no uuid for a table") from None


def _check_key(key: EncryptedKey) -> None:
    try:
        binascii.a2b_base64(key.encrypted_key_metadata, strict_mode=True)
    except (binascii.Error, ValueError):
        raise _bad(f"the metadata of encryption key '{key.key_id[:100]}' are not base64") from None


def _check_ref(name: str, ref: SnapshotRef) -> None:
    if ref.type == "tag" and (ref.min_snapshots_to_keep is not None or ref.max_snapshot_age_ms is not None):
        raise _bad(f"tag '{name[:100]}' is one snapshot: it has no min-snapshots-to-keep and no max-snapshot-age-ms")


def _check_snapshot(snapshot: Snapshot, metadata: TableMetadata) -> None:
    what = f"snapshot {snapshot.snapshot_id}"
    if snapshot.sequence_number > (metadata.last_sequence_number if metadata.format_version > 1 else 0):
        raise _bad(f"{what} has sequence number {snapshot.sequence_number}, which is beyond the table's last one")
    if not snapshot.manifest_list and (metadata.format_version > 1 or not snapshot.manifests):
        raise _bad(f"{what} has no manifest list")
    if snapshot.first_row_id is not None and snapshot.added_rows is None:
        raise _bad(f"{what} has a first-row-id and no added-rows")
    if snapshot.summary.get("operation", OPERATIONS[0]) not in OPERATIONS:
        raise _bad(f"the operation of {what} must be one of {', '.join(OPERATIONS)}")


def _check_log(what: str, times_ms: Sequence[int], updated_ms: int) -> None:
    """Checks that a log is in order and does not end after the metadata, within
    ``CLOCK_SKEW_MS``."""
    for before, after in pairwise([*times_ms, updated_ms]):
        if after < before - CLOCK_SKEW_MS:
            raise _bad(f"the {what} log goes back in time, from {before} to {after}")


def _bad(message: str, remedy: str | None = None) -> InvalidRequest:
    return InvalidRequest(message, field="metadata", remedy=remedy)
