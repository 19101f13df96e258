"""A Delta table as Iceberg's metadata: ids, name mappings, partition values, and what is refused by
name."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.iceberg.delta_table import field, metadata
from turnstile.delta.core.actions import DeletionVector
from turnstile.iceberg.core.delta_tables import (
    NAME_MAPPING,
    DeltaSource,
    PartitionColumn,
    check_same_columns,
    iceberg_metadata,
    partition_columns,
    partition_value,
    snapshot_id,
    version_of,
)
from turnstile.iceberg.core.metadata import TableMetadata, check_readable, document
from turnstile.iceberg.core.scan_tasks import path_of, vector_path
from turnstile.store.core.errors import UnsupportedTable

UUID = "11111111-1111-4111-8111-111111111111"
LOCATION = "s3://lake/t"


def shown(
    fields: list[dict[str, Any]], partitions: tuple[str, ...] = (), features: tuple[str, ...] = (), **configuration: str
) -> TableMetadata:
    made = metadata(fields, partitions, **configuration)["metaData"]
    protocol = {"readerFeatures": list(features)} if features else {}
    return iceberg_metadata(DeltaSource(UUID, LOCATION, protocol, made, 4, 3, [(2, 20), (3, 30), (4, 40)], 3))


def mapped(name: str, kind: Any, id: int, physical: str, **more: Any) -> dict[str, Any]:
    return field(name, kind, **{"delta.columnMapping.id": id, "delta.columnMapping.physicalName": physical, **more})


MAPPED = {"delta.columnMapping.mode": "name"}
STRUCT = {"type": "struct", "fields": [field("x", "integer"), field("y", "string")]}
ARRAY = {"type": "array", "elementType": "string", "containsNull": True}
MAP = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": False}


def test_every_reader_can_read_it() -> None:
    table = shown([field("id", "long"), field("a", STRUCT), field("m", MAP)], ("id",))
    check_readable(table)
    body = document(table)
    assert body["current-snapshot-id"] == 5 and body["last-column-id"] == 8 and body["last-partition-id"] == 1000
    assert [(one["snapshot-id"], one.get("schema-id"), one["timestamp-ms"]) for one in body["snapshots"]] == [
        (3, None, 20), (4, 0, 30), (5, 0, 40),
    ]  # fmt: skip
    assert [one["snapshot-id"] for one in body["snapshot-log"]] == [4, 5], "those whose time is the commit's own"
    assert body["snapshots"][2]["summary"] == {"operation": "overwrite", "delta-version": "4"}
    assert shown([field("id", "long")], features=("deletionVectors",)).format_version == 3
    assert version_of(snapshot_id(7)) == 7 and snapshot_id(0) > 0


def test_columns_are_found_by_name_without_column_mapping() -> None:
    table = shown([field("id", "long"), field("a", STRUCT), field("m", MAP)])
    assert json.loads(msgspec.json.encode(table.schema))["fields"] == [
        {"id": 1, "name": "id", "type": "long", "required": False},
        {"id": 2, "name": "a", "required": False, "type": {"type": "struct", "fields": [
            {"id": 3, "name": "x", "type": "int", "required": False},
            {"id": 4, "name": "y", "type": "string", "required": False},
        ]}},
        {"id": 5, "name": "m", "required": False, "type": {
            "type": "map", "key-id": 6, "key": "string", "value-id": 7, "value-required": True, "value": {
                "type": "list", "element-id": 8, "element": "string", "element-required": False,
            }}},
    ]  # fmt: skip
    assert json.loads(table.properties[NAME_MAPPING]) == [
        {"field-id": 1, "names": ["id"]},
        {"field-id": 2, "names": ["a"], "fields": [{"field-id": 3, "names": ["x"]}, {"field-id": 4, "names": ["y"]}]},
        {"field-id": 5, "names": ["m"], "fields": [
            {"field-id": 6, "names": ["key"]},
            {"field-id": 7, "names": ["value"], "fields": [{"field-id": 8, "names": ["element"]}]},
        ]},
    ]  # fmt: skip


def test_columns_have_the_ids_of_column_mapping() -> None:
    nested = {"delta.columnMapping.nested.ids": {"col-9.element": 12}}
    table = shown([mapped("id", "long", 7, "col-7"), mapped("tags", ARRAY, 9, "col-9", **nested)], ("id",), **MAPPED)
    assert [(one.id, one.name) for one in table.schema.fields] == [(7, "id"), (9, "tags")]
    assert table.last_column_id == 12 and table.spec.fields[0].source_id == 7
    assert json.loads(table.properties[NAME_MAPPING])[1] == {
        "field-id": 9, "names": ["col-9"], "fields": [{"field-id": 12, "names": ["element"]}],
    }  # fmt: skip
    (column,) = partition_columns(metadata([mapped("id", "long", 7, "col-7")], ("id",), **MAPPED)["metaData"])
    assert column == PartitionColumn("id", "col-7", "long", "long", 7)


def test_required_columns_comments_and_properties() -> None:
    table = shown(
        [{**field("id", "long", comment="the key"), "nullable": False}],
        **{
            "owner": "ann",
            "delta.appendOnly": "true",
            "write.format.default": "orc",
            "schema.name-mapping.default": "[]",
        },
    )
    assert (table.schema.fields[0].required, table.schema.fields[0].doc) == (True, "the key")
    assert set(table.properties) == {"owner", NAME_MAPPING, "gc.enabled", "turnstile.format"}
    assert json.loads(table.properties[NAME_MAPPING]) == [{"field-id": 1, "names": ["id"]}]


@pytest.mark.parametrize(
    ("kind", "iceberg"),
    [
        ("byte", "int"), ("short", "int"), ("integer", "int"), ("long", "long"), ("float", "float"),
        ("double", "double"),
        ("boolean", "boolean"), ("binary", "binary"), ("date", "date"), ("timestamp", "timestamptz"),
        ("string", "string"),
        ("timestamp_ntz", "timestamp"), ("decimal(9,2)", "decimal(9, 2)"), ("varchar(3)", "string"),
        ("char(3)", "string"),
    ],
)  # fmt: skip
def test_types(kind: str, iceberg: str) -> None:
    assert shown([field("c", kind)]).schema.fields[0].type == iceberg


WIDENED = "delta.typeChanges"


@pytest.mark.parametrize(
    ("fields", "configuration", "features", "problem"),
    [
        ([field("v", "variant")], {}, (), "column 'v' is of type variant"),
        ([field("v", "void")], {}, (), "column 'v' is of type void"),
        ([field("v", "string collate icu")], {}, (), "column 'v' is of type string collate icu"),
        ([field("v", "string", __COLLATIONS={"v": "icu"})], {}, (), "column 'v' has a collation"),
        ([field("v", "long")], {}, ("geospatial", "columnMapping"), "the feature geospatial"),
        ([field("v", "long")], {"delta.columnMapping.mode": "other"}, (), "its column mapping is 'other'"),
        ([field("v", "long")], MAPPED, (), "'v' has no id of column mapping"),
        ([mapped("v", ARRAY, 3, "c")], MAPPED, (), "'v.element' has no id of column mapping"),
        ([mapped("v", MAP, 3, "c")], MAPPED, (), "'v.key' has no id of column mapping"),
        ([field("v", "double", **{WIDENED: [{"fromType": "integer", "toType": "double"}]})], {}, (),
         "from integer to double"),
        (
            [field("v", "decimal(9,3)", **{WIDENED: [{"fromType": "decimal(7,2)", "toType": "decimal(9,3)"}]})],
            {}, (), "from decimal(7,2) to decimal(9,3)",
        ),
    ],
    ids=lambda value: str(value)[:50],
)  # fmt: skip
def test_what_would_be_read_wrongly_is_refused_by_name(
    fields: list[dict[str, Any]], configuration: dict[str, str], features: tuple[str, ...], problem: str
) -> None:
    with pytest.raises(UnsupportedTable) as refusal:
        shown(fields, features=features, **configuration)
    assert problem in refusal.value.message and refusal.value.remedy


def test_types_may_be_widened_as_iceberg_widens_them() -> None:
    changes = [{"fromType": "byte", "toType": "short"}, {"fromType": "integer", "toType": "long"}]
    decimals = [{"fromType": "decimal(5,2)", "toType": "decimal(9,2)"}]
    fields = [field("v", "long", **{WIDENED: changes}), field("d", "decimal(9,2)", **{WIDENED: decimals})]
    assert [one.type for one in shown(fields, features=("typeWidening",)).schema.fields] == ["long", "decimal(9, 2)"]


def test_a_partition_column_must_be_a_primitive_one() -> None:
    with pytest.raises(UnsupportedTable, match="partition column 'a' is no primitive one"):
        shown([field("a", STRUCT)], ("a",))


# -- versions with other columns ---------------------------------------------------------------------------------------


def check(
    then: list[dict[str, Any]], now: list[dict[str, Any]], *partitions: tuple[str, ...], **configuration: str
) -> None:
    before, after = partitions or ((), ())
    check_same_columns(
        metadata(then, before, **configuration)["metaData"], metadata(now, after, **configuration)["metaData"]
    )


def test_a_version_is_readable_by_a_schema_that_has_its_columns() -> None:
    one = field("a", "long")
    other = field("b", "string")
    check([one], [one])
    check([one], [other, one])
    check([mapped("a", "long", 1, "p")], [mapped("a", "long", 1, "p"), mapped("b", "long", 2, "q")], **MAPPED)


@pytest.mark.parametrize(
    ("then", "now"),
    [
        ([field("a", "long")], [field("a", "string")]),
        ([field("a", "long"), field("b", "long")], [field("a", "long")]),
        ([mapped("a", "long", 1, "p")], [mapped("b", "long", 1, "p")]),
        ([mapped("a", "long", 1, "p")], [mapped("a", "long", 2, "q")]),
    ],
)
def test_a_version_is_not_readable_by_another_schema(then: list[dict[str, Any]], now: list[dict[str, Any]]) -> None:
    with pytest.raises(UnsupportedTable, match="of the version is another one"):
        check(then, now, **({} if "metadata" in then[0] and not then[0]["metadata"] else MAPPED))


def test_a_version_is_not_readable_by_another_partitioning() -> None:
    fields = [field("a", "long"), field("b", "long")]
    check(fields, fields, ("a",), ("a",))
    with pytest.raises(UnsupportedTable, match="partitioned in another way"):
        check(fields, fields, ("a",), ("b",))


# -- values of partitions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        (None, "string", None), ("", "string", None), ("", "int", None), ("a b", "string", "a b"), ("-07", "int", -7),
        ("9223372036854775807", "long", 2**63 - 1), ("1.5", "double", 1.5), ("TRUE", "boolean", True),
        ("false", "boolean", False),
        ("1.5", "decimal(9, 2)", "1.50"), ("-3", "decimal(9, 2)", "-3.00"),
        ("9" * 29 + ".123456789", "decimal(38, 9)", "9" * 29 + ".123456789"),
        ("2026-11-01", "date", "2026-11-01"),
        ("é", "binary", "C3A9"),
        ("2026-11-01 10:00:00", "timestamp", "2026-11-01T10:00:00.000000"),
        ("2026-11-01T10:00:00.5Z", "timestamptz", "2026-11-01T10:00:00.500000+00:00"),
        ("2026-11-01T10:00:00+02:00", "timestamptz", "2026-11-01T08:00:00.000000+00:00"),
    ],
)  # fmt: skip
def test_partition_values(text: str | None, kind: str, value: Any) -> None:
    assert partition_value(text, PartitionColumn("p", "p", kind, kind, 1)) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", "int"), ("1_0", "int"), ("1.5", "long"), ("NaN", "double"), ("inf", "float"), ("yes", "boolean"),
        ("1.555", "decimal(9, 2)"),
        ("x", "decimal(9, 2)"), ("NaN", "decimal(9, 2)"), ("2026-13-01", "date"),
        ("2026-11-01 10:00:00", "timestamptz"),
        ("2026-11-01T10:00:00Z", "timestamp"), ("now", "timestamp"),
    ],
)  # fmt: skip
def test_a_value_that_is_none_of_the_type_is_refused(text: str, kind: str) -> None:
    with pytest.raises(UnsupportedTable) as refusal:
        partition_value(text, PartitionColumn("p", "p", "delta's", kind, 1))
    assert f"the partition value '{text}' of 'p', a delta's" in refusal.value.message


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("a.parquet", f"{LOCATION}/a.parquet"),
        ("day=2026-11-01/b%20c%2525.parquet", f"{LOCATION}/day=2026-11-01/b c%25.parquet"),
        ("s3://other/t/a%20b.parquet", "s3://other/t/a b.parquet"),
        ("file:/lake/a.parquet", "file:/lake/a.parquet"),
        ("/lake/a.parquet", "/lake/a.parquet"),
        ("day=10:00/a.parquet", f"{LOCATION}/day=10:00/a.parquet"),
    ],
)
def test_paths(path: str, place: str) -> None:
    assert path_of(LOCATION, path) == place == path_of(f"{LOCATION}/", path)


def test_files_of_deletion_vectors() -> None:
    """The protocol's own example."""
    id = "^-aqEH.-t@S}K{vb[*k^"
    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    assert vector_path(LOCATION, DeletionVector("u", id, 40, 6, 4)) == f"{LOCATION}/{name}"
    assert vector_path(LOCATION, DeletionVector("u", f"ab{id}", 40, 6, 4)) == f"{LOCATION}/ab/{name}"
    assert vector_path(LOCATION, DeletionVector("p", "s3://b/x%20y.bin", 40, 6, 4)) == "s3://b/x y.bin"
    with pytest.raises(UnsupportedTable, match="in the log itself"):
        vector_path(LOCATION, DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6))
