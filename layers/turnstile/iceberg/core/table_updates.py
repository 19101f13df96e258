"""Applies updates to a draft as Iceberg's Java implementation does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from turnstile.catalog.core.paths import Path
from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.draft import DEFAULT_FORMAT, Draft, bad_update, chosen_id
from turnstile.iceberg.core.metadata import NEWEST, TableMetadata
from turnstile.iceberg.core.partition import (
    UNSORTED,
    PartitionSpec,
    SortOrder,
    check_order,
    check_spec,
    compatible,
    with_ids,
)
from turnstile.iceberg.core.requirements import CommitFailed, TableRequirement
from turnstile.iceberg.core.schema import Schema, highest_id, same
from turnstile.iceberg.core.schema import check as check_schema
from turnstile.iceberg.core.snapshots import MAIN, Snapshot, SnapshotRef


class TableChange(msgspec.Struct, frozen=True):
    """A commit of the table ``path``."""

    path: Path
    requirements: tuple[TableRequirement, ...]
    updates: tuple[u.TableUpdate, ...]


def apply_updates(
    base: TableMetadata,
    updates: Sequence[u.TableUpdate],
    now_ms: int,
    previous_file: str = "",
    *,
    readable: bool = True,
) -> TableMetadata:
    """Returns ``base`` after ``updates`` in their order; ``base`` itself when they change nothing.
    Raises InvalidRequest for an update that cannot be applied, CommitFailed for one computed from
    an older state. Without ``readable`` the caller judges the result by ``check_readable``, before
    it becomes a file.
    """
    draft = Draft.of(base, now_ms)
    for update in updates:
        _apply(update, draft)
    return draft.finish(previous_file, readable=readable)


def table_from_updates(updates: Sequence[u.TableUpdate], now_ms: int, uuid: str) -> TableMetadata:
    """Returns the metadata of a new table made of ``updates``, with ``uuid`` if they give none;
    raises InvalidRequest."""
    versions = [update.format_version for update in updates if isinstance(update, u.UpgradeFormatVersion)]
    draft = Draft(now_ms, uuid=uuid, format_version=versions[0] if versions else DEFAULT_FORMAT)
    for update in updates:
        _apply(update, draft)
    return draft.finish()


def _apply(update: u.TableUpdate, draft: Draft) -> None:  # noqa: C901 - one case for each kind
    match update:
        case u.AssignUuid(uuid):
            if draft.base is not None and uuid.lower() != draft.uuid.lower():
                raise bad_update("the uuid of a table cannot be changed")
            draft.uuid = uuid
        case u.UpgradeFormatVersion(version):
            if not draft.format_version <= version <= NEWEST:
                raise bad_update(f"format version {draft.format_version} cannot become {version}")
            draft.format_version = version
        case u.SetLocation(location):
            draft.location = location.rstrip("/")
        case u.SetProperties(properties):
            draft.properties |= properties
        case u.RemoveProperties(names):
            for name in names:
                draft.properties.pop(name, None)
        case u.AddSchema(schema):
            _add_schema(schema, draft)
        case u.SetCurrentSchema(id):
            draft.current_schema_id = chosen_id(id, draft.added_schema, draft.schemas, "schema")
        case u.RemoveSchemas(ids):
            if draft.current_schema_id in ids:
                raise bad_update("the current schema cannot be removed")
            for id in ids:
                draft.schemas.pop(id, None)
        case u.AddSpec(spec):
            _add_spec(spec, draft)
        case u.SetDefaultSpec(id):
            draft.default_spec_id = chosen_id(id, draft.added_spec, draft.specs, "partition spec")
        case u.RemovePartitionSpecs(ids):
            if draft.default_spec_id in ids:
                raise bad_update("the default partition spec cannot be removed")
            for id in ids:
                draft.specs.pop(id, None)
        case u.AddSortOrder(order):
            _add_order(order, draft)
        case u.SetDefaultSortOrder(id):
            draft.default_sort_order_id = chosen_id(id, draft.added_order, draft.orders, "sort order")
        case u.AddSnapshot(snapshot):
            _add_snapshot(snapshot, draft)
        case u.SetSnapshotRef():
            _set_ref(update, draft)
        case u.RemoveSnapshotRef(name):
            draft.unpoint(name)
        case u.RemoveSnapshots(ids):
            draft.remove_snapshots(ids)
        case u.SetStatistics(file):
            draft.statistics[file.snapshot_id] = file
        case u.RemoveStatistics(id):
            draft.statistics.pop(id, None)
        case u.SetPartitionStatistics(partition_file):
            draft.partition_statistics[partition_file.snapshot_id] = partition_file
        case u.RemovePartitionStatistics(id):
            draft.partition_statistics.pop(id, None)
        case u.AddEncryptionKey(key):
            draft.keys.setdefault(key.key_id, key)
        case u.RemoveEncryptionKey(key_id):
            draft.keys.pop(key_id, None)
        case _:
            assert_never(update)


def _add_schema(schema: Schema, draft: Draft) -> None:
    check_schema(schema, draft.format_version)
    id = next((other.schema_id for other in draft.schemas.values() if same(other, schema)), None)
    if id is None:
        id = max([draft.current_schema_id, *(other.schema_id + 1 for other in draft.schemas.values())])
        draft.last_column_id = max(draft.last_column_id, highest_id(schema))
        draft.schemas[id] = msgspec.structs.replace(schema, schema_id=id)
    draft.added_schema = id


def _add_spec(spec: PartitionSpec, draft: Draft) -> None:
    specs = tuple(draft.specs.values())
    id = next((other.spec_id for other in specs if compatible(other, spec)), None)
    if id is None:
        id = max((other.spec_id + 1 for other in specs), default=0)
        added = with_ids(spec, id, specs, draft.last_partition_id, draft.format_version)
        check_spec(added, _current_schema(draft, "a partition spec"), draft.format_version)
        draft.last_partition_id = max(draft.last_partition_id, *(field.field_id for field in added.fields), 0)
        draft.specs[id] = added
    draft.added_spec = id


def _add_order(order: SortOrder, draft: Draft) -> None:
    id = next((other.order_id for other in draft.orders.values() if other.fields == order.fields), None)
    if id is None:
        check_order(order, _current_schema(draft, "a sort order"))
        id = max([1, *(other.order_id + 1 for other in draft.orders.values())]) if order.fields else UNSORTED
        draft.orders[id] = SortOrder(order.fields, id)
    draft.added_order = id


def _current_schema(draft: Draft, what: str) -> Schema:
    schema = draft.schemas.get(draft.current_schema_id)
    if schema is None:
        raise bad_update(f"{what} needs a current schema")
    return schema


def _add_snapshot(snapshot: Snapshot, draft: Draft) -> None:
    if not draft.schemas or not draft.specs or not draft.orders:
        raise bad_update("a snapshot needs a schema, a partition spec and a sort order")
    if snapshot.snapshot_id in draft.snapshots:
        raise bad_update(f"snapshot {snapshot.snapshot_id} exists")
    if draft.format_version > 1:
        _check_sequence(snapshot, draft.last_sequence_number)
        draft.last_sequence_number = max(draft.last_sequence_number, snapshot.sequence_number)
    if draft.format_version >= 3:
        _assign_rows(snapshot, draft)
    draft.snapshots[snapshot.snapshot_id] = snapshot
    draft.added_snapshots.add(snapshot.snapshot_id)


def _check_sequence(snapshot: Snapshot, last: int) -> None:
    """Raises CommitFailed unless the snapshot's number is new, or the snapshot has no parent: a
    CREATE OR REPLACE from an older base, or the first of a branch, begins a history of its own:
    numbers need be new only there. Java's catalogs set the table back to the older number then;
    here it stays, so that the numbers of every later snapshot are new (I2).
    """
    is_first = snapshot.parent_snapshot_id is None and snapshot.sequence_number > 0
    if snapshot.sequence_number <= last and not is_first:
        raise CommitFailed(
            f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, and the table is at "
            f"{last}"
        )


def _assign_rows(snapshot: Snapshot, draft: Draft) -> None:
    if snapshot.first_row_id is None or snapshot.added_rows is None or snapshot.added_rows < 0:
        raise bad_update(f"snapshot {snapshot.snapshot_id} has no first-row-id or added-rows")
    if snapshot.first_row_id < draft.next_row_id:
        raise CommitFailed(f"first-row-id {snapshot.first_row_id} is behind the table's {draft.next_row_id}")
    draft.next_row_id = snapshot.first_row_id + snapshot.added_rows  # ids that a writer left out stay unused (I2)


def _set_ref(update: u.SetSnapshotRef, draft: Draft) -> None:
    name = update.ref_name
    id = update.snapshot_id
    if id not in draft.snapshots:
        raise bad_update(f"'{name[:100]}' cannot lead to snapshot {id}, which is not there")
    if name == MAIN and update.type != "branch":
        raise bad_update("main must be a branch")
    ages_ms = update.max_ref_age_ms, update.max_snapshot_age_ms
    draft.point(name, SnapshotRef(id, update.type, *ages_ms, update.min_snapshots_to_keep))
