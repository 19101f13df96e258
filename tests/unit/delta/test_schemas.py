"""The form that a schema must have before a commit that holds it is ratified: whoever loads the
table relies on it (I2)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from turnstile.delta.core.actions import MAX_DEPTH, depth_of
from turnstile.delta.core.schemas import Unreadable, check_mapping, columns_of, needed_features


def field(**members: Any) -> dict[str, Any]:
    return {"name": "a", "type": "long", "nullable": True, "metadata": {}} | members


def struct(*fields: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def without(node: dict[str, Any], member: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name != member}


def mapped(id: Any, name: Any, **members: Any) -> dict[str, Any]:
    return field(metadata={"delta.columnMapping.id": id, "delta.columnMapping.physicalName": name}, **members)


ARRAY = {"type": "array", "elementType": struct(field()), "containsNull": False}
MAP = {"type": "map", "keyType": "string", "valueType": ARRAY, "valueContainsNull": True}
UDT = {"type": "udt", "class": "x", "pyClass": "y", "sqlType": ARRAY}


@pytest.mark.parametrize(
    "schema",
    [
        struct(),
        struct(field(), field(name="b", type="decimal(10,2)")),
        struct(field(name=""), field(name="a b;{}")),
        struct(without(field(), "metadata")),
        struct(field(type=ARRAY), field(name="b", type=MAP), field(name="c", type=struct(field()))),
        struct(field(type=UDT)),
        struct(field(metadata={"comment": "x", "a": 1, "b": None, "c": [1, 2], "d": {"e": [{}]}, "f": 1.5, "g": []})),
    ],
)
def test_schemas_that_can_be_read(schema: Any) -> None:
    assert columns_of(json.dumps(schema)) == schema["fields"]


@pytest.mark.parametrize(
    "type",
    [
        "string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary", "date", "timestamp",
        "timestamp_ntz", "void", "null", "variant", "decimal", "decimal(38,38)", "decimal( 1 , 0 )", "char(5)",
        "varchar(9)",
        "string collate UTF8_LCASE", "interval year to month", "interval day to second", "interval hour",
        "geometry(OGC:CRS84)",
        "geography(OGC:CRS84, SPHERICAL)",
    ],
)  # fmt: skip
def test_primitive_types_that_delta_knows(type: str) -> None:
    assert columns_of(json.dumps(struct(field(type=type))))


@pytest.mark.parametrize(
    "type",
    [
        "quux", "", "int", "bigint", "String", " long", "object", "interval", "interval month to second", "time",
        "time(6)",
        "interval second to day", "calendarinterval", "decimal(39,2)", "decimal(5,6)", "decimal(0,0)", "decimal(10,-2)",
        "decimal(10)", "decimal(10,2) ", "decimal(١٠,٢)", "geometry", {"type": "variant"}, {"type": ["struct"]}, None,
        5,
    ],
)  # fmt: skip
def test_i2_a_type_that_delta_does_not_know_is_not_ratified(type: Any) -> None:
    with pytest.raises(Unreadable, match="'a'"):
        columns_of(json.dumps(struct(field(type=type))))


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        "long",
        ARRAY,
        {"type": "struct"},
        {"type": "struct", "fields": {}},
        {"type": "map", "fields": []},
        struct("a"),
        struct({"type": "long"}),
        struct(field(name=1)),
        struct(field(type={"fields": []})),
        struct(field(type={"type": "udt", "class": "x"})),
        struct(field(type={"type": "set", "elementType": "long"})),
        struct(field(nullable=None)),
        struct(without(field(), "nullable")),
        struct(field(metadata=[])),
        struct(field(metadata=None)),
        struct(field(metadata={"a": [1, "x"]})),
        struct(field(metadata={"a": [1, 1.5]})),
        struct(field(metadata={"a": [[1]]})),
        struct(field(metadata={"a": [None]})),
        struct(field(metadata={"a": [{"b": [1, True]}]})),
        struct(field(metadata={"a": {"b": [1, "x"]}})),
        struct(field(metadata={"comment": 5})),
        struct(field(more=1)),
        {**struct(), "more": 1},
        struct(field(), field(name="A")),
        struct(field(type=struct(field(), field(name="A")))),
        struct(field(type=struct(field(name=None)))),
        struct(field(type={**ARRAY, "elementType": None})),
        struct(field(type={**ARRAY, "containsNull": 1})),
        struct(field(type=without(ARRAY, "containsNull"))),
        struct(field(type={**ARRAY, "more": 1})),
        struct(field(type={**MAP, "keyType": {}})),
        struct(field(type={**MAP, "valueType": struct({})})),
        struct(field(type={**MAP, "valueContainsNull": "no"})),
        struct(field(type=without(MAP, "valueContainsNull"))),
        struct(field(type={**UDT, "sqlType": "quux"})),
    ],
)
def test_i2_unreadable_schemas_are_not_ratified(schema: Any) -> None:
    with pytest.raises(Unreadable):
        columns_of(json.dumps(schema))


@pytest.mark.parametrize("text", ["", "{", "\ud800", "[" * 5_000])
def test_i2_what_is_no_json_is_no_schema(text: str) -> None:
    with pytest.raises(Unreadable):
        columns_of(text)


@pytest.mark.parametrize("kind", ["array", "struct"])
def test_nesting_has_an_end(kind: str) -> None:
    type: Any = "long"
    for _ in range(120):
        type = struct(field(type=type)) if kind == "struct" else {**ARRAY, "elementType": type}
    with pytest.raises(Unreadable):
        columns_of(json.dumps(struct(field(type=type))))


def test_columns_need_the_features_of_their_types_and_their_metadata() -> None:
    variants = frozenset({"variantType", "variantType-preview"})

    def needed(*fields: Any) -> set[frozenset[str]]:
        return {features for _, features in needed_features(list(fields))}

    assert needed(field(), field(type=ARRAY), field(type="timestamp")) == set()
    assert needed(field(type="timestamp_ntz")) == {frozenset({"timestampNtz"})}
    assert needed(field(type={**MAP, "valueType": "variant"})) == {variants}
    assert needed(field(type={**ARRAY, "elementType": struct(field(type="variant"))})) == {variants}
    assert needed(field(type="geometry(OGC:CRS84)")) == {frozenset({"geospatial", "geospatial-dev"})}
    for key, feature in (
        ("delta.generationExpression", "generatedColumns"),
        ("delta.identity.start", "identityColumns"),
        ("delta.invariants", "invariants"),
        ("delta.typeChanges", "typeWidening"),
        ("CURRENT_DEFAULT", "allowColumnDefaults"),
    ):
        [features] = needed(field(type=struct(field(metadata={key: "x"}))))
        assert feature in features


def test_mapped_columns_have_an_id_and_a_physical_name_of_their_own() -> None:
    inner = struct(mapped(2, "x"))
    check_mapping(
        [mapped(1, "x", type=inner), mapped(3, "y", type={**ARRAY, "elementType": struct(mapped(4, "x"))})], 4
    )
    check_mapping([], None)


@pytest.mark.parametrize(
    ("fields", "max_id"),
    [
        ([field()], 9),
        ([mapped("1", "x")], 9),
        ([mapped(True, "x")], 9),
        ([mapped(2**31, "x")], 2**31),
        ([mapped(1, "")], 9),
        ([mapped(1, None)], 9),
        ([mapped(1, "x"), mapped(1, "y")], 9),
        ([mapped(1, "x"), mapped(2, "x")], 9),
        ([mapped(1, "x", type=struct(field()))], 9),
        ([mapped(1, "x")], 0),
        ([mapped(1, "x")], None),
    ],
)
def test_i2_columns_that_files_cannot_be_read_by_are_not_ratified(fields: Any, max_id: int | None) -> None:
    with pytest.raises(Unreadable):
        check_mapping(fields, max_id)


def test_i2_a_physical_name_that_is_no_text_is_not_ratified() -> None:
    with pytest.raises(Unreadable, match="needs a text"):
        check_mapping([mapped(1, 5)], 1)


def test_i11_a_schema_may_be_nested_to_the_limit_and_no_deeper() -> None:
    nested: dict[str, Any] = {}
    while depth_of(schema := struct(field(metadata=nested))) < MAX_DEPTH:
        nested = {"a": nested}
    assert len(columns_of(json.dumps(schema))) == 1
    with pytest.raises(Unreadable, match="nested"):
        columns_of(json.dumps(struct(field(metadata={"a": nested}))))
