"""The requirements of a commit on the metadata that it changes (REST specification,
``TableRequirement``). Refusals have the words of Java's ``UpdateRequirement``, since clients and
their tests look for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.views import ViewMetadata
from turnstile.store.core.errors import ErrorType, InvalidRequest, StateConflict


class CommitFailed(StateConflict):
    """A requirement does not hold, or the table moved on: load it again and commit again."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorType.COMMIT_FAILED, message, remedy="load the table again and repeat the change")


class Requirement(msgspec.Struct, frozen=True, rename="kebab", tag_field="type"):
    """A condition of a commit: if it does not hold, nothing is changed."""


class AssertCreate(Requirement, frozen=True, tag="assert-create"):
    """The table does not exist."""


class AssertTableUuid(Requirement, frozen=True, tag="assert-table-uuid"):
    uuid: str


class AssertRefSnapshotId(Requirement, frozen=True, tag="assert-ref-snapshot-id"):
    """None: there is no such branch or tag."""

    ref: str
    snapshot_id: int | None = None


class AssertLastAssignedFieldId(Requirement, frozen=True, tag="assert-last-assigned-field-id"):
    last_assigned_field_id: int


class AssertCurrentSchemaId(Requirement, frozen=True, tag="assert-current-schema-id"):
    current_schema_id: int


class AssertLastAssignedPartitionId(Requirement, frozen=True, tag="assert-last-assigned-partition-id"):
    last_assigned_partition_id: int


class AssertDefaultSpecId(Requirement, frozen=True, tag="assert-default-spec-id"):
    default_spec_id: int


class AssertDefaultSortOrderId(Requirement, frozen=True, tag="assert-default-sort-order-id"):
    default_sort_order_id: int


class AssertViewUuid(Requirement, frozen=True, tag="assert-view-uuid"):
    uuid: str


_LastId = AssertLastAssignedFieldId | AssertLastAssignedPartitionId
_CurrentId = AssertCurrentSchemaId | AssertDefaultSpecId | AssertDefaultSortOrderId
TableRequirement = AssertCreate | AssertTableUuid | AssertRefSnapshotId | _LastId | _CurrentId


def creates(requirements: Sequence[TableRequirement]) -> bool:
    """Whether a commit with these creates its table; raises InvalidRequest if others need the table
    to exist."""
    kinds = {isinstance(requirement, AssertCreate) for requirement in requirements}
    if len(kinds) > 1:
        raise InvalidRequest("assert-create cannot be combined with other requirements", field="requirements")
    return True in kinds


def check(requirement: TableRequirement, metadata: TableMetadata) -> None:
    """Raises CommitFailed unless ``requirement`` holds for an existing table."""
    match requirement:
        case AssertCreate():
            raise CommitFailed("Requirement failed: table already exists")
        case AssertTableUuid(uuid):
            _check_uuid("UUID", uuid, metadata.table_uuid)
        case AssertRefSnapshotId(ref, snapshot_id):
            _check_ref(ref, snapshot_id, metadata)
        case AssertLastAssignedFieldId(id):
            _check_id("last assigned field id", id, metadata.last_column_id)
        case AssertCurrentSchemaId(id):
            _check_id("current schema", id, metadata.current_schema_id)
        case AssertLastAssignedPartitionId(id):
            _check_id("last assigned partition id", id, metadata.last_partition_id)
        case AssertDefaultSpecId(id):
            _check_id("default partition spec", id, metadata.default_spec_id)
        case AssertDefaultSortOrderId(id):
            _check_id("default sort order", id, metadata.default_sort_order_id)
        case _:
            assert_never(requirement)


def _check_ref(ref: str, snapshot_id: int | None, metadata: TableMetadata) -> None:
    actual = metadata.refs.get(ref)
    name = ref[:100]
    if actual is None:
        if snapshot_id is not None:
            raise CommitFailed(f"Requirement failed: branch or tag {name} is missing, expected {snapshot_id}")
    elif snapshot_id is None:
        raise CommitFailed(f"Requirement failed: {actual.type} {name} was created concurrently")
    else:
        _check_id(f"{actual.type} {name}", snapshot_id, actual.snapshot_id, "has changed")


def check_view(requirement: AssertViewUuid, metadata: ViewMetadata) -> None:
    """Raises CommitFailed unless ``requirement`` holds for an existing view."""
    _check_uuid("view UUID", requirement.uuid, metadata.view_uuid)


def _check_uuid(what: str, required: str, actual: str) -> None:
    if required.lower() != actual.lower():
        raise CommitFailed(f"Requirement failed: {what} does not match: expected {actual} != {required[:100]}")


def _check_id(what: str, required: int, actual: int, changed: str = "changed") -> None:
    if required != actual:
        raise CommitFailed(f"Requirement failed: {what} {changed}: expected id {required} != {actual}")
