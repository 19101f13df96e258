"""What every reader of a metadata file insists on, looked at once more before a file is written or registered.

Single updates are judged where they are applied. What follows from all of them together, and from clocks and bases that
only their clients know, is judged here: a file that is written and cannot be read again would be the end of its table.
The rules are those of Java's ``TableMetadata``, the strictest of the readers; others have some of them.
"""

from __future__ import annotations

import binascii
import uuid
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from turnstile.iceberg.core.metadata import TableMetadata, check_references
from turnstile.iceberg.core.partition import check_former_spec, check_order, check_spec
from turnstile.iceberg.core.schema import check as check_schema
from turnstile.iceberg.core.snapshots import EncryptedKey, Snapshot, SnapshotRef
from turnstile.store.core.errors import InvalidRequest

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
        raise _bad(f"{what} {twice[0]} is there twice")


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


def _check_snapshot(snapshot: Snapshot, made: TableMetadata) -> None:
    what = f"snapshot {snapshot.snapshot_id}"
    if snapshot.sequence_number > (made.last_sequence_number if made.format_version > 1 else 0):
        raise _bad(f"{what} has sequence number {snapshot.sequence_number}, which is beyond the table's last one")
    if not snapshot.manifest_list and (made.format_version > 1 or not snapshot.manifests):
        raise _bad(f"{what} has no manifest list")
    if snapshot.first_row_id is not None and snapshot.added_rows is None:
        raise _bad(f"{what} has a first-row-id and no added-rows")
    if snapshot.summary.get("operation", OPERATIONS[0]) not in OPERATIONS:
        raise _bad(f"the operation of {what} must be one of {', '.join(OPERATIONS)}")


def _check_log(what: str, times: Sequence[int], updated: int) -> None:
    """Whether a log is in order and does not end after the metadata, but for what clocks may differ by."""
    for before, after in pairwise([*times, updated]):
        if after < before - CLOCK_SKEW_MS:
            raise _bad(f"the {what} log goes back in time, from {before} to {after}")


def _bad(message: str) -> InvalidRequest:
    return InvalidRequest(message, field="metadata")
