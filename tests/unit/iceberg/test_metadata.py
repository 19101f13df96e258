"""Metadata files of all three versions: read, written, and refused. PyIceberg reads what is
written."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadataUtil

from tests.support.iceberg.readers import takes
from turnstile.iceberg.core import metadata
from turnstile.iceberg.core.draft import NEW_TABLE_DEFAULTS, new_table
from turnstile.iceberg.core.partition import PartitionField, PartitionSpec, SortField, SortOrder
from turnstile.iceberg.core.schema import Field, ListType, MapType, Schema, StructType
from turnstile.store.core.errors import InvalidRequest

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
NESTED = Schema(
    (
        Field(7, "id", "long", True),
        Field(8, "who",
              StructType((Field(9, "name", "string", True), Field(10, "tags", ListType(11, "string", True), False))),
              False),
        Field(12, "counts", MapType(13, "string", 14, StructType((Field(15, "n", "int", False),)), False), False),
        Field(16, "day", "date", False),
    ),
    identifier_field_ids=(7,),
)  # fmt: skip


def table(version: int = 2, **properties: str) -> metadata.TableMetadata:
    return new_table(
        uuid=UUID,
        location="s3://lake/t",
        schema=NESTED,
        spec=PartitionSpec((PartitionField(16, "day_month", "month"), PartitionField(7, "shard", "bucket[16]"))),
        order=SortOrder((SortField(16, "identity", "desc", "nulls-last"),)),
        properties={"format-version": str(version), **properties},
        now_ms=1_770_000_000_000,
    )


@pytest.mark.parametrize("version", [1, 2, 3])
def test_what_is_written_is_read_again_and_pyiceberg_reads_it_too(version: int) -> None:
    made = table(version, owner="alice")
    raw = metadata.encode(made)
    assert metadata.parse(raw) == made
    theirs = TableMetadataUtil.parse_raw(raw.decode())
    assert (theirs.format_version, str(theirs.table_uuid), theirs.location) == (version, UUID, "s3://lake/t")
    assert theirs.last_column_id == made.last_column_id == 10
    assert [field.field_id for field in theirs.schema().fields] == [1, 2, 3, 4]
    assert theirs.schema().find_column_name(9) == "counts.value"
    assert theirs.spec().fields[0].source_id == 4 and theirs.spec().fields[1].field_id == 1001
    assert theirs.properties == {"owner": "alice", **NEW_TABLE_DEFAULTS}


def test_ids_of_a_new_table_go_breadth_first_and_are_stable() -> None:
    made = table()
    columns = made.schema
    assert [part.id for part in columns.fields] == [1, 2, 3, 4]
    who = columns.fields[1].type
    counts = columns.fields[2].type
    assert isinstance(who, StructType) and [one.id for one in who.fields] == [5, 6]
    assert isinstance(counts, MapType) and (counts.key_id, counts.value_id) == (8, 9)
    assert columns.identifier_field_ids == (1,)
    again = new_table(
        uuid=UUID,
        location="s3://lake/t",
        schema=columns,
        spec=made.spec,
        order=made.sort_orders[0],
        properties={},
        now_ms=1,
    )
    assert (again.schemas, again.partition_specs, again.sort_orders) == (
        made.schemas,
        made.partition_specs,
        made.sort_orders,
    )


def test_version_1_says_schema_and_spec_where_old_readers_look() -> None:
    said = metadata.document(table(1))
    assert said["schema"] == said["schemas"][0] and said["partition-spec"] == said["partition-specs"][0]["fields"]
    assert "last-sequence-number" not in said and "next-row-id" not in said and said["current-snapshot-id"] == -1
    assert metadata.document(table(3))["next-row-id"] == 0
    assert metadata.document(table(3))["current-snapshot-id"] is None


def test_version_1_without_the_members_of_later_ones_is_read() -> None:
    old = {
        "format-version": 1,
        "table-uuid": UUID,
        "location": "s3://lake/t",
        "last-updated-ms": 1,
        "last-column-id": 1,
        "schema": {"type": "struct", "fields": [{"id": 1, "name": "x", "type": "long", "required": True}]},
        "partition-spec": [{"source-id": 1, "transform": "identity", "name": "x"}],
        "current-snapshot-id": 5,
        "snapshots": [
            {"snapshot-id": 5, "timestamp-ms": 1, "manifests": ["a.avro"], "summary": {"operation": "append"}}
        ],
        "properties": {},
        "something-new": True,
    }
    found = metadata.parse(json.dumps(old).encode())
    assert found.schema.schema_id == 0 and found.spec.fields[0].field_id == 1000 and found.last_partition_id == 1000
    assert found.refs["main"].snapshot_id == 5 and found.snapshots[0].manifests == ("a.avro",)
    assert found.sort_orders[0].order_id == 0
    assert metadata.parse(metadata.encode(found)) == found


def broken(**changes: Any) -> bytes:
    return json.dumps({**metadata.document(table()), **changes}).encode()


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"{", "not table metadata"),
        (b"[]", "not table metadata"),
        (b"{}", "format version None"),
        (broken(**{"format-version": 4}), "format version 4"),
        (broken(**{"format-version": "2"}), "format version '2'"),
        (broken(**{"current-schema-id": 9}), "schema 9 is missing"),
        (broken(**{"default-spec-id": 9}), "partition spec 9"),
        (broken(**{"default-sort-order-id": 9}), "sort order 9"),
        (broken(**{"current-snapshot-id": 9}), "a snapshot that is missing"),
        (
            broken(**{"current-snapshot-id": 9}, refs={"main": {"snapshot-id": 8, "type": "branch"}}),
            "not the one of branch main",
        ),
        (broken(refs={"x": {"snapshot-id": 9, "type": "tag"}}), "missing"),
        (broken(refs={"x": {"snapshot-id": 9, "type": "twig"}}), "not table metadata"),
        (broken(schemas=[{"type": "list"}]), "not table metadata"),
        (broken(snapshots=7), "not table metadata"),
        (b'{"format-version": 1}', "not table metadata"),
    ],
)
def test_metadata_that_is_none_is_refused(raw: bytes, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        metadata.parse(raw)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ((Field(1, "a", "long", True), Field(1, "b", "long", True)), "id 1 is used twice"),
        ((Field(1, "a", "long", True), Field(2, "a", "long", True)), "'a' is there twice"),
        ((Field(1, "a", "whole", True),), "none"),
        ((Field(1, "a", "decimal(39, 2)", True),), "none"),
        ((Field(1, "a", "timestamp_ns", True),), "version 3"),
        ((Field(1, "a", "variant", True),), "version 3"),
        ((Field(1, "a", "long", True, initial_default=7),), "version 3"),
    ],
)
def test_a_schema_that_no_reader_could_use_is_refused(fields: tuple[Field, ...], says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        new_table(uuid=UUID, location="s3://l/t", schema=Schema(fields), spec=None, order=None, properties={}, now_ms=1)


def test_a_column_that_has_no_values_is_not_required() -> None:
    for type in ("unknown", ListType(2, "unknown", True), MapType(2, "unknown", 3, "long", False)):
        with pytest.raises(InvalidRequest, match="no values but null"):
            new_table(
                uuid=UUID, location="s3://l/t", schema=Schema((Field(1, "a", type, True),)), spec=None, order=None,
                properties={"format-version": "3"}, now_ms=1,
            )  # fmt: skip


def test_version_3_has_types_and_defaults_of_its_own() -> None:
    fields = (
        Field(1, "a", "timestamp_ns", False),
        Field(2, "b", "variant", False),
        Field(3, "c", "long", False, initial_default=7, write_default=None),
        Field(4, "d", "geometry(srid:4326)", False),
    )
    made = new_table(
        uuid=UUID, location="s3://l/t", schema=Schema(fields), spec=None, order=None,
        properties={"format-version": "3"}, now_ms=1
    )  # fmt: skip
    said = metadata.document(made)["schemas"][0]["fields"]
    assert said[2]["initial-default"] == 7 and "write-default" not in said[2] and "initial-default" not in said[0]


@pytest.mark.parametrize(
    "identifier",
    [99, 2, 3, 5, 7, 9, 12],
    ids=["unknown", "floating", "optional", "inside a list", "in an optional struct", "deep in one", "in a map"],
)
def test_identifier_fields_must_be_able_to_identify(identifier: int) -> None:
    fields = (
        Field(1, "a", "long", True),
        Field(2, "b", "double", True),
        Field(3, "c", "long", False),
        Field(4, "d", ListType(5, "long", True), True),
        Field(6, "e",
              StructType((Field(7, "k", "long", True),
                          Field(8, "s", StructType((Field(9, "k", "long", True),)), True))), False),
        Field(10, "f", MapType(11, "string", 12, "long", True), True),
        Field(13, "g", StructType((Field(14, "k", "long", True),)), True),
    )  # fmt: skip
    identified(fields, 14)
    with pytest.raises(InvalidRequest, match="identif"):
        identified(fields, identifier)


def identified(fields: tuple[Field, ...], identifier: int) -> None:
    schema = Schema(fields, identifier_field_ids=(identifier,))
    new_table(uuid=UUID, location="s3://l/t", schema=schema, spec=None, order=None, properties={}, now_ms=1)


@pytest.mark.parametrize(
    ("field", "says"),
    [
        (PartitionField(99, "p", "identity"), "source column 99 is not in the schema"),
        (PartitionField(8, "p", "identity"), "no primitive"),
        (PartitionField(11, "p", "identity"), "no primitive"),
        (PartitionField(7, "p", "bucket[0]"), "is none"),
        (PartitionField(7, "p", "week"), "is none"),
        (PartitionField(7, "p", "day"), "does not take 'id', which is of type long"),
        (PartitionField(16, "p", "hour"), "does not take 'day', which is of type date"),
        (PartitionField(7, "day", "bucket[4]"), "the name of a column that it is not made of"),
        (PartitionField(7, "who.name", "identity"), "the name of a column that it is not made of"),
        (PartitionField(7, "", "identity"), "has no name"),
    ],
)
def test_a_table_cannot_be_partitioned_by_what_has_no_value_for_a_row(field: PartitionField, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        new_table(
            uuid=UUID,
            location="s3://l/t",
            schema=NESTED,
            spec=PartitionSpec((field,)),
            order=None,
            properties={},
            now_ms=1,
        )


TYPES = ("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
         "timestamptz_ns", "string", "uuid", "binary", "fixed[4]", "decimal(9, 2)", "geometry", "geography(srid:1)",
         "unknown")  # fmt: skip


@pytest.mark.parametrize("transform", ["identity", "bucket[4]", "truncate[4]", "year", "month", "day", "hour"])
@pytest.mark.parametrize("type", TYPES)
def test_a_transform_takes_the_types_of_the_specification_to_partition_and_to_sort(type: str, transform: str) -> None:
    spec = PartitionSpec((PartitionField(1, "p", transform),))
    order = SortOrder((SortField(1, transform, "asc", "nulls-first"),))
    for given in ({"spec": spec, "order": None}, {"spec": None, "order": order}):
        judged = nullcontext() if takes(transform, type) else pytest.raises(InvalidRequest, match="does not take")
        with judged:
            new_table(
                uuid=UUID, location="s3://l/t", schema=Schema((Field(1, "a", type, False),)),
                properties={"format-version": "3"}, now_ms=1, **given,
            )  # fmt: skip


def test_a_partition_may_have_the_name_of_the_column_that_it_is() -> None:
    spec = PartitionSpec((PartitionField(7, "id", "identity"),))
    created = new_table(uuid=UUID, location="s3://l/t", schema=NESTED, spec=spec, order=None, properties={}, now_ms=1)
    assert [field.name for field in created.partition_specs[0].fields] == ["id"]


def test_only_what_branches_and_tags_name_is_shown_on_demand() -> None:
    said = metadata.document(table())
    snapshots = [
        {"snapshot-id": id, "sequence-number": id, "timestamp-ms": id, "manifest-list": "x", "summary": {}}
        for id in (1, 2, 3)
    ]
    refs = {"main": {"snapshot-id": 3, "type": "branch"}, "old": {"snapshot-id": 1, "type": "tag"}}
    raw = json.dumps({**said, "snapshots": snapshots, "refs": refs, "current-snapshot-id": 3}).encode()
    assert [one.snapshot_id for one in metadata.parse(raw).without_unreferenced_snapshots().snapshots] == [1, 3]


def test_types_nested_without_end_are_refused_and_not_walked() -> None:
    deep: Any = "long"
    for id in range(2, 200):
        deep = {"type": "list", "element-id": id, "element": deep, "element-required": True}
    said = {"fields": [{"id": 1, "name": "x", "type": deep, "required": True}]}
    import msgspec

    schema = msgspec.convert(said, Schema)
    with pytest.raises(InvalidRequest, match="too deeply"):
        new_table(uuid=UUID, location="s3://l/t", schema=schema, spec=None, order=None, properties={}, now_ms=1)
