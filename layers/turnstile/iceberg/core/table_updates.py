"""Applying updates to a draft, one function for each kind, as Iceberg's Java implementation does it."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import msgspec

from turnstile.iceberg.core import updates as u
from turnstile.iceberg.core.draft import DEFAULT_FORMAT, LAST_ADDED, Draft
from turnstile.iceberg.core.metadata import NEWEST, TableMetadata
from turnstile.iceberg.core.partition import UNSORTED, SortOrder, check_order, check_spec, compatible, numbered
from turnstile.iceberg.core.requirements import CommitFailed
from turnstile.iceberg.core.schema import check as check_schema
from turnstile.iceberg.core.schema import highest_id, same
from turnstile.iceberg.core.snapshots import MAIN, Snapshot, SnapshotRef
from turnstile.store.core.errors import InvalidRequest, TurnstileError


def applied(
    base: TableMetadata, updates: Sequence[u.TableUpdate], now_ms: int, previous_file: str = ""
) -> TableMetadata:
    """Returns ``base`` after ``updates`` in their order; ``base`` itself when they change nothing.

    Raises:
        InvalidRequest: an update that cannot be applied.
        CommitFailed: an update that was computed from an older state.
    """
    draft = Draft.of(base, now_ms)
    for update in updates:
        apply(update, draft)
    return draft.done(previous_file)


def created(updates: Sequence[u.TableUpdate], now_ms: int, uuid: str) -> TableMetadata:
    """Returns the metadata of a new table made of ``updates``, with ``uuid`` if they give none; raises InvalidRequest."""
    versions = [update.format_version for update in updates if isinstance(update, u.UpgradeFormatVersion)]
    draft = Draft(now_ms, uuid=uuid, format_version=versions[0] if versions else DEFAULT_FORMAT)
    for update in updates:
        apply(update, draft)
    return draft.done()


@functools.singledispatch
def apply(update: u.Update, _draft: Draft) -> None:
    """Applies one update to a draft; raises as ``applied``."""
    raise TurnstileError(f"no function applies {type(update).__name__}")


@apply.register
def _(update: u.AssignUuid, draft: Draft) -> None:
    if draft.base is not None and update.uuid.lower() != draft.uuid.lower():
        raise _bad("the uuid of a table cannot be changed")
    draft.uuid = update.uuid


@apply.register
def _(update: u.UpgradeFormatVersion, draft: Draft) -> None:
    if not draft.format_version <= update.format_version <= NEWEST:
        raise _bad(f"format version {draft.format_version} cannot become {update.format_version}")
    draft.format_version = update.format_version


@apply.register
def _(update: u.AddSchema, draft: Draft) -> None:
    check_schema(update.schema, draft.format_version)
    id = draft.current_schema_id
    for schema in draft.schemas.values():
        if same(schema, update.schema):
            draft.added_schema = schema.schema_id
            return
        id = max(id, schema.schema_id + 1)
    draft.last_column_id = max(draft.last_column_id, highest_id(update.schema))
    draft.schemas[id] = msgspec.structs.replace(update.schema, schema_id=id)
    draft.added_schema = id


@apply.register
def _(update: u.SetCurrentSchema, draft: Draft) -> None:
    id = _chosen(update.schema_id, draft.added_schema, "schema")
    if id not in draft.schemas:
        raise _bad(f"schema {id} is not known")
    draft.current_schema_id = id


@apply.register
def _(update: u.AddSpec, draft: Draft) -> None:
    specs = tuple(draft.specs.values())
    for spec in specs:
        if compatible(spec, update.spec):
            draft.added_spec = spec.spec_id
            return
    id = max((spec.spec_id + 1 for spec in specs), default=0)
    added = numbered(update.spec, id, specs, draft.last_partition_id, draft.format_version)
    schema = draft.schemas.get(draft.current_schema_id)
    if schema is None:
        raise _bad("a partition spec needs a current schema")
    check_spec(added, schema, draft.format_version)
    draft.last_partition_id = max(draft.last_partition_id, *(field.field_id for field in added.fields), 0)
    draft.specs[id] = added
    draft.added_spec = id


@apply.register
def _(update: u.SetDefaultSpec, draft: Draft) -> None:
    id = _chosen(update.spec_id, draft.added_spec, "partition spec")
    if id not in draft.specs:
        raise _bad(f"partition spec {id} is not known")
    draft.default_spec_id = id


@apply.register
def _(update: u.AddSortOrder, draft: Draft) -> None:
    id = 1
    for order in draft.orders.values():
        if order.fields == update.sort_order.fields:
            draft.added_order = order.order_id
            return
        id = max(id, order.order_id + 1)
    schema = draft.schemas.get(draft.current_schema_id)
    if schema is None:
        raise _bad("a sort order needs a current schema")
    check_order(update.sort_order, schema)
    id = id if update.sort_order.fields else UNSORTED
    draft.orders[id] = SortOrder(update.sort_order.fields, id)
    draft.added_order = id


@apply.register
def _(update: u.SetDefaultSortOrder, draft: Draft) -> None:
    id = _chosen(update.sort_order_id, draft.added_order, "sort order")
    if id not in draft.orders:
        raise _bad(f"sort order {id} is not known")
    draft.default_sort_order_id = id


@apply.register
def _(update: u.AddSnapshot, draft: Draft) -> None:
    snapshot = update.snapshot
    if not draft.schemas or not draft.specs or not draft.orders:
        raise _bad("a snapshot needs a schema, a partition spec and a sort order")
    if snapshot.snapshot_id in draft.snapshots:
        raise _bad(f"snapshot {snapshot.snapshot_id} exists")
    if draft.format_version > 1:
        _check_sequence(snapshot, draft.last_sequence_number)
        draft.last_sequence_number = snapshot.sequence_number
    if draft.format_version >= 3:
        _assign_rows(snapshot, draft)
    draft.snapshots[snapshot.snapshot_id] = snapshot
    draft.added_snapshots.add(snapshot.snapshot_id)


def _check_sequence(snapshot: Snapshot, last: int) -> None:
    """Checks that the snapshot's number is new; raises CommitFailed.

    Java accepts an older number of a snapshot without a parent (CREATE OR REPLACE, the first of a branch) and sets the
    table back to it: later snapshots get numbers that exist, and deletes apply to files that they were not made for. So
    the parent does not matter here: the table moved on, and the writer has to start again.
    """
    if snapshot.sequence_number <= last:
        raise CommitFailed(
            f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, and the table is at {last}"
        )


def _assign_rows(snapshot: Snapshot, draft: Draft) -> None:
    if snapshot.first_row_id is None or snapshot.added_rows is None or snapshot.added_rows < 0:
        raise _bad(f"snapshot {snapshot.snapshot_id} has no first-row-id or added-rows")
    if snapshot.first_row_id < draft.next_row_id:
        raise CommitFailed(f"first-row-id {snapshot.first_row_id} is behind the table's {draft.next_row_id}")
    draft.next_row_id = snapshot.first_row_id + snapshot.added_rows  # ids that a writer left out stay unused (I2)


@apply.register
def _(update: u.SetSnapshotRef, draft: Draft) -> None:
    if update.snapshot_id not in draft.snapshots:
        raise _bad(f"'{update.ref_name[:100]}' cannot lead to snapshot {update.snapshot_id}, which is not there")
    if update.ref_name == MAIN and update.type != "branch":
        raise _bad("main must be a branch")
    ref = SnapshotRef(
        update.snapshot_id,
        update.type,
        update.max_ref_age_ms,
        update.max_snapshot_age_ms,
        update.min_snapshots_to_keep,
    )
    draft.point(update.ref_name, ref)


@apply.register
def _(update: u.RemoveSnapshots, draft: Draft) -> None:
    for id in update.snapshot_ids:
        if draft.snapshots.pop(id, None) is not None:
            draft.removed_snapshots = True
            draft.forget(id)
    for name, ref in list(draft.refs.items()):
        if ref.snapshot_id not in draft.snapshots:
            draft.unpoint(name)


@apply.register
def _(update: u.RemoveSnapshotRef, draft: Draft) -> None:
    draft.unpoint(update.ref_name)


@apply.register
def _(update: u.SetLocation, draft: Draft) -> None:
    draft.location = update.location.rstrip("/")


@apply.register
def _(update: u.SetProperties, draft: Draft) -> None:
    draft.properties |= update.updates


@apply.register
def _(update: u.RemoveProperties, draft: Draft) -> None:
    for name in update.removals:
        draft.properties.pop(name, None)


@apply.register
def _(update: u.SetStatistics, draft: Draft) -> None:
    if update.statistics.snapshot_id not in draft.snapshots:
        raise _bad(f"statistics are of snapshot {update.statistics.snapshot_id}, which is not there")
    draft.statistics[update.statistics.snapshot_id] = update.statistics


@apply.register
def _(update: u.RemoveStatistics, draft: Draft) -> None:
    draft.statistics.pop(update.snapshot_id, None)


@apply.register
def _(update: u.SetPartitionStatistics, draft: Draft) -> None:
    if update.partition_statistics.snapshot_id not in draft.snapshots:
        raise _bad(f"statistics are of snapshot {update.partition_statistics.snapshot_id}, which is not there")
    draft.partition_statistics[update.partition_statistics.snapshot_id] = update.partition_statistics


@apply.register
def _(update: u.RemovePartitionStatistics, draft: Draft) -> None:
    draft.partition_statistics.pop(update.snapshot_id, None)


@apply.register
def _(update: u.RemovePartitionSpecs, draft: Draft) -> None:
    if draft.default_spec_id in update.spec_ids:
        raise _bad("the default partition spec cannot be removed")
    for id in update.spec_ids:
        draft.specs.pop(id, None)


@apply.register
def _(update: u.RemoveSchemas, draft: Draft) -> None:
    if draft.current_schema_id in update.schema_ids:
        raise _bad("the current schema cannot be removed")
    for id in update.schema_ids:
        draft.schemas.pop(id, None)


@apply.register
def _(update: u.AddEncryptionKey, draft: Draft) -> None:
    draft.keys.setdefault(update.encryption_key.key_id, update.encryption_key)


@apply.register
def _(update: u.RemoveEncryptionKey, draft: Draft) -> None:
    draft.keys.pop(update.key_id, None)


def _chosen(id: int, added: int | None, what: str) -> int:
    if id != LAST_ADDED:
        return id
    if added is None:
        raise _bad(f"no {what} was added before")
    return added


def _bad(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="updates")
