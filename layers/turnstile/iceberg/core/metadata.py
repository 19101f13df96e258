"""A table's metadata, and its JSON in format versions 1 to 3 (table specification, "Table Metadata").

In memory there is one form, whatever the version; ``parse`` supplies what version 1 may leave out, ``document`` says it
the way the version wants it. Members that no version up to 3 knows are not kept.
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
from turnstile.iceberg.core.values import Int32, Int64, NonNegative64, without_nulls
from turnstile.store.core.errors import InvalidRequest

NEWEST: Final = 3
"""The newest format version that is served."""


class TableMetadata(msgspec.Struct, frozen=True, rename="kebab"):
    """Everything about a table but its data. Times in ms; ``next_row_id`` means something from version 3 on."""

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
        return next(one for one in self.schemas if one.schema_id == self.current_schema_id)

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return next(one for one in self.partition_specs if one.spec_id == self.default_spec_id)

    @property
    def order(self) -> SortOrder:
        """The default sort order."""
        return next(one for one in self.sort_orders if one.order_id == self.default_sort_order_id)

    def snapshot(self, id: int | None) -> Snapshot | None:
        """The snapshot with this id."""
        return next((one for one in self.snapshots if one.snapshot_id == id), None)

    def referenced(self) -> TableMetadata:
        """The same with only those snapshots that a branch or tag names: what clients load lazily is left out."""
        named = {ref.snapshot_id for ref in self.refs.values()}
        kept = tuple(one for one in self.snapshots if one.snapshot_id in named)
        return msgspec.structs.replace(self, snapshots=kept)


def document(metadata: TableMetadata) -> dict[str, Any]:
    """The JSON object of a metadata file, and of answers."""
    said: dict[str, Any] = msgspec.to_builtins(metadata)
    version = metadata.format_version
    if metadata.current_snapshot_id is None and version < 3:
        said["current-snapshot-id"] = NONE
    if version < 3:
        del said["next-row-id"]
    if not metadata.encryption_keys:
        del said["encryption-keys"]
    if version == 1:  # readers of old look here
        del said["last-sequence-number"]
        said["schema"] = msgspec.to_builtins(metadata.schema)
        said["partition-spec"] = msgspec.to_builtins(metadata.spec.fields)
    return said


def encode(metadata: TableMetadata) -> bytes:
    """The bytes of a metadata file."""
    return msgspec.json.encode(document(metadata))


def parse(raw: bytes) -> TableMetadata:
    """The metadata in a file.

    Raises:
        InvalidRequest: not JSON, not metadata of a version that is served, or metadata that contradicts itself.
    """
    try:
        said = msgspec.json.decode(raw, type=dict[str, Any])
        if b"null" in raw:
            said = without_nulls(said)
        version = said.get("format-version")
        if not isinstance(version, int) or not 1 <= version <= NEWEST:
            raise _bad(f"format version {version!r} is not served", f"use versions 1 to {NEWEST}")
        if version == 1:
            _supply(said)
        _supply_snapshots(said)
        found = msgspec.convert(said, TableMetadata)
    except (msgspec.MsgspecError, RecursionError, TypeError, AttributeError, KeyError) as error:
        raise _bad(f"not table metadata: {error}") from None
    check_references(found)
    return found


def _supply(said: dict[str, Any]) -> None:
    """What a writer of version 1 may leave out. Ids are the ones that every reader gives it; the uuid follows from the
    location, so that it is the same whenever the file is read, until a commit writes it down."""
    said.setdefault("table-uuid", str(uuid.uuid5(uuid.NAMESPACE_URL, said["location"])))
    if "schemas" not in said:
        schema = {"schema-id": 0, **said["schema"]}
        said |= {"schemas": [schema], "current-schema-id": schema["schema-id"]}
    if "partition-specs" not in said:
        fields = [
            {"field-id": FIRST_PARTITION_ID + position, **field}
            for position, field in enumerate(said.get("partition-spec") or [])
        ]
        said |= {"partition-specs": [{"spec-id": 0, "fields": fields}], "default-spec-id": 0}
    if "last-partition-id" not in said:
        ids = [field.get("field-id", 0) for spec in said["partition-specs"] for field in spec["fields"]]
        said["last-partition-id"] = max(ids, default=FIRST_PARTITION_ID - 1)
    if "sort-orders" not in said:
        said |= {"sort-orders": [{"order-id": 0, "fields": []}], "default-sort-order-id": 0}


def _supply_snapshots(said: dict[str, Any]) -> None:
    if said.get("current-snapshot-id") == NONE:
        said["current-snapshot-id"] = None
    current = said.get("current-snapshot-id")
    if current is not None:  # who knows no branches of that name says it with the current snapshot alone
        said["refs"] = {MAIN: {"snapshot-id": current, "type": "branch"}, **said.get("refs", {})}


def check_references(found: TableMetadata) -> None:
    """Whether what refers to something refers to something that is there; raises InvalidRequest."""
    known = {one.snapshot_id for one in found.snapshots}
    if found.current_schema_id not in {one.schema_id for one in found.schemas}:
        raise _bad(f"schema {found.current_schema_id} is missing")
    if found.default_spec_id not in {one.spec_id for one in found.partition_specs}:
        raise _bad(f"partition spec {found.default_spec_id} is missing")
    if found.default_sort_order_id not in {one.order_id for one in found.sort_orders}:
        raise _bad(f"sort order {found.default_sort_order_id} is missing")
    main = found.refs.get(MAIN)
    if (main.snapshot_id if main else None) != found.current_snapshot_id:
        raise _bad("the current snapshot is not the one of branch main")
    if not {ref.snapshot_id for ref in found.refs.values()} <= known:
        raise _bad("a branch or tag names a snapshot that is missing")


def _bad(message: str, remedy: str | None = None) -> InvalidRequest:
    return InvalidRequest(message, field="metadata", remedy=remedy)


# -- readable ---------------------------------------------------------------------------------------------------------
# What every reader of a metadata file insists on, looked at once more before a file is written or registered.
#
# Single updates are judged where they are applied. What follows from all of them together, and from clocks and bases that
# only their clients know, is judged here: a file that is written and cannot be read again would be the end of its table.
# The rules are those of Java's ``TableMetadata``, the strictest of the readers; others have some of them.


CLOCK_SKEW_MS: Final = 60_000
"""By how much times in logs may go back, since every writer has a clock of its own."""

OPERATIONS: Final = ("append", "replace", "overwrite", "delete")
"""What a snapshot may say that it did. PyIceberg reads no other."""


def check_foreign(found: TableMetadata) -> None:
    """Whether metadata that somebody else wrote can be served; raises InvalidRequest."""
    for schema in found.schemas:
        check_schema(schema, found.format_version)
    _check_unique("schema", [one.schema_id for one in found.schemas])
    _check_unique("partition spec", [one.spec_id for one in found.partition_specs])
    _check_unique("sort order", [one.order_id for one in found.sort_orders])
    _check_unique("snapshot", [one.snapshot_id for one in found.snapshots])
    check_readable(found)


def check_readable(made: TableMetadata) -> None:
    """Whether every client can read ``made``, whose schemas were checked when they were added.

    Raises:
        InvalidRequest: it contradicts itself.
    """
    check_references(made)
    _check_uuid(made.table_uuid)
    for spec in made.partition_specs:
        if spec.spec_id == made.default_spec_id:
            check_spec(spec, made.schema, made.format_version)
        else:
            check_former_spec(spec, made.schema)
    check_order(made.order, made.schema)
    for name, ref in made.refs.items():
        _check_ref(name, ref)
    for snapshot in made.snapshots:
        _check_snapshot(snapshot, made)
    for key in made.encryption_keys:
        _check_key(key)
    _check_log("snapshot", [one.timestamp_ms for one in made.snapshot_log], made.last_updated_ms)
    _check_log("metadata", [one.timestamp_ms for one in made.metadata_log], made.last_updated_ms)


def _check_unique(what: str, ids: Sequence[int]) -> None:
    twice = [id for id, times in Counter(ids).items() if times > 1]
    if twice:
        raise _readable_bad(f"{what} {twice[0]} is there twice")


def _check_uuid(text: str) -> None:
    try:
        uuid.UUID(text)
    except ValueError:
        raise _readable_bad(f"'{text[:60]}' is no uuid for a table") from None


def _check_key(key: EncryptedKey) -> None:
    try:
        binascii.a2b_base64(key.encrypted_key_metadata, strict_mode=True)
    except (binascii.Error, ValueError):
        raise _readable_bad(f"the metadata of encryption key '{key.key_id[:100]}' are not base64") from None


def _check_ref(name: str, ref: SnapshotRef) -> None:
    if ref.type == "tag" and (ref.min_snapshots_to_keep is not None or ref.max_snapshot_age_ms is not None):
        raise _readable_bad(
            f"tag '{name[:100]}' is one snapshot: it has no min-snapshots-to-keep and no max-snapshot-age-ms"
        )


def _check_snapshot(snapshot: Snapshot, made: TableMetadata) -> None:
    what = f"snapshot {snapshot.snapshot_id}"
    if snapshot.sequence_number > (made.last_sequence_number if made.format_version > 1 else 0):
        raise _readable_bad(
            f"{what} has sequence number {snapshot.sequence_number}, which is beyond the table's last one"
        )
    if not snapshot.manifest_list and (made.format_version > 1 or not snapshot.manifests):
        raise _readable_bad(f"{what} has no manifest list")
    if snapshot.first_row_id is not None and snapshot.added_rows is None:
        raise _readable_bad(f"{what} has a first-row-id and no added-rows")
    if snapshot.summary.get("operation", OPERATIONS[0]) not in OPERATIONS:
        raise _readable_bad(f"the operation of {what} must be one of {', '.join(OPERATIONS)}")


def _check_log(what: str, times: Sequence[int], updated: int) -> None:
    """Whether a log is in order and does not end after the metadata, but for what clocks may differ by."""
    for before, after in pairwise([*times, updated]):
        if after < before - CLOCK_SKEW_MS:
            raise _readable_bad(f"the {what} log goes back in time, from {before} to {after}")


def _readable_bad(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="metadata")
