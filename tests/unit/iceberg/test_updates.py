"""Every update and every requirement: what it does to metadata, and when it is refused. PyIceberg,
which applies updates by its own code, is the judge of whole sequences."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableUpdate as TheirUpdate
from pyiceberg.table.update import update_table_metadata

from tests.support.iceberg.client import SCHEMA, add_snapshot, set_properties, set_ref, snapshot
from turnstile.iceberg.core import metadata
from turnstile.iceberg.core.draft import NEW_TABLE_DEFAULTS, new_table
from turnstile.iceberg.core.metadata import TableMetadata
from turnstile.iceberg.core.partition import PartitionSpec
from turnstile.iceberg.core.requirements import CommitFailed, TableRequirement, check, creates
from turnstile.iceberg.core.schema import Schema, same
from turnstile.iceberg.core.table_updates import apply_updates, table_from_updates
from turnstile.iceberg.core.updates import TableUpdate
from turnstile.store.core.errors import InvalidRequest

NOW = 1_780_000_000_000
UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def base(version: int = 2, **properties: str) -> TableMetadata:
    return new_table(
        uuid=UUID,
        location="s3://lake/t",
        schema=msgspec.convert(SCHEMA, Schema),
        spec=None,
        order=None,
        properties={"format-version": str(version), **properties},
        now_ms=1_770_000_000_000,
    )


def updates(*given: Any) -> tuple[TableUpdate, ...]:
    return msgspec.convert(given, tuple[TableUpdate, ...])


def after(*given: Any, of: TableMetadata | None = None) -> TableMetadata:
    return apply_updates(of or base(), updates(*given), NOW, "s3://lake/t/metadata/00000-a.metadata.json")


def three(version: int = 2) -> TableMetadata:
    """Snapshots 1, 2, 3 on main, one after the other commit; a tag on 1."""
    found = base(version)
    for id in (1, 2, 3):
        rows = {"first-row-id": 10 * (id - 1), "added-rows": 10} if version == 3 else {}
        found = after(add_snapshot(id, id - 1 or None, id, **rows), set_ref(id), of=found)
    return after(set_ref(1, "first", "tag"), of=found)


def column(id: int, name: str, type: Any = "string") -> dict[str, Any]:
    return {"id": id, "name": name, "type": type, "required": False}


def with_columns(*more: dict[str, Any]) -> dict[str, Any]:
    return {**SCHEMA, "fields": [*SCHEMA["fields"], *more]}


ADD_COLUMN = {"action": "add-schema", "schema": with_columns(column(3, "amount", "double")), "last-column-id": 3}
ADD_SPEC = {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "transform": "identity", "name": "region"}]}}
ADD_ORDER = {
    "action": "add-sort-order",
    "sort-order": {
        "order-id": 1,
        "fields": [{"source-id": 1, "transform": "identity", "direction": "asc", "null-order": "nulls-first"}],
    },
}
STATISTICS = {
    "snapshot-id": 2,
    "statistics-path": "s3://lake/t/stats.puffin",
    "file-size-in-bytes": 100,
    "file-footer-size-in-bytes": 10,
    "blob-metadata": [{"type": "apache-datasketches-theta-v1", "snapshot-id": 2, "sequence-number": 2, "fields": [1]}],
}
PARTITION_STATISTICS = {"snapshot-id": 2, "statistics-path": "s3://lake/t/p.parquet", "file-size-in-bytes": 9}
KEY = {"key-id": "k1", "encrypted-key-metadata": "AAAA", "encrypted-by-id": "kms"}


def last(action: str, member: str) -> dict[str, Any]:
    return {"action": action, member: -1}


# -- schemas, specs, orders -------------------------------------------------------------------------------------------


def test_a_schema_gets_the_next_id_and_the_last_column_follows_it() -> None:
    made = after(ADD_COLUMN, last("set-current-schema", "schema-id"))
    assert (made.current_schema_id, made.last_column_id, len(made.schemas)) == (1, 3, 2)
    assert made.last_updated_ms == NOW and made.metadata_log[0].timestamp_ms == 1_770_000_000_000


def test_a_schema_that_is_there_already_is_used_again() -> None:
    made = after(
        ADD_COLUMN, last("set-current-schema", "schema-id"), {"action": "add-schema", "schema": SCHEMA},
        last("set-current-schema", "schema-id"),
    )  # fmt: skip
    assert (made.current_schema_id, made.last_column_id, len(made.schemas)) == (0, 3, 2)


def test_partition_fields_keep_their_ids_when_a_spec_comes_back() -> None:
    made = after(ADD_SPEC, last("set-default-spec", "spec-id"))
    assert (made.default_spec_id, made.spec.fields[0].field_id, made.last_partition_id) == (1, 1000, 1000)
    other = {"action": "add-spec", "spec": {"fields": [
        {"source-id": 1, "transform": "bucket[4]", "name": "b"}, {"source-id": 2, "transform": "identity", "name": "r"},
    ]}}  # fmt: skip
    made = after(other, last("set-default-spec", "spec-id"), of=made)
    assert [field.field_id for field in made.spec.fields] == [1001, 1000] and made.last_partition_id == 1001
    made = after(ADD_SPEC, last("set-default-spec", "spec-id"), of=made)
    assert made.default_spec_id == 1 and len(made.partition_specs) == 3


def test_version_1_wants_partition_ids_in_sequence() -> None:
    fields = [{"source-id": 2, "transform": "identity", "name": "region", "field-id": 1005}]
    with pytest.raises(InvalidRequest, match="in sequence"):
        after({"action": "add-spec", "spec": {"fields": fields}}, of=base(1))
    made = base(1)
    for name in ("region", "area"):
        unnumbered = [{"source-id": 2, "transform": "identity", "name": name}]
        made = after({"action": "add-spec", "spec": {"fields": unnumbered}}, of=made)
    assert [field.field_id for spec in made.partition_specs for field in spec.fields] == [1000, 1000]
    assert made.last_partition_id == 1000


def test_no_order_has_id_zero_and_others_count_from_one() -> None:
    made = after(ADD_ORDER, last("set-default-sort-order", "sort-order-id"))
    assert made.default_sort_order_id == 1
    back = after(
        {"action": "add-sort-order", "sort-order": {"order-id": 7, "fields": []}},
        last("set-default-sort-order", "sort-order-id"), of=made,
    )  # fmt: skip
    assert back.default_sort_order_id == 0 and len(back.sort_orders) == 2


def test_what_is_in_use_cannot_be_removed_and_the_rest_can() -> None:
    made = after(ADD_COLUMN, last("set-current-schema", "schema-id"), ADD_SPEC, last("set-default-spec", "spec-id"))
    for refused in (
        {"action": "remove-schemas", "schema-ids": [1]},
        {"action": "remove-partition-specs", "spec-ids": [1]},
    ):
        with pytest.raises(InvalidRequest, match="cannot be removed"):
            after(refused, of=made)
    made = after(
        {"action": "remove-schemas", "schema-ids": [0]}, {"action": "remove-partition-specs", "spec-ids": [0]}, of=made
    )
    assert [one.schema_id for one in made.schemas] == [1] and [one.spec_id for one in made.partition_specs] == [1]


def test_a_column_that_partitions_cannot_leave_the_schema() -> None:
    made = after(ADD_SPEC, last("set-default-spec", "spec-id"))
    only = {"action": "add-schema", "schema": {**SCHEMA, "fields": SCHEMA["fields"][:1]}}
    with pytest.raises(InvalidRequest, match="not in the current schema"):
        after(only, last("set-current-schema", "schema-id"), of=made)


# -- snapshots and references -----------------------------------------------------------------------------------------


def test_main_is_the_current_snapshot_and_the_log_says_since_when() -> None:
    made = three()
    assert (made.current_snapshot_id, made.last_sequence_number) == (3, 3)
    assert [entry.snapshot_id for entry in made.snapshot_log] == [1, 2, 3]
    assert made.snapshot_log[0].timestamp_ms == snapshot(1)["timestamp-ms"]
    rolled = after(set_ref(1), of=made)
    assert rolled.current_snapshot_id == 1 and rolled.snapshot_log[-1].timestamp_ms == NOW


def test_what_was_current_only_inside_a_commit_is_not_in_the_log() -> None:
    made = after(add_snapshot(1), set_ref(1), add_snapshot(2, 1, 2), set_ref(2))
    assert [entry.snapshot_id for entry in made.snapshot_log] == [2] and len(made.snapshots) == 2


def test_history_before_a_removed_snapshot_is_forgotten() -> None:
    made = after({"action": "remove-snapshots", "snapshot-ids": [2]}, of=three())
    assert [entry.snapshot_id for entry in made.snapshot_log] == [3]
    assert [one.snapshot_id for one in made.snapshots] == [1, 3]


def test_a_snapshot_takes_its_references_and_statistics_with_it() -> None:
    made = after(
        {"action": "set-statistics", "statistics": STATISTICS, "snapshot-id": 2},
        {"action": "set-partition-statistics", "partition-statistics": PARTITION_STATISTICS},
        set_ref(2, "two", "tag", **{"max-ref-age-ms": 5}),
        of=three(),
    )
    assert made.statistics and made.partition_statistics and made.refs["two"].max_ref_age_ms == 5
    made = after({"action": "remove-snapshots", "snapshot-ids": [1, 2]}, of=made)
    assert set(made.refs) == {"main"} and made.statistics == made.partition_statistics == ()


def test_statistics_are_replaced_and_removed_by_snapshot() -> None:
    made = after({"action": "set-statistics", "statistics": STATISTICS}, of=three())
    made = after({"action": "set-statistics", "statistics": {**STATISTICS, "statistics-path": "s3://x"}}, of=made)
    assert [one.statistics_path for one in made.statistics] == ["s3://x"]
    made = after(
        {"action": "remove-statistics", "snapshot-id": 2},
        {"action": "remove-partition-statistics", "snapshot-id": 2},
        of=made,
    )
    assert made.statistics == ()


def test_without_main_there_is_no_current_snapshot() -> None:
    made = after({"action": "remove-snapshot-ref", "ref-name": "main"}, of=three())
    assert made.current_snapshot_id is None and set(made.refs) == {"first"} and len(made.snapshots) == 3


def test_a_snapshot_from_an_older_state_is_a_conflict_and_not_a_mistake() -> None:
    with pytest.raises(CommitFailed, match="sequence number 3"):
        after(add_snapshot(9, 3, 3), of=three())
    with pytest.raises(CommitFailed, match="first-row-id 5 is behind"):
        after(add_snapshot(9, 3, 4, **{"first-row-id": 5, "added-rows": 1}), of=three(3))


@pytest.mark.parametrize("behind", [add_snapshot(9, None, 0), add_snapshot(9, 3, 3), add_snapshot(9, 1, 2)])
def test_i2_no_sequence_number_is_given_out_twice_in_one_history(behind: Any) -> None:
    with pytest.raises(CommitFailed, match="sequence number"):
        after({"action": "remove-snapshot-ref", "ref-name": "main"}, behind, set_ref(9), of=three())


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_i2_a_snapshot_without_a_parent_never_sets_the_number_back(number: int) -> None:
    made = after(add_snapshot(9, None, number), set_ref(9), of=three())
    assert made.last_sequence_number == max(3, number)
    with pytest.raises(CommitFailed, match="sequence number"):
        after(add_snapshot(10, 9, 3), set_ref(10), of=made)


def test_format_version_1_counts_no_sequences() -> None:
    with pytest.raises(InvalidRequest, match="beyond the table's last one"):
        after(add_snapshot(1, None, 1), set_ref(1), of=base(1))
    made = after(add_snapshot(1, None, 0), set_ref(1), of=base(1))
    made = after({"action": "upgrade-format-version", "format-version": 2}, of=made)
    assert after(add_snapshot(2, 1, 1), set_ref(2), of=made).last_sequence_number == 1


def test_a_column_cannot_take_the_name_of_a_partition_that_is_not_made_of_it() -> None:
    spec = {"fields": [{"source-id": 1, "transform": "bucket[4]", "name": "amount"}]}
    made = after({"action": "add-spec", "spec": spec}, last("set-default-spec", "spec-id"))
    for found in (made, after({"action": "set-default-spec", "spec-id": 0}, of=made)):
        with pytest.raises(InvalidRequest, match="name of a column"):
            after(ADD_COLUMN, last("set-current-schema", "schema-id"), of=found)


def test_a_sort_order_in_use_keeps_its_columns() -> None:
    made = after(ADD_ORDER, last("set-default-sort-order", "sort-order-id"))
    only = {"action": "add-schema", "schema": {**SCHEMA, "fields": SCHEMA["fields"][1:]}}
    with pytest.raises(InvalidRequest, match="not in the current schema"):
        after(only, last("set-current-schema", "schema-id"), of=made)


def test_version_3_counts_rows() -> None:
    made = after(add_snapshot(9, 3, 4, **{"first-row-id": 30, "added-rows": 7}), of=three(3))
    assert made.next_row_id == 37
    with pytest.raises(InvalidRequest, match="no first-row-id"):
        after(add_snapshot(9, 3, 4), of=three(3))


@pytest.mark.parametrize(
    ("update", "says"),
    [
        (add_snapshot(3, 2, 4), "exists"),
        (set_ref(99), "which is not there"),
        (set_ref(1, "main", "tag"), "must be a branch"),
        (set_ref(1, "t", "tag", **{"min-snapshots-to-keep": 2}), "no min-snapshots-to-keep"),
        (set_ref(1, "t", "tag", **{"max-snapshot-age-ms": 2}), "no max-snapshot-age-ms"),
        (add_snapshot(9, 3, 4, summary={"operation": "improve"}), "must be one of append"),
        (add_snapshot(9, 3, 4, **{"manifest-list": ""}), "no manifest list"),
        (add_snapshot(9, 3, 4, **{"first-row-id": 1}), "no added-rows"),
        ({"action": "add-schema", "schema": with_columns(column(3, "d", "unknown") | {"required": True})},
         "format version 3"),
        ({"action": "assign-uuid", "uuid": "00000000-0000-4000-8000-000000000009"}, "cannot be changed"),
        ({"action": "upgrade-format-version", "format-version": 1}, "cannot become 1"),
        ({"action": "upgrade-format-version", "format-version": 4}, "cannot become 4"),
        ({"action": "set-current-schema", "schema-id": 9}, "not known"),
        ({"action": "set-default-spec", "spec-id": 9}, "not known"),
        ({"action": "set-default-sort-order", "sort-order-id": 9}, "not known"),
        (last("set-current-schema", "schema-id"), "no schema was added"),
        (last("set-default-spec", "spec-id"), "no partition spec was added"),
        (last("set-default-sort-order", "sort-order-id"), "no sort order was added"),
    ],
)  # fmt: skip
def test_an_update_that_fits_no_state_is_refused(update: Any, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        after(update, of=three())


@pytest.mark.parametrize(
    "update",
    [
        {"action": "assign-uuid", "uuid": UUID.upper()},
        {"action": "upgrade-format-version", "format-version": 2},
        set_properties(),
        {"action": "remove-properties", "removals": ["none"]},
        {"action": "remove-snapshots", "snapshot-ids": [99]},
        {"action": "remove-snapshot-ref", "ref-name": "none"},
        {"action": "remove-encryption-key", "key-id": "none"},
        {"action": "remove-statistics", "snapshot-id": 1},
        {"action": "set-location", "location": "s3://lake/t/"},
        set_ref(3),
    ],
)
def test_what_changes_nothing_makes_no_new_metadata(update: Any) -> None:
    found = three()
    assert after(update, of=found) is found or update["action"] == "assign-uuid"


# -- the rest ---------------------------------------------------------------------------------------------------------


def test_properties_and_keys_come_and_go() -> None:
    made = after(set_properties(a="1", b="2"), {"action": "add-encryption-key", "encryption-key": KEY})
    made = after({"action": "remove-properties", "removals": ["a"]}, of=made)
    assert made.properties == {"b": "2", **NEW_TABLE_DEFAULTS} and list(metadata.document(made)["encryption-keys"]) == [
        KEY
    ]
    assert after({"action": "remove-encryption-key", "key-id": "k1"}, of=made).encryption_keys == ()


@pytest.mark.parametrize(("kept", "expected"), [("3", 3), ("0", 1), ("many", 5), ("-1", 5)])
def test_as_many_former_files_are_remembered_as_the_table_wants(kept: str, expected: int) -> None:
    found = base(**{"write.metadata.previous-versions-max": kept})
    for count in range(5):
        found = apply_updates(found, updates(set_properties(n=str(count))), NOW, f"s3://lake/t/{count}")
    assert [entry.metadata_file for entry in found.metadata_log] == [f"s3://lake/t/{n}" for n in range(5)][-expected:]


def test_a_table_can_be_made_of_updates_alone() -> None:
    made = table_from_updates(
        updates(
            {"action": "assign-uuid", "uuid": UUID}, {"action": "upgrade-format-version", "format-version": 1},
            {"action": "add-schema", "schema": SCHEMA}, last("set-current-schema", "schema-id"), ADD_SPEC,
            last("set-default-spec", "spec-id"),
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            last("set-default-sort-order", "sort-order-id"), {"action": "set-location", "location": "s3://lake/t"},
            set_properties(a="1"),
        ), NOW, "",
    )  # fmt: skip
    assert (made.format_version, made.table_uuid, made.default_spec_id, made.metadata_log) == (1, UUID, 0, ())


@pytest.mark.parametrize("missing", ["schema", "location"])
def test_a_table_without_schema_or_location_is_none(missing: str) -> None:
    given = [] if missing == "schema" else [{"action": "add-schema", "schema": SCHEMA}]
    with pytest.raises(InvalidRequest, match="without schema" if missing == "schema" else "no location"):
        table_from_updates(
            updates(*given, *([{"action": "set-location", "location": "s3://l/t"}] if missing == "schema" else [])),
            1,
            UUID,
        )


def test_unknown_actions_and_requirements_are_no_requests() -> None:
    for wrong, shape in (({"action": "set-colour"}, TableUpdate), ({"type": "assert-luck"}, TableRequirement)):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, shape)


# -- requirements -----------------------------------------------------------------------------------------------------

HOLDING = [
    {"type": "assert-table-uuid", "uuid": UUID.upper()},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 3},
    {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": None},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 2},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 999},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
]
FAILING = [
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": "00000000-0000-4000-8000-000000000009"},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": 2},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
    {"type": "assert-ref-snapshot-id", "ref": "none", "snapshot-id": 2},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 1},
    {"type": "assert-current-schema-id", "current-schema-id": 1},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1000},
    {"type": "assert-default-spec-id", "default-spec-id": 1},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 1},
]


@pytest.mark.parametrize("requirement", HOLDING, ids=lambda one: one["type"])
def test_a_requirement_that_holds_says_nothing(requirement: Any) -> None:
    check(msgspec.convert(requirement, TableRequirement), three())


@pytest.mark.parametrize("requirement", FAILING, ids=lambda one: one["type"])
def test_a_requirement_that_does_not_hold_is_a_conflict(requirement: Any) -> None:
    with pytest.raises(CommitFailed, match="Requirement failed"):
        check(msgspec.convert(requirement, TableRequirement), three())


def test_a_new_table_can_require_nothing_else() -> None:
    asked = msgspec.convert([{"type": "assert-create"}, HOLDING[0]], tuple[TableRequirement, ...])
    assert creates(asked[:1]) and not creates(asked[1:])
    with pytest.raises(InvalidRequest, match="other requirements"):
        creates(asked)


# -- a second opinion -------------------------------------------------------------------------------------------------

STEPS = [
    [ADD_COLUMN, last("set-current-schema", "schema-id")],
    [{"action": "add-schema", "schema": with_columns(column(3, "amount", "double"), column(4, "note"))}],
    [
        {"action": "add-spec", "spec": {"spec-id": 1, "fields": [
            {"source-id": 2, "field-id": 1000, "transform": "identity", "name": "region"}]}},
        last("set-default-spec", "spec-id"),
    ],
    [ADD_ORDER, last("set-default-sort-order", "sort-order-id")],
    [set_properties(a="1", b="2")],
    [{"action": "remove-properties", "removals": ["a"]}],
    ["append"],
    ["append"],
    ["tag"],
    ["untag"],
    ["expire"],
]  # fmt: skip


def spelled(step: Any, now: TableMetadata, position: int) -> list[dict[str, Any]]:
    """The updates of a step whose meaning depends on the state."""
    current = now.current_snapshot_id
    if step == ["append"]:
        id = 100 + position
        return [add_snapshot(id, current, now.last_sequence_number + 1), set_ref(id)]
    if step == ["tag"]:
        return [set_ref(current, f"tag-{position}", "tag")] if current else []
    if step == ["untag"]:
        return [{"action": "remove-snapshot-ref", "ref-name": name} for name in sorted(now.refs) if name != "main"][:1]
    if step == ["expire"]:
        named = {ref.snapshot_id for ref in now.refs.values()}
        ids = [one.snapshot_id for one in now.snapshots if one.snapshot_id not in named]
        return [{"action": "remove-snapshots", "snapshot-ids": ids}] if ids else []
    first = step[0]
    if (
        first["action"] == "add-schema"
    ):  # PyIceberg adds what is there already once more, and takes ids as they are given
        wanted = msgspec.convert(first["schema"], Schema)
        if any(same(one, wanted) for one in now.schemas):
            return []
        id = max(one.schema_id for one in now.schemas) + 1
        return [{**first, "schema": {**first["schema"], "schema-id": id}}, *step[1:]]
    if first["action"] == "remove-properties" and "a" not in now.properties:
        return []
    if (first["action"] == "add-spec" and len(now.partition_specs) > 1) or (
        first["action"] == "add-sort-order" and len(now.sort_orders) > 1
    ):
        return []
    return list(step)


IGNORED = ("last-updated-ms", "metadata-log", "snapshot-log", "statistics", "partition-statistics")
"""What PyIceberg leaves to catalogs, or keeps differently: times, logs."""


def comparable(said: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in said.items() if name not in IGNORED}
    kept["current-snapshot-id"] = None if kept.get("current-snapshot-id") in (None, -1) else kept["current-snapshot-id"]
    known = {one["snapshot-id"] for one in kept["snapshots"]}
    for one in kept["snapshots"]:  # PyIceberg forgets a parent that was removed, Java does not
        if one.get("parent-snapshot-id") not in known:
            one.pop("parent-snapshot-id", None)
    return kept


@given(st.lists(st.sampled_from(STEPS), max_size=8))
def test_pyiceberg_makes_the_same_metadata_of_the_same_updates(steps: list[Any]) -> None:
    ours = base()
    theirs = TableMetadataUtil.parse_raw(metadata.encode(ours).decode())
    reader = TypeAdapter(tuple[TheirUpdate, ...])
    for position, step in enumerate(steps):
        given_updates = spelled(step, ours, position)
        ours = apply_updates(ours, updates(*given_updates), NOW + position)
        theirs = update_table_metadata(theirs, reader.validate_python(tuple(given_updates)))
    read = TableMetadataUtil.parse_raw(metadata.encode(ours).decode())
    assert comparable(json.loads(read.model_dump_json())) == comparable(json.loads(theirs.model_dump_json()))


def test_specs_that_differ_only_by_ids_are_one() -> None:
    fields = ADD_SPEC["spec"]["fields"]  # type: ignore[index]
    made = after(ADD_SPEC, {"action": "add-spec", "spec": {"spec-id": 9, "fields": fields}})
    assert [one.spec_id for one in made.partition_specs] == [0, 1]
    assert isinstance(made.partition_specs[1], PartitionSpec)
